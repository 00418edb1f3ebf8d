// SPDX-License-Identifier: Apache-2.0
//
// Runs the threads of one cluster of blocks as fibers of one OS thread: barriers and shuffles by
// switching, in an order that can be chosen, so that a result which depends on the order shows.
// Knows no devices.
#pragma once

#include "kernel_templates/host_abi.cuh"
#include "runtime/host_fault.h"
#include "runtime/host_fiber.h"
#include "runtime/host_memory.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace rowsmith {

// The order in which blocks, warps and threads run. A thread runs until it must wait, and those
// that a barrier or shuffle releases go before all others: far ahead, as a GPU's warps may.
enum class HostSchedule { kAscending, kDescending, kRandom };

// One launch, as the scheduler sees it. Without clusters, each block is a cluster of one.
struct HostLaunch {
  void (*entry)(const void* params) = nullptr;
  const void* params = nullptr;
  std::int64_t blocks = 1;
  int cluster = 1;  // blocks that run at once: a cluster's, or such as wait for each other
  int threads = 1;  // of a block, 1 to 1024
  std::size_t shared_bytes = 0;
  HostSchedule schedule = HostSchedule::kAscending;
  std::uint64_t seed = 0;       // of kRandom
  unsigned char poison = 0xff;  // what unwritten shared memory holds
};

// Why a cluster was given up.
struct HostFailure {
  std::string text;               // "block 2, thread 5: misaligned 16-byte load at ..."
  const void* address = nullptr;  // of a faulting access, for the owner of the memory to explain
};

// Used by one OS thread at a time; keeps its stacks from cluster to cluster.
class HostScheduler {
 public:
  static constexpr int kMaxThreads = 1024;  // of a block
  static constexpr int kMaxCluster = 8;
  static constexpr int kMaxFibers = kMaxCluster * kMaxThreads;  // of blocks that run at once
  static constexpr std::size_t kMaxSharedBytes = 227 * 1024;

  HostScheduler() = default;
  HostScheduler(const HostScheduler&) = delete;

  // Makes ready for clusters of `launch`. False: out of memory.
  bool prepare(const HostLaunch& launch);
  // Runs the cluster to its end, or to a fault: then failure() says which. Requires
  // prepare(launch), install_fault_handler(HostScheduler::on_fault) and an AlternateStack on this
  // OS thread.
  bool run_cluster(const HostLaunch& launch, std::int64_t cluster);
  const HostFailure& failure() const { return failure_; }

  static void on_fault(const void* address, FaultAccess access);
  // What kernels call.
  static const rowsmith_host::Table& table();

 private:
  // Between the shared memory that a launch asked for and the guard page.
  static constexpr unsigned char kSharedSlack = 0xa5;
  using Place = rowsmith_host::Place;
  using Copy = rowsmith_host::Copy;
  enum class State : unsigned char { kReady, kSync, kShuffle, kClusterWait, kAwait, kPause, kLeft };
  struct Fiber : rowsmith_host::Thread {
    FiberContext context;
    State state = State::kReady;
    bool arrived = false;  // at the cluster barrier, and has not waited yet
    bool waited = false;   // there, once at least
    unsigned round = 0;    // of the cluster barrier, where it arrived
    Place place{};
  };
  struct Meeting {  // of a block at a barrier, or of a warp at an exchange
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
  struct Block {
    GuardedPages pages;
    char* shared = nullptr;  // the end of the pages
    Fiber* threads = nullptr;
    Warp* warps = nullptr;
    Meeting barrier;
    int left = 0;
  };

  static void fiber_main(boost::context::detail::transfer_t arrived);
  static const rowsmith_host::Thread* self();
  static void sync(Place place);
  static const unsigned* warp_values(unsigned value, int mask, Place place);
  static void misaligned(const void* address, int bytes, bool store, Place place);
  static void cluster_arrive(Place place);
  static void cluster_wait(Place place);
  static void* peer(const void* address, int bytes, int rank, Place place);
  static void start_copy(Copy copy);
  static bool finish_copy(const void* arrival, Copy* made);
  static void await(Place place);
  static void announce();
  static void pause(Place place);
  static void misuse(const rowsmith_host::Thread* by, const char* call, Place place,
                     const char* what);

  // Lines, never return addresses: a compiler may place one call at several.
  static bool same_place(Place a, Place b) {
    return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
  }
  static std::string text_of(Place place);
  Block& home() { return blocks_[static_cast<std::size_t>(current_->block - first_block_)]; }
  Place arrival_of(const Fiber& fiber) const { return arrival_places_[fiber.round % 2]; }
  int fiber_count() const { return launch_->cluster * launch_->threads; }
  void start_fibers(int first);
  void start_block(Block& block, std::int64_t index);
  // Counts the running thread in; gives the block up if the others are at another place.
  void meet(Meeting& meeting, State kind, int mask, Place place);
  void release(Fiber* first, int count);
  // Those of the cluster's threads that are in this state.
  void release_all(State waiting);
  void run_next();
  // The current thread waits, one more of `waiting`, until that state is released.
  void wait_in(State state, Place place, int& waiting);
  // All others wait: those that pause go on. False: too often already, with nothing done since.
  bool resume_paused();
  void leave();
  [[gnu::noinline]] void abandon_unwaited();
  // False: reported why not.
  bool may_peer(const void* address, int bytes, int rank, Place place);
  bool may_copy(const Copy& copy);
  // In the running thread's shared memory.
  bool is_own(const void* address, std::size_t bytes) const;
  void poison_shared(const Block& block) const;
  void report(std::string text, const void* address = nullptr);
  void report_fault(const void* address, FaultAccess access);
  void abandon();  // after a failure is set; does not return to the thread
  std::string describe_stuck() const;
  static std::string name_of(const rowsmith_host::Thread& thread);
  std::string who() const { return name_of(*current_); }
  std::string name_of_cluster() const;
  // Empty, or how a block's shared memory was, or will be, written where or when it may not be.
  std::string misuse_of_shared() const;

  const HostLaunch* launch_ = nullptr;
  FiberStacks stacks_;
  FiberContext outside_;
  Fiber* current_ = nullptr;
  std::vector<Fiber> fibers_;  // by block, then thread; started up to stacks_.count()
  std::vector<Block> blocks_;  // by rank
  std::vector<Warp> warps_;    // by block
  std::vector<Fiber*> ready_;  // a stack of ready_count_
  int ready_count_ = 0;
  int left_ = 0;
  int awaiting_ = 0;  // an arrival
  int paused_ = 0;
  int idle_rounds_ = 0;            // of pauses alone
  std::vector<Copy> copies_;       // started and not made
  const Copy* copying_ = nullptr;  // one of them, which is being made
  std::int64_t first_block_ = 0;
  unsigned cluster_round_ = 0;  // of the cluster barrier: so many are complete
  int arrivals_ = 0;            // in this one
  Place arrival_places_[2];     // by parity of the round: a thread may be one behind, not more
  std::uint64_t random_ = 0;
  bool failed_ = false;
  bool faulted_ = false;  // by the access that follows
  const void* fault_address_ = nullptr;
  FaultAccess fault_access_ = FaultAccess::kUnknown;
  HostFailure failure_;
};

}  // namespace rowsmith
