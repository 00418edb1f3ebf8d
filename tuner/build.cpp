// SPDX-License-Identifier: Apache-2.0
#include "tuner/build.h"

#include <rowsmith/text.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <new>
#include <string>
#include <system_error>
#include <utility>

namespace rowsmith {
namespace {

// NVRTC's front end takes one program at a time in each process, whatever the threads; kernels are
// optimized and assembled side by side. The n / b programs, parsed by p front ends, and the b
// kernels of a program are least together at this b. H200 with 16 cores, 48 candidates, one
// process: f16 4096 x 1000 1.2 s with programs of one, 0.2 s of 4.
std::size_t batch_size(double candidates, double kernel_s, std::size_t front_ends) {
  const double front_end_s = 0.035 / static_cast<double>(front_ends);
  return std::clamp(std::llround(std::sqrt(candidates * front_end_s / kernel_s)), 1LL, 8LL);
}

// Places in `configs` by program: each of one family, that of `alone` by itself and first.
std::vector<std::vector<std::size_t>> batches_of(const std::vector<Config>& configs,
                                                 std::optional<std::size_t> alone,
                                                 std::size_t size) {
  std::vector<std::vector<std::size_t>> batches;
  if (alone) batches.push_back({*alone});
  std::map<std::string, std::size_t> open;  // family -> its batch that still takes configs
  for (std::size_t i = 0; i < configs.size(); ++i) {
    if (i == alone) continue;
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

}  // namespace

double compile_s(const Problem& problem, const DeviceFacts& facts, const Config& config) {
  constexpr double kKernelS = 0.06, kElementS = 0.004, kMostUnrolled = 128;
  const Geometry geometry = find_family(config.family)->geometry(problem, facts, config);
  const double elements = static_cast<double>(problem.cols) *
                          static_cast<double>(geometry.rows_per_block) /
                          (geometry.threads * geometry.cluster * geometry.blocks_per_row);
  return kKernelS + kElementS * std::min(elements, kMostUnrolled);
}

int compile_threads(int asked) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(asked > 0 ? asked : cores, 1, 64);
}

CandidateBuilds::CandidateBuilds(const Session& session, const Problem& problem,
                                 const std::vector<Config>& configs, std::size_t first,
                                 BuildMeans means)
    : session_(session), problem_(problem), means_(std::move(means)) {
  enqueue(configs, first);
  start_threads();
}

std::size_t CandidateBuilds::add(const std::vector<Config>& configs) {
  std::size_t first = 0;
  {
    const std::lock_guard lock(mutex_);
    first = job_of_.size();
    enqueue(configs, std::nullopt);
  }
  changed_.notify_all();
  start_threads();
  return first;
}

void CandidateBuilds::enqueue(const std::vector<Config>& configs,
                              std::optional<std::size_t> alone) {
  if (configs.empty()) return;
  const std::size_t before = job_of_.size();
  const double kernel_s = compile_s(problem_, session_.device->facts(), configs[alone.value_or(0)]);
  job_of_.resize(before + configs.size());
  for (const std::vector<std::size_t>& batch :
       batches_of(configs, alone,
                  batch_size(static_cast<double>(configs.size()), kernel_s, means_.front_ends))) {
    Job& job = jobs_.emplace_back();
    for (const std::size_t i : batch) {
      job.candidates.push_back(before + i);
      job.configs.push_back(configs[i]);
      job_of_[before + i] = &job;
    }
  }
}

void CandidateBuilds::start_threads() {
  const std::size_t wanted = [&] {
    const std::lock_guard lock(mutex_);
    return std::min(static_cast<std::size_t>(means_.threads) - 1, jobs_.size());
  }();
  try {
    while (threads_.size() < wanted) {
      threads_.emplace_back([this] { work(); });
    }
  } catch (const std::system_error&) {
    // No more threads to be had: those that run do the work, or the caller's.
  }
}

CandidateBuilds::~CandidateBuilds() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void CandidateBuilds::work() {
  std::unique_lock lock(mutex_);
  while (!cancelled_) {
    const auto job = std::find_if(jobs_.begin(), jobs_.end(),
                                  [](const Job& it) { return it.state == Job::State::kWaiting; });
    if (job == jobs_.end()) {
      changed_.wait(lock);
    } else {
      run(*job, lock);
    }
  }
}

void CandidateBuilds::run(Job& job, std::unique_lock<std::mutex>& lock) {
  job.state = Job::State::kRunning;
  lock.unlock();
  compile(job);
  lock.lock();
  if (worth_splitting(job)) split(job);
  job.state = Job::State::kDone;
  changed_.notify_all();
}

void CandidateBuilds::compile(Job& job) const {
  try {
    std::vector<Instance> instances;
    Program program;
    for (const Config& config : job.configs) {
      instances.push_back({problem_, config});
      program.entries.push_back(entry_name(instances.back()));
    }
    const Config& best = job.configs.front();
    program.name = job.configs.size() == 1 ? to_string(best) : best.family + " candidates";
    program.source = program_text(instances);
    job.entries = program.entries;
    Result<Binary> binary =
        means_.compile ? means_.compile(program) : session_.device->compile(program);
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
  for (std::size_t at = 0; at < job.candidates.size(); ++at) {
    Job& alone = jobs_.emplace_back();
    alone.candidates = {job.candidates[at]};
    alone.configs = {job.configs[at]};
    job_of_[job.candidates[at]] = &alone;
  }
}

CandidateBuilds::Job& CandidateBuilds::done_job(std::size_t i, std::unique_lock<std::mutex>& lock) {
  while (true) {
    Job& job = *job_of_[i];
    if (job.state == Job::State::kWaiting) run(job, lock);
    changed_.wait(lock, [&] { return job.state == Job::State::kDone; });
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
    const auto at =
        std::find(job.candidates.begin(), job.candidates.end(), i) - job.candidates.begin();
    Result<const Kernel*> kernel = job.module->kernel(job.entries[static_cast<std::size_t>(at)]);
    return {kernel.status(), kernel.ok() ? *kernel : nullptr};
  }
}

const Binary* CandidateBuilds::compiled_alone(std::size_t i) {
  std::unique_lock lock(mutex_);
  const Job& job = done_job(i, lock);
  return job.status.ok() && job.configs.size() == 1 ? &job.binary : nullptr;
}

}  // namespace rowsmith
