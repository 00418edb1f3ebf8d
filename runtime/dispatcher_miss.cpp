// SPDX-License-Identifier: Apache-2.0
//
// What a call does that no published plan serves: read the winners, tune if the policy says so,
// walk the ladder until a rung serves, and publish it.
#include "kernel_templates/catalog.h"
#include "runtime/dispatcher_class.h"
#include "runtime/killers.h"
#include "runtime/log.h"

namespace rowsmith {
namespace {

constexpr std::uint64_t kFlushAt = 256;  // misses pending

std::string entry_of(const Problem& problem, const Config& config) {
  return entry_name({problem, config});
}

// The kernel's own failure: another config may do better. Anything else is the device's or the
// caller's.
bool is_own_failure(const Status& status) {
  return status.code() == Code::kCompileFailed || status.code() == Code::kLaunchFailed ||
         status.code() == Code::kUnsupported;
}

// Of a launch: this context cannot run the grid at once, or the cluster, where another may.
// Nothing was enqueued, so that a capture in progress is whole.
bool is_refusal(const Status& status) {
  return status.code() == Code::kUnsupported;
}

bool is_stored(const Choice& choice) {
  return choice.source == Source::kExact || choice.source == Source::kNearest;
}

}  // namespace

// The right to tune a (dtypes, H, layout), which one thread at a time has.
class Dispatcher::TuningTurn {
 public:
  TuningTurn(Dispatcher& dispatcher, std::uint64_t key) : dispatcher_(dispatcher), key_(key) {
    const std::lock_guard lock(dispatcher_.mutex_);
    taken_ = dispatcher_.tuning_.insert(key).second;
  }
  ~TuningTurn() {
    if (!taken_) return;
    const std::lock_guard lock(dispatcher_.mutex_);
    dispatcher_.tuning_.erase(key_);
  }
  TuningTurn(const TuningTurn&) = delete;
  TuningTurn& operator=(const TuningTurn&) = delete;
  bool taken() const { return taken_; }

