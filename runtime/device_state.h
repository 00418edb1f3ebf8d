// SPDX-License-Identifier: Apache-2.0
//
// How a device fares at one moment: its clocks, and what holds them down. Evidence for whoever
// takes times on it; nothing is selected or refused by it.
#pragma once

#include <cstdint>
#include <string>

namespace rowsmith {

// What holds a device's clocks below those it was asked for; bits of a set. An idle device, and
// clocks that somebody set or locked, are not held down.
enum class Throttle : std::uint32_t {
  kPowerCap = 1,          // the power limit
  kThermal = 2,           // the driver, to stay below a temperature
  kThermalHardware = 4,   // the chip itself, by half or more
  kHardwareSlowdown = 8,  // the chip itself; one of those beside it may say why
  kPowerBrake = 16,       // the machine's power supply
  kSyncBoost = 32,        // the slowest GPU of its group
};

struct DeviceState {
  int sm_clock_mhz = 0;  // 0 = not known, as below
  int memory_clock_mhz = 0;
  int temperature_c = 0;
  std::uint32_t throttle = 0;  // a set of Throttle
};

// "power cap, thermal (hardware)" in the order of the bits; "" for the empty set.
std::string throttle_text(std::uint32_t throttle);

}  // namespace rowsmith
