// SPDX-License-Identifier: Apache-2.0
//
// The ladder as a pure function: which config serves a problem, over which S, and why. It opens
// nothing and launches nothing; what has failed or may not be loaded now reaches it as `refuse`.
#pragma once

#include "runtime/reuse.h"

#include <rowsmith/runtime.h>
#include <rowsmith/status.h>
#include <rowsmith/winner_store.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace rowsmith {

struct LadderInput {
  const Problem& problem;
  const DeviceFacts& facts;
  const std::vector<WinnerRecord>& winners;  // of this device class, other S allowed, ascending S
  const Config* pin = nullptr;               // or null
  // Why a legal config must not serve now; empty = it may.
  std::function<std::string(const Config&)> refuse;
};

struct Choice {
  Source source = Source::kGeneric;
  Config config;                     // empty: no rung is left
  std::int64_t lo = 0, hi = 0;       // the S that it serves, around the problem's
  std::int64_t winner_rows = 0;      // S of the stored winner that serves; 0 = none does
  std::int64_t median_ns = 0;        // of that winner
  std::vector<std::string> reasons;  // what was found, and what failed to match
};

// Invalid argument: the pin is not legal for the problem, with the reason.
Result<Choice> choose(const LadderInput& input);

}  // namespace rowsmith
