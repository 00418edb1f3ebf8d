// SPDX-License-Identifier: Apache-2.0
//
// Runs the threads of one block as fibers of one OS thread: barriers and shuffles by switching, in
// an order that can be chosen, so that a result which depends on the order shows. Knows no devices.
#pragma once

#include "kernel_templates/host_abi.cuh"
#include "runtime/host_fault.h"
#include "runtime/host_fiber.h"
#include "runtime/host_memory.h"

#include <cstdint>
#include <string>
#include <vector>

namespace rowsmith {

// The order in which blocks, warps and threads run. A thread runs until it must wait, and those
// that a barrier or shuffle releases go before all others: far ahead, as a GPU's warps may.
enum class HostSchedule { kAscending, kDescending, kRandom };

// One launch, as the scheduler sees it.
struct HostLaunch {
  void (*entry)(const void* params) = nullptr;
  const void* params = nullptr;
  std::int64_t blocks = 1;
  int threads = 1;  // 1 to 1024
  std::size_t shared_bytes = 0;
  HostSchedule schedule = HostSchedule::kAscending;
  std::uint64_t seed = 0;       // of kRandom
  unsigned char poison = 0xff;  // what unwritten shared memory holds
};

// Why a block was given up.
struct HostFailure {
  std::string text;               // "block 2, thread 5: misaligned 16-byte load at ..."
  const void* address = nullptr;  // of a faulting access, for the owner of the memory to explain
};

// Used by one OS thread at a time; keeps its stacks from block to block.
class HostScheduler {
 public:
  static constexpr int kMaxThreads = 1024;
  static constexpr std::size_t kMaxSharedBytes = 227 * 1024;

  HostScheduler() = default;
  HostScheduler(const HostScheduler&) = delete;

  // Makes ready for blocks of `launch`. False: out of memory.
  bool prepare(const HostLaunch& launch);
  // Runs the block to its end, or to a fault: then failure() says which. Requires prepare(launch),
  // install_fault_handler(HostScheduler::on_fault) and an AlternateStack on this OS thread.
  bool run_block(const HostLaunch& launch, std::int64_t block);
  const HostFailure& failure() const { return failure_; }

  static void on_fault(const void* address, FaultAccess access);
  // What kernels call.
  static const rowsmith_host::Table& table();

 private:
  using Place = rowsmith_host::Place;
  enum class State : unsigned char { kReady, kSync, kShuffle, kLeft };
  struct Fiber : rowsmith_host::Thread {
    FiberContext context;
    State state = State::kReady;
    Place place{};
  };
  struct Meeting {  // of a block at a barrier, or of a warp at a shuffle
    int arrived = 0;
    int first = 0;  // thread
    int mask = 0;
    Place place{};
  };
  struct Warp {
    Meeting meeting;
    unsigned round = 0;           // a lane may enter a round while others still read the last
    std::uint32_t values[2][32];  // by parity of the round
  };

  static void fiber_main(boost::context::detail::transfer_t arrived);
  static const rowsmith_host::Thread* self();
  static void sync(Place place);
  static unsigned shfl_xor(unsigned value, int mask, Place place);
  static void misaligned(const void* address, int bytes, bool store, Place place);

  void start_fibers(int first);
  // Counts the running thread in; gives the block up if the others are at another place.
  void meet(Meeting& meeting, State kind, int mask, Place place);
  void release(int first, int count);
  void run_next();
  void leave();
  void report(std::string text, const void* address = nullptr);
  void report_fault(const void* address, FaultAccess access);
  void abandon();  // after a failure is set; does not return to the thread
  std::string describe_stuck() const;
  std::string who() const;
  bool shared_intact() const;

  const HostLaunch* launch_ = nullptr;
  FiberStacks stacks_;
  GuardedPages shared_pages_;
  FiberContext outside_;
  Fiber* current_ = nullptr;
  std::vector<Fiber> fibers_;  // [kMaxThreads], started up to stacks_.count()
  std::vector<Warp> warps_;
  std::vector<Fiber*> ready_;  // a stack of ready_count_
  int ready_count_ = 0;
  int left_ = 0;
  Meeting barrier_;
  std::uint64_t random_ = 0;
  bool failed_ = false;
  bool faulted_ = false;  // by the access that follows
  const void* fault_address_ = nullptr;
  FaultAccess fault_access_ = FaultAccess::kUnknown;
  HostFailure failure_;
};

}  // namespace rowsmith
