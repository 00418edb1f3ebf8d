// SPDX-License-Identifier: Apache-2.0
//
// The Dispatcher's class, shared by its three sources: dispatcher.cpp (the hot path and the public
// face), dispatcher_miss.cpp (the walk down the ladder) and dispatcher_explain.cpp.
#pragma once

#include "runtime/counters.h"
#include "runtime/dispatcher.h"
#include "runtime/ladder.h"
#include "runtime/miss_counts.h"
#include "runtime/plan_table.h"

#include <rowsmith/text.h>

#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace rowsmith {

// Runs `body`, which answers a Status or Result; what it throws becomes one.
template <typename Body>
auto no_throw(const char* doing, Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Status(Code::kOutOfMemory, std::string(doing) + ": host memory");
  } catch (const std::exception& error) {
    return Status(Code::kInternal, std::string(doing) + ": " + error.what());
  }
}

class Dispatcher final : public Runtime {
 public:
  Dispatcher(Session session, const RuntimeOptions& options, TuneOnMiss tune);
  ~Dispatcher() override { close_cache(); }

  using Runtime::softmax;
  Status softmax(const SoftmaxCall& given) override;
  Status prepare(const std::vector<Problem>& problems) override;
  Result<Explanation> explain(const Problem& problem) override;
  Stats stats() const override;
  const DeviceFacts& device() const override { return device_.facts(); }

  void close_cache() noexcept;

 private:
  // Failures of kernels by entry name, with the reason.
  using Failures = std::map<std::string, std::string>;

  // One walk down the ladder for one problem.
  struct Walk {
    const Problem& problem;
    std::uint64_t key;
    const SoftmaxCall* call;  // null: load only
    bool capturing = false;
    bool publish = true;
    std::vector<WinnerRecord> winners;
    Failures failures;  // met on this walk; kept only if another rung then serves
    Failures refusals;  // by the call's context, and of no meaning to others: no marks
    std::vector<Rejection> killers;
  };

  class TuningTurn;

  Status walk(const Problem& problem, const SoftmaxCall* call, Failures failures = {},
              Failures refusals = {});
  Status serve(Walk& walk, Choice choice);
  // Every rung has failed, with what each says.
  static Status nothing_left(const Problem& problem, const Choice& choice);
  Result<const Kernel*> kernel_for(const Walk& walk, const Config& config);
  Result<Choice> choose_for(const Walk& walk) const;
  Status tune_first(Walk& walk, Choice& choice);
  Status launch_failed(const SoftmaxCall& call, const Problem& problem, std::uint64_t key,
                       const Served& served, const Status& failure);
  // Has the plan serve from now on, if the walk may settle that; how it is counted.
  Served publish(PlanTable& table, const Walk& walk, const Choice& choice, const LaunchPlan& plan);
  void served_by(const Walk& walk, const Choice& choice, const LaunchPlan& plan);
  Status prepare_one(const Problem& problem);
  void tell_near_misses(const Problem& problem, std::vector<std::string>& reasons);

  std::vector<WinnerRecord> read_winners(const Problem& problem, std::uint64_t key,
                                         std::string* fault = nullptr);
  std::string mark_of(const std::string& entry) const;
  Session session() const {
    const std::lock_guard lock(mutex_);
    return session_;
  }
  void count(const Served& served) {
    const std::size_t line = count_line();
    calls_.add(line);
    if (served.source == Source::kExact) exact_.add(line);
    if (served.misses != nullptr) served.misses->add(line);
  }

  Session session_;  // the store is exchanged by close_cache, under mutex_
  Device& device_;
  ModuleTable& modules_;
  const std::string class_;
  const OnMiss on_miss_;
  const int budget_ms_;
  const bool check_pointers_;
  std::optional<Config> pin_;
  Status pin_fault_;  // options.pin is no config: every call answers this
  const TuneOnMiss tune_;

  PlanTable table_;
  PlanTable spares_;  // for contexts that refuse what table_ has
  StripedCount calls_, exact_;
  std::atomic<std::uint64_t> tuned_{0};
  MissCounts misses_;

  mutable std::mutex mutex_;  // of what follows; never held while compiling, tuning or launching
  std::map<std::uint64_t, std::vector<WinnerRecord>> winners_;  // as last read: for captures
  Failures marks_;
  std::set<std::uint64_t> tuning_;
};

}  // namespace rowsmith
