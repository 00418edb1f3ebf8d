// SPDX-License-Identifier: Apache-2.0
//
// Timing a stored winner again, against today's default and the floor, side by side in one run.
// Stores nothing.
#pragma once

#include "runtime/session.h"
#include "tuner/clocks.h"
#include "tuner/floor.h"
#include "tuner/statistics.h"

#include <rowsmith/winner_store.h>

#include <cstdint>
#include <functional>

namespace rowsmith {

struct Retimed {
  enum class State {
    kHolds,   // no slower than the default, noise and margin excluded
    kLost,    // slower
    kStale,   // cannot serve: its family is gone or changed, or it is not legal here
    kFailed,  // could not be timed
  };
  State state = State::kFailed;
  std::int64_t winner_ns = 0, default_ns = 0, floor_ns = 0;  // medians; 0 = not measured
  PairedComparison against_default;                          // below 1 where the winner is faster
  ClockWatch clocks;                                         // meanwhile
  Status status;                                             // when stale or failed: why
};

// "holds", "lost", "stale", "failed".
const char* to_string(Retimed::State state) noexcept;

// On private buffers, with clocks at rest, by the samples of a tuning's finals at standard effort.
// `stop` may be empty; once it answers true the result is failed, not tuned. `now_s` is a steady
// clock.
Retimed retime(const Session& session, const WinnerRecord& record, FloorMeter& floor,
               const std::function<bool()>& stop, const std::function<double()>& now_s);

}  // namespace rowsmith
