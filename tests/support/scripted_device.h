// SPDX-License-Identifier: Apache-2.0
//
// ScriptedDevice: a Device without a machine. What compiling, loading, launching and timing do is
// written by the test; memory is real heap, so that copies and fills work; every launch is recorded
// with its parameters. Numbers that kernels would compute come from `effect`.
#pragma once

#include "runtime/device.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <vector>

namespace rowsmith::testing {

// What a test may set, before the device is shared between threads. An empty function succeeds.
struct DeviceScript {
  std::function<Status(const Program&)> on_compile;
  std::function<Status(const Binary&)> on_load;
  // Asked before `effect`, for launch, run and each launch of a sequence.
  std::function<Status(const LaunchCall&)> on_launch;
  std::function<void(const LaunchCall&)> effect;
  // Nanoseconds of one launch; without it every launch takes 1000 ns.
  std::function<Result<double>(const LaunchCall&)> cost;
  // Standard deviation of a sequence's time, relative to it, from a generator seeded with `seed`.
  double noise = 0;
  std::uint32_t seed = 1;
  // The allocation (counted from 0) from which on memory runs out; -1 = never.
  int out_of_memory_at = -1;
  std::function<Status(const void*, const char*)> on_check_access;
  // The device's clocks at each reading; without it they are not known.
  std::function<Result<DeviceState>()> state;
  std::function<KernelResources(const std::string& entry)> resources;
};

// An H200 as its driver describes it.
DeviceFacts scripted_facts();

class ScriptedDevice : public Device {
 public:
  explicit ScriptedDevice(DeviceFacts facts = scripted_facts());

  DeviceScript script;
  std::atomic<bool> capturing{false};

  struct Launched {
    std::string entry;
    LaunchShape shape;
    std::string params;  // the bytes as they stood at the call
    CUstream_st* stream = nullptr;
    bool own_stream = false;  // by run() or a sequence
  };
  // Copies of what happened so far.
  std::vector<Launched> launches() const;
  std::vector<std::string> compiled_entries() const;
  std::uint64_t compiles() const { return compiles_; }
  std::uint64_t loads() const { return loads_; }
  int allocations() const { return allocations_; }
  // Launches of each sequence that was recorded. Not for use beside a record.
  const std::vector<std::size_t>& recorded() const { return recorded_; }
  // Bytes of each sweep before a replay. Not for use beside one.
  const std::vector<std::size_t>& sweeps() const { return sweeps_; }

  // The entry of a kernel that this device loaded.
  static const std::string& entry_of(const LaunchCall& call);

  const DeviceFacts& facts() const override { return facts_; }
  std::string binary_key() const override { return "scripted-1"; }
  Result<Binary> compile(const Program& program) override;
  Result<std::unique_ptr<Module>> load(const Binary& binary) override;
  Result<Buffer> allocate(std::size_t bytes) override;
  Status copy_in(void* dst, const void* src, std::size_t bytes) override;
  Status copy_out(void* dst, const void* src, std::size_t bytes) override;
  Status fill(void* dst, unsigned char byte, std::size_t bytes) override;
  Status launch(const LaunchCall& call, CUstream_st* stream) override;
  Status run(const LaunchCall& call) override;
  Result<std::unique_ptr<Sequence>> record(const std::vector<LaunchCall>& calls,
                                           const Buffer& sweep) override;
  Result<bool> is_capturing(CUstream_st* stream) override;
  Status check_access(const void* pointer, const char* what) override;
  Result<DeviceState> state() override;

 private:
  friend class ScriptedSequence;
  Status perform(const LaunchCall& call, CUstream_st* stream, bool own_stream);
  Result<double> cost_of(const LaunchCall& call) const;
  // A factor around 1 by the script's noise.
  double noise_factor();

  DeviceFacts facts_;
  mutable std::mutex mutex_;
  std::vector<Launched> launches_;
  std::vector<std::string> compiled_entries_;
  std::vector<std::size_t> recorded_, sweeps_;
  std::mt19937 random_;
  bool seeded_ = false;
  std::atomic<std::uint64_t> compiles_{0}, loads_{0};
  std::atomic<int> allocations_{0};
};

}  // namespace rowsmith::testing
