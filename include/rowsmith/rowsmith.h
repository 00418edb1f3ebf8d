// SPDX-License-Identifier: Apache-2.0
//
// The front door: softmax over rows on a process-wide Runtime.
#pragma once

#include <rowsmith/runtime.h>

namespace rowsmith {

// Softmax over the columns of a contiguous [rows, cols] matrix, asynchronous on `stream`, on a
// process-wide Runtime of the stream's (else the current context's, else the first) device, opened
// on first use from the environment. Checks that the device can access x and y. Thread-safe.
// Codes as Runtime::softmax, and no device.
Status softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols,
               CUstream_st* stream = nullptr);
Status softmax(const double* x, double* y, std::int64_t rows, std::int64_t cols,
               CUstream_st* stream = nullptr);
Status softmax(const __half* x, __half* y, std::int64_t rows, std::int64_t cols,
               CUstream_st* stream = nullptr);
Status softmax(const __nv_bfloat16* x, __nv_bfloat16* y, std::int64_t rows, std::int64_t cols,
               CUstream_st* stream = nullptr);
Status softmax(const __nv_fp8_e4m3* x, __nv_fp8_e4m3* y, std::int64_t rows, std::int64_t cols,
               CUstream_st* stream = nullptr);
Status softmax(const __nv_fp8_e5m2* x, __nv_fp8_e5m2* y, std::int64_t rows, std::int64_t cols,
               CUstream_st* stream = nullptr);

// The same with strides, separate dtypes and an output scale.
Status softmax(const SoftmaxCall& call);

}  // namespace rowsmith
