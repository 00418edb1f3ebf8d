// SPDX-License-Identifier: Apache-2.0
#include "tuner/build.h"

#include <rowsmith/text.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <map>
#include <new>
#include <set>
#include <string>
#include <system_error>
#include <utility>

namespace rowsmith {
namespace {

using Batch = std::vector<std::size_t>;

// NVRTC's front end takes one program at a time, whatever the threads; kernels are optimized and
// assembled side by side. n / b front ends and the b kernels of a program are least together at
// this b. H200 with 16 cores, 48 candidates: f16 4096 x 1000 1.2 s with programs of one, 0.2 s
// of 4.
std::size_t batch_size(double candidates, double kernel_s) {
  constexpr double kFrontEndS = 0.035;
  return std::clamp(std::llround(std::sqrt(candidates * kFrontEndS / kernel_s)), 1LL, 8LL);
}

// `first` is in a program of its own: timing begins with it.
std::vector<Batch> batches_of(const std::vector<Config>& configs, std::size_t first,
                              std::size_t size) {
  std::vector<Batch> batches = {{first}};
  std::map<std::string, std::size_t> open;  // family -> its batch that still takes configs
  for (std::size_t i = 0; i < configs.size(); ++i) {
    if (i == first) continue;
    const auto found = open.find(configs[i].family);
    if (found != open.end() && batches[found->second].size() < size) {
      batches[found->second].push_back(i);
      continue;
    }
    open[configs[i].family] = batches.size();
    batches.push_back({i});
  }
  return batches;
}

// The config but for what moves a time by a few percent: policies, and the bound of registers.
std::string kind_of(Config config) {
  std::erase_if(config.params, [](const auto& param) {
    return param.first == "load" || param.first == "store" || param.first == "min_blocks";
  });
  return to_string(config);
}

}  // namespace

double compile_s(const Problem& problem, const DeviceFacts& facts, const Config& config) {
  constexpr double kKernelS = 0.06, kElementS = 0.004, kMostUnrolled = 128;
  const Geometry geometry = find_family(config.family)->geometry(problem, facts, config);
  const double elements = static_cast<double>(problem.cols) *
                          static_cast<double>(geometry.rows_per_block) /
                          (geometry.threads * geometry.cluster * geometry.blocks_per_row);
  return kKernelS + kElementS * std::min(elements, kMostUnrolled);
}

CandidateBuilds::CandidateBuilds(const Session& session, const Problem& problem,
                                 std::vector<Config> configs, std::size_t first, int threads)
    : session_(session),
      problem_(problem),
      configs_(std::move(configs)),
      job_of_(configs_.size(), nullptr) {
  const std::size_t size = batch_size(static_cast<double>(configs_.size()),
                                      compile_s(problem, session.device->facts(), configs_[first]));
  for (Batch& batch : batches_of(configs_, first, size)) {
    Job& job = jobs_.emplace_back();
    for (const std::size_t i : batch) job_of_[i] = &job;
    job.configs = std::move(batch);
  }
  const std::size_t wanted =
      std::min(static_cast<std::size_t>(std::max(threads, 1)) - 1, jobs_.size());
  try {
    while (threads_.size() < wanted) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    // No more threads to be had: those that run do the work, or the caller's.
  }
}

CandidateBuilds::~CandidateBuilds() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void CandidateBuilds::work() {
  std::unique_lock lock(mutex_);
  while (!cancelled_) {
    const auto job = std::find_if(jobs_.begin(), jobs_.end(),
                                  [](const Job& it) { return it.state == Job::State::kWaiting; });
    if (job == jobs_.end()) return;
    run(*job, lock);
  }
}

void CandidateBuilds::run(Job& job, std::unique_lock<std::mutex>& lock) {
  job.state = Job::State::kRunning;
  lock.unlock();
  compile(job);
  lock.lock();
  if (worth_splitting(job)) split(job);
  job.state = Job::State::kDone;
  done_.notify_all();
}

void CandidateBuilds::compile(Job& job) const {
  try {
    std::vector<Instance> instances;
    Program program;
    for (const std::size_t i : job.configs) {
      instances.push_back({problem_, configs_[i]});
      program.entries.push_back(entry_name(instances.back()));
    }
    const Config& best = configs_[job.configs.front()];
    program.name = job.configs.size() == 1 ? to_string(best) : best.family + " candidates";
    program.source = program_text(instances);
    job.entries = program.entries;
    Result<Binary> binary = session_.device->compile(program);
    job.status = binary.status();
    if (binary.ok()) job.binary = std::move(*binary);
  } catch (const std::bad_alloc&) {
    job.status = Status(Code::kOutOfMemory, "host memory, while compiling");
  } catch (const std::exception& error) {
    job.status = Status(Code::kInternal, std::string("while compiling: ") + error.what());
  }
}

bool CandidateBuilds::worth_splitting(const Job& job) const {
  return !job.status.ok() && job.configs.size() > 1 && job.status.code() != Code::kDeviceLost;
}

void CandidateBuilds::split(const Job& job) {
  for (const std::size_t i : job.configs) {
    Job& alone = jobs_.emplace_back();
    alone.configs = {i};
    job_of_[i] = &alone;
  }
}

CandidateBuilds::Job& CandidateBuilds::done_job(std::size_t i, std::unique_lock<std::mutex>& lock) {
  while (true) {
    Job& job = *job_of_[i];
    if (job.state == Job::State::kWaiting) run(job, lock);
    done_.wait(lock, [&] { return job.state == Job::State::kDone; });
    if (job_of_[i] == &job) return job;
  }
}

BuiltCandidate CandidateBuilds::take(std::size_t i) {
  std::unique_lock lock(mutex_);
  while (true) {
    Job& job = done_job(i, lock);
    if (job.status.ok() && !job.module) {
      lock.unlock();
      Result<std::unique_ptr<Module>> module = session_.device->load(job.binary);
      lock.lock();
      job.status = module.status();
      if (module.ok()) job.module = std::move(*module);
      if (worth_splitting(job)) {
        split(job);
        continue;
      }
    }
    if (!job.status.ok()) return {job.status, nullptr};
    const auto at = std::find(job.configs.begin(), job.configs.end(), i) - job.configs.begin();
    Result<const Kernel*> kernel = job.module->kernel(job.entries[static_cast<std::size_t>(at)]);
    return {kernel.status(), kernel.ok() ? *kernel : nullptr};
  }
}

const Binary* CandidateBuilds::compiled_alone(std::size_t i) {
  std::unique_lock lock(mutex_);
  const Job& job = done_job(i, lock);
  return job.status.ok() && job.configs.size() == 1 ? &job.binary : nullptr;
}

Candidates choose_candidates(const std::vector<Config>& ranked, const Config& standard,
                             std::size_t cap, const std::vector<Config>& kept) {
  std::vector<bool> taken(ranked.size());
  std::set<std::string> families{std::string(generic_config().family)}, kinds;
  std::size_t places = cap > 0 ? cap - 1 : 0;  // beside the default and those to keep
  const auto take = [&](std::size_t i) {
    taken[i] = true;
    families.insert(ranked[i].family);
    kinds.insert(kind_of(ranked[i]));
  };
  // By rank, those that are wanted, until so many places are left.
  const auto fill = [&](std::size_t left, const std::function<bool(const Config&)>& wanted) {
    for (std::size_t i = 0; i < ranked.size() && places > left; ++i) {
      if (taken[i] || !wanted(ranked[i])) continue;
      take(i);
      --places;
    }
  };
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    const bool keep = std::find(kept.begin(), kept.end(), ranked[i]) != kept.end();
    if (keep || ranked[i] == standard) take(i);
  }
  fill(0, [&](const Config& config) { return families.count(config.family) == 0; });
  fill(places / 3, [](const Config&) { return true; });
  fill(0, [&](const Config& config) { return kinds.count(kind_of(config)) == 0; });
  fill(0, [](const Config&) { return true; });

  Candidates chosen;
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    if (!taken[i]) continue;
    const bool keep = std::find(kept.begin(), kept.end(), ranked[i]) != kept.end();
    if (keep) chosen.kept.push_back(chosen.configs.size());
    if (ranked[i] == standard) chosen.default_index = chosen.configs.size();
    chosen.configs.push_back(ranked[i]);
  }
  if (std::find(chosen.configs.begin(), chosen.configs.end(), standard) == chosen.configs.end()) {
    chosen.configs.insert(chosen.configs.begin(), standard);
    chosen.default_index = 0;
    for (std::size_t& i : chosen.kept) ++i;
  }
  return chosen;
}

}  // namespace rowsmith
