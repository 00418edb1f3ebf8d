// SPDX-License-Identifier: Apache-2.0
#include "runtime/host_device.h"

#include "runtime/host_compiler.h"
#include "runtime/host_executor.h"
#include "runtime/host_memory.h"
#include "runtime/host_module.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>
#include <utility>

namespace rowsmith {
namespace {

// Each one's scheduler has up to 1024 fibers of two mappings each; a process has 65,530.
constexpr int kMaxHelpers = 15;
constexpr std::int64_t kMaxGrid = 0x7fffffff;

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return machine_name() + " CPU";
}

DeviceFacts host_facts(const HostCompiler& compiler) {
  DeviceFacts facts;
  facts.kind = "host";
  facts.name = cpu_name();
  facts.uuid = "host";
  facts.sm_count = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
  facts.l2_bytes = l2 > 0 ? l2 : 8 << 20;
  facts.memory_bytes = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  facts.max_cluster = HostScheduler::kMaxCluster;
  facts.shared_bytes_per_block = HostScheduler::kMaxSharedBytes;
  facts.shared_bytes_per_sm = HostScheduler::kMaxSharedBytes + 1024;
  facts.compiler = compiler.version;
  return facts;
}

class FiberDevice final : public HostDevice {
 public:
  explicit FiberDevice(const HostOptions& options)
      : options_(options),
        compiler_(find_host_compiler(options.cxx)),
        compiler_options_(host_compiler_options(options.cxx_options)),
        facts_(host_facts(compiler_)),
        memory_(std::make_shared<HostMemory>(options.poison)),
        executor_(std::make_unique<HostExecutor>(std::min(facts_.sm_count - 1, kMaxHelpers))) {}
  ~FiberDevice() override {
    // The helpers of a process that this one was forked from are not here to be ended or waited
    // for.
    if (getpid() != owner_) static_cast<void>(executor_.release());
  }

  const DeviceFacts& facts() const override { return facts_; }
  std::string binary_key() const override;
  Result<Binary> compile(const Program& program) override {
    return compile_host_program(compiler_, compiler_options_, program);
  }
  Result<std::unique_ptr<Module>> load(const Binary& binary) override {
    return load_host_module(binary.bytes);
  }

  Result<Buffer> allocate(std::size_t bytes) override { return allocate_tight(bytes, 256, 0); }
  Result<Buffer> allocate_tight(std::size_t bytes, std::size_t align, std::size_t offset) override;
  Status copy_in(void* dst, const void* src, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(dst, src, bytes);
    return {};
  }
  Status copy_out(void* dst, const void* src, std::size_t bytes) override {
    return copy_in(dst, src, bytes);
  }
  Status fill(void* dst, unsigned char byte, std::size_t bytes) override {
    if (bytes > 0) std::memset(dst, byte, bytes);
    return {};
  }

  // Synchronous: whatever the stream, the work is done on return.
  Status launch(const LaunchCall& call, CUstream_st*) override { return run(call); }
  Status run(const LaunchCall& call) override;
  Result<std::unique_ptr<Sequence>> record(const std::vector<LaunchCall>& calls,
                                           const Buffer& sweep) override;

  Result<bool> is_capturing(CUstream_st*) override { return false; }
  Status check_access(const void* pointer, const char* what) override {
    if (pointer != nullptr) return {};
    return Status(Code::kInvalidArgument, std::string(what) + " is null");
  }
  Result<DeviceState> state() override {
    return Status(Code::kUnsupported, "the host device has no clocks to tell");
  }

