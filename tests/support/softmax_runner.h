// SPDX-License-Identifier: Apache-2.0
//
// Runs one softmax of floats through a config of choice on a device: for cases whose right answer
// is known without a reference.
#pragma once

#include "kernel_templates/catalog.h"
#include "runtime/device.h"
#include "runtime/module_table.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace rowsmith::testing {

class SoftmaxRunner {
 public:
  explicit SoftmaxRunner(std::shared_ptr<Device> device)
      : device_(std::move(device)), modules_(device_, nullptr) {}

  Device& device() { return *device_; }
  // The default, generic, and up to `more` others spread over the ranked space.
  std::vector<Config> configs(const Problem& problem, std::size_t more) const;
  // Contiguous [rows, cols] with x converted to `dtype`, the result as floats. Failures are
  // reported to GoogleTest and give an empty vector.
  std::vector<float> run(DType dtype, std::int64_t rows, std::int64_t cols, const Config& config,
                         const std::vector<float>& x);

 private:
  std::shared_ptr<Device> device_;
  ModuleTable modules_;
};

}  // namespace rowsmith::testing
