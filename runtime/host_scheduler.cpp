// SPDX-License-Identifier: Apache-2.0
#include "runtime/host_scheduler.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

namespace rowsmith {
namespace {

using rowsmith_host::Place;

constexpr int kWarp = 32;
// Shared memory ends at a guard page but for rounding up to this border.
constexpr std::size_t kSharedAlign = 16;
constexpr unsigned char kSharedSlack = 0xa5;

// A pointer without constructor, found without a call: with either, every switch costs double.
[[gnu::tls_model("initial-exec")]] constinit thread_local HostScheduler* running = nullptr;

// Lines, never return addresses: a compiler may place one call at several.
bool same_place(Place a, Place b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

std::string to_string(Place place) {
  return std::string(place.file) + ":" + std::to_string(place.line);
}

std::uint64_t next_random(std::uint64_t& state) {  // xorshift64*, Vigna 2016
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return state * 0x2545f4914f6cdd1dull;
}

std::size_t round_up(std::size_t bytes) {
  return (bytes + kSharedAlign - 1) / kSharedAlign * kSharedAlign;
}

}  // namespace

bool HostScheduler::prepare(const HostLaunch& launch) {
  if (fibers_.empty()) {
    fibers_.resize(kMaxThreads);
    warps_.resize(kMaxThreads / kWarp);
    ready_.resize(kMaxThreads);
  }
  if (launch.shared_bytes > 0 && shared_pages_.empty()) {
    shared_pages_ = GuardedPages::map(kMaxSharedBytes);
    if (shared_pages_.empty()) return false;
  }
  const int started = stacks_.count();
  if (launch.threads <= started) return true;
  const bool grown = stacks_.grow_to(launch.threads);
  start_fibers(started);
  return grown;
}

void HostScheduler::start_fibers(int first) {
  for (int i = first; i < stacks_.count(); ++i) {
    stacks_.start(fibers_[static_cast<std::size_t>(i)].context, i, fiber_main);
  }
}

bool HostScheduler::run_block(const HostLaunch& launch, std::int64_t block) {
  launch_ = &launch;
  char* shared = nullptr;
  if (launch.shared_bytes > 0) {
    unsigned char* base = shared_pages_.end() - round_up(launch.shared_bytes);
    std::memset(base, launch.poison, launch.shared_bytes);
    std::fill(base + launch.shared_bytes, shared_pages_.end(), kSharedSlack);
    shared = reinterpret_cast<char*>(base);
  }
  for (int i = 0; i < launch.threads; ++i) {
    Fiber& fiber = fibers_[static_cast<std::size_t>(i)];
    static_cast<rowsmith_host::Thread&>(fiber) = {i, block, launch.blocks, shared};
  }
  for (Warp& warp : warps_) warp.meeting.arrived = 0;
  barrier_.arrived = 0;
  left_ = ready_count_ = 0;
  random_ = (launch.seed * 0x9e3779b97f4a7c15ull + static_cast<std::uint64_t>(block)) | 1;
  failed_ = faulted_ = false;
#if ROWSMITH_TSAN
  outside_.tsan_fiber = __tsan_get_current_fiber();
#endif
  release(0, launch.threads);
  running = this;
  run_next();
  running = nullptr;
  if (faulted_) report_fault(fault_address_, fault_access_);
  current_ = nullptr;
  if (!failed_ && !shared_intact()) {
    report("block " + std::to_string(block) + ": write past the end of the " +
           std::to_string(launch.shared_bytes) + " bytes of shared memory");
  }
  if (failed_) start_fibers(0);  // those that stand somewhere in the kernel
  return !failed_;
}

// ---- What runs on fibers ----

void HostScheduler::fiber_main(boost::context::detail::transfer_t arrived) {
  // Read once: a later block may run this fiber on another OS thread.
  HostScheduler& scheduler = *running;
  finish_switch(arrived, scheduler.current_->context);
  while (true) {
    scheduler.launch_->entry(scheduler.launch_->params);
    scheduler.leave();
  }
}

const rowsmith_host::Thread* HostScheduler::self() {
  return running->current_;
}

void HostScheduler::sync(Place place) {
  HostScheduler& scheduler = *running;
  scheduler.meet(scheduler.barrier_, State::kSync, 0, place);
  if (scheduler.barrier_.arrived == scheduler.launch_->threads) {
    scheduler.barrier_.arrived = 0;
    scheduler.release(0, scheduler.launch_->threads);
  }
  scheduler.run_next();
}

unsigned HostScheduler::shfl_xor(unsigned value, int mask, Place place) {
  HostScheduler& scheduler = *running;
  const int thread = scheduler.current_->index;
  const int lane = thread % kWarp;
  Warp& warp = scheduler.warps_[static_cast<std::size_t>(thread / kWarp)];
  scheduler.meet(warp.meeting, State::kShuffle, mask, place);
  std::uint32_t(&values)[kWarp] = warp.values[warp.round % 2];
  values[lane] = value;
  if (warp.meeting.arrived == kWarp) {
    warp.meeting.arrived = 0;
    ++warp.round;
    scheduler.release(thread - lane, kWarp);
  }
  scheduler.run_next();
  return values[(lane ^ mask) % kWarp];
}

void HostScheduler::misaligned(const void* address, int bytes, bool store, Place place) {
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%p", address);
  running->report(running->who() + ": misaligned " + std::to_string(bytes) + "-byte " +
                  (store ? "store to " : "load from ") + digits + " at " + to_string(place));
  running->abandon();
}

void HostScheduler::on_fault(const void* address, FaultAccess access) {
  if (running == nullptr) return;
  // No text is made here: a signal handler may not allocate.
  running->failed_ = running->faulted_ = true;
  running->fault_address_ = address;
  running->fault_access_ = access;
  running->abandon();
}

void HostScheduler::meet(Meeting& meeting, State kind, int mask, Place place) {
  current_->state = kind;
  current_->place = place;
  if (meeting.arrived == 0) {
    meeting.first = current_->index;
    meeting.mask = mask;
    meeting.place = place;
  } else if (!same_place(place, meeting.place) || mask != meeting.mask) {
    const char* what = kind == State::kSync ? "sync" : "shfl_xor";
    const auto masked = [kind](int m) {
      return kind == State::kSync ? std::string() : " with mask " + std::to_string(m);
    };
    report(who() + ": divergent " + what + " at " + to_string(place) + masked(mask) +
           ", where thread " + std::to_string(meeting.first) + " waits at " +
           to_string(meeting.place) + masked(meeting.mask));
    abandon();
  }
  ++meeting.arrived;
}

void HostScheduler::release(int first, int count) {
  const bool down = launch_->schedule == HostSchedule::kDescending;
  for (int i = 0; i < count; ++i) {  // pushed last, run first
    Fiber& fiber = fibers_[static_cast<std::size_t>(down ? first + i : first + count - 1 - i)];
    fiber.state = State::kReady;
    ready_[static_cast<std::size_t>(ready_count_++)] = &fiber;
  }
}

void HostScheduler::run_next() {
  if (ready_count_ == 0) {
    report(describe_stuck());
    abandon();
    return;
  }
  Fiber*& top = ready_[static_cast<std::size_t>(ready_count_ - 1)];
  if (launch_->schedule == HostSchedule::kRandom) {
    const auto count = static_cast<std::uint64_t>(ready_count_);
    std::swap(top, ready_[static_cast<std::size_t>((next_random(random_) >> 33) % count)]);
  }
  --ready_count_;
  Fiber* from = std::exchange(current_, top);
  if (from == top) return;
  switch_fiber(from == nullptr ? outside_ : from->context, top->context);
}

void HostScheduler::leave() {
  current_->state = State::kLeft;
  if (++left_ < launch_->threads) {
    run_next();
  } else {
    switch_fiber(current_->context, outside_);
  }
}

void HostScheduler::abandon() {
  switch_fiber(current_->context, outside_);
}

// ---- Reports ----

void HostScheduler::report(std::string text, const void* address) {
  failed_ = true;
  failure_.text = std::move(text);
  failure_.address = address;
}

std::string HostScheduler::who() const {
  return "block " + std::to_string(current_->block) + ", thread " + std::to_string(current_->index);
}

// One clause for each place where threads are, in the order of their first threads.
std::string HostScheduler::describe_stuck() const {
  struct Crowd {
    const Fiber* first;
    int count;
  };
  std::vector<Crowd> crowds;
  for (int i = 0; i < launch_->threads; ++i) {
    const Fiber& fiber = fibers_[static_cast<std::size_t>(i)];
    const auto same = [&fiber](const Crowd& crowd) {
      return crowd.first->state == fiber.state &&
             (fiber.state == State::kLeft || same_place(crowd.first->place, fiber.place));
    };
    const auto found = std::find_if(crowds.begin(), crowds.end(), same);
    if (found == crowds.end()) {
      crowds.push_back({&fiber, 1});
    } else {
      ++found->count;
    }
  }
  std::string text = "block " + std::to_string(current_->block) + ": stuck";
  const char* separator = ": ";
  for (const Crowd& crowd : crowds) {
    text += separator + std::to_string(crowd.count) + " threads from thread " +
            std::to_string(crowd.first->index);
    if (crowd.first->state == State::kLeft) {
      text += " have left the kernel";
    } else {
      text += crowd.first->state == State::kSync ? " wait in sync at " : " wait in shfl_xor at ";
      text += to_string(crowd.first->place);
    }
    separator = ", ";
  }
  return text;
}

void HostScheduler::report_fault(const void* address, FaultAccess access) {
  if (stacks_.overflowed(address)) return report(who() + ": overflowed its stack");
  const char* what = access == FaultAccess::kWrite  ? ": write "
                     : access == FaultAccess::kRead ? ": read "
                                                    : ": access ";
  if (launch_->shared_bytes == 0 || !shared_pages_.guards(address)) {
    return report(who() + what, address);
  }
  const auto shared = static_cast<std::int64_t>(launch_->shared_bytes);
  const std::int64_t at = static_cast<const char*>(address) - current_->shared;
  report(who() + what + "at byte " + std::to_string(at) + " of " + std::to_string(shared) +
         " bytes of shared memory");
}

bool HostScheduler::shared_intact() const {
  if (launch_->shared_bytes == 0) return true;
  const std::size_t slack = round_up(launch_->shared_bytes) - launch_->shared_bytes;
  return std::all_of(shared_pages_.end() - slack, shared_pages_.end(),
                     [](unsigned char byte) { return byte == kSharedSlack; });
}

const rowsmith_host::Table& HostScheduler::table() {
  static constexpr rowsmith_host::Table kTable = {
      rowsmith_host::kAbiVersion, sizeof(rowsmith_host::Table), self, sync, shfl_xor, misaligned};
  return kTable;
}

}  // namespace rowsmith
