// SPDX-License-Identifier: Apache-2.0
//
// Building candidates for the search, several of a family in one program, since the family's text
// is then parsed once. Programs are compiled in the background, best rank first, while the search
// prepares and then times what has arrived; they are loaded by the thread that times, so that no
// load falls into a sample. Only finalists are stored, each as a program of its own, through the
// module table.
#pragma once

#include "runtime/session.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace rowsmith {

struct BuiltCandidate {
  Status status;
  const Kernel* kernel = nullptr;
};

// Who compiles.
struct BuildMeans {
  int threads = 1;  // the caller's counted, which compiles only while it waits
  std::function<Result<Binary>(const Program&)> compile;  // thread-safe; empty = the device's
  std::size_t front_ends = 1;                             // programs that it parses at once
};

class CandidateBuilds {
 public:
  // Begins at once. Config `first` goes ahead of the rest, in a program of its own. The session
  // outlives the builds.
  CandidateBuilds(const Session& session, const Problem& problem,
                  const std::vector<Config>& configs, std::size_t first, BuildMeans means);
  // Drops what nobody has begun and waits for the rest; kernels go with it.
  ~CandidateBuilds();
  CandidateBuilds(const CandidateBuilds&) = delete;
  CandidateBuilds& operator=(const CandidateBuilds&) = delete;

  // Further candidates, whose programs come after all others; the index of the first. For one
  // thread at a time.
  std::size_t add(const std::vector<Config>& configs);

  // The candidate, compiled and loaded. A program that fails is built again config by config, so
  // that one bad candidate costs its neighbours nothing. For one thread at a time.
  BuiltCandidate take(std::size_t i);
  // What compiling the config as a program of its own gave; nullptr where that was not done or
  // failed. Waits as take() does; thread-safe.
  const Binary* compiled_alone(std::size_t i);

 private:
  struct Job {
    std::vector<std::size_t> candidates;
    std::vector<Config> configs;  // of the candidates
    std::vector<std::string> entries;
    enum class State { kWaiting, kRunning, kDone } state = State::kWaiting;
    Status status;
    Binary binary;
    std::unique_ptr<Module> module;  // once a candidate of it was taken
  };
  void enqueue(const std::vector<Config>& configs, std::optional<std::size_t> alone);
  void start_threads();
  void work();
  void run(Job& job, std::unique_lock<std::mutex>& lock);
  void compile(Job& job) const;
  // The job of the config once it is done. Afterwards only a split, by take(), changes it.
  Job& done_job(std::size_t i, std::unique_lock<std::mutex>& lock);
  bool worth_splitting(const Job& job) const;
  void split(const Job& job);

  const Session& session_;
  const Problem problem_;
  const BuildMeans means_;
  std::mutex mutex_;
  std::condition_variable changed_;  // a job was added or is done
  std::deque<Job> jobs_;             // the order of compiling; never shrinks
  std::vector<Job*> job_of_;         // by candidate
  bool cancelled_ = false;
  std::vector<std::thread> threads_;
};

// Seconds of one core to optimize and assemble the config's kernel, roughly: the more elements a
// thread holds, the longer its unrolled text. Two kernels of each size, Xeon of an H200 machine.
double compile_s(const Problem& problem, const DeviceFacts& facts, const Config& config);

// Threads to compile on: what is asked for, else (0) the machine's cores; 64 at the most.
int compile_threads(int asked);

}  // namespace rowsmith
