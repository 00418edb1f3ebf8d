// SPDX-License-Identifier: Apache-2.0
//
// Float arrays where a Runtime's device can reach them: device memory through the CUDA driver,
// found at run time, or plain memory for the host device. A program that has CUDA anyway uses
// cudaMalloc.
#pragma once

#include <memory>
#include <vector>

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  // Null where the CUDA driver is missing or refuses.
  static std::unique_ptr<DeviceMemory> open_cuda(int ordinal);
  static std::unique_ptr<DeviceMemory> open_host();

  // nullptr when out of memory. Freed with this object.
  virtual float* allocate(std::size_t count) = 0;
  virtual bool upload(float* to, const std::vector<float>& from) = 0;
  virtual bool download(std::vector<float>& to, const float* from) = 0;
  // Waits for what was launched.
  virtual bool synchronize() = 0;
};
