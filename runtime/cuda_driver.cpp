// SPDX-License-Identifier: Apache-2.0
//
// Opening libcuda.so.1 and reading its codes. Every function comes through cuGetProcAddress at one
// fixed version, so that a newer driver's changed signatures cannot reach us.
#include "runtime/cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>

#include <mutex>

namespace rowsmith {
namespace {

constexpr const char* kDriverLibrary = "libcuda.so.1";

Status no_device(const std::string& why) {
  return Status(Code::kNoDevice, why);
}

Status stub_status(const std::string& path) {
  return no_device("stub library in loader path: " + path +
                   " is the CUDA toolkit's stub of the driver (CUDA_ERROR_STUB_LIBRARY); take its "
                   "folder out of LD_LIBRARY_PATH, or install the NVIDIA driver");
}

// Binds members to functions of one version and remembers the first that is missing.
class Binder {
 public:
  explicit Binder(decltype(&cuGetProcAddress) get) : get_(get) {}

  template <typename Function>
  bool optional(const char* symbol, Function& function, int version) {
    void* address = nullptr;
    CUdriverProcAddressQueryResult found{};
    const CUresult result =
        get_(symbol, &address, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found);
    function = result == CUDA_SUCCESS && found == CU_GET_PROC_ADDRESS_SUCCESS
                   ? reinterpret_cast<Function>(address)
                   : nullptr;
    return function != nullptr;
  }

  template <typename Function>
  void operator()(const char* symbol, Function& function) {
    if (!optional(symbol, function, kOldestDriver) && missing_.empty()) missing_ = symbol;
  }

  const std::string& missing() const { return missing_; }

 private:
  decltype(&cuGetProcAddress) get_;
  std::string missing_;
};

void bind_devices_and_streams(Binder& bind, DriverApi& api) {
  bind("cuInit", api.init);
  bind("cuGetErrorName", api.get_error_name);
  bind("cuGetErrorString", api.get_error_string);
  bind("cuDeviceGetCount", api.device_get_count);
  bind("cuDeviceGet", api.device_get);
  bind("cuDeviceGetName", api.device_get_name);
  bind("cuDeviceGetUuid", api.device_get_uuid);
  bind("cuDeviceGetPCIBusId", api.device_get_pci_bus_id);
  bind("cuDeviceGetAttribute", api.device_get_attribute);
  bind("cuDeviceTotalMem", api.device_total_mem);
  bind("cuDevicePrimaryCtxRetain", api.primary_ctx_retain);
  bind("cuDevicePrimaryCtxRelease", api.primary_ctx_release);
  bind("cuCtxGetCurrent", api.ctx_get_current);
  bind("cuCtxSetCurrent", api.ctx_set_current);
  bind("cuCtxGetDevice", api.ctx_get_device);
  bind("cuStreamCreate", api.stream_create);
  bind("cuStreamDestroy", api.stream_destroy);
  bind("cuStreamSynchronize", api.stream_synchronize);
  bind("cuStreamGetCtx", api.stream_get_ctx);
  bind("cuStreamIsCapturing", api.stream_is_capturing);
  bind("cuStreamBeginCapture", api.stream_begin_capture);
  bind("cuStreamEndCapture", api.stream_end_capture);
  bind("cuThreadExchangeStreamCaptureMode", api.exchange_capture_mode);
  bind("cuEventCreate", api.event_create);
  bind("cuEventDestroy", api.event_destroy);
  bind("cuEventRecord", api.event_record);
  bind("cuEventSynchronize", api.event_synchronize);
  bind("cuEventElapsedTime", api.event_elapsed_time);
}

void bind_memory_and_kernels(Binder& bind, DriverApi& api) {
  bind("cuMemAlloc", api.mem_alloc);
  bind("cuMemFree", api.mem_free);
  bind("cuMemcpyHtoDAsync", api.memcpy_htod_async);
  bind("cuMemcpyDtoHAsync", api.memcpy_dtoh_async);
  bind("cuMemsetD8Async", api.memset_d8_async);
  bind("cuPointerGetAttributes", api.pointer_get_attributes);
  bind("cuLibraryLoadData", api.load_library);
  bind("cuLibraryUnload", api.unload_library);
  bind("cuLibraryGetKernel", api.get_library_kernel);
  bind("cuKernelGetFunction", api.kernel_get_function);
  bind("cuKernelGetAttribute", api.kernel_get_attribute);
  bind("cuKernelSetAttribute", api.kernel_set_attribute);
  bind("cuOccupancyMaxActiveBlocksPerMultiprocessor", api.occupancy);
  bind("cuLaunchKernel", api.launch_kernel);
  bind("cuLaunchKernelEx", api.launch_kernel_ex);
  bind("cuGraphInstantiate", api.graph_instantiate);
  bind("cuGraphUpload", api.graph_upload);
  bind("cuGraphLaunch", api.graph_launch);
  bind("cuGraphDestroy", api.graph_destroy);
  bind("cuGraphExecDestroy", api.graph_exec_destroy);
  bind.optional("cuCtxGetId", api.ctx_get_id, 12000);
  bind.optional("cuKernelGetParamInfo", api.kernel_get_param_info, 12040);
  bind.optional("cuCtxGetDevResource", api.ctx_get_dev_resource, 12040);
}

// The functions of an open library. `path` is for messages.
Result<DriverApi> bind_driver(void* library, const std::string& path) {
  const auto driver_version =
      reinterpret_cast<decltype(&cuDriverGetVersion)>(dlsym(library, "cuDriverGetVersion"));
  if (!driver_version) return no_device(path + " is not a CUDA driver: no cuDriverGetVersion");
  DriverApi api{};
  const CUresult result = driver_version(&api.version);
  if (result == CUDA_ERROR_STUB_LIBRARY) return stub_status(path);
  if (result != CUDA_SUCCESS) {
    return no_device("cuDriverGetVersion of " + path + " failed with code " +
                     std::to_string(static_cast<int>(result)));
  }
  const auto get_proc_address =
      reinterpret_cast<decltype(&cuGetProcAddress)>(dlsym(library, "cuGetProcAddress_v2"));
  if (api.version < kOldestDriver || !get_proc_address) {
    return no_device("the CUDA driver (" + path + ") serves CUDA " + version_text(api.version) +
                     "; rowsmith needs " + version_text(kOldestDriver) +
                     " or later (built with headers of " + version_text(CUDA_VERSION) +
                     "): update the driver");
  }
  Binder bind(get_proc_address);
  bind_devices_and_streams(bind, api);
  bind_memory_and_kernels(bind, api);
  if (!bind.missing().empty()) {
    return no_device("the CUDA driver (" + path + ", CUDA " + version_text(api.version) +
                     ") has no " + bind.missing());
  }
  return api;
}

std::mutex process_mutex;  // guards the two below
const DriverApi* process_api = nullptr;
bool process_started = false;

// Loads once and keeps for the life of the process: the driver is never unloaded. Requires the
// lock.
Result<const DriverApi*> loaded() {
  if (!process_api) {
    Result<DriverApi> api = load_driver();
    if (!api.ok()) return api.status();
    static const DriverApi kept = *api;
    process_api = &kept;
  }
  return process_api;
}

// What a failed cuInit means to the user.
Status init_status(const DriverApi& api, CUresult result) {
  switch (result) {
    case CUDA_ERROR_STUB_LIBRARY: return stub_status(kDriverLibrary);
    case CUDA_ERROR_NOT_INITIALIZED:
      return Status(Code::kNoDevice,
                    "cuInit: CUDA_ERROR_NOT_INITIALIZED: this process was forked after CUDA "
                    "started in its parent; start the child with exec, or fork before CUDA");
    default: {
      const Status status = to_status(api, result, "cuInit");
      return no_device(status.message() + " (driver for CUDA " + version_text(api.version) + ")");
    }
  }
}

bool keeps_context_broken(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN: return true;
    default: break;
  }
  // CUDA_ERROR_CONTAINED and CUDA_ERROR_TENSOR_MEMORY_LEAK, which 12.4's header does not name.
  return static_cast<int>(result) == 226 || static_cast<int>(result) == 721;
}

Code code_of(CUresult result) {
  if (keeps_context_broken(result)) return Code::kDeviceLost;
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY: return Code::kOutOfMemory;
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_DEVICE_NOT_LICENSED:
    case CUDA_ERROR_OPERATING_SYSTEM:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE: return Code::kNoDevice;
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_JIT_COMPILATION_DISABLED:
    case CUDA_ERROR_INVALID_SOURCE:
    case CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND:
    case CUDA_ERROR_SHARED_OBJECT_INIT_FAILED:
    case CUDA_ERROR_NOT_FOUND:
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
    case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
    case CUDA_ERROR_INVALID_CLUSTER_SIZE: return Code::kLaunchFailed;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_INVALID_HANDLE: return Code::kInvalidArgument;
    case CUDA_ERROR_NOT_SUPPORTED: return Code::kUnsupported;
    default: break;
  }
  // CUDA_ERROR_STREAM_CAPTURE_*: the caller's capture forbids the call.
  const bool capture = result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
                       result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  return capture ? Code::kInvalidArgument : Code::kInternal;
}

}  // namespace

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Result<DriverApi> load_driver(const std::string& path) {
  const std::string name = path.empty() ? kDriverLibrary : path;
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    return no_device("no NVIDIA driver: " + std::string(why ? why : name));
  }
  Result<DriverApi> api = bind_driver(library, name);
  if (!api.ok()) dlclose(library);
  return api;
}

