// SPDX-License-Identifier: Apache-2.0
//
// Runs the clusters of host launches over the CPU's cores: small launches on the calling thread,
// larger ones with the help of threads that are kept, since a launch may take microseconds.
#pragma once

#include "runtime/host_scheduler.h"

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace rowsmith {

// Thread-safe: while its helpers serve one launch, others run on their callers' threads alone.
class HostExecutor {
 public:
  // Up to `helpers` threads beside the caller's, started when a launch first needs them.
  explicit HostExecutor(int helpers);
  HostExecutor(const HostExecutor&) = delete;
  ~HostExecutor();

  // Runs every cluster, or up to the first failure seen.
  std::optional<HostFailure> run(const HostLaunch& launch);

 private:
  struct Job;
  std::unique_ptr<HostScheduler> borrow();
  void give_back(std::unique_ptr<HostScheduler> scheduler);
  void work_on(Job& job);
  static void work_on(Job& job, HostScheduler& scheduler);
  void help();
  void start_helpers();

  const int helpers_;
  std::mutex schedulers_mutex_;
  std::vector<std::unique_ptr<HostScheduler>> schedulers_;  // idle

  std::mutex wide_mutex_;  // held by the caller whose clusters have more threads than any block
  std::unique_ptr<HostScheduler> wide_scheduler_;

  std::mutex team_mutex_;  // held by the caller whose job the helpers share
  std::mutex mutex_;       // guards what follows
  std::condition_variable wake_, idle_;
  Job* job_ = nullptr;
  std::uint64_t jobs_ = 0;
  int helping_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace rowsmith
