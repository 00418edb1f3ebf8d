// SPDX-License-Identifier: Apache-2.0
//
// The few functions and numbers of NVML that clocks take, declared after NVIDIA's "NVML API
// Reference Guide" (docs.nvidia.com/deploy/nvml-api: device queries, NvmlClocksEventReasons): their
// ABI is frozen, and its header is not among those that a build needs.
#include "runtime/nvml.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace rowsmith {
namespace {

constexpr int kSuccess = 0;            // nvmlReturn_t
constexpr int kClockSm = 1;            // nvmlClockType_t
constexpr int kClockMemory = 2;        // nvmlClockType_t
constexpr int kSensorGpu = 0;          // nvmlTemperatureSensors_t
using Handle = struct nvmlDevice_st*;  // nvmlDevice_t
using Reasons = unsigned long long;    // a set of nvmlClocksEventReason*

// By NVML's bit. Absent: idle (1), clocks that were set (2, 0x100), and the voltage at which a
// boost clock ordinarily ends (0x200, 0x400).
constexpr std::pair<Reasons, Throttle> kThrottles[] = {
    {0x04, Throttle::kPowerCap}, {0x08, Throttle::kHardwareSlowdown}, {0x10, Throttle::kSyncBoost},
    {0x20, Throttle::kThermal},  {0x40, Throttle::kThermalHardware},  {0x80, Throttle::kPowerBrake},
};

template <typename Function>
void bind(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
}

Status unknown(const std::string& why) {
  return Status(Code::kUnsupported, why);
}

}  // namespace

// Started by open(), ended by the destructor: NVML counts its users in a process.
struct NvmlDevice::Session {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*handle_by_uuid)(const char*, Handle*) = nullptr;
  int (*clock_info)(Handle, int, unsigned*) = nullptr;
  int (*temperature)(Handle, int, unsigned*) = nullptr;
  int (*event_reasons)(Handle, Reasons*) = nullptr;

  Handle gpu = nullptr;
  pid_t started_by = 0;  // 0 = not started

  ~Session() {
    // A child forked meanwhile has none of NVML's threads and files.
    if (started_by == getpid() && shutdown != nullptr) shutdown();
  }

  Status open(const std::string& name, const std::string& uuid);
  Status find(const std::string& uuid);
  std::string text_of(int result) const;
};

// The library stays loaded, as the driver does.
Status NvmlDevice::Session::open(const std::string& name, const std::string& uuid) {
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return unknown("no NVML: " + std::string(why ? why : name));
  }
  bind(library, "nvmlInit_v2", init);
  bind(library, "nvmlShutdown", shutdown);
  bind(library, "nvmlErrorString", error_string);
  bind(library, "nvmlDeviceGetHandleByUUID", handle_by_uuid);
  bind(library, "nvmlDeviceGetClockInfo", clock_info);
  bind(library, "nvmlDeviceGetTemperature", temperature);
  bind(library, "nvmlDeviceGetCurrentClocksEventReasons", event_reasons);
  // Its name before driver 535.
  if (!event_reasons) bind(library, "nvmlDeviceGetCurrentClocksThrottleReasons", event_reasons);
  if (!init || !handle_by_uuid) {
    return unknown(name + " has no " + (init ? "nvmlDeviceGetHandleByUUID" : "nvmlInit_v2"));
  }
  if (const int result = init(); result != kSuccess) {
    return unknown("nvmlInit_v2 of " + name + ": " + text_of(result));
  }
  started_by = getpid();
  return find(uuid);
}

// The CUDA driver gives a MIG instance's own UUID without saying that it is one's.
Status NvmlDevice::Session::find(const std::string& uuid) {
  const int result = handle_by_uuid(uuid.c_str(), &gpu);
  if (result == kSuccess) return {};
  const std::string instance = "MIG" + uuid.substr(std::min(uuid.find('-'), uuid.size()));
  if (handle_by_uuid(instance.c_str(), &gpu) == kSuccess) {
    return unknown(instance + " is a MIG instance, which has no clocks of its own");
  }
  return unknown("NVML knows no " + uuid + ": " + text_of(result));
}

std::string NvmlDevice::Session::text_of(int result) const {
  const char* text = error_string ? error_string(result) : nullptr;
  return (text ? text : "NVML error") + std::string(" (") + std::to_string(result) + ")";
}

NvmlDevice::NvmlDevice(std::string uuid, std::string library)
    : uuid_(std::move(uuid)), library_(std::move(library)) {}

NvmlDevice::~NvmlDevice() = default;

Result<DeviceState> NvmlDevice::state() {
  const std::lock_guard lock(mutex_);
  if (!opened_) {
    session_ = std::make_unique<Session>();
    why_unknown_ = session_->open(library_, uuid_);
    if (!why_unknown_.ok()) session_.reset();
    opened_ = true;
  }
  if (!session_) return why_unknown_;
  const Session& nvml = *session_;
  const auto ask = [&](int (*question)(Handle, int, unsigned*), int what) {
    unsigned answer = 0;
    const bool told = question && question(nvml.gpu, what, &answer) == kSuccess;
    return told ? static_cast<int>(answer) : 0;
  };
  DeviceState state;
  state.sm_clock_mhz = ask(nvml.clock_info, kClockSm);
  state.memory_clock_mhz = ask(nvml.clock_info, kClockMemory);
  state.temperature_c = ask(nvml.temperature, kSensorGpu);
  Reasons reasons = 0;
  if (nvml.event_reasons && nvml.event_reasons(nvml.gpu, &reasons) == kSuccess) {
    for (const auto& [bit, throttle] : kThrottles) {
      if ((reasons & bit) != 0) state.throttle |= static_cast<std::uint32_t>(throttle);
    }
  }
  return state;
}

}  // namespace rowsmith
