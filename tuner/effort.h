// SPDX-License-Identifier: Apache-2.0
//
// What an effort means in numbers, for each kind of device.
#pragma once

#include "tuner/measure.h"
#include "tuner/search.h"
#include "tuner/verify.h"

#include <rowsmith/tuner.h>

#include <cstddef>
#include <cstdint>

namespace rowsmith {

struct EffortPlan {
  std::size_t candidates = 0;  // at most, the default included
  std::size_t near = 0;        // and further ones, near the best of those
  // Of one core: half as many candidates are enough where all would take longer to compile. 0 =
  // however long.
  double compile_s = 0;
  int spill_bytes = 0;  // a thread; who spills more is timed only if nothing else stands
  SearchOptions search;
  ArenaLimits arena;
  StopwatchOptions stopwatch;
  VerifyLimits verify;
  std::int64_t compare_bytes = 0;  // of the winner's output with generic's
  int floor_samples = 0;
};

EffortPlan plan_of(Effort effort, const DeviceFacts& facts);

}  // namespace rowsmith
