// SPDX-License-Identifier: Apache-2.0
//
// The floor: the time of the best plain copy of a problem's bytes on the same arena in the same
// run. No kernel that reads and writes them all can be faster; winners are quoted against it.
#pragma once

#include "runtime/session.h"
#include "tuner/clocks.h"
#include "tuner/measure.h"

#include <cstdint>
#include <functional>
#include <memory>

namespace rowsmith {

// The copy kernels, compiled once and kept for the problems that follow; with them, how the
// device's clocks were left. For one thread at a time.
class FloorMeter {
 public:
  // Compiles and loads, unless that is done: so that it may be while something else is.
  Status load(const Session& session);
  // Copies until the clocks have come to rest or `stop` answers true (clocks.h). Codes as
  // measure().
  Status settle(const Session& session, const Arena& arena, const StopwatchOptions& options,
                const std::function<double()>& now_s, const std::function<bool()>& stop);
  // Nanoseconds of the fastest copy; half of what one call reads and writes is read, half written.
  // Of those tried before `stop` answers true, at least one. Codes of Device::compile, load and the
  // stopwatch.
  Result<std::int64_t> measure(const Session& session, const Arena& arena, int samples,
                               const StopwatchOptions& options, const std::function<bool()>& stop);

 private:
  std::unique_ptr<Module> module_;
  ClockSettler settler_;
};

}  // namespace rowsmith
