// SPDX-License-Identifier: Apache-2.0
#include "tuner/tune_problem.h"

#include "tuner/problem_tuner.h"

#include <rowsmith/text.h>

#include <new>

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

Result<std::optional<WinnerRecord>> find_valid(const Session& session, const Problem& problem) {
  Result<std::optional<WinnerRecord>> known = find_servable(session, problem);
  if (known.ok() && *known && !why_dirty((*known)->evidence).empty()) known->reset();
  return known;
}

TuneOutcome tune_problem(const Session& session, const Problem& problem,
                         const TuneSettings& settings, FloorMeter& floor) {
  try {
    return ProblemTuner(session, problem, settings, floor).run();
  } catch (const std::bad_alloc&) {
    TuneOutcome outcome;
    outcome.problem = problem;
    outcome.status = Status(Code::kOutOfMemory, to_string(problem) + ": host memory");
    return outcome;
  }
}

}  // namespace rowsmith
