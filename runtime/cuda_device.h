// SPDX-License-Identifier: Apache-2.0
//
// The GPUs of this machine as Devices. Implemented twice: on the driver API, and in a build without
// CUDA by answers that say so (no_cuda.cpp).
#pragma once

#include "runtime/device.h"

#include <memory>
#include <string>
#include <vector>

namespace rowsmith {

// Every GPU in the driver's order; never empty. Creates no context. No device: why there is none.
Result<std::vector<DeviceFacts>> cuda_devices();

// The GPU of that ordinal. Its context is the primary one, retained when first needed. No device.
Result<std::shared_ptr<Device>> make_cuda_device(int ordinal);

// The ordinal of the GPU that the stream, else the current context, belongs to, as text; "" where
// there is neither, or where nobody has loaded and started the driver.
Result<std::string> cuda_device_of_stream(CUstream_st* stream);

}  // namespace rowsmith
