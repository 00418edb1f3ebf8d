// SPDX-License-Identifier: Apache-2.0
//
// The clocks of a device that is timed: brought to rest under load beforehand, read meanwhile. An
// idle GPU needs up to tens of milliseconds to reach the clock that it keeps under load; times
// taken on the way there, or while the clock is held down, are those of another device.
//
// What a reading is worth. It shows one moment; it is taken right after work, on the assumption
// that the clock still is what it was under that work. It is a few calls of NVML, assumed to take
// tens of microseconds to a millisecond; so a problem is read a handful of times, never between
// samples.
#pragma once

#include "runtime/device.h"

#include <rowsmith/winner_store.h>

#include <cstdint>
#include <functional>

namespace rowsmith {

// Seconds of the system's steady clock.
double steady_now_s();

struct SettleLimits {
  double least_s = 0.03;  // of load for a device that may have been idle
  double most_s = 0.1;    // and at the most; all of it where clocks cannot be read
  double step_s = 0.005;  // between two readings that are compared
  // The same for a device that is found where the last load left it, within `warm`.
  double warm_least_s = 0.002, warm_most_s = 0.02, warm_step_s = 0.002;
  double warm = 0.05;
  double agree = 0.01;   // two readings agree within this
  int most_loads = 500;  // ends it, too, where the caller's clock stands still
};

// Keeps a device under load until two readings of its clock in succession agree. One for all the
// problems of a session, so that only the first pays for an idle device. For one thread at a time.
class ClockSettler {
 public:
  explicit ClockSettler(const SettleLimits& limits = {}) : limits_(limits) {}

  // `load` works on the device for a fraction of a millisecond or more, and waits; `stop` ends the
  // wait early. Codes of `load`. Does nothing on the host device, and where clocks cannot be read
  // nothing after the first time. A clock that never rests ends it at the limit.
  Status settle(Device& device, const std::function<Status()>& load,
                const std::function<double()>& now_s, const std::function<bool()>& stop);

 private:
  const SettleLimits limits_;
  bool loaded_ = false;  // a load has gone to its end
  int left_mhz_ = 0;     // where the last load left the clock; 0 = not known
};

// What was read of a device while times were taken.
class ClockWatch {
 public:
  // One more reading; what is not known adds nothing.
  void read(Device& device);
  void tell(Evidence& evidence) const;

 private:
  int sm_low_mhz_ = 0, sm_high_mhz_ = 0, memory_low_mhz_ = 0;
  std::uint32_t throttle_ = 0;
};

}  // namespace rowsmith
