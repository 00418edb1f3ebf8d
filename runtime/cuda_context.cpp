// SPDX-License-Identifier: Apache-2.0
//
// The primary context's life, and the scope in which our own driver calls run.
#include "runtime/cuda_context.h"

#include "runtime/log.h"

namespace rowsmith {
namespace {

// The first driver that captures programmatic dependent launches into graphs is 12.3's.
constexpr int kEarlyLaunchDriver = 12030;

}  // namespace

Status CudaContext::start() {
  if (primary()) return Status();
  const std::lock_guard lock(start_mutex_);
  if (primary()) return Status();
  const RelaxedCapture relaxed(api);
  CUcontext context = nullptr;
  if (const auto result = api.primary_ctx_retain(&context, device); result != CUDA_SUCCESS) {
    return status(result, "cuDevicePrimaryCtxRetain")
        .with_context("opening device " + std::to_string(ordinal));
  }
  CUcontext before = nullptr;
  CUresult result = api.ctx_get_current(&before);
  if (result == CUDA_SUCCESS) {
    const CurrentContext current(api, before, context);
    result = current.result();
    if (result == CUDA_SUCCESS) result = api.stream_create(&stream_, CU_STREAM_NON_BLOCKING);
  }
  if (result != CUDA_SUCCESS) {
    report(api.primary_ctx_release(device), "cuDevicePrimaryCtxRelease");
    return status(result, "cuStreamCreate");
  }
  int major = 0;
  const auto known =
      api.device_get_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  starts_early_ = known == CUDA_SUCCESS && major >= 9 && api.version >= kEarlyLaunchDriver;
  primary_.store(context, std::memory_order_release);
  return Status();
}

CudaContext::~CudaContext() {
  if (!primary() || forked_after_start) return;
  {
    const CudaScope scope(*this);
    if (scope.status().ok()) report(api.stream_destroy(stream_), "cuStreamDestroy");
  }
  report(api.primary_ctx_release(device), "cuDevicePrimaryCtxRelease");
}

void CudaContext::report(CUresult result, const char* call) const noexcept {
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED) return;
  try {
    const Status failure = status(result, call);
    if (failure.code() != Code::kDeviceLost) log().warn("{}", failure.message());
  } catch (...) {  // a destructor's caller cannot be told that even the message failed
  }
}

CudaScope::CudaScope(CudaContext& context) {
  if (forked_after_start) {
    status_ = forked_status();
    return;
  }
  const DriverApi& api = context.api;
  relaxed_.emplace(api);
  status_ = context.start();
  if (!status_.ok()) return;
  CUcontext before = nullptr;
  CUresult result = api.ctx_get_current(&before);
  if (result == CUDA_SUCCESS) {
    current_.emplace(api, before, context.primary());
    result = current_->result();
  }
  status_ = context.status(result, "cuCtxSetCurrent");
}

}  // namespace rowsmith
