// SPDX-License-Identifier: Apache-2.0
//
// Tuning a list of problems on a session at hand: what rowsmith::tune does once its device is open.
#pragma once

#include "tuner/tune_problem.h"

#include <rowsmith/tuner.h>

namespace rowsmith {

// The budget is a total, shared as budget.h says; at the end of its share each problem stands by
// the best so far, and those whose turn comes after the total are skipped. `around` gives what the
// request does not say: clock and lock. A lost device fails the rest of the list untried. Where the
// request asks for buckets, what they add waits for the end of the list, all H in turn.
TuneReport tune_all(const Session& session, const TuneRequest& request,
                    const std::function<void(const TuneProgress&)>& progress,
                    const std::function<bool()>& stop, const TuneSettings& around = {});

}  // namespace rowsmith
