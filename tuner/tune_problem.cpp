// SPDX-License-Identifier: Apache-2.0
#include "tuner/tune_problem.h"

#include "cache/record.h"
#include "tuner/problem_tuner.h"

#include <rowsmith/text.h>

#include <new>
#include <set>

namespace rowsmith {

namespace {

bool may_serve(const WinnerRecord& record, const Problem& problem, const DeviceFacts& facts) {
  const Family* family = find_family(record.config.family);
  return family != nullptr && record.evidence.median_ns > 0 &&
         record.family_digest == family->digest() &&
         family->why_illegal(problem, facts, record.config).empty();
}

}  // namespace

Result<std::optional<WinnerRecord>> find_servable(const Session& session, const Problem& problem) {
  const DeviceFacts& facts = session.device->facts();
  Result<std::optional<WinnerRecord>> known = session.store->find(device_class(facts), problem);
  if (known.ok() && *known && !may_serve(**known, problem, facts)) known->reset();
  return known;
}

Result<std::optional<WinnerRecord>> find_valid(const Session& session, const Problem& problem,
                                               Effort effort,
                                               const std::vector<std::string>& families) {
  Result<std::optional<WinnerRecord>> known = find_servable(session, problem);
  if (!known.ok() || !*known) return known;
  Evidence evidence = (*known)->evidence;
  if (evidence.families == families_text(families)) evidence.families.clear();
  const bool less = effort_rank(evidence.effort) < effort_rank(to_string(effort));
  if (less || !why_dirty(evidence).empty()) known->reset();
  return known;
}

std::string families_text(const std::vector<std::string>& families) {
  std::string text;
  for (const std::string& name : std::set(families.begin(), families.end())) {
    text += (text.empty() ? "" : ",") + name;
  }
  return text;
}

Result<std::vector<WinnerRecord>> find_valid_same_cols(const Session& session,
                                                       const Problem& problem) {
  const DeviceFacts& facts = session.device->facts();
  auto known = session.store->find_same_cols(device_class(facts), problem);
  if (known.ok()) {
    std::erase_if(*known,
                  [&](const WinnerRecord& record) { return !may_serve(record, problem, facts); });
  }
  return known;
}

std::vector<Config> Neighbours::configs() const {
  std::vector<Config> configs;
  if (below) configs.push_back(below->config);
  if (above) configs.push_back(above->config);
  return configs;
}

// Where the store cannot be read there are none: nothing but their comparison is lost.
Neighbours find_neighbours(const Session& session, const Problem& problem) {
  Neighbours nearest;
  const auto known = find_valid_same_cols(session, problem);
  if (!known.ok()) return nearest;
  for (const WinnerRecord& record : *known) {
    if (record.problem.rows < problem.rows) nearest.below = record;
    if (record.problem.rows > problem.rows && !nearest.above) nearest.above = record;
  }
  return nearest;
}

TuneOutcome outcome_of(const Problem& problem, TuneOutcome::State state, Status why) {
  TuneOutcome outcome;
  outcome.problem = problem;
  outcome.state = state;
  outcome.status = std::move(why);
  return outcome;
}

TuneOutcome tune_problem(const Session& session, const Problem& problem,
                         const TuneSettings& settings, FloorMeter& floor) {
  try {
    return ProblemTuner(session, problem, settings, floor).run();
  } catch (const std::bad_alloc&) {
    return outcome_of(problem, TuneOutcome::State::kFailed,
                      Status(Code::kOutOfMemory, to_string(problem) + ": host memory"));
  }
}

}  // namespace rowsmith
