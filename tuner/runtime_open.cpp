// SPDX-License-Identifier: Apache-2.0
//
// Runtime::open: where the dispatcher, which knows no tuner, is given one.
#include "runtime/dispatcher.h"
#include "tuner/tune_problem.h"

namespace rowsmith {
namespace {

// In a caller's process and time: few candidates, and no long wait for another's tuning.
Status tune_on_miss(const Session& session, const Problem& problem, int budget_ms) {
  TuneSettings settings;
  settings.effort = Effort::kQuick;
  settings.budget_s = budget_ms / 1000.0;
  settings.lock_wait_s = settings.budget_s / 4;
  FloorMeter floor;
  return tune_problem(session, problem, settings, floor).status;
}

}  // namespace

Result<std::unique_ptr<Runtime>> Runtime::open(const RuntimeOptions& options) {
  Result<Session> session = open_session(options);
  if (!session.ok()) return session.status();
  return make_dispatcher(std::move(*session), options, tune_on_miss);
}

}  // namespace rowsmith