 private:
  const HostOptions options_;
  const HostCompiler compiler_;
  const std::vector<std::string> compiler_options_;
  const DeviceFacts facts_;
  const std::shared_ptr<HostMemory> memory_;  // shared with the buffers, which may outlive us
  const pid_t owner_ = getpid();
  std::unique_ptr<HostExecutor> executor_;
};

std::string FiberDevice::binary_key() const {
  std::string key = "host abi " + std::to_string(rowsmith_host::kAbiVersion) + "|" +
                    machine_name() + "|" + compiler_.command + "|" + compiler_.version;
  for (const std::string& option : compiler_options_) key += "|" + option;
  return key;
}

Result<Buffer> FiberDevice::allocate_tight(std::size_t bytes, std::size_t align,
                                           std::size_t offset) {
  void* data = memory_->allocate(bytes, align, offset);
  if (data == nullptr) {
    return Status(Code::kOutOfMemory,
                  "host device: no memory for a buffer of " + std::to_string(bytes) + " bytes");
  }
  return Buffer(data, bytes, [memory = memory_](void* freed) { memory->free(freed); });
}

Status check_shape(const LaunchCall& call, const HostKernel& kernel) {
  const LaunchShape& shape = call.shape;
  const auto refuse = [&](const std::string& why) {
    return Status(Code::kLaunchFailed, "kernel '" + kernel.name() + "': " + why);
  };
  if (shape.block < 1 || shape.block > kernel.bounds().threads) {
    return refuse(std::to_string(shape.block) + " threads a block, where 1 to " +
                  std::to_string(kernel.bounds().threads) + " are allowed");
  }
  if (shape.grid < 1 || shape.grid > kMaxGrid) {
    return refuse("a grid of " + std::to_string(shape.grid) + " blocks");
  }
  if (shape.cluster < 1 || shape.cluster > HostScheduler::kMaxCluster ||
      shape.grid % shape.cluster != 0) {
    return refuse("clusters of " + std::to_string(shape.cluster) + " blocks, where 1 to " +
                  std::to_string(HostScheduler::kMaxCluster) + " that divide the grid of " +
                  std::to_string(shape.grid) + " are allowed");
  }
  if (shape.together < 1 || shape.grid % shape.together != 0) {
    return refuse(std::to_string(shape.together) +
                  " blocks that wait for each other do not divide the grid of " +
                  std::to_string(shape.grid));
  }
  if (std::int64_t{shape.together} * shape.block > HostScheduler::kMaxFibers) {
    return Status(Code::kUnsupported,
                  "kernel '" + kernel.name() + "': " + std::to_string(shape.together) +
                      " blocks that wait for each other have more than the " +
                      std::to_string(HostScheduler::kMaxFibers) + " threads that can run at once");
  }
  if (shape.shared_bytes < 0 || shape.shared_bytes > std::int64_t{HostScheduler::kMaxSharedBytes}) {
    return refuse(std::to_string(shape.shared_bytes) + " bytes of shared memory a block, where " +
                  std::to_string(HostScheduler::kMaxSharedBytes) + " are the most");
  }
  if (call.param_bytes < static_cast<std::size_t>(kernel.bounds().param_bytes)) {
    return refuse("takes " + std::to_string(kernel.bounds().param_bytes) +
                  " bytes of parameters, not " + std::to_string(call.param_bytes));
  }
  return {};
}

Status FiberDevice::run(const LaunchCall& call) {
  const auto* kernel = dynamic_cast<const HostKernel*>(call.kernel);
  if (kernel == nullptr) return Status(Code::kInternal, "not a kernel of the host device");
  if (Status status = check_shape(call, *kernel); !status.ok()) return status;
  HostLaunch launch;
  launch.entry = kernel->entry();
  launch.params = call.params;
  launch.blocks = call.shape.grid;
  launch.cluster = std::max(call.shape.cluster, call.shape.together);
  launch.threads = call.shape.block;
  launch.shared_bytes = static_cast<std::size_t>(call.shape.shared_bytes);
  launch.schedule = options_.schedule;
  launch.seed = options_.seed;
  launch.poison = options_.poison;
  const std::optional<HostFailure> failure = executor_->run(launch);
  const std::string written = memory_->check();
  if (!failure && written.empty()) return {};
  std::string why = failure ? failure->text : "write " + written;
  if (failure && failure->address != nullptr) why += memory_->describe(failure->address);
  return Status(Code::kLaunchFailed, "kernel '" + kernel->name() + "', " + why);
}

// The calls with their parameters, run one after another.
class CallList final : public Sequence {
 public:
  CallList(FiberDevice& device, const std::vector<LaunchCall>& calls) : device_(device) {
    for (const LaunchCall& call : calls) {
      const char* params = static_cast<const char*>(call.params);
      calls_.push_back({call, std::vector<char>(params, params + call.param_bytes)});
      calls_.back().call.params = calls_.back().params.data();
    }
  }

  Result<double> time_ns(int times) override {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) {
      for (const Recorded& recorded : calls_) {
        if (Status status = device_.run(recorded.call); !status.ok()) return status;
      }
    }
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    return spent.count();
  }

 private:
  struct Recorded {
    LaunchCall call;
    std::vector<char> params;  // moves with its address
  };
  FiberDevice& device_;
  std::vector<Recorded> calls_;
};

Result<std::unique_ptr<Sequence>> FiberDevice::record(const std::vector<LaunchCall>& calls,
                                                      const Buffer&) {
  return std::unique_ptr<Sequence>(std::make_unique<CallList>(*this, calls));
}

}  // namespace

std::shared_ptr<HostDevice> make_host_device(const HostOptions& options) {
  return std::make_shared<FiberDevice>(options);
}

}  // namespace rowsmith
