// SPDX-License-Identifier: Apache-2.0
#include <rowsmith/rowsmith.h>

#include "runtime/dispatcher.h"
#include "runtime/process_runtime.h"

#include <exception>

namespace rowsmith {

Status softmax(const SoftmaxCall& call) {
  // An empty or a wrong call opens no device.
  SoftmaxCall checked = call;
  if (!is_plain_call(checked)) {
    Status status = check_call(checked);
    if (!status.ok() || call.rows == 0 || call.cols == 0) return status;
  }
  try {
    const Result<Runtime*> runtime = process_runtime(call.stream);
    return runtime.ok() ? runtime.value()->softmax(checked) : runtime.status();
  } catch (const std::bad_alloc&) {
    return {Code::kOutOfMemory, "softmax: host memory"};
  } catch (const std::exception& error) {
    return {Code::kInternal, std::string("softmax: ") + error.what()};
  }
}

Status softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols,
               CUstream_st* stream) {
  return softmax({x, y, rows, cols, 0, 0, DType::kF32, DType::kF32, stream});
}

Status softmax(const double* x, double* y, std::int64_t rows, std::int64_t cols,
               CUstream_st* stream) {
  return softmax({x, y, rows, cols, 0, 0, DType::kF64, DType::kF64, stream});
}

Status softmax(const __half* x, __half* y, std::int64_t rows, std::int64_t cols,
               CUstream_st* stream) {
  return softmax({x, y, rows, cols, 0, 0, DType::kF16, DType::kF16, stream});
}

Status softmax(const __nv_bfloat16* x, __nv_bfloat16* y, std::int64_t rows, std::int64_t cols,
               CUstream_st* stream) {
  return softmax({x, y, rows, cols, 0, 0, DType::kBF16, DType::kBF16, stream});
}

Status softmax(const __nv_fp8_e4m3* x, __nv_fp8_e4m3* y, std::int64_t rows, std::int64_t cols,
               CUstream_st* stream) {
  return softmax({x, y, rows, cols, 0, 0, DType::kF8E4M3, DType::kF8E4M3, stream});
}

Status softmax(const __nv_fp8_e5m2* x, __nv_fp8_e5m2* y, std::int64_t rows, std::int64_t cols,
               CUstream_st* stream) {
  return softmax({x, y, rows, cols, 0, 0, DType::kF8E5M2, DType::kF8E5M2, stream});
}

}  // namespace rowsmith
