// SPDX-License-Identifier: Apache-2.0
//
// What is told of a problem: the winner's record with its evidence; progress and decisions on the
// way there.
#include "cache/record.h"
#include "runtime/log.h"
#include "tuner/problem_tuner.h"

#include <rowsmith/rowsmith_c.h>
#include <rowsmith/text.h>

#include <algorithm>
#include <cmath>
#include <ctime>

namespace rowsmith {
namespace {

std::int64_t whole_ns(double ns) {
  return std::max<std::int64_t>(1, std::llround(ns));
}

}  // namespace

void ProblemTuner::log_candidates() const {
  if (!log().should_log(spdlog::level::debug)) return;
  for (std::size_t i = 0; i < chosen_.configs.size(); ++i) {
    if (search_->samples(i).empty()) continue;
    log().debug("{}: {}: {:.0f} ns", to_string(outcome_.problem), to_string(chosen_.configs[i]),
                median_ns(i));
  }
}

void ProblemTuner::record(const Search::Verdict& verdict) {
  log_candidates();
  WinnerRecord& record = outcome_.record;
  record.device_class = class_;
  record.problem = outcome_.problem;
  record.config = chosen_.configs[verdict.winner];
  record.family_digest = find_family(record.config.family)->digest();
  fill_evidence(record.evidence, verdict);
  const std::string dirty = why_dirty(record.evidence);
  if (!dirty.empty() && keeps_earlier(dirty)) return end_screenings();
  const Status stored = session_.store->put(record);
  if (stored.code() == Code::kCacheDamaged) {  // and taken by the file begun in its place
    log().warn("{}", stored.message());
  } else if (!stored.ok()) {
    end_with(TuneOutcome::State::kFailed, stored.with_context("tuned, but not remembered"));
    return;
  }
  end_with(TuneOutcome::State::kTuned, Status());
}

// A run in doubt that nobody insisted on gives way to an earlier one that tried more, or tried as
// much at a higher clock: that is nearer to what the device can do. Of two alike the later stays,
// unless it was cut before it had timed again what the earlier one found.
bool ProblemTuner::keeps_earlier(const std::string& dirty) {
  const std::string name = to_string(outcome_.problem);
  WinnerRecord& record = outcome_.record;
  if (!settings_.retune) {
    const auto worth = [](const Evidence& it) {
      return std::tuple(is_whole(it), effort_rank(it.effort), it.timed, it.sm_clock_mhz);
    };
    Result<std::optional<WinnerRecord>> earlier = find_servable(session_, outcome_.problem);
    const bool behind = record.evidence.cut && !search_->has_caught_up();
    if (earlier.ok() && *earlier &&
        (behind || worth((*earlier)->evidence) > worth(record.evidence))) {
      log().warn("{}: timed again, but {}: the earlier result stays", name, dirty);
      record = std::move(**earlier);
      return end_with(TuneOutcome::State::kKept, Status());
    }
  }
  log().warn("{}: {}: the result serves, and the next tuning replaces it", name, dirty);
  return false;
}

void ProblemTuner::fill_evidence(Evidence& evidence, const Search::Verdict& verdict) const {
  const std::vector<double>& samples = search_->samples(verdict.winner);
  evidence.median_ns = whole_ns(median(samples));
  evidence.spread_ns = std::llround(median_absolute_deviation(samples));
  evidence.samples = static_cast<std::int64_t>(samples.size());
  evidence.default_config = to_string(chosen_.configs[chosen_.default_index]);
  if (candidates_[chosen_.default_index].verified) {
    evidence.default_ns = whole_ns(median_ns(chosen_.default_index));
  }
  if (evidence.default_ns > 0 && verdict.winner != chosen_.default_index) {
    const Interval ratio =
        compare_paired(samples, search_->samples(chosen_.default_index)).interval;
    evidence.speedup_low = 1 / ratio.high;
    evidence.speedup_high = 1 / ratio.low;
  }
  if (verdict.runner_up) {
    evidence.runner_up = to_string(chosen_.configs[*verdict.runner_up]);
    evidence.runner_up_ns = whole_ns(median_ns(*verdict.runner_up));
  }
  evidence.floor_ns = floor_ns_;
  evidence.verdict = verdict.kind;
  evidence.candidates = static_cast<std::int64_t>(candidates_.size());
  evidence.cut = search_->was_stopped();
  evidence.families = families_text(settings_.families);
  for (std::size_t i = 0; !is_whole(evidence) && i < candidates_.size(); ++i) {
    evidence.timed += !search_->samples(i).empty() || search_->is_restored(i) ? 1 : 0;
  }
  evidence.rejected = static_cast<std::int64_t>(outcome_.rejections.size());
  evidence.error_ratio = accuracy_.error_ratio;
  evidence.max_error_ulp = accuracy_.max_error_ulp;
  evidence.policy = policy();
  evidence.effort = to_string(settings_.effort);
  evidence.contended = lock_->contended();
  clocks_.tell(evidence);
  evidence.device_name = facts_.name;
  evidence.device_uuid = facts_.uuid;
  evidence.compiler = facts_.compiler;
  evidence.tool_version = rowsmith_version();
  evidence.driver_version = facts_.driver_version;
  evidence.tuned_at = static_cast<std::int64_t>(std::time(nullptr));
  evidence.below = reuse_of(neighbours_.below, verdict.winner);
  evidence.above = reuse_of(neighbours_.above, verdict.winner);
}

Reuse ProblemTuner::reuse_of(const std::optional<WinnerRecord>& neighbour,
                             std::size_t winner) const {
  if (!neighbour) return {};
  Reuse reuse{neighbour->problem.rows, to_string(neighbour->config), 0};
  const auto& configs = chosen_.configs;
  const auto at = std::find(configs.begin(), configs.end(), neighbour->config) - configs.begin();
  const auto i = static_cast<std::size_t>(at);
  if (i < configs.size()) reuse.ratio = i == winner ? 1 : search_->ratio(i, winner).value_or(0);
  return reuse;
}

// "cold L2, graph replay over 31 buffers; compared with generic: all rows".
std::string ProblemTuner::policy() const {
  std::string text;
  if (facts_.kind == "host") {
    text = "host device, steady clock";
  } else {
    text = std::string(arena_->cold() ? "cold L2" : "warm L2") + ", graph replay over " +
           std::to_string(arena_->slots()) + (arena_->slots() == 1 ? " buffer" : " buffers");
    if (arena_->sweep().bytes() > 0) text += ", swept before each";
  }
  if (outcome_.problem.layout.in_place) text += ", in place on earlier results";
  if (!compared_.empty()) text += "; compared with generic: " + compared_;
  return text;
}

void ProblemTuner::show_progress() const {
  if (!settings_.progress || ended_) return;
  TuneProgress progress;
  progress.problem = settings_.problem_index;
  progress.problems = settings_.problem_count;
  progress.in_hand = outcome_.problem;
  progress.candidate = search_->screened();
  progress.candidates = candidates_.size();
  progress.restored = search_->restored();
  progress.floor_ns = floor_ns_;
  if (!search_->samples(chosen_.default_index).empty()) {
    progress.default_ns = whole_ns(median_ns(chosen_.default_index));
  }
  if (const std::optional<double> best = search_->best_ns()) progress.best_ns = whole_ns(*best);
  settings_.progress(progress);
}

void ProblemTuner::explain(SearchEvent event) const {
  if (!settings_.explain) return;
  event.problem = settings_.problem_index;
  event.in_hand = outcome_.problem;
  event.config = to_string(chosen_.configs[event.candidate]);
  event.is_default = event.candidate == chosen_.default_index;
  settings_.explain(event);
}

void ProblemTuner::explain_ranks(std::size_t first) const {
  for (std::size_t i = first; i < chosen_.configs.size(); ++i) {
    SearchEvent event;
    event.kind = SearchEvent::Kind::kRanked;
    event.candidate = i;
    explain(std::move(event));
  }
}

void ProblemTuner::explain_build(std::size_t i) const {
  const KernelResources resources = candidates_[i].plan.kernel->resources();
  SearchEvent event;
  event.kind = SearchEvent::Kind::kCompiled;
  event.candidate = i;
  event.registers = resources.registers;
  event.spill_bytes = resources.spill_bytes;
  explain(std::move(event));
}

void ProblemTuner::explain_verdict(const Search::Verdict& verdict) const {
  SearchEvent event;
  event.kind = SearchEvent::Kind::kVerdict;
  event.candidate = verdict.winner;
  event.rule = verdict.rule;
  event.samples = search_->samples(verdict.winner).size();
  event.ns = median_ns(verdict.winner);
  if (verdict.against_default) {
    const PairedComparison& it = *verdict.against_default;
    event.rivals = {
        {verdict.fastest, median_ns(verdict.fastest), it.ratio, it.interval.low, it.interval.high}};
  }
  explain(std::move(event));
}

}  // namespace rowsmith
