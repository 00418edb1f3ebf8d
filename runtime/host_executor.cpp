// SPDX-License-Identifier: Apache-2.0
#include "runtime/host_executor.h"

#include <fenv.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <system_error>
#include <utility>

namespace rowsmith {
namespace {

// Below this many device threads in a launch, waking helpers costs about what they save.
constexpr std::int64_t kShareFrom = 2048;
constexpr std::size_t kMaxIdleSchedulers = 16;

// Kernels round to nearest and keep subnormals whatever the caller's thread was set to.
class DefaultFloatingPoint {
 public:
  DefaultFloatingPoint() {
    fegetenv(&before_);
    fesetenv(FE_DFL_ENV);
  }
  DefaultFloatingPoint(const DefaultFloatingPoint&) = delete;
  ~DefaultFloatingPoint() { fesetenv(&before_); }

 private:
  fenv_t before_;
};

// The k-th cluster to run is (first + k * step) mod clusters: a permutation where step is coprime.
struct ClusterOrder {
  std::uint64_t clusters, first = 0, step = 1;
};

ClusterOrder cluster_order(const HostLaunch& launch) {
  const auto clusters = static_cast<std::uint64_t>(launch.blocks / launch.cluster);
  switch (launch.schedule) {
    case HostSchedule::kAscending: break;
    case HostSchedule::kDescending: return {clusters, clusters - 1, clusters - 1};
    case HostSchedule::kRandom: {
      const std::uint64_t mixed = (launch.seed + 1) * 0x9e3779b97f4a7c15ull;
      std::uint64_t step = (mixed >> 32) % clusters;
      while (std::gcd(step, clusters) != 1) ++step;
      return {clusters, (mixed & 0xffffffffu) % clusters, step};
    }
  }
  return {clusters};
}

}  // namespace

struct HostExecutor::Job {
  const HostLaunch& launch;
  const ClusterOrder order;
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::int64_t failed_at = 0;  // the place in the order
  std::optional<HostFailure> failure;

  explicit Job(const HostLaunch& l) : launch(l), order(cluster_order(l)) {}

  void fail(std::int64_t at, HostFailure why) {
    const std::lock_guard lock(mutex);
    failed = true;
    if (failure && failed_at <= at) return;
    failed_at = at;
    failure = std::move(why);
  }
};

HostExecutor::HostExecutor(int helpers) : helpers_(helpers) {
  install_fault_handler(HostScheduler::on_fault);
}

HostExecutor::~HostExecutor() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::optional<HostFailure> HostExecutor::run(const HostLaunch& launch) {
  Job job(launch);
  if (launch.cluster * launch.threads > HostScheduler::kMaxThreads) {
    // One scheduler for all such: a fiber takes two of a process's 65,530 memory mappings.
    const std::lock_guard wide(wide_mutex_);
    if (!wide_scheduler_) wide_scheduler_ = std::make_unique<HostScheduler>();
    work_on(job, *wide_scheduler_);
    return std::move(job.failure);
  }
  const bool large = job.order.clusters > 1 && launch.blocks * launch.threads >= kShareFrom;
  std::unique_lock team(team_mutex_, std::defer_lock);
  if (!large || helpers_ == 0 || !team.try_lock()) {
    work_on(job);
    return std::move(job.failure);
  }
  start_helpers();
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    ++jobs_;
  }
  wake_.notify_all();
  work_on(job);
  std::unique_lock lock(mutex_);
  job_ = nullptr;
  idle_.wait(lock, [this] { return helping_ == 0; });
  return std::move(job.failure);
}

void HostExecutor::work_on(Job& job) {
  std::unique_ptr<HostScheduler> scheduler = borrow();
  work_on(job, *scheduler);
  give_back(std::move(scheduler));
}

void HostExecutor::work_on(Job& job, HostScheduler& scheduler) {
  const AlternateStack stack;
  const DefaultFloatingPoint floating_point;
  if (!scheduler.prepare(job.launch)) {
    job.fail(job.next, {"no memory for the stacks of its threads", nullptr});
  }
  while (!job.failed) {
    const std::int64_t at = job.next++;
    if (static_cast<std::uint64_t>(at) >= job.order.clusters) break;
    const auto step = static_cast<std::uint64_t>(at) * job.order.step;
    const auto cluster = static_cast<std::int64_t>((job.order.first + step) % job.order.clusters);
    if (!scheduler.run_cluster(job.launch, cluster)) job.fail(at, scheduler.failure());
  }
}

std::unique_ptr<HostScheduler> HostExecutor::borrow() {
  const std::lock_guard lock(schedulers_mutex_);
  if (schedulers_.empty()) return std::make_unique<HostScheduler>();
  std::unique_ptr<HostScheduler> scheduler = std::move(schedulers_.back());
  schedulers_.pop_back();
  return scheduler;
}

void HostExecutor::give_back(std::unique_ptr<HostScheduler> scheduler) {
  const std::lock_guard lock(schedulers_mutex_);
  if (schedulers_.size() < kMaxIdleSchedulers) schedulers_.push_back(std::move(scheduler));
}

void HostExecutor::start_helpers() {
  if (!threads_.empty()) return;
  // The application's signals are for the application's threads; faults still arrive here.
  sigset_t all, before;
  sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP})
    sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    while (static_cast<int>(threads_.size()) < helpers_) threads_.emplace_back([this] { help(); });
  } catch (const std::system_error&) {
    // No more threads to be had: those that started, or the caller alone, do the work.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void HostExecutor::help() {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || (job_ != nullptr && jobs_ != seen); });
    if (stopping_) return;
    seen = jobs_;
    Job& job = *job_;
    ++helping_;
    lock.unlock();
    work_on(job);
    lock.lock();
    if (--helping_ == 0) idle_.notify_all();
  }
}

}  // namespace rowsmith
