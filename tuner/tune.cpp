// SPDX-License-Identifier: Apache-2.0
#include "tuner/tune.h"

#include "runtime/log.h"
#include "tuner/buckets.h"
#include "tuner/budget.h"
#include "tuner/clocks.h"

#include <rowsmith/text.h>

#include <utility>

namespace rowsmith {
namespace {

// What tuning the problem can win, 0 where there is nothing to tune.
double stake_ns(const Session& session, const Problem& problem, const TuneRequest& request) {
  bool waits = problem.rows > 0 && problem.cols > 0;
  if (waits && !request.retune) {
    const auto known = find_valid(session, problem, request.effort, request.families);
    waits = !known.ok() || !*known;
  }
  return waits ? expected_floor_ns(problem, session.device->facts()) : 0;
}

std::vector<WinnerRecord> stored_winners(const Session& session, const Problem& problem) {
  auto winners = find_valid_same_cols(session, problem);
  if (winners.ok()) return std::move(*winners);
  log().warn("what lies beside {} is not looked for: {}", to_string(problem),
             winners.status().message());
  return {};
}

// One run down a list that may grow.
class ListRun {
 public:
  ListRun(const Session& session, const TuneRequest& request, const std::function<bool()>& stop,
          TuneSettings settings)
      : session_(session), request_(request), stop_(stop), settings_(std::move(settings)) {
    if (!settings_.now_s) settings_.now_s = steady_now_s;
  }

  TuneReport run() {
    const double start = settings_.now_s();
    std::vector<Problem> listed = request_.settled;
    listed.insert(listed.end(), request_.problems.begin(), request_.problems.end());
    Buckets buckets(listed);
    std::vector<Problem> more = request_.problems;
    while (!more.empty()) {
      add(more);
      while (report_.outcomes.size() < problems_.size()) {
        report_.elapsed_s = settings_.now_s() - start;
        report_.outcomes.push_back(next());
        if (request_.finished) {
          request_.finished(report_.outcomes.size() - 1, report_.outcomes.back());
        }
      }
      more.clear();
      if (request_.buckets && lost_.ok() && !interrupted()) {
        more = buckets.next([&](const Problem& any) { return stored_winners(session_, any); });
      }
    }
    interrupted();  // by a stop that came with the last problem
    report_.elapsed_s = settings_.now_s() - start;
    return std::move(report_);
  }

 private:
  bool interrupted() {
    report_.interrupted = report_.interrupted || (stop_ && stop_());
    return report_.interrupted;
  }

  void add(const std::vector<Problem>& problems) {
    for (const Problem& problem : problems) {
      problems_.push_back(problem);
      stakes_.push_back(limited() ? stake_ns(session_, problem, request_) : 0);
    }
    settings_.problem_count = problems_.size();
  }

  bool limited() const { return request_.budget_s > 0; }

  TuneOutcome next() {
    using State = TuneOutcome::State;
    const std::size_t i = report_.outcomes.size();
    const double left = request_.budget_s - report_.elapsed_s;
    if (!lost_.ok()) return outcome_of(problems_[i], State::kFailed, lost_);
    if (interrupted()) {
      return outcome_of(problems_[i], State::kSkipped, Status(Code::kNotTuned, "interrupted"));
    }
    if (limited() && left <= 0) {
      return outcome_of(problems_[i], State::kSkipped,
                        Status(Code::kNotTuned, "the budget was spent"));
    }
    settings_.problem_index = i;
    if (limited()) settings_.budget_s = left * budget_part(stakes_, i);
    TuneOutcome outcome = tune_problem(session_, problems_[i], settings_, floor_);
    if (outcome.status.code() == Code::kDeviceLost) lost_ = outcome.status;
    return outcome;
  }

  const Session& session_;
  const TuneRequest& request_;
  const std::function<bool()>& stop_;
  TuneSettings settings_;
  FloorMeter floor_;
  std::vector<Problem> problems_;
  std::vector<double> stakes_;  // by problem, where a budget is shared
  Status lost_;                 // the device's
  TuneReport report_;
};

}  // namespace

const char* to_string(Effort effort) noexcept {
  switch (effort) {
    case Effort::kQuick: return "quick";
    case Effort::kStandard: return "standard";
    case Effort::kThorough: return "thorough";
  }
  return "?";
}

const char* to_string(TuneOutcome::State state) noexcept {
  switch (state) {
    case TuneOutcome::State::kTuned: return "tuned";
    case TuneOutcome::State::kKept: return "kept";
    case TuneOutcome::State::kSkipped: return "skipped";
    case TuneOutcome::State::kFailed: return "failed";
  }
  return "?";
}

TuneReport tune_all(const Session& session, const TuneRequest& request,
                    const std::function<void(const TuneProgress&)>& progress,
                    const std::function<bool()>& stop, const TuneSettings& around) {
  TuneSettings settings = around;
  settings.effort = request.effort;
  settings.retune = request.retune;
  settings.families = request.families;
  settings.compile_threads = request.compile_threads;
  settings.progress = progress;
  settings.explain = request.explain;
  settings.stop = stop;
  return ListRun(session, request, stop, std::move(settings)).run();
}

Result<TuneReport> tune(const RuntimeOptions& options, const TuneRequest& request,
                        const std::function<void(const TuneProgress&)>& progress,
                        const std::function<bool()>& stop) {
  Result<Session> session = open_session(options);
  if (!session.ok()) return session.status();
  return tune_all(*session, request, progress, stop);
}

}  // namespace rowsmith
