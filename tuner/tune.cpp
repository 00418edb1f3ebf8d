// SPDX-License-Identifier: Apache-2.0
#include "tuner/tune.h"

#include "tuner/budget.h"

#include <chrono>

namespace rowsmith {
namespace {

double steady_seconds() {
  const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since_start).count();
}

// By problem: what its tuning can win, 0 where there is nothing to tune.
std::vector<double> stakes_ns(const Session& session, const TuneRequest& request) {
  std::vector<double> stakes;
  for (const Problem& problem : request.problems) {
    bool waits = problem.rows > 0 && problem.cols > 0;
    if (waits && !request.retune) {
      const auto known = find_valid(session, problem);
      waits = !known.ok() || !*known;
    }
    stakes.push_back(waits ? expected_floor_ns(problem, session.device->facts()) : 0);
  }
  return stakes;
}

TuneOutcome untried(const Problem& problem, TuneOutcome::State state, Status why) {
  TuneOutcome outcome;
  outcome.problem = problem;
  outcome.state = state;
  outcome.status = std::move(why);
  return outcome;
}

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
  if (!settings.now_s) settings.now_s = steady_seconds;
  settings.effort = request.effort;
  settings.retune = request.retune;
  settings.families = request.families;
  settings.compile_threads = request.compile_threads;
  settings.progress = progress;
  settings.explain = request.explain;
  settings.stop = stop;
  settings.problem_count = request.problems.size();
  const double start = settings.now_s();
  TuneReport report;
  const bool limited = request.budget_s > 0;
  const std::vector<double> stakes = limited ? stakes_ns(session, request) : std::vector<double>();
  FloorMeter floor;
  Status lost;
  for (std::size_t i = 0; i < request.problems.size(); ++i) {
    using State = TuneOutcome::State;
    const Problem& problem = request.problems[i];
    const double left = request.budget_s - (settings.now_s() - start);
    report.interrupted = report.interrupted || (stop && stop());
    if (!lost.ok()) {
      report.outcomes.push_back(untried(problem, State::kFailed, lost));
    } else if (report.interrupted) {
      report.outcomes.push_back(
          untried(problem, State::kSkipped, Status(Code::kNotTuned, "interrupted")));
    } else if (limited && left <= 0) {
      report.outcomes.push_back(
          untried(problem, State::kSkipped, Status(Code::kNotTuned, "the budget was spent")));
    } else {
      settings.problem_index = i;
      if (limited) settings.budget_s = left * budget_part(stakes, i);
      report.outcomes.push_back(tune_problem(session, problem, settings, floor));
      const Status& status = report.outcomes.back().status;
      if (status.code() == Code::kDeviceLost) lost = status;
    }
    if (request.finished) request.finished(i, report.outcomes.back());
  }
  report.interrupted = report.interrupted || (stop && stop());
  report.elapsed_s = settings.now_s() - start;
  return report;
}

Result<TuneReport> tune(const RuntimeOptions& options, const TuneRequest& request,
                        const std::function<void(const TuneProgress&)>& progress,
                        const std::function<bool()>& stop) {
  Result<Session> session = open_session(options);
  if (!session.ok()) return session.status();
  return tune_all(*session, request, progress, stop);
}

}  // namespace rowsmith
