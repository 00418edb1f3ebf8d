// SPDX-License-Identifier: Apache-2.0
//
// One problem from its space to its winner.
#include "tuner/problem_tuner.h"

#include "runtime/killers.h"
#include "runtime/log.h"
#include "tuner/parallel.h"

#include <rowsmith/text.h>

#include <algorithm>
#include <future>
#include <thread>
#include <utility>

namespace rowsmith {

double ProblemTuner::now() const {
  return settings_.now_s ? settings_.now_s() : steady_now_s();
}

ProblemTuner::ProblemTuner(const Session& session, const Problem& problem,
                           const TuneSettings& settings, FloorMeter& floor)
    : session_(session),
      settings_(settings),
      floor_(floor),
      facts_(session.device->facts()),
      class_(device_class(facts_)),
      plan_(plan_of(settings.effort, facts_)),
      deadline_(settings.budget_s > 0 ? now() + settings.budget_s : 0),
      threads_(compile_threads(settings.compile_threads)) {
  outcome_.problem = problem;
}

TuneOutcome ProblemTuner::run() {
  if (settled_before_search()) return std::move(outcome_);
  const double start = now();
  if (prepare()) {
    const double ready = now();
    clocks_.read(*session_.device);
    search_best();
    const double searched = now();
    if (!ended_) conclude();
    log().debug("{}: {:.3f} s to the first candidate, {:.3f} s of search, {:.3f} s to confirm",
                to_string(outcome_.problem), ready - start, searched - ready, now() - searched);
    outcome_.restored = search_->restored();
  }
  return std::move(outcome_);
}

// Answers true, so that callers can return it: the problem is settled.
bool ProblemTuner::end_with(TuneOutcome::State state, Status why) {
  outcome_.state = state;
  outcome_.status = std::move(why);
  ended_ = true;
  return true;
}

bool ProblemTuner::settled_before_search() {
  using State = TuneOutcome::State;
  const Problem& problem = outcome_.problem;
  if (problem.rows < 0 || problem.cols < 0) {
    return end_with(State::kFailed, Status(Code::kInvalidArgument,
                                           to_string(problem) + ": S and H may not be negative"));
  }
  if (problem.rows == 0 || problem.cols == 0) {
    return end_with(State::kSkipped,
                    Status(Code::kUnsupported, to_string(problem) + ": nothing to compute"));
  }
  Status supported = check_supported(problem.in, problem.out);
  if (!supported.ok()) return end_with(State::kFailed, std::move(supported));
  if (settings_.retune) return false;
  Result<std::optional<WinnerRecord>> known =
      find_valid(session_, problem, settings_.effort, settings_.families);
  if (!known.ok()) {
    log().warn("{}: {}", to_string(problem), known.status().to_string());
  } else if (*known) {
    outcome_.record = **known;
    return end_with(State::kKept, Status());
  }
  return false;
}

// Buffers, reference and floor, while candidates are compiled. False where the problem ended here.
bool ProblemTuner::prepare() {
  using State = TuneOutcome::State;
  const Problem& problem = outcome_.problem;
  if (settings_.trying) settings_.trying(settings_.problem_index, problem, "");
  std::vector<Config> legal = legal_configs(problem, facts_);
  outcome_.rejections = leave_out_killers(session_, problem, legal);
  if (legal.empty() && !outcome_.rejections.empty()) {
    return !end_with(State::kFailed, why_none_stands());
  }
  begin_builds(std::move(legal));
  // By a thread of its own if there is one to be had; what goes wrong, measuring will meet again.
  const std::future<void> copies = std::async([this] {
    static_cast<void>(session_.device->state());  // the first reading is slow
    static_cast<void>(floor_.load(session_));
  });
  lock_.emplace(settings_.lock_directory, facts_.uuid, settings_.lock_wait_s,
                [this] { return time_is_up(); });
  if (lock_->contended()) {
    log().warn("{}: waited in vain for another process that tunes on this device; times may mix",
               to_string(problem));
  }
  Result<Arena> arena = Arena::make(*session_.device, problem, plan_.arena);
  if (!arena.ok()) return !end_with(State::kFailed, arena.status());
  arena_ = std::move(*arena);
  VerifyLimits limits = plan_.verify;
  limits.threads = threads_;
  Result<Verifier> verifier = Verifier::make(*session_.device, problem, limits);
  if (!verifier.ok()) return !end_with(State::kFailed, verifier.status());
  verifier_ = std::move(*verifier);
  // A GPU's clock does not notice compilers; the host device's does.
  if (facts_.kind == "host") {
    for (const Candidate& candidate : candidates_) {
      if (candidate.build && !time_is_up()) builds_->take(*candidate.build);
    }
    if (generic_) builds_->compiled_alone(*generic_);
  }
  copies.wait();
  return time_is_up() || (settle_clocks() && measure_floor());
}

// A tenth of a budget at the most.
bool ProblemTuner::settle_clocks() {
  const double start = now();
  const Status settled = floor_.settle(
      session_, *arena_, plan_.stopwatch, [this] { return now(); },
      [&] {
        return time_is_up() || (settings_.budget_s > 0 && now() - start >= settings_.budget_s / 10);
      });
  if (settled.code() == Code::kDeviceLost) return !end_with(TuneOutcome::State::kFailed, settled);
  if (!settled.ok()) {
    log().info("{}: clocks not settled: {}", to_string(outcome_.problem), settled.to_string());
  }
  return true;
}

bool ProblemTuner::measure_floor() {
  const Result<std::int64_t> floor = floor_.measure(
      session_, *arena_, plan_.floor_samples, plan_.stopwatch, [this] { return time_is_up(); });
  if (floor.ok()) {
    floor_ns_ = *floor;
  } else if (floor.status().code() == Code::kDeviceLost) {
    return !end_with(TuneOutcome::State::kFailed, floor.status());
  } else {
    log().info("{}: no floor: {}", to_string(outcome_.problem), floor.status().to_string());
  }
  return true;
}

// Tells who is about to be launched, if that is another than before.
void ProblemTuner::on_device(std::optional<std::size_t> i) {
  if (i == on_device_) return;
  on_device_ = i;
  if (!settings_.trying) return;
  settings_.trying(settings_.problem_index, outcome_.problem,
                   i ? to_string(chosen_.configs[*i]) : std::string());
}

void ProblemTuner::search_best() {
  take_samples();
  save_screenings();
  clocks_.read(*session_.device);
}

void ProblemTuner::take_samples() {
  while (!ended_) {
    const Search::Step step = search_->next();
    if (step.stage == Search::Stage::kDone) return;
    if (stopped()) {
      end_with(TuneOutcome::State::kSkipped, Status(Code::kNotTuned, "interrupted"));
      return;
    }
    // The default is screened whatever the budget: without it there is nothing to serve.
    const bool first = step.candidate == chosen_.default_index && search_->screened() == 0;
    if (!first && time_is_up()) return search_->stop();
    if (step.stage == Search::Stage::kRefining) {
      refine();
    } else if (step.stage == Search::Stage::kFinals && !finals_begun_) {
      enter_finals();
    } else {
      take_sample(step);
    }
    show_progress();
  }
}

void ProblemTuner::take_sample(const Search::Step& step) {
  Candidate& candidate = candidates_[step.candidate];
  if (!candidate.built) {
    on_device({});
    const Status built = take_build(step.candidate);
    if (!built.ok()) return reject(step.candidate, built);
  }
  if (!candidate.watch && spills(step.candidate)) return drop_spiller(step.candidate);
  on_device(step.candidate);
  if (!candidate.watch) {
    const Status started = start_watch(step.candidate);
    if (!started.ok()) return reject(step.candidate, started);
  }
  Result<double> ns = candidate.watch->sample();
  if (!ns.ok()) return reject(step.candidate, ns.status());
  search_->report(*ns);
  const Search::Step next = search_->next();
  if (step.stage == Search::Stage::kScreening &&
      (next.candidate != step.candidate || next.stage != step.stage)) {
    candidate.watch.reset();
    keep_screening(step.candidate);
    verify_leader();
  }
}

// Before a time cuts others, its results must be right.
void ProblemTuner::verify_leader() {
  while (!ended_ && search_->leader() && !candidates_[*search_->leader()].verified) {
    const Search::Stage stage = search_->next().stage;
    const bool last = stage == Search::Stage::kFinals || stage == Search::Stage::kDone;
    if (!verify(*search_->leader()) && last) return search_again("the fastest was dropped");
  }
}

bool ProblemTuner::verify(std::size_t i) {
  Candidate& candidate = candidates_[i];
  if (!candidate.verified) {
    on_device(i);
    const Status status = verifier_->check(candidate.plan);
    candidate.verified = status.ok();
    if (!status.ok()) reject(i, status);
  }
  return candidate.verified;
}

bool ProblemTuner::spills(std::size_t i) const {
  return !spillers_admitted_ && i != chosen_.default_index &&
         candidates_[i].plan.kernel->resources().spill_bytes > plan_.spill_bytes;
}

void ProblemTuner::drop_spiller(std::size_t i) {
  spillers_.push_back(i);
  drop(i, why_dropped(i));
}

// Slow as they are, they are better than nothing.
bool ProblemTuner::readmit_spillers() {
  if (spillers_.empty() || time_is_up()) return false;
  for (const std::size_t i : spillers_) search_->readmit(i);
  spillers_.clear();
  spillers_admitted_ = true;
  search_again("nothing else stands, so that those which spill are tried");
  return true;
}

void ProblemTuner::search_again(std::string why) {
  search_->restart(std::move(why));
  finals_begun_ = false;
  search_best();
}

Status ProblemTuner::start_watch(std::size_t i) {
  Candidate& candidate = candidates_[i];
  Result<Stopwatch> watch =
      Stopwatch::make(*session_.device, candidate.plan, *arena_, plan_.stopwatch);
  if (!watch.ok()) return watch.status();
  candidate.watch = std::move(*watch);
  return {};
}

// Finalists are built alone, as they will be stored and served, and it is these that are timed.
void ProblemTuner::enter_finals() {
  finals_begun_ = true;
  on_device({});
  clocks_.read(*session_.device);
  const std::vector<std::size_t> finalists = search_->finalists();
  std::vector<Status> statuses(finalists.size());
  parallel_for(finalists.size(), threads_,
               [&](std::size_t at) { statuses[at] = build_alone(finalists[at]); });
  for (std::size_t at = 0; at < finalists.size() && !ended_; ++at) {
    const std::size_t i = finalists[at];
    if (statuses[at].ok()) {
      if (!std::exchange(candidates_[i].built, true)) explain_build(i);
      if (!verify(i)) continue;
      on_device(i);
      statuses[at] = start_watch(i);
    }
    if (!statuses[at].ok()) reject(i, statuses[at]);
  }
}

void ProblemTuner::conclude() {
  while (!ended_) {
    const std::optional<Search::Verdict> verdict = search_->verdict();
    if (!verdict) {
      if (readmit_spillers()) continue;
      end_with(TuneOutcome::State::kFailed, why_none_stands());
      return;
    }
    explain_verdict(*verdict);
    if (confirm(verdict->winner)) {
      for (const std::size_t i : spillers_) remember_rejection(chosen_.configs[i], why_dropped(i));
      return record(*verdict);
    }
    if (!ended_ && !time_is_up()) search_again("the winner was dropped");
  }
}

}  // namespace rowsmith
