// SPDX-License-Identifier: Apache-2.0
//
// The CUDA driver, opened at run time: the one file that includes cuda.h. Holds the function table,
// the meaning of the driver's codes and the guard against forked children; contexts, modules and
// launches are built on it elsewhere.
#pragma once

#include <rowsmith/status.h>

#include <cuda.h>

#include <atomic>
#include <string>

namespace rowsmith {

// The oldest driver that has context-independent loading (cuLibraryLoadData).
inline constexpr int kOldestDriver = 12000;

// The driver's functions, as of CUDA 12.0. Those at the end are null on drivers that lack them.
struct DriverApi {
  int version = 0;  // 13000 for 13.0

  decltype(&cuInit) init;
  decltype(&cuGetErrorName) get_error_name;
  decltype(&cuGetErrorString) get_error_string;
  decltype(&cuDeviceGetCount) device_get_count;
  decltype(&cuDeviceGet) device_get;
  decltype(&cuDeviceGetName) device_get_name;
  decltype(&cuDeviceGetUuid) device_get_uuid;
  decltype(&cuDeviceGetPCIBusId) device_get_pci_bus_id;
  decltype(&cuDeviceGetAttribute) device_get_attribute;
  decltype(&cuDeviceTotalMem) device_total_mem;
  decltype(&cuDevicePrimaryCtxRetain) primary_ctx_retain;
  decltype(&cuDevicePrimaryCtxRelease) primary_ctx_release;
  decltype(&cuCtxGetCurrent) ctx_get_current;
  decltype(&cuCtxSetCurrent) ctx_set_current;
  decltype(&cuCtxGetDevice) ctx_get_device;
  decltype(&cuStreamCreate) stream_create;
  decltype(&cuStreamDestroy) stream_destroy;
  decltype(&cuStreamSynchronize) stream_synchronize;
  decltype(&cuStreamGetCtx) stream_get_ctx;
  decltype(&cuStreamIsCapturing) stream_is_capturing;
  decltype(&cuStreamBeginCapture) stream_begin_capture;
  decltype(&cuStreamEndCapture) stream_end_capture;
  decltype(&cuThreadExchangeStreamCaptureMode) exchange_capture_mode;
  decltype(&cuEventCreate) event_create;
  decltype(&cuEventDestroy) event_destroy;
  decltype(&cuEventRecord) event_record;
  decltype(&cuEventSynchronize) event_synchronize;
  decltype(&cuEventElapsedTime) event_elapsed_time;
  decltype(&cuMemAlloc) mem_alloc;
  decltype(&cuMemFree) mem_free;
  decltype(&cuMemcpyHtoDAsync) memcpy_htod_async;
  decltype(&cuMemcpyDtoHAsync) memcpy_dtoh_async;
  decltype(&cuMemsetD8Async) memset_d8_async;
  decltype(&cuPointerGetAttributes) pointer_get_attributes;
  decltype(&cuLibraryLoadData) load_library;
  decltype(&cuLibraryUnload) unload_library;
  decltype(&cuLibraryGetKernel) get_library_kernel;
  decltype(&cuKernelGetFunction) kernel_get_function;
  decltype(&cuKernelGetAttribute) kernel_get_attribute;
  decltype(&cuKernelSetAttribute) kernel_set_attribute;
  decltype(&cuOccupancyMaxActiveBlocksPerMultiprocessor) occupancy;
  decltype(&cuLaunchKernel) launch_kernel;
  decltype(&cuLaunchKernelEx) launch_kernel_ex;
  decltype(&cuGraphInstantiate) graph_instantiate;
  decltype(&cuGraphUpload) graph_upload;
  decltype(&cuGraphLaunch) graph_launch;
  decltype(&cuGraphDestroy) graph_destroy;
  decltype(&cuGraphExecDestroy) graph_exec_destroy;

  decltype(&cuCtxGetId) ctx_get_id;                       // 12.0
  decltype(&cuKernelGetParamInfo) kernel_get_param_info;  // 12.4
  decltype(&cuCtxGetDevResource) ctx_get_dev_resource;    // 12.4
};

// The functions of the library at `path`, or of libcuda.so.1 where it is empty; does not start the
// driver. No device, saying why: no such library, the toolkit's stub, older than kOldestDriver, or
// a function missing.
Result<DriverApi> load_driver(const std::string& path = "");

// The process's driver, loaded and started (cuInit) on the first call that succeeds; a failure is
// tried anew by the next call. No device. Thread-safe.
Result<const DriverApi*> start_driver();

// The driver that this process has loaded already, by us or another, started or not; else nullptr.
const DriverApi* driver_if_loaded();

// True in a process forked after start_driver() succeeded: CUDA does not work there, and nothing of
// ours calls it.
inline std::atomic<bool> forked_after_start{false};
Status forked_status();

// Ok for CUDA_SUCCESS; else the code that the result stands for and "<call>: <NAME> (<number>):
// <text>". Launch failed is a kernel's own failure; device lost an error that the context keeps;
// what a stream capture forbids is the caller's, so an invalid argument.
Status to_status(const DriverApi& api, CUresult result, const std::string& call);

// "13.0" for 13000.
std::string version_text(int version);

}  // namespace rowsmith
