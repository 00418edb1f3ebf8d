// SPDX-License-Identifier: Apache-2.0
#include "runtime/host_scheduler.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

namespace rowsmith {
namespace {

constexpr int kWarp = 32;
// Shared memory ends at a guard page but for rounding up to this border.
constexpr std::size_t kSharedAlign = 16;
// Rounds in which every thread only pauses: what they wait for is another launch's, on another OS
// thread, which is given the processor, after so many rounds for longer, and in the end given up.
constexpr int kBusyRounds = 1000, kMaxIdleRounds = 30'000;
constexpr std::chrono::microseconds kIdleSleep{100};

// A pointer without constructor, found without a call: with either, every switch costs double.
[[gnu::tls_model("initial-exec")]] constinit thread_local HostScheduler* running = nullptr;

std::uint64_t next_random(std::uint64_t& state) {  // xorshift64*, Vigna 2016
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return state * 0x2545f4914f6cdd1dull;
}

std::size_t warps_of(const HostLaunch& launch) {  // a block
  return static_cast<std::size_t>((launch.threads + kWarp - 1) / kWarp);
}

std::size_t round_up(std::size_t bytes) {
  return (bytes + kSharedAlign - 1) / kSharedAlign * kSharedAlign;
}

// In order, so that a fault is at the first byte that is not there; memcpy may begin at the end.
void copy_upwards(const rowsmith_host::Copy& copy) {
  constexpr unsigned kPiece = 16;
  for (unsigned at = 0; at < copy.bytes; at += kPiece) {
    asm volatile("" ::: "memory");  // or the compiler makes the loop a memcpy
    std::memcpy(static_cast<char*>(copy.dst) + at, static_cast<const char*>(copy.src) + at, kPiece);
  }
}

}  // namespace

bool HostScheduler::prepare(const HostLaunch& launch) {
  const int fibers = launch.cluster * launch.threads;
  const int started = stacks_.count();
  if (fibers_.size() < static_cast<std::size_t>(fibers)) {
    fibers_.resize(static_cast<std::size_t>(std::max(kMaxThreads, fibers)));
    ready_.resize(fibers_.size());
    start_fibers(0);  // their stacks hold references to them
  }
  const auto blocks = static_cast<std::size_t>(launch.cluster);
  if (blocks_.size() < blocks) blocks_.resize(blocks);
  const std::size_t warps = blocks * warps_of(launch);
  if (warps_.size() < warps) warps_.resize(warps);
  for (std::size_t rank = 0; launch.shared_bytes > 0 && rank < blocks; ++rank) {
    GuardedPages& pages = blocks_[rank].pages;
    if (pages.empty()) pages = GuardedPages::map(kMaxSharedBytes);
    if (pages.empty()) return false;
  }
  if (fibers <= stacks_.count()) return true;
  const bool grown = stacks_.grow_to(fibers);
  start_fibers(started);
  return grown;
}

void HostScheduler::start_fibers(int first) {
  for (int i = first; i < stacks_.count(); ++i) {
    stacks_.start(fibers_[static_cast<std::size_t>(i)].context, i, fiber_main);
  }
}

void HostScheduler::start_block(Block& block, std::int64_t index) {
  const auto rank = static_cast<std::size_t>(&block - blocks_.data());
  block.shared = nullptr;
  if (launch_->shared_bytes > 0) {
    unsigned char* base = block.pages.end() - round_up(launch_->shared_bytes);
    block.shared = reinterpret_cast<char*>(base);
    poison_shared(block);
    std::fill(base + launch_->shared_bytes, block.pages.end(), kSharedSlack);
  }
  block.threads = &fibers_[rank * static_cast<std::size_t>(launch_->threads)];
  block.barrier.arrived = block.left = 0;
  block.warps = &warps_[rank * warps_of(*launch_)];
  for (std::size_t i = 0; i < warps_of(*launch_); ++i) block.warps[i].meeting.arrived = 0;
  for (int i = 0; i < launch_->threads; ++i) {
    Fiber& fiber = block.threads[i];
    static_cast<rowsmith_host::Thread&>(fiber) = {i, index, launch_->blocks, block.shared};
    fiber.arrived = fiber.waited = false;
  }
}

void HostScheduler::poison_shared(const Block& block) const {
  if (launch_->shared_bytes > 0) std::memset(block.shared, launch_->poison, launch_->shared_bytes);
}

bool HostScheduler::run_cluster(const HostLaunch& launch, std::int64_t cluster) {
  launch_ = &launch;
  first_block_ = cluster * launch.cluster;
  for (int rank = 0; rank < launch.cluster; ++rank) {
    start_block(blocks_[static_cast<std::size_t>(rank)], first_block_ + rank);
  }
  cluster_round_ = 0;
  arrivals_ = 0;
  left_ = ready_count_ = awaiting_ = paused_ = idle_rounds_ = 0;
  copies_.clear();
  copying_ = nullptr;
  random_ = (launch.seed * 0x9e3779b97f4a7c15ull + static_cast<std::uint64_t>(cluster)) | 1;
  failed_ = faulted_ = false;
#if ROWSMITH_TSAN
  outside_.tsan_fiber = __tsan_get_current_fiber();
#endif
  release(fibers_.data(), fiber_count());
  running = this;
  run_next();
  running = nullptr;
  if (faulted_) report_fault(fault_address_, fault_access_);
  current_ = nullptr;
  if (!failed_ && launch.shared_bytes > 0) {
    std::string misuse = misuse_of_shared();
    if (!misuse.empty()) report(std::move(misuse));
  }
  if (failed_) start_fibers(0);  // those that stand somewhere in the kernel
  return !failed_;
}

// ---- What runs on fibers ----

void HostScheduler::fiber_main(boost::context::detail::transfer_t arrived) {
  // Read once: a later cluster may run this fiber on another OS thread.
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
  Block& block = scheduler.home();
  scheduler.meet(block.barrier, State::kSync, 0, place);
  if (block.barrier.arrived == scheduler.launch_->threads) {
    block.barrier.arrived = 0;
    scheduler.release(block.threads, scheduler.launch_->threads);
  }
  scheduler.run_next();
}

const unsigned* HostScheduler::warp_values(unsigned value, int mask, Place place) {
  HostScheduler& scheduler = *running;
  Fiber* const fiber = scheduler.current_;
  const int lane = fiber->index % kWarp;
  Warp& warp = scheduler.home().warps[fiber->index / kWarp];
  scheduler.meet(warp.meeting, State::kShuffle, mask, place);
  std::uint32_t(&values)[kWarp] = warp.values[warp.round % 2];
  values[lane] = value;
  if (warp.meeting.arrived == kWarp) {
    warp.meeting.arrived = 0;
    ++warp.round;
    scheduler.release(fiber - lane, kWarp);
  }
  scheduler.run_next();
  return values;
}

void HostScheduler::misaligned(const void* address, int bytes, bool store, Place place) {
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%p", address);
  running->report(running->who() + ": misaligned " + std::to_string(bytes) + "-byte " +
                  (store ? "store to " : "load from ") + digits + " at " + text_of(place));
  running->abandon();
}

// Arrival never switches: a thread runs on until it must wait.
void HostScheduler::cluster_arrive(Place place) {
  HostScheduler& scheduler = *running;
  Fiber& fiber = *scheduler.current_;
  if (fiber.arrived) {
    scheduler.report(scheduler.who() + ": cluster_arrive at " + text_of(place) +
                     " without a cluster_wait after that at " +
                     text_of(scheduler.arrival_of(fiber)));
    scheduler.abandon();
  }
  Place& first = scheduler.arrival_places_[scheduler.cluster_round_ % 2];
  if (scheduler.arrivals_ == 0) {
    first = place;
  } else if (!same_place(place, first)) {
    scheduler.report(scheduler.who() + ": divergent cluster_arrive at " + text_of(place) +
                     ", where others arrived at " + text_of(first));
    scheduler.abandon();
  }
  fiber.arrived = true;
  fiber.round = scheduler.cluster_round_;
  if (++scheduler.arrivals_ == scheduler.fiber_count()) {
    scheduler.arrivals_ = 0;
    ++scheduler.cluster_round_;
    scheduler.release_all(State::kClusterWait);
  }
}

void HostScheduler::cluster_wait(Place place) {
  HostScheduler& scheduler = *running;
  Fiber& fiber = *scheduler.current_;
  if (!fiber.arrived) {
    scheduler.report(scheduler.who() + ": cluster_wait at " + text_of(place) +
                     " without a cluster_arrive before it");
    scheduler.abandon();
  }
  fiber.arrived = false;
  fiber.waited = true;
  if (fiber.round != scheduler.cluster_round_) return;  // all have arrived since
  fiber.state = State::kClusterWait;
  fiber.place = place;
  scheduler.run_next();
}

void* HostScheduler::peer(const void* address, int bytes, int rank, Place place) {
  HostScheduler& scheduler = *running;
  if (!scheduler.may_peer(address, bytes, rank, place)) scheduler.abandon();
  const std::ptrdiff_t at = static_cast<const char*>(address) - scheduler.current_->shared;
  return scheduler.blocks_[static_cast<std::size_t>(rank)].shared + at;
}

void HostScheduler::start_copy(Copy copy) {
  HostScheduler& scheduler = *running;
  copy.by = scheduler.current_;
  if (!scheduler.may_copy(copy)) scheduler.abandon();
  scheduler.copies_.push_back(copy);
  announce();
}

bool HostScheduler::finish_copy(const void* arrival, Copy* made) {
  HostScheduler& scheduler = *running;
  std::vector<Copy>& copies = scheduler.copies_;
  const auto found = std::find_if(copies.begin(), copies.end(),
                                  [arrival](const Copy& copy) { return copy.arrival == arrival; });
  if (found == copies.end()) return false;
  scheduler.copying_ = &*found;
  copy_upwards(*found);
  scheduler.copying_ = nullptr;
  *made = *found;
  copies.erase(found);
  return true;
}

void HostScheduler::wait_in(State state, Place place, int& waiting) {
  current_->state = state;
  current_->place = place;
  ++waiting;
  run_next();
}

void HostScheduler::await(Place place) {
  running->wait_in(State::kAwait, place, running->awaiting_);
}

void HostScheduler::announce() {
  if (std::exchange(running->awaiting_, 0) > 0) running->release_all(State::kAwait);
}

void HostScheduler::pause(Place place) {
  running->wait_in(State::kPause, place, running->paused_);
}

bool HostScheduler::resume_paused() {
  if (++idle_rounds_ > kMaxIdleRounds) return false;
  if (idle_rounds_ > kBusyRounds) std::this_thread::sleep_for(kIdleSleep);
  std::this_thread::yield();
  paused_ = 0;
  release_all(State::kPause);
  return true;
}

void HostScheduler::misuse(const rowsmith_host::Thread* by, const char* call, Place place,
                           const char* what) {
  running->report(name_of(by == nullptr ? *running->current_ : *by) + ": " + call + " at " +
                  text_of(place) + what);
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
  idle_rounds_ = 0;
  if (meeting.arrived == 0) {
    meeting.first = current_->index;
    meeting.mask = mask;
    meeting.place = place;
  } else if (!same_place(place, meeting.place) || mask != meeting.mask) {
    const char* what = kind == State::kSync ? "sync" : "warp exchange";
    const auto masked = [kind](int m) {
      return kind == State::kSync ? std::string() : " with mask " + std::to_string(m);
    };
    report(who() + ": divergent " + what + " at " + text_of(place) + masked(mask) +
           ", where thread " + std::to_string(meeting.first) + " waits at " +
           text_of(meeting.place) + masked(meeting.mask));
    abandon();
  }
  ++meeting.arrived;
}

void HostScheduler::release(Fiber* first, int count) {
  const bool down = launch_->schedule == HostSchedule::kDescending;
  for (int i = 0; i < count; ++i) {  // pushed last, run first
    Fiber& fiber = first[down ? i : count - 1 - i];
    fiber.state = State::kReady;
    ready_[static_cast<std::size_t>(ready_count_++)] = &fiber;
  }
}

void HostScheduler::release_all(State waiting) {
  const int count = fiber_count();
  const bool down = launch_->schedule == HostSchedule::kDescending;
  for (int i = 0; i < count; ++i) {
    Fiber& fiber = fibers_[static_cast<std::size_t>(down ? i : count - 1 - i)];
    if (fiber.state == waiting) release(&fiber, 1);
  }
}

void HostScheduler::run_next() {
  if (ready_count_ == 0 && (paused_ == 0 || !resume_paused())) {
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
  if (current_->arrived) abandon_unwaited();
  current_->state = State::kLeft;
  idle_rounds_ = 0;
  // What peers still read of a block that is gone differs between poisons.
  if (launch_->cluster > 1 && ++home().left == launch_->threads) poison_shared(home());
  if (++left_ < fiber_count()) {
    run_next();
  } else {
    switch_fiber(current_->context, outside_);
  }
}

void HostScheduler::abandon() {
  switch_fiber(current_->context, outside_);
}

const rowsmith_host::Table& HostScheduler::table() {
  static constexpr rowsmith_host::Table kTable = {rowsmith_host::kAbiVersion,
                                                  sizeof(rowsmith_host::Table),
                                                  self,
                                                  sync,
                                                  warp_values,
                                                  misaligned,
                                                  cluster_arrive,
                                                  cluster_wait,
                                                  peer,
                                                  start_copy,
                                                  finish_copy,
                                                  await,
                                                  announce,
                                                  pause,
                                                  misuse};
  return kTable;
}

}  // namespace rowsmith
