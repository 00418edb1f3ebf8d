// SPDX-License-Identifier: Apache-2.0
//
// Runtime: a device, its cache and its loaded kernels, and the softmax that they serve. Servers
// open their own; rowsmith.h offers a free function over a process-wide one.
#pragma once

#include <rowsmith/status.h>
#include <rowsmith/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// CUDA's types by name only, so that no CUDA header is needed here. A cudaStream_t or CUstream
// converts to CUstream_st* as it is.
struct CUstream_st;
struct __half;
struct __nv_bfloat16;
struct __nv_fp8_e4m3;
struct __nv_fp8_e5m2;

namespace rowsmith {

// What a call does when no winner is stored near its problem.
enum class OnMiss {
  kTune,     // tune within the budget in this call, remember, serve
  kDefault,  // serve the default config, count the miss: what servers set
  kError,    // answer `not tuned`
};

struct RuntimeOptions {
  // --- What it does ---
  // "" = the first GPU; "0" = a CUDA ordinal; "GPU-<uuid>"; "host" = the functional CPU device.
  std::string device;
  OnMiss on_miss = OnMiss::kTune;
  // A config as text: serves every problem for which it is legal, and fails the others.
  std::string pin;
  // --- Where it remembers ---
  std::string cache_dir;                // "" = no disk: remembers for this process only
  std::vector<std::string> site_cache;  // read-only directories below cache_dir
  bool read_only = false;
  // --- What it costs ---
  int tune_budget_ms = 2000;  // for one miss, after which the best so far serves
  // Pointers are checked before each launch (two driver queries). A bound runtime trusts its
  // caller.
  bool check_pointers = false;

  // Options as the environment asks (README, "Environment"). Invalid argument names the variable.
  static Result<RuntimeOptions> from_environment();
};

// One call in full. Strides in elements; 0 = contiguous, that is `cols`.
struct SoftmaxCall {
  const void* src = nullptr;  // [rows, cols], row r at src + r * src_stride
  void* dst = nullptr;        // [rows, cols], row r at dst + r * dst_stride
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t src_stride = 0;
  std::int64_t dst_stride = 0;
  DType in = DType::kF32;
  DType out = DType::kF32;
  CUstream_st* stream = nullptr;  // ignored by the host device
  // Every result is multiplied by it before the one rounding to `out`: what makes probabilities fit
  // fp8. Greater than 0, at most 2^126; in f32 unless `in` is f64. No part of a problem.
  double out_scale = 1;
};

// Which rung of the ladder serves a problem.
enum class Source { kExact, kNearest, kDefault, kGeneric, kPinned };

// "exact", "nearest", "default", "generic", "pinned".
const char* to_string(Source source) noexcept;

struct Explanation {
  Source source = Source::kGeneric;
  Config config;
  std::vector<std::string> reasons;  // what was found, and each key part that failed to match
  std::int64_t median_ns = 0;        // of the stored winner; 0 where none serves
};

struct Stats {
  std::uint64_t calls = 0;     // that reached a launch
  std::uint64_t exact = 0;     // of which by an exact winner
  std::uint64_t misses = 0;    // that no exact winner served
  std::uint64_t compiled = 0;  // programs compiled
  std::uint64_t loaded = 0;    // kernels loaded, compiled or from the binary store
  std::uint64_t tuned = 0;     // problems tuned in a call
};

// Thread-safe. Calls are asynchronous on their stream. Destroy it only after its launches are done.
// In a forked child calls on a GPU answer no device, as CUDA ends there; the host device serves.
class Runtime {
 public:
  // No device, invalid argument. A cache that cannot be used is logged, never an error.
  static Result<std::unique_ptr<Runtime>> open(const RuntimeOptions& options);

  virtual ~Runtime() = default;

  // y[r, c] = out_scale * exp(x[r, c]) / sum over c of exp(x[r, c]), computed as
  // docs/architecture.md section "Numbers" says; fp8 results saturate. f64 is served to f64 alone,
  // every other dtype to every other. src == dst with equal strides and dtypes is allowed; other
  // overlap is not. rows = 0 or cols = 0 succeeds without a launch. Codes: invalid argument,
  // unsupported, compile failed, launch failed, out of memory, device lost, not tuned, not
  // prepared.
  virtual Status softmax(const SoftmaxCall& call) = 0;

  // Loads (or, as the policy says, tunes) what these problems need, so that later calls neither
  // compile nor read a file. Answers the first failure after trying them all.
  virtual Status prepare(const std::vector<Problem>& problems) = 0;

  // What would serve the problem now, and why. Tunes nothing, loads nothing. Invalid argument also
  // for rows = 0 or cols = 0, which nothing serves.
  virtual Result<Explanation> explain(const Problem& problem) = 0;

  virtual Stats stats() const = 0;
  virtual const DeviceFacts& device() const = 0;

  // Contiguous [rows, cols] of the deduced dtype.
  Status softmax(const float* x, float* y, std::int64_t rows, std::int64_t cols,
                 CUstream_st* stream = nullptr) {
    return softmax({x, y, rows, cols, 0, 0, DType::kF32, DType::kF32, stream});
  }
  Status softmax(const double* x, double* y, std::int64_t rows, std::int64_t cols,
                 CUstream_st* stream = nullptr) {
    return softmax({x, y, rows, cols, 0, 0, DType::kF64, DType::kF64, stream});
  }
  Status softmax(const __half* x, __half* y, std::int64_t rows, std::int64_t cols,
                 CUstream_st* stream = nullptr) {
    return softmax({x, y, rows, cols, 0, 0, DType::kF16, DType::kF16, stream});
  }
  Status softmax(const __nv_bfloat16* x, __nv_bfloat16* y, std::int64_t rows, std::int64_t cols,
                 CUstream_st* stream = nullptr) {
    return softmax({x, y, rows, cols, 0, 0, DType::kBF16, DType::kBF16, stream});
  }
  Status softmax(const __nv_fp8_e4m3* x, __nv_fp8_e4m3* y, std::int64_t rows, std::int64_t cols,
                 CUstream_st* stream = nullptr) {
    return softmax({x, y, rows, cols, 0, 0, DType::kF8E4M3, DType::kF8E4M3, stream});
  }
  Status softmax(const __nv_fp8_e5m2* x, __nv_fp8_e5m2* y, std::int64_t rows, std::int64_t cols,
                 CUstream_st* stream = nullptr) {
    return softmax({x, y, rows, cols, 0, 0, DType::kF8E5M2, DType::kF8E5M2, stream});
  }
};

}  // namespace rowsmith
