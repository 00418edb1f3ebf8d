// SPDX-License-Identifier: Apache-2.0
#include "runtime/devices.h"

#include "runtime/cuda_device.h"
#include "runtime/environment.h"
#include "runtime/host_device.h"

#include <charconv>

namespace rowsmith {
namespace {

constexpr std::string_view kUuidPrefix = "GPU-";

Result<std::shared_ptr<Device>> open_host() {
  Result<std::string> cxx = cxx_from_environment();
  if (!cxx.ok()) return cxx.status();
  HostOptions options;
  options.cxx = std::move(*cxx);
  return std::shared_ptr<Device>(make_host_device(options));
}

Result<std::shared_ptr<Device>> open_by_uuid(const std::string& prefix) {
  const Result<std::vector<DeviceFacts>> gpus = cuda_devices();
  if (!gpus.ok()) return gpus.status();
  const DeviceFacts* found = nullptr;
  std::string seen;
  for (const DeviceFacts& facts : *gpus) {
    seen.append(" ").append(facts.uuid);
    if (facts.uuid.compare(0, prefix.size(), prefix) != 0) continue;
    if (found) {
      return Status(Code::kInvalidArgument,
                    "device '" + prefix + "' fits both " + found->uuid + " and " + facts.uuid);
    }
    found = &facts;
  }
  if (found) return make_cuda_device(found->ordinal);
  return Status(Code::kNoDevice, "no GPU has the UUID '" + prefix + "'; this process sees" + seen);
}

Result<std::shared_ptr<Device>> open_gpu(const std::string& name) {
  if (name.empty()) return make_cuda_device(0);
  if (name.compare(0, kUuidPrefix.size(), kUuidPrefix) == 0) return open_by_uuid(name);
  int ordinal = -1;
  const char* const last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data(), last, ordinal);
  if (error == std::errc() && end == last && ordinal >= 0) return make_cuda_device(ordinal);
  return Status(Code::kInvalidArgument,
                "device '" + name + "' is not a GPU's number, 'GPU-' and a UUID, or 'host'");
}

}  // namespace

Result<std::shared_ptr<Device>> open_device(const std::string& name) {
  if (name == "host") return open_host();
  Result<std::shared_ptr<Device>> gpu = open_gpu(name);
  if (gpu.status().code() != Code::kNoDevice) return gpu;
  return Status(Code::kNoDevice, gpu.status().message() + "; " + kUseHost);
}

Result<std::string> device_of_stream(CUstream_st* stream) {
  return cuda_device_of_stream(stream);
}

DeviceList list_devices() {
  DeviceList list;
  Result<std::vector<DeviceFacts>> gpus = cuda_devices();
  if (gpus.ok()) {
    list.devices = std::move(*gpus);
  } else {
    list.why_no_gpu = gpus.status().message();
  }
  return list;
}

}  // namespace rowsmith
