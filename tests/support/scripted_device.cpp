// SPDX-License-Identifier: Apache-2.0
#include "tests/support/scripted_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <sstream>
#include <utility>

namespace rowsmith::testing {
namespace {

constexpr char kMagic[] = "scripted";

class ScriptedKernel : public Kernel {
 public:
  ScriptedKernel(std::string entry, KernelResources resources)
      : entry_(std::move(entry)), resources_(resources) {}
  KernelResources resources() const override { return resources_; }
  const std::string& entry() const { return entry_; }

 private:
  std::string entry_;
  KernelResources resources_;
};

class ScriptedModule : public Module {
 public:
  void add(const std::string& entry, KernelResources resources) {
    kernels_.emplace(entry, std::make_unique<ScriptedKernel>(entry, resources));
  }
  Result<const Kernel*> kernel(const std::string& entry) override {
    const auto found = kernels_.find(entry);
    if (found == kernels_.end()) return Status(Code::kLaunchFailed, "no entry " + entry);
    return static_cast<const Kernel*>(found->second.get());
  }

 private:
  std::map<std::string, std::unique_ptr<ScriptedKernel>> kernels_;
};

}  // namespace

class ScriptedSequence : public Sequence {
 public:
  ScriptedSequence(ScriptedDevice* device, const std::vector<LaunchCall>& calls, Buffer sweep)
      : device_(device), calls_(calls), sweep_(std::move(sweep)) {
    params_.reserve(calls.size());
    for (LaunchCall& call : calls_) {
      params_.emplace_back(static_cast<const char*>(call.params), call.param_bytes);
      call.params = params_.back().data();
    }
  }
  Result<double> time_ns(int times) override {
    double total = 0;
    for (int i = 0; i < times; ++i) {
      if (sweep_.bytes() > 0) device_->sweeps_.push_back(sweep_.bytes());
      for (const LaunchCall& call : calls_) {
        if (Status status = device_->perform(call, nullptr, true); !status.ok()) return status;
        Result<double> cost = device_->cost_of(call);
        if (!cost.ok()) return cost.status();
        total += *cost;
      }
    }
    return total * device_->noise_factor();
  }

