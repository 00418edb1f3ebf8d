// SPDX-License-Identifier: Apache-2.0
#include "tuner/clocks.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace rowsmith {
namespace {

// The SM clock; 0 = not known.
int sm_clock_of(Device& device) {
  const Result<DeviceState> state = device.state();
  return state.ok() ? state->sm_clock_mhz : 0;
}

bool agree(int a_mhz, int b_mhz, double within) {
  return std::abs(a_mhz - b_mhz) <= within * std::max(a_mhz, b_mhz);
}

}  // namespace

double steady_now_s() {
  const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since_start).count();
}

Status ClockSettler::settle(Device& device, const std::function<Status()>& load,
                            const std::function<double()>& now_s,
                            const std::function<bool()>& stop) {
  if (device.facts().kind == "host") return {};
  int last_mhz = sm_clock_of(device);
  const bool blind = last_mhz == 0;
  if (blind && loaded_) return {};
  const bool warm = !blind && left_mhz_ > 0 && agree(last_mhz, left_mhz_, limits_.warm);
  const double least_s = warm ? limits_.warm_least_s : limits_.least_s;
  const double most_s = warm ? limits_.warm_most_s : limits_.most_s;
  const double step_s = blind ? most_s : warm ? limits_.warm_step_s : limits_.step_s;
  const double start = now_s();
  int loads = 0;
  for (bool rests = false; !rests;) {
    const double step_end = std::min(now_s() + step_s, start + most_s);
    do {
      if (Status loaded = load(); !loaded.ok()) return loaded;
      if (stop && stop()) return {};
    } while (++loads < limits_.most_loads && now_s() < step_end);
    const int mhz = blind ? 0 : sm_clock_of(device);
    const double spent_s = now_s() - start;
    rests = loads >= limits_.most_loads || spent_s >= most_s ||
            (spent_s >= least_s && agree(mhz, last_mhz, limits_.agree));
    last_mhz = mhz;
  }
  loaded_ = true;
  left_mhz_ = last_mhz;
  return {};
}

void ClockWatch::read(Device& device) {
  const Result<DeviceState> state = device.state();
  if (!state.ok()) return;
  const auto lower = [](int& low, int mhz) {
    if (mhz > 0) low = low > 0 ? std::min(low, mhz) : mhz;
  };
  lower(sm_low_mhz_, state->sm_clock_mhz);
  lower(memory_low_mhz_, state->memory_clock_mhz);
  sm_high_mhz_ = std::max(sm_high_mhz_, state->sm_clock_mhz);
  throttle_ |= state->throttle;
}

void ClockWatch::tell(Evidence& evidence) const {
  evidence.sm_clock_mhz = sm_low_mhz_;
  evidence.sm_clock_high_mhz = sm_high_mhz_;
  evidence.memory_clock_mhz = memory_low_mhz_;
  evidence.throttled = throttle_text(throttle_);
}

}  // namespace rowsmith
