// SPDX-License-Identifier: Apache-2.0
#include "runtime/device_state.h"

namespace rowsmith {
namespace {

struct Named {
  Throttle bit;
  const char* name;
};

constexpr Named kNames[] = {{Throttle::kPowerCap, "power cap"},
                            {Throttle::kThermal, "thermal"},
                            {Throttle::kThermalHardware, "thermal (hardware)"},
                            {Throttle::kHardwareSlowdown, "hardware slowdown"},
                            {Throttle::kPowerBrake, "power brake"},
                            {Throttle::kSyncBoost, "sync boost"}};

}  // namespace

std::string throttle_text(std::uint32_t throttle) {
  std::string text;
  for (const auto& [bit, name] : kNames) {
    if ((throttle & static_cast<std::uint32_t>(bit)) == 0) continue;
    text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

}  // namespace rowsmith
