// SPDX-License-Identifier: Apache-2.0
//
// A library that looks like NVML to the loader and knows two devices: "GPU-whole", with the clocks
// and reasons below, and the instance "MIG-part". FAKE_NVML says which fault it has: "init" fails
// to start, "silent" answers every question with "not supported", and any other is its event
// reasons in hexadecimal. Built with FAKE_NVML_BARE it has the oldest names alone, and no clocks.
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int kInvalid = 2, kUnsupported = 3, kNotFound = 6, kUnknown = 999;

int users = 0;
int whole, part;  // their addresses are the handles

std::string fault() {
  const char* value = std::getenv("FAKE_NVML");
  return value ? value : "";
}

int read_reasons(void* device, unsigned long long* reasons) {
  if (users == 0 || device != &whole) return kInvalid;
  if (fault() == "silent") return kUnsupported;
  *reasons = std::strtoull(fault().c_str(), nullptr, 16);
  return 0;
}

}  // namespace

extern "C" int nvmlInit_v2() {
  if (fault() == "init") return kUnknown;
  ++users;
  return 0;
}

extern "C" int nvmlShutdown() {
  --users;
  return 0;
}

// How often it was started and not ended.
extern "C" int fake_nvml_users() {
  return users;
}

extern "C" int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (users == 0) return kInvalid;
  *device = std::strcmp(uuid, "GPU-whole") == 0  ? &whole
            : std::strcmp(uuid, "MIG-part") == 0 ? &part
                                                 : nullptr;
  return *device ? 0 : kNotFound;
}

#ifdef FAKE_NVML_BARE

extern "C" int nvmlDeviceGetCurrentClocksThrottleReasons(void* device,
                                                         unsigned long long* reasons) {
  return read_reasons(device, reasons);
}

#else

extern "C" const char* nvmlErrorString(int result) {
  return result == kNotFound ? "Not Found" : "Unknown Error";
}

extern "C" int nvmlDeviceGetClockInfo(void* device, int clock, unsigned* mhz) {
  if (users == 0 || device != &whole) return kInvalid;
  if (fault() == "silent") return kUnsupported;
  *mhz = clock == 1 ? 1980 : clock == 2 ? 3201 : 1;
  return 0;
}

extern "C" int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
  if (users == 0 || device != &whole || sensor != 0) return kInvalid;
  if (fault() == "silent") return kUnsupported;
  *celsius = 61;
  return 0;
}

extern "C" int nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* reasons) {
  return read_reasons(device, reasons);
}

#endif
