// SPDX-License-Identifier: Apache-2.0
//
// NVML, opened at run time and asked for one GPU's clocks. Nothing depends on it: where the library
// or a function of it is missing, so is what it would tell.
#pragma once

#include "runtime/device_state.h"

#include <rowsmith/status.h>

#include <memory>
#include <mutex>
#include <string>

namespace rowsmith {

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

// Thread-safe.
class NvmlDevice {
 public:
  // The GPU "GPU-<uuid>", through the library of that name or path. Opens nothing yet.
  explicit NvmlDevice(std::string uuid, std::string library = kNvmlLibrary);
  ~NvmlDevice();
  NvmlDevice(const NvmlDevice&) = delete;
  NvmlDevice& operator=(const NvmlDevice&) = delete;

  // Opens and starts the library the first time; a failure stands from then on. What a GPU does not
  // tell is 0. Unsupported: why nothing is known (no NVML, no such GPU, a MIG instance, which has
  // no clocks of its own).
  Result<DeviceState> state();

 private:
  struct Session;  // a started library and the GPU's handle in it

  const std::string uuid_, library_;
  std::mutex mutex_;
  Status why_unknown_;
  bool opened_ = false;
  std::unique_ptr<Session> session_;  // null where nothing is known
};

}  // namespace rowsmith