 private:
  ScriptedDevice* device_;
  std::vector<LaunchCall> calls_;
  Buffer sweep_;
  std::vector<std::string> params_;
};

DeviceFacts scripted_facts() {
  DeviceFacts facts;
  facts.kind = "cuda";
  facts.name = "Scripted H200";
  facts.uuid = "GPU-5c41b7ed";
  facts.capability = 90;
  facts.sm_count = 132;
  facts.l2_bytes = std::int64_t{60} << 20;
  facts.memory_bytes = std::int64_t{1} << 30;
  facts.memory_bus_bits = 6144;
  facts.memory_clock_khz = 3201000;
  facts.shared_bytes_per_sm = 228 << 10;
  facts.shared_bytes_per_block = 227 << 10;
  facts.max_cluster = 8;
  facts.driver_version = 13000;
  facts.compiler = "script 1";
  return facts;
}

ScriptedDevice::ScriptedDevice(DeviceFacts facts) : facts_(std::move(facts)) {}

std::vector<ScriptedDevice::Launched> ScriptedDevice::launches() const {
  const std::lock_guard lock(mutex_);
  return launches_;
}

std::vector<std::string> ScriptedDevice::compiled_entries() const {
  const std::lock_guard lock(mutex_);
  return compiled_entries_;
}

const std::string& ScriptedDevice::entry_of(const LaunchCall& call) {
  return static_cast<const ScriptedKernel*>(call.kernel)->entry();
}

Result<Binary> ScriptedDevice::compile(const Program& program) {
  ++compiles_;
  {
    const std::lock_guard lock(mutex_);
    compiled_entries_.insert(compiled_entries_.end(), program.entries.begin(),
                             program.entries.end());
  }
  if (script.on_compile) {
    if (Status status = script.on_compile(program); !status.ok()) return status;
  }
  Binary binary;
  binary.bytes = kMagic;
  for (const std::string& entry : program.entries) binary.bytes += "\n" + entry;
  return binary;
}

Result<std::unique_ptr<Module>> ScriptedDevice::load(const Binary& binary) {
  ++loads_;
  if (script.on_load) {
    if (Status status = script.on_load(binary); !status.ok()) return status;
  }
  std::istringstream lines(binary.bytes);
  std::string line;
  if (!std::getline(lines, line) || line != kMagic) {
    return Status(Code::kLaunchFailed, "not a scripted binary");
  }
  auto module = std::make_unique<ScriptedModule>();
  while (std::getline(lines, line)) {
    module->add(line, script.resources ? script.resources(line) : KernelResources{32, 0, 1024});
  }
  return std::unique_ptr<Module>(std::move(module));
}

Result<Buffer> ScriptedDevice::allocate(std::size_t bytes) {
  const int index = allocations_++;
  if (script.out_of_memory_at >= 0 && index >= script.out_of_memory_at) {
    return Status(Code::kOutOfMemory, "scripted: allocation " + std::to_string(index) + " of " +
                                          std::to_string(bytes) + " bytes");
  }
  void* data = std::aligned_alloc(256, (std::max<std::size_t>(bytes, 1) + 255) / 256 * 256);
  if (data == nullptr) return Status(Code::kOutOfMemory, "heap");
  return Buffer(data, bytes, [](void* memory) { std::free(memory); });
}

Status ScriptedDevice::copy_in(void* dst, const void* src, std::size_t bytes) {
  std::memcpy(dst, src, bytes);
  return {};
}

Status ScriptedDevice::copy_out(void* dst, const void* src, std::size_t bytes) {
  std::memcpy(dst, src, bytes);
  return {};
}

Status ScriptedDevice::fill(void* dst, unsigned char byte, std::size_t bytes) {
  std::memset(dst, byte, bytes);
  return {};
}

Status ScriptedDevice::launch(const LaunchCall& call, CUstream_st* stream) {
  return perform(call, stream, false);
}

Status ScriptedDevice::run(const LaunchCall& call) {
  return perform(call, nullptr, true);
}

Result<std::unique_ptr<Sequence>> ScriptedDevice::record(const std::vector<LaunchCall>& calls,
                                                         const Buffer& sweep) {
  {
    const std::lock_guard lock(mutex_);
    recorded_.push_back(calls.size());
  }
  return std::unique_ptr<Sequence>(std::make_unique<ScriptedSequence>(this, calls, sweep));
}

Result<bool> ScriptedDevice::is_capturing(CUstream_st*) {
  return capturing.load();
}

Status ScriptedDevice::check_access(const void* pointer, const char* what) {
  return script.on_check_access ? script.on_check_access(pointer, what) : Status();
}

Result<DeviceState> ScriptedDevice::state() {
  if (script.state) return script.state();
  return Status(Code::kUnsupported, "scripted: no clocks");
}

Status ScriptedDevice::perform(const LaunchCall& call, CUstream_st* stream, bool own_stream) {
  {
    const std::lock_guard lock(mutex_);
    launches_.push_back({entry_of(call), call.shape,
                         std::string(static_cast<const char*>(call.params), call.param_bytes),
                         stream, own_stream});
  }
  if (script.on_launch) {
    if (Status status = script.on_launch(call); !status.ok()) return status;
  }
  if (script.effect) script.effect(call);
  return {};
}

Result<double> ScriptedDevice::cost_of(const LaunchCall& call) const {
  return script.cost ? script.cost(call) : Result<double>(1000.0);
}

double ScriptedDevice::noise_factor() {
  if (script.noise <= 0) return 1;
  const std::lock_guard lock(mutex_);
  if (!seeded_) random_.seed(script.seed);
  seeded_ = true;
  return std::max(0.01, std::normal_distribution<double>(1, script.noise)(random_));
}

}  // namespace rowsmith::testing
