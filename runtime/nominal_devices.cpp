// SPDX-License-Identifier: Apache-2.0
//
// Working for GPUs that are not at hand: a table of nominal facts, and a device that only compiles.
#include "runtime/devices.h"
#include "runtime/nvrtc.h"

#include <utility>

namespace rowsmith {
namespace {

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kMiB = 1024 * kKiB;
constexpr std::int64_t kGiB = 1024 * kMiB;

struct SmLimits {
  int threads, blocks;
  std::int64_t shared_kib, shared_block_kib;
};

DeviceFacts row(int capability, const char* name, int sm_count, std::int64_t l2_mib,
                std::int64_t memory_gib, int bus_bits, int clock_khz, SmLimits sm) {
  DeviceFacts facts;
  facts.kind = "cuda";
  facts.name = name;
  facts.capability = capability;
  facts.sm_count = sm_count;
  facts.l2_bytes = l2_mib * kMiB;
  facts.memory_bytes = memory_gib * kGiB;
  facts.memory_bus_bits = bus_bits;
  facts.memory_clock_khz = clock_khz;
  facts.max_threads_per_sm = sm.threads;
  facts.max_blocks_per_sm = sm.blocks;
  facts.shared_bytes_per_sm = sm.shared_kib * kKiB;
  facts.shared_bytes_per_block = sm.shared_block_kib * kKiB;
  facts.max_cluster = max_cluster_of(capability);
  return facts;
}

class CompileOnlyDevice final : public Device {
 public:
  explicit CompileOnlyDevice(DeviceFacts facts) : facts_(std::move(facts)) {
    facts_.compiler = nvrtc_version();
  }

  const DeviceFacts& facts() const override { return facts_; }
  std::string binary_key() const override { return nvrtc_key(facts_.capability); }
  Result<Binary> compile(const Program& program) override {
    return nvrtc_compile(program, facts_.capability);
  }
  Result<std::unique_ptr<Module>> load(const Binary&) override { return refusal("load"); }
  Result<Buffer> allocate(std::size_t) override { return refusal("allocate"); }
  Status copy_in(void*, const void*, std::size_t) override { return refusal("copy"); }
  Status copy_out(void*, const void*, std::size_t) override { return refusal("copy"); }
  Status fill(void*, unsigned char, std::size_t) override { return refusal("fill"); }
  Status launch(const LaunchCall&, CUstream_st*) override { return refusal("launch"); }
  Status run(const LaunchCall&) override { return refusal("run"); }
  Result<std::unique_ptr<Sequence>> record(const std::vector<LaunchCall>&, const Buffer&) override {
    return refusal("record");
  }
  Result<bool> is_capturing(CUstream_st*) override { return false; }
  Status check_access(const void*, const char*) override { return refusal("check pointers"); }
  Result<DeviceState> state() override { return refusal("read clocks"); }

 private:
  Status refusal(const char* what) const {
    return Status(Code::kUnsupported, "cannot " + std::string(what) + ": the device for sm_" +
                                          std::to_string(facts_.capability) + " only compiles");
  }
  DeviceFacts facts_;
};

}  // namespace

int max_cluster_of(int capability) {
  if (capability == 90 || capability == 100 || capability == 103)
    return 16;  // above 8, a kernel must ask
  return capability >= 90 ? 8 : 1;
}

const std::vector<DeviceFacts>& nominal_devices() {
  constexpr SmLimits kTuring{1024, 16, 64, 64}, kAmpere{2048, 32, 164, 163};
  constexpr SmLimits kOrin{1536, 16, 164, 163}, kGa102{1536, 16, 100, 99};
  constexpr SmLimits kAda{1536, 24, 100, 99}, kHopper{2048, 32, 228, 227};
  constexpr SmLimits kThor{1536, 24, 228, 227};
  // Names are those of the GPU whose figures they are; the H200's were read from one.
  static const std::vector<DeviceFacts> rows = {
      row(75, "Tesla T4", 40, 4, 15, 256, 5001000, kTuring),
      row(80, "NVIDIA A100-SXM4-80GB", 108, 40, 80, 5120, 1593000, kAmpere),
      row(86, "NVIDIA A10", 72, 6, 23, 384, 6251000, kGa102),
      row(87, "Orin", 16, 4, 61, 256, 1300000, kOrin),
      row(89, "NVIDIA L40S", 142, 96, 45, 384, 9001000, kAda),
      row(90, "NVIDIA H200", 132, 60, 140, 6144, 3201000, kHopper),
      row(100, "NVIDIA B200", 148, 126, 178, 7680, 3996000, kHopper),
      row(103, "NVIDIA B300", 148, 126, 268, 7680, 3996000, kHopper),
      row(110, "NVIDIA Thor", 20, 32, 122, 256, 4266000, kThor),
      row(120, "NVIDIA RTX PRO 6000 Blackwell", 188, 128, 95, 512, 14001000, kAda),
      row(121, "NVIDIA GB10", 48, 24, 119, 256, 4266000, kAda),
  };
  return rows;
}

DeviceFacts nominal_facts(int capability) {
  const std::vector<DeviceFacts>& rows = nominal_devices();
  DeviceFacts best = rows.front();
  for (const DeviceFacts& facts : rows) {
    if (facts.capability <= capability) best = facts;
  }
  if (best.capability != capability) {
    best.name = "sm_" + std::to_string(capability) + ", taken as " + best.name;
    best.capability = capability;
    best.max_cluster = max_cluster_of(capability);
  }
  return best;
}

std::shared_ptr<Device> make_compile_only_device(DeviceFacts facts) {
  return std::make_shared<CompileOnlyDevice>(std::move(facts));
}

}  // namespace rowsmith
