// SPDX-License-Identifier: Apache-2.0
//
// Tuning a list of problems on a session at hand: what rowsmith::tune does once its device is open.
#pragma once

#include "tuner/tune_problem.h"

#include <rowsmith/tuner.h>

namespace rowsmith {

// The budget is a total: each problem may use an equal share of what is left of it when its turn
// comes, so that what one leaves over the next ones have. `around` gives what the request does not
// say: clock and lock. A lost device fails the rest of the list untried.
TuneReport tune_all(const Session& session, const TuneRequest& request,
                    const std::function<void(const TuneProgress&)>& progress,
                    const std::function<bool()>& stop, const TuneSettings& around = {});

}  // namespace rowsmith
