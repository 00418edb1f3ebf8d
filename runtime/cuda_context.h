// SPDX-License-Identifier: Apache-2.0
//
// CudaContext: one GPU's primary context with a stream of our own, shared by the device and all
// that it hands out (buffers, modules, sequences), so that any of them may go first. Also the
// scopes that leave the caller's current context and capture mode as they were.
#pragma once

#include "runtime/cuda_driver.h"

#include <atomic>
#include <mutex>
#include <optional>

namespace rowsmith {

// Makes a context current and restores `before` at the end. Requires: `before` is current.
class CurrentContext {
 public:
  CurrentContext(const DriverApi& api, CUcontext before, CUcontext context)
      : api_(api), before_(before), changed_(context != before) {
    if (changed_) result_ = api_.ctx_set_current(context);
  }
  ~CurrentContext() {
    if (changed_) api_.ctx_set_current(before_);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

  CUresult result() const { return result_; }

 private:
  const DriverApi& api_;
  CUcontext before_;
  bool changed_;
  CUresult result_ = CUDA_SUCCESS;
};

// Lets this thread call what would otherwise end a capture in progress, ours or another thread's.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const DriverApi& api) : api_(api) {
    swapped_ = api_.exchange_capture_mode(&mode_) == CUDA_SUCCESS;
  }
  ~RelaxedCapture() {
    if (swapped_) api_.exchange_capture_mode(&mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const DriverApi& api_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool swapped_ = false;
};

// Thread-safe.
class CudaContext {
 public:
  CudaContext(const DriverApi& driver, CUdevice gpu, int index)
      : api(driver), device(gpu), ordinal(index) {}
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  // Retains the primary context and makes the stream, on the first call that succeeds. Out of
  // memory, device lost, no device.
  Status start();
  // Null before start().
  CUcontext primary() const { return primary_.load(std::memory_order_acquire); }
  // Non-blocking: never ordered with the caller's work. Hold the mutex while using it.
  CUstream stream() const { return stream_; }
  std::mutex& stream_mutex() { return stream_mutex_; }
  // Programmatic dependent launches work here, in captures too. Requires start().
  bool starts_early() const { return starts_early_; }

  Status status(CUresult result, const char* call) const { return to_status(api, result, call); }
  // For destructors: logs a failure, except where it only says that the driver or the context has
  // gone already.
  void report(CUresult result, const char* call) const noexcept;

  const DriverApi& api;
  const CUdevice device;
  const int ordinal;

 private:
  std::mutex start_mutex_, stream_mutex_;
  std::atomic<CUcontext> primary_{nullptr};
  CUstream stream_ = nullptr;
  bool starts_early_ = false;
};

// For everything but launches: the started context is current and the capture mode relaxed, both
// restored at the end. Check status() first.
class CudaScope {
 public:
  explicit CudaScope(CudaContext& context);
  const Status& status() const { return status_; }

 private:
  std::optional<RelaxedCapture> relaxed_;
  std::optional<CurrentContext> current_;
  Status status_;
};

}  // namespace rowsmith
