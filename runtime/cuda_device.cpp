// SPDX-License-Identifier: Apache-2.0
//
// CudaDevice: facts, memory and launches of one GPU. Loading and recording are in cuda_module.cpp
// and cuda_graph.cpp, compiling in nvrtc.cpp.
#include "runtime/cuda_device.h"

#include "runtime/cuda_module.h"
#include "runtime/devices.h"
#include "runtime/nvml.h"
#include "runtime/nvrtc.h"

#include <array>
#include <cstdio>

namespace rowsmith {
namespace {

// The handles that mean "the current context's default stream".
bool is_default_stream(CUstream stream) {
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

std::string uuid_text(const CUuuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x",
                  static_cast<unsigned>(static_cast<unsigned char>(uuid.bytes[i])));
    text += digits.data();
  }
  return text;
}

Status read_attributes(const DriverApi& api, CUdevice device, DeviceFacts& facts) {
  CUresult result = CUDA_SUCCESS;
  const auto read = [&](CUdevice_attribute attribute) {
    int value = 0;
    if (result == CUDA_SUCCESS) result = api.device_get_attribute(&value, attribute, device);
    return value;
  };
  facts.capability = 10 * read(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                     read(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  facts.sm_count = read(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  facts.l2_bytes = read(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  facts.memory_bus_bits = read(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  facts.memory_clock_khz = read(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  facts.max_threads_per_block = read(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  facts.max_threads_per_sm = read(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  facts.max_blocks_per_sm = read(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  facts.registers_per_sm = read(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  facts.shared_bytes_per_sm = read(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  facts.shared_bytes_per_block = read(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  facts.max_cluster = max_cluster_of(facts.capability);
  return to_status(api, result, "cuDeviceGetAttribute");
}

Result<DeviceFacts> read_facts(const DriverApi& api, int ordinal) {
  CUdevice device = 0;
  CUresult result = api.device_get(&device, ordinal);
  if (result != CUDA_SUCCESS) return to_status(api, result, "cuDeviceGet");
  DeviceFacts facts;
  facts.kind = "cuda";
  facts.ordinal = ordinal;
  facts.driver_version = api.version;
  facts.compiler = nvrtc_version();
  std::array<char, 256> name{};
  std::array<char, 32> bus_id{};
  CUuuid uuid{};
  std::size_t memory = 0;
  result = api.device_get_name(name.data(), static_cast<int>(name.size()), device);
  if (result == CUDA_SUCCESS) result = api.device_get_uuid(&uuid, device);
  if (result == CUDA_SUCCESS) {
    result = api.device_get_pci_bus_id(bus_id.data(), static_cast<int>(bus_id.size()), device);
  }
  if (result == CUDA_SUCCESS) result = api.device_total_mem(&memory, device);
  if (result != CUDA_SUCCESS) return to_status(api, result, "reading a device's identity");
  facts.name = name.data();
  facts.uuid = uuid_text(uuid);
  facts.bus_id = bus_id.data();
  facts.memory_bytes = static_cast<std::int64_t>(memory);
  const Status read = read_attributes(api, device, facts);
  if (!read.ok()) return read;
  return facts;
}

// At least 1.
Result<int> count_devices(const DriverApi& api) {
  int count = 0;
  const CUresult result = api.device_get_count(&count);
  if (result != CUDA_SUCCESS) return to_status(api, result, "cuDeviceGetCount");
  if (count > 0) return count;
  return Status(Code::kNoDevice, "the driver sees no GPU; check CUDA_VISIBLE_DEVICES");
}

CUdeviceptr address_of(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

// Thread-safe: the facts never change, the rest is in CudaContext and NvmlDevice.
class CudaDevice final : public Device {
 public:
  CudaDevice(std::shared_ptr<CudaContext> context, DeviceFacts facts)
      : context_(std::move(context)), facts_(std::move(facts)), nvml_(facts_.uuid) {}

  const DeviceFacts& facts() const override { return facts_; }
  std::string binary_key() const override { return nvrtc_key(facts_.capability); }
  Result<Binary> compile(const Program& program) override {
    return nvrtc_compile(program, facts_.capability);
  }
  Result<std::unique_ptr<Module>> load(const Binary& binary) override {
    return CudaModule::load(context_, binary, facts_.compiler);
  }
  Result<Buffer> allocate(std::size_t bytes) override;
  Status copy_in(void* dst, const void* src, std::size_t bytes) override;
  Status copy_out(void* dst, const void* src, std::size_t bytes) override;
  Status fill(void* dst, unsigned char byte, std::size_t bytes) override;
  Status launch(const LaunchCall& call, CUstream_st* stream) override;
  Status run(const LaunchCall& call) override;
  Result<std::unique_ptr<Sequence>> record(const std::vector<LaunchCall>& calls,
                                           const Buffer& sweep) override {
    return record_graph(context_, calls, sweep);
  }
  Result<bool> is_capturing(CUstream_st* stream) override;
  Status check_access(const void* pointer, const char* what) override;
  Result<DeviceState> state() override {
    if (forked_after_start) return forked_status();
    return nvml_.state();
  }

 private:
  // Enqueues on our own stream by `enqueue` and waits for the end.
  template <typename Enqueue>
  Status on_own_stream(const char* call, Enqueue&& enqueue);
  Status find_target(CUstream stream, CUcontext current, CUcontext& target) const;
  Status judge_foreign(bool may_replace, CUcontext current, CUcontext& target) const;
  std::string name() const { return "device " + std::to_string(facts_.ordinal); }

  std::shared_ptr<CudaContext> context_;
  DeviceFacts facts_;
  NvmlDevice nvml_;
};

template <typename Enqueue>
Status CudaDevice::on_own_stream(const char* call, Enqueue&& enqueue) {
  const CudaScope scope(*context_);
  if (!scope.status().ok()) return scope.status();
  const std::lock_guard lock(context_->stream_mutex());
  const CUstream stream = context_->stream();
  CUresult result = enqueue(stream);
  if (result == CUDA_SUCCESS) result = context_->api.stream_synchronize(stream);
  return context_->status(result, call);
}

Result<Buffer> CudaDevice::allocate(std::size_t bytes) {
  const CudaScope scope(*context_);
  if (!scope.status().ok()) return scope.status();
  CUdeviceptr address = 0;
  // The driver refuses 0 bytes, which is no reason to fail here.
  const CUresult result = context_->api.mem_alloc(&address, bytes ? bytes : 1);
  if (result != CUDA_SUCCESS) {
    return context_->status(result, "cuMemAlloc")
        .with_context("allocating " + std::to_string(bytes) + " bytes on " + name());
  }
  const auto free = [context = context_](void* data) {
    if (forked_after_start) return;
    const CudaScope own(*context);
    if (own.status().ok()) context->report(context->api.mem_free(address_of(data)), "cuMemFree");
  };
  return Buffer(reinterpret_cast<void*>(address), bytes, free);
}

Status CudaDevice::copy_in(void* dst, const void* src, std::size_t bytes) {
  return on_own_stream("copying to the device", [&](CUstream stream) {
    return context_->api.memcpy_htod_async(address_of(dst), src, bytes, stream);
  });
}

Status CudaDevice::copy_out(void* dst, const void* src, std::size_t bytes) {
  return on_own_stream("copying from the device", [&](CUstream stream) {
    return context_->api.memcpy_dtoh_async(dst, address_of(src), bytes, stream);
  });
}

Status CudaDevice::fill(void* dst, unsigned char byte, std::size_t bytes) {
  return on_own_stream("filling device memory", [&](CUstream stream) {
    return context_->api.memset_d8_async(address_of(dst), byte, bytes, stream);
  });
}

Status CudaDevice::run(const LaunchCall& call) {
  Status launched;
  Status waited = on_own_stream("waiting for a kernel", [&](CUstream stream) {
    launched = static_cast<const CudaKernel*>(call.kernel)->enqueue(call, stream);
    return CUDA_SUCCESS;
  });
  return launched.ok() ? waited : launched;
}

// The context of a call: the stream's, else the current one if it is of this device, else the
// primary one. The common case is decided by two driver calls that take tens of nanoseconds.
Status CudaDevice::find_target(CUstream stream, CUcontext current, CUcontext& target) const {
  const bool default_stream = is_default_stream(stream);
  target = current;
  if (!default_stream) {
    const CUresult result = context_->api.stream_get_ctx(stream, &target);
    if (result != CUDA_SUCCESS) return context_->status(result, "cuStreamGetCtx");
  }
  if (target == context_->primary() && target) return Status();
  return judge_foreign(default_stream, current, target);
}

// A context other than our primary one must be of this device; the current one may be passed over
// for the primary one where the stream is a default one.
Status CudaDevice::judge_foreign(bool may_replace, CUcontext current, CUcontext& target) const {
  CUdevice device = CU_DEVICE_INVALID;
  if (target) {
    const CurrentContext scope(context_->api, current, target);
    CUresult result = scope.result();
    if (result == CUDA_SUCCESS) result = context_->api.ctx_get_device(&device);
    if (result != CUDA_SUCCESS) return context_->status(result, "cuCtxGetDevice");
    if (device == context_->device) return Status();
  }
  if (may_replace) {
    Status started = context_->start();
    target = context_->primary();
    return started;
  }
  return Status(Code::kInvalidArgument,
                "the stream belongs to device " + std::to_string(device) + ", not to " + name());
}

Status CudaDevice::launch(const LaunchCall& call, CUstream_st* stream) {
  if (forked_after_start.load(std::memory_order_relaxed)) return forked_status();
  const DriverApi& api = context_->api;
  const auto& kernel = static_cast<const CudaKernel&>(*call.kernel);
  CUcontext current = nullptr, target = nullptr;
  CUresult result = api.ctx_get_current(&current);
  if (result != CUDA_SUCCESS) return context_->status(result, "cuCtxGetCurrent");
  Status status = find_target(stream, current, target);
  if (!status.ok()) return status;
  const CurrentContext scope(api, current, target);
  if (scope.result() != CUDA_SUCCESS) return context_->status(scope.result(), "cuCtxSetCurrent");
  if (target != context_->primary()) {
    status = kernel.load_into_current(target);
    if (!status.ok()) return status;
  }
  return kernel.enqueue(call, stream);
}

Result<bool> CudaDevice::is_capturing(CUstream_st* stream) {
  if (forked_after_start) return forked_status();
  const DriverApi& api = context_->api;
  CUcontext current = nullptr, target = nullptr;
  CUresult result = api.ctx_get_current(&current);
  if (result != CUDA_SUCCESS) return context_->status(result, "cuCtxGetCurrent");
  const Status found = find_target(stream, current, target);
  if (!found.ok()) return found;
  const CurrentContext scope(api, current, target);
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  result = scope.result();
  if (result == CUDA_SUCCESS) result = api.stream_is_capturing(stream, &capture);
  if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
    // A launch there would end that capture: better no launch at all.
    return Status(Code::kInvalidArgument,
                  "the default stream cannot be used while a blocking stream of its context is "
                  "being captured; pass the captured stream");
  }
  if (result != CUDA_SUCCESS) return context_->status(result, "cuStreamIsCapturing");
  return capture != CU_STREAM_CAPTURE_STATUS_NONE;
}

Status CudaDevice::check_access(const void* pointer, const char* what) {
  if (!pointer) return Status(Code::kInvalidArgument, std::string(what) + " is null");
  const CudaScope scope(*context_);
  if (!scope.status().ok()) return scope.status();
  // Zeroed 8-byte cells: the driver writes 4 or 8 bytes by attribute.
  std::uint64_t type = 0, managed = 0, device_address = 0;
  int ordinal = -1;
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                  CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* cells[] = {&type, &managed, &device_address, &ordinal};
  const CUresult result =
      context_->api.pointer_get_attributes(4, wanted, cells, address_of(pointer));
  // Another context's memory can answer "invalid context" or "invalid value": no type, so refused.
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_CONTEXT &&
      result != CUDA_ERROR_INVALID_VALUE) {
    return context_->status(result, "cuPointerGetAttributes");
  }
  const auto refused = [&](const std::string& why) {
    return Status(Code::kInvalidArgument,
                  std::string(what) + " is not accessible from " + name() + ": " + why);
  };
  if (type == 0) {
    int pageable = 0;
    const CUresult asked = context_->api.device_get_attribute(
        &pageable, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, context_->device);
    if (asked == CUDA_SUCCESS && pageable) return Status();
    return refused("ordinary host memory");
  }
  if (managed) return Status();
  if (type == CU_MEMORYTYPE_HOST) {
    if (device_address == address_of(pointer)) return Status();
    return refused("pinned host memory that the device knows under another address");
  }
  if (ordinal == facts_.ordinal) return Status();
  return refused("memory of device " + std::to_string(ordinal));
}

}  // namespace

Result<std::vector<DeviceFacts>> cuda_devices() {
  const Result<const DriverApi*> api = start_driver();
  if (!api.ok()) return api.status();
  const Result<int> count = count_devices(**api);
  if (!count.ok()) return count.status();
  std::vector<DeviceFacts> devices;
  for (int ordinal = 0; ordinal < *count; ++ordinal) {
    Result<DeviceFacts> facts = read_facts(**api, ordinal);
    if (!facts.ok()) return facts.status().with_context("device " + std::to_string(ordinal));
    devices.push_back(std::move(*facts));
  }
  return devices;
}

Result<std::shared_ptr<Device>> make_cuda_device(int ordinal) {
  const Result<const DriverApi*> api = start_driver();
  if (!api.ok()) return api.status();
  const Result<int> count = count_devices(**api);
  if (!count.ok()) return count.status();
  if (ordinal < 0 || ordinal >= *count) {
    return Status(Code::kNoDevice, "there is no GPU " + std::to_string(ordinal) +
                                       "; this process sees " + std::to_string(*count));
  }
  Result<DeviceFacts> facts = read_facts(**api, ordinal);
  if (!facts.ok()) return facts.status().with_context("device " + std::to_string(ordinal));
  CUdevice device = 0;
  const CUresult result = (*api)->device_get(&device, ordinal);
  if (result != CUDA_SUCCESS) return to_status(**api, result, "cuDeviceGet");
  auto context = std::make_shared<CudaContext>(**api, device, ordinal);
  return std::shared_ptr<Device>(
      std::make_shared<CudaDevice>(std::move(context), std::move(*facts)));
}

Result<std::string> cuda_device_of_stream(CUstream_st* stream) {
  if (forked_after_start) return forked_status();
  const DriverApi* api = driver_if_loaded();
  if (!api) return std::string();
  CUcontext current = nullptr, target = nullptr;
  if (api->ctx_get_current(&current) != CUDA_SUCCESS) return std::string();  // not started
  target = current;
  if (!is_default_stream(stream)) {
    const CUresult result = api->stream_get_ctx(stream, &target);
    if (result != CUDA_SUCCESS) return to_status(*api, result, "cuStreamGetCtx");
  }
  if (!target) return std::string();
  const CurrentContext scope(*api, current, target);
  CUdevice device = 0;
  CUresult result = scope.result();
  if (result == CUDA_SUCCESS) result = api->ctx_get_device(&device);
  if (result != CUDA_SUCCESS) return to_status(*api, result, "cuCtxGetDevice");
  // Ordinals and CUdevice values are the same numbers.
  return std::to_string(device);
}

}  // namespace rowsmith
