// SPDX-License-Identifier: Apache-2.0
//
// The rounds are those of a tuning's finals: in turn, the order reversed every other round, so that
// drift of the clock falls on both alike.

#include "tuner/cli_retime.h"

#include "tuner/cli_commands.h"
#include "tuner/effort.h"
#include "tuner/tune_problem.h"

#include <rowsmith/text.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace rowsmith {
namespace {

// Wider than the search's: what was ahead by little when it was tuned is to hold as long as it is
// not behind by as much.
constexpr double kLostMargin = 0.01;

Retimed ended(Retimed::State state, Status why) {
  Retimed retimed;
  retimed.state = state;
  retimed.status = std::move(why);
  return retimed;
}

std::string why_stale(const WinnerRecord& record, const DeviceFacts& facts) {
  std::string why = why_family_lost(record);
  return why.empty() ? why_illegal(record.problem, facts, record.config) : why;
}

Result<Stopwatch> watch_of(const Session& session, const Problem& problem, const Config& config,
                           const Arena& arena, const StopwatchOptions& options) {
  const auto kernel = session.modules->get(problem, config);
  if (!kernel.ok()) return kernel.status().with_context(to_string(config));
  const LaunchPlan plan = make_plan(problem, session.device->facts(), config, *kernel);
  auto watch = Stopwatch::make(*session.device, plan, arena, options);
  if (!watch.ok()) return watch.status().with_context(to_string(config));
  return watch;
}

Result<std::vector<Stopwatch>> watches_of(const Session& session, const Problem& problem,
                                          const std::vector<Config>& configs, const Arena& arena,
                                          const StopwatchOptions& options) {
  std::vector<Stopwatch> watches;
  for (const Config& config : configs) {
    auto watch = watch_of(session, problem, config, arena, options);
    if (!watch.ok()) return watch.status();
    watches.push_back(std::move(*watch));
  }
  return watches;
}

// Samples of each config, taken in rounds.
Result<std::vector<std::vector<double>>> sample_rounds(std::vector<Stopwatch>& watches,
                                                       const std::vector<Config>& configs,
                                                       std::size_t rounds,
                                                       const std::function<bool()>& stop) {
  std::vector<std::vector<double>> samples(watches.size());
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t turn = 0; turn < watches.size(); ++turn) {
      if (stop && stop()) return Status(Code::kNotTuned, "interrupted");
      const std::size_t i = round % 2 == 0 ? turn : watches.size() - 1 - turn;
      const auto ns = watches[i].sample();
      if (!ns.ok()) return ns.status().with_context(to_string(configs[i]));
      samples[i].push_back(*ns);
    }
  }
  return samples;
}

std::int64_t rounded_median(const std::vector<double>& samples) {
  return std::max<std::int64_t>(1, std::llround(median(samples)));
}

}  // namespace

const char* to_string(Retimed::State state) noexcept {
  switch (state) {
    case Retimed::State::kHolds: return "holds";
    case Retimed::State::kLost: return "lost";
    case Retimed::State::kStale: return "stale";
    case Retimed::State::kFailed: return "failed";
  }
  return "?";
}

Retimed retime(const Session& session, const WinnerRecord& record, FloorMeter& floor,
               const std::function<bool()>& stop, const std::function<double()>& now_s) {
  using State = Retimed::State;
  const DeviceFacts& facts = session.device->facts();
  const Problem& problem = record.problem;
  if (std::string why = why_stale(record, facts); !why.empty()) {
    return ended(State::kStale, Status(Code::kUnsupported, std::move(why)));
  }
  const EffortPlan plan = plan_of(Effort::kStandard, facts);
  const auto arena = Arena::make(*session.device, problem, plan.arena);
  if (!arena.ok()) return ended(State::kFailed, arena.status());
  std::vector<Config> configs = {record.config};
  Config standard = default_config(problem, facts);
  if (standard != record.config) configs.push_back(std::move(standard));
  auto watches = watches_of(session, problem, configs, *arena, plan.stopwatch);
  if (!watches.ok()) return ended(State::kFailed, watches.status());
  const Status settled = floor.settle(session, *arena, plan.stopwatch, now_s, stop);
  if (!settled.ok()) return ended(State::kFailed, settled.with_context("bringing clocks to rest"));
  Retimed retimed;
  retimed.clocks.read(*session.device);
  const auto samples = sample_rounds(*watches, configs, plan.search.final_rounds, stop);
  if (!samples.ok()) return ended(State::kFailed, samples.status());
  retimed.clocks.read(*session.device);

  retimed.winner_ns = rounded_median(samples->front());
  retimed.default_ns = rounded_median(samples->back());
  retimed.against_default = compare_paired(samples->front(), samples->back());
  retimed.state = retimed.against_default.slower_by(kLostMargin) ? State::kLost : State::kHolds;
  // Without a floor the verdict stands all the same.
  const auto copy = floor.measure(session, *arena, plan.floor_samples, plan.stopwatch,
                                  [&] { return stop && stop(); });
  if (copy.ok()) retimed.floor_ns = *copy;
  return retimed;
}

}  // namespace rowsmith