 private:
  Dispatcher& dispatcher_;
  const std::uint64_t key_;
  bool taken_ = false;
};

// A published kernel that fails to launch leaves the table, and the next rung serves the call. One
// that the call's context refuses stays, for other contexts, and the spare plan serves, if it can.
Status Dispatcher::launch_failed(const SoftmaxCall& call, const Problem& problem, std::uint64_t key,
                                 const Served& served, const Status& failure) {
  if (!is_own_failure(failure)) return failure;
  const bool refused = is_refusal(failure);
  const Served* spare = refused ? spares_.find(key, call.rows) : nullptr;
  Status last = failure;
  if (spare != nullptr) {
    last = launch_softmax(device_, spare->plan, call);
    if (last.ok()) count(*spare);
    if (!is_own_failure(last)) return last;
  }
  return no_throw("softmax", [&]() -> Status {
    const Result<bool> capturing = device_.is_capturing(call.stream);
    if (!capturing.ok() || (*capturing && !is_refusal(last))) return last;
    if (!refused) table_.evict(key, &served);
    Failures failures, refusals;
    const auto meet = [&](const Config& config, const Status& why) {
      Failures& met = is_refusal(why) ? refusals : failures;
      met.emplace(entry_of(problem, config), to_string(config) + ": " + why.message());
    };
    meet(served.config, failure);
    if (spare != nullptr) meet(spare->config, last);
    return walk(problem, &call, std::move(failures), std::move(refusals));
  });
}

Status Dispatcher::walk(const Problem& problem, const SoftmaxCall* call, Failures failures,
                        Failures refusals) {
  if (!pin_fault_.ok()) return pin_fault_;
  Walk walk{problem, node_key(problem), call, false, true, {}, {}, {}, {}};
  walk.failures = std::move(failures);
  walk.refusals = std::move(refusals);
  if (call != nullptr) {
    const Result<bool> capturing = device_.is_capturing(call->stream);
    if (!capturing.ok()) return capturing.status();
    walk.capturing = *capturing;
  }
  if (walk.capturing) {
    walk.publish = false;
    const std::lock_guard lock(mutex_);
    if (const auto found = winners_.find(walk.key); found != winners_.end()) {
      walk.winners = found->second;
    }
  } else if (!pin_) {
    walk.winners = read_winners(problem, walk.key);
    walk.killers = known_killers(session(), problem);
  }

  Result<Choice> choice = choose_for(walk);
  if (!choice.ok()) return choice.status();
  if (!pin_ && !is_stored(*choice)) {
    if (on_miss_ == OnMiss::kError) {
      std::string why;
      for (const std::string& reason : choice->reasons) why += "; " + reason;
      return {Code::kNotTuned, to_string(problem) + " has no winner and the policy is error" + why};
    }
    const bool first_try = walk.failures.empty() && walk.refusals.empty();
    if (on_miss_ == OnMiss::kTune && tune_ && !walk.capturing && first_try) {
      if (Status status = tune_first(walk, *choice); !status.ok()) return status;
    }
  }
  Status status = serve(walk, std::move(*choice));
  if (!walk.capturing && misses_.pending() >= kFlushAt) misses_.flush(*session().store);
  return status;
}

// Tunes the problem, unless another thread is at this (dtypes, H, layout): then the call is served
// without waiting and without settling what serves the next. Fails only with the device.
Status Dispatcher::tune_first(Walk& walk, Choice& choice) {
  const TuningTurn turn(*this, walk.key);
  if (!turn.taken()) {
    walk.publish = false;
    return {};
  }
  const auto look_again = [&] {
    walk.winners = read_winners(walk.problem, walk.key);
    Result<Choice> again = choose_for(walk);
    if (again.ok()) choice = std::move(*again);
    return again.status();
  };
  // Another thread may have tuned it between this walk's look and its turn.
  if (Status status = look_again(); !status.ok() || is_stored(choice)) return status;
  Status status = no_throw("tuning", [&] { return tune_(session(), walk.problem, budget_ms_); });
  if (status.code() == Code::kDeviceLost) return status;
  if (status.ok()) {
    ++tuned_;
  } else {
    log().warn("{} is served untuned: {}", to_string(walk.problem), status.to_string());
  }
  return look_again();
}

Status Dispatcher::serve(Walk& walk, Choice choice) {
  Status status;
  while (!choice.config.empty()) {
    Result<const Kernel*> kernel = kernel_for(walk, choice.config);
    status = kernel.status();
    LaunchPlan plan;
    if (kernel.ok()) {
      plan = make_plan(walk.problem, device_.facts(), choice.config, *kernel);
      if (walk.call != nullptr) {
        status = launch_softmax(device_, plan, *walk.call).with_context(to_string(choice.config));
      }
    }
    if (status.ok()) {
      served_by(walk, choice, plan);
      return status;
    }
    const bool refused = kernel.ok() && is_refusal(status);
    if (!is_own_failure(status) || (walk.capturing && !refused)) return status;
    // Still the ladder's answer, for contexts that run it.
    if (refused && walk.refusals.empty()) publish(table_, walk, choice, plan);
    Failures& met = refused ? walk.refusals : walk.failures;
    met.emplace(entry_of(walk.problem, choice.config), status.message());
    Result<Choice> next = choose_for(walk);
    if (!next.ok()) return next.status();
    choice = std::move(*next);
  }
  if (walk.capturing) {
    return {Code::kNotPrepared,
            "no kernel is loaded for " + to_string(walk.problem) +
                " and the stream is being captured: prepare it before the capture"};
  }
  if (!status.ok()) return status.with_context(to_string(walk.problem));
  return nothing_left(walk.problem, choice);
}

Status Dispatcher::nothing_left(const Problem& problem, const Choice& choice) {
  std::string message = "no config is left for " + to_string(problem);
  for (const std::string& reason : choice.reasons) message += "; " + reason;
  return {Code::kLaunchFailed, std::move(message)};
}

Result<const Kernel*> Dispatcher::kernel_for(const Walk& walk, const Config& config) {
  if (!walk.capturing) return modules_.get(walk.problem, config);
  const Kernel* kernel = modules_.loaded(walk.problem, config);
  if (kernel == nullptr) return Status(Code::kNotPrepared, to_string(config) + " is not loaded");
  return kernel;
}

Result<Choice> Dispatcher::choose_for(const Walk& walk) const {
  LadderInput input{walk.problem, device_.facts(), walk.winners, pin_ ? &*pin_ : nullptr, {}};
  input.refuse = [&](const Config& config) -> std::string {
    const std::string entry = entry_of(walk.problem, config);
    if (const auto failed = walk.failures.find(entry); failed != walk.failures.end()) {
      return "failed: " + failed->second;
    }
    if (const auto refused = walk.refusals.find(entry); refused != walk.refusals.end()) {
      return "refused: " + refused->second;
    }
    if (is_killer(walk.killers, config)) return "lost the device when it was tuned";
    std::string reason = mark_of(entry);
    if (reason.empty() && walk.capturing && modules_.loaded(walk.problem, config) == nullptr) {
      reason = "not loaded, and the stream is being captured";
    }
    return reason;
  };
  return choose(input);
}

std::string Dispatcher::mark_of(const std::string& entry) const {
  const std::lock_guard lock(mutex_);
  const auto found = marks_.find(entry);
  return found == marks_.end() ? "" : "failed earlier in this process: " + found->second;
}

Served Dispatcher::publish(PlanTable& table, const Walk& walk, const Choice& choice,
                           const LaunchPlan& plan) {
  Served served{plan, choice.source, choice.config, nullptr};
  if (choice.source != Source::kExact && choice.source != Source::kPinned) {
    served.misses = &misses_.of(walk.key, walk.problem);
  }
  if (walk.publish) table.publish(walk.key, walk.problem.rows, choice.lo, choice.hi, served);
  return served;
}

// Counts the call, publishes the answer and, now that another rung has served, keeps the marks.
void Dispatcher::served_by(const Walk& walk, const Choice& choice, const LaunchPlan& plan) {
  const Served served = publish(walk.refusals.empty() ? table_ : spares_, walk, choice, plan);
  if (walk.call != nullptr) count(served);
  for (const auto& [entry, reason] : walk.failures) {
    log().warn("a config fails and is not used again for {}: {}", to_string(walk.problem), reason);
    const std::lock_guard lock(mutex_);
    marks_.emplace(entry, reason);
  }
}

std::vector<WinnerRecord> Dispatcher::read_winners(const Problem& problem, std::uint64_t key,
                                                   std::string* fault) {
  Result<std::vector<WinnerRecord>> found = session().store->find_same_cols(class_, problem);
  if (!found.ok()) {
    log().info("winners of {} are not read: {}", to_string(problem), found.status().message());
    if (fault != nullptr) *fault = found.status().to_string();
    return {};
  }
  const std::lock_guard lock(mutex_);
  return winners_[key] = std::move(*found);
}

}  // namespace rowsmith