Result<const DriverApi*> start_driver() {
  if (forked_after_start) return forked_status();
  const std::lock_guard lock(process_mutex);
  const Result<const DriverApi*> api = loaded();
  if (!api.ok() || process_started) return api;
  const CUresult result = (*api)->init(0);
  if (result != CUDA_SUCCESS) return init_status(**api, result);
  pthread_atfork(nullptr, nullptr, [] { forked_after_start = true; });
  process_started = true;
  return api;
}

const DriverApi* driver_if_loaded() {
  if (forked_after_start) return nullptr;
  const std::lock_guard lock(process_mutex);
  if (!process_api) {
    void* library = dlopen(kDriverLibrary, RTLD_NOW | RTLD_NOLOAD);
    if (!library) return nullptr;
    dlclose(library);
  }
  const Result<const DriverApi*> api = loaded();
  return api.ok() ? *api : nullptr;
}

Status forked_status() {
  return Status(Code::kNoDevice,
                "forked after CUDA started: CUDA does not work in this child process; start it "
                "with exec, or fork before the first use of the GPU");
}

Status to_status(const DriverApi& api, CUresult result, const std::string& call) {
  if (result == CUDA_SUCCESS) return Status();
  const char* name = nullptr;
  const char* text = nullptr;
  if (api.get_error_name(result, &name) != CUDA_SUCCESS || !name) name = "unknown CUDA error";
  if (api.get_error_string(result, &text) != CUDA_SUCCESS || !text) text = "no description";
  return Status(code_of(result), call + ": " + name + " (" +
                                     std::to_string(static_cast<int>(result)) + "): " + text);
}

}  // namespace rowsmith
