// SPDX-License-Identifier: Apache-2.0
//
// Loaded shared objects of host kernels.
#pragma once

#include "kernel_templates/host_abi.cuh"
#include "runtime/device.h"

#include <memory>
#include <string>

namespace rowsmith {

class HostKernel final : public Kernel {
 public:
  using Entry = void (*)(const void* params);
  HostKernel(std::string name, Entry function, rowsmith_host::Bounds limits)
      : name_(std::move(name)), entry_(function), bounds_(limits) {}

  KernelResources resources() const override { return {0, 0, bounds_.threads}; }
  const std::string& name() const { return name_; }
  Entry entry() const { return entry_; }
  const rowsmith_host::Bounds& bounds() const { return bounds_; }

 private:
  const std::string name_;
  const Entry entry_;
  const rowsmith_host::Bounds bounds_;
};

// Loads a shared object and binds it to HostScheduler's table. Launch failed.
Result<std::unique_ptr<Module>> load_host_module(const std::string& bytes);

// "x86_64": what the shared objects are for.
std::string machine_name();

}  // namespace rowsmith
