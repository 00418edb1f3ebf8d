// SPDX-License-Identifier: Apache-2.0
//
// Opening devices by name, and asking which there are.
#pragma once

#include "runtime/device.h"

#include <memory>
#include <string>
#include <vector>

namespace rowsmith {

// "" = the first GPU, "N" = a CUDA ordinal, "GPU-..." = a UUID or a unique prefix of one, "host".
// No device: why there is none and what to set. Invalid argument: not such a name.
Result<std::shared_ptr<Device>> open_device(const std::string& name);

// The device that the stream, else the current context, belongs to; "" where CUDA has neither.
// Never opens CUDA for a process that has not. Used by the process-wide runtime.
Result<std::string> device_of_stream(CUstream_st* stream);

// What messages advise where there is no GPU.
inline constexpr const char* kUseHost = "ROWSMITH_DEVICE=host selects the functional CPU device";

// What `doctor` and `--device all` list: every GPU, or the reason why there are none.
struct DeviceList {
  std::vector<DeviceFacts> devices;
  std::string why_no_gpu;  // empty when there are some
};
DeviceList list_devices();

// A device that compiles for `facts.capability` and does nothing else: what fills a binary store on
// a machine without that GPU. Its binary_key is that of a real device of the architecture; all but
// facts, binary_key and compile answer unsupported.
std::shared_ptr<Device> make_compile_only_device(DeviceFacts facts);

// Facts of a usual GPU of each architecture, by ascending capability, for work on architectures
// that are not at hand. They decide which configs are legal and how they rank, never what a device
// at hand is taken for.
const std::vector<DeviceFacts>& nominal_devices();
// The row of that capability, else the nearest one below it (the name says so), else the first.
DeviceFacts nominal_facts(int capability);

// The largest cluster that GPUs of that capability run; no attribute of theirs tells it.
int max_cluster_of(int capability);

}  // namespace rowsmith
