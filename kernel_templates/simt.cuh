// SPDX-License-Identifier: Apache-2.0
//
// The machine beneath the device text: thread indices, barriers, shuffles, single-rounding
// arithmetic and conversions. With simt_memory.cuh, simt_async.cuh and simt_atomic.cuh the only
// text that differs between CUDA (there) and the host device (simt_host.cuh); every family is
// written against these names. No header is used, so that NVRTC needs no include path.
#pragma once

#include "simt_host.cuh"
#include "simt_host_numbers.cuh"

#if !ROWSMITH_HOST

// On functions and members alike: the host form is a plain `inline`.
#define ROWSMITH_DEVICE __device__ __forceinline__
#define ROWSMITH_UNROLL _Pragma("unroll")
#define ROWSMITH_NO_UNROLL _Pragma("unroll 1")
// A kernel entry; the braces that follow are its body and see the parameters as `p`. The body runs
// once the stream's earlier work is done and its writes are seen, so that the launch itself may
// come early (programmatic dependent launch), and in turn lets the next such launch come early.
#define ROWSMITH_KERNEL(name, threads, min_blocks, Params)              \
  __device__ __forceinline__ void name##_body(const Params& p);         \
  extern "C" __global__ void __launch_bounds__((threads), (min_blocks)) \
      name(const __grid_constant__ Params p) {                          \
    rs::follow_earlier_work();                                          \
    name##_body(p);                                                     \
  }                                                                     \
  __device__ __forceinline__ void name##_body(const Params& p)

namespace rs {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};

// kBytes moved as one access.
template <int kBytes>
struct alignas(kBytes) Raw {
  u32 w[kBytes / 4];
};
template <>
struct alignas(2) Raw<2> {
  u16 h;
};
template <>
struct Raw<1> {
  u8 b;
};

// Waits for the stream's earlier work where this launch came early, and allows the next to.
ROWSMITH_DEVICE void follow_earlier_work() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// ---- Threads ----

ROWSMITH_DEVICE int thread_index() {
  return static_cast<int>(threadIdx.x);
}
ROWSMITH_DEVICE i64 block_index() {
  return blockIdx.x;
}
ROWSMITH_DEVICE i64 block_count() {
  return gridDim.x;
}
ROWSMITH_DEVICE void sync() {
  __syncthreads();
}
// All 32 lanes of the warp take part, always.
ROWSMITH_DEVICE float shfl_xor(float value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
ROWSMITH_DEVICE double shfl_xor(double value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
ROWSMITH_DEVICE u32 shfl_xor(u32 value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
#if __CUDA_ARCH__ >= 800
#define ROWSMITH_WARP_REDUCTIONS 1
ROWSMITH_DEVICE int warp_max(int value) {
  return __reduce_max_sync(0xffffffffu, value);
}
#endif
// The launch's dynamic shared memory, 16-byte aligned.
ROWSMITH_DEVICE char* shared_base() {
  extern __shared__ uint4 rowsmith_shared[];
  return reinterpret_cast<char*>(rowsmith_shared);
}

// ---- Arithmetic: one rounding each, never contracted ----

ROWSMITH_DEVICE float as_f32(u32 bits) {
  return __uint_as_float(bits);
}
ROWSMITH_DEVICE u32 as_u32(float value) {
  return __float_as_uint(value);
}
ROWSMITH_DEVICE float add(float a, float b) {
  return __fadd_rn(a, b);
}
ROWSMITH_DEVICE float sub(float a, float b) {
  return __fsub_rn(a, b);
}
ROWSMITH_DEVICE float mul(float a, float b) {
  return __fmul_rn(a, b);
}
ROWSMITH_DEVICE float fma_rn(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}
ROWSMITH_DEVICE float div_rn(float a, float b) {
  return __fdiv_rn(a, b);
}
// The greater; of a number and a NaN, the number.
ROWSMITH_DEVICE float max_num(float a, float b) {
  return fmaxf(a, b);
}
ROWSMITH_DEVICE float max_num(float a, float b, float c) {
#if __CUDA_ARCH__ >= 1000
  float r;
  asm("max.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(a), "f"(b), "f"(c));
  return r;
#else
  return fmaxf(fmaxf(a, b), c);
#endif
}
// 2^x within 2^-22 relative; results below 2^-126 are 0; 2^-inf = 0; NaN stays.
ROWSMITH_DEVICE float ex2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// 0, of which no compiler knows: adding it to a word makes another value of the same bits, so that
// what was made of the word before is not kept in registers to be used again. (An empty asm on the
// word keeps NVVM from that, but ptxas, which never sees it, does it all the same.)
ROWSMITH_DEVICE u32 hidden_zero() {
  u32 multiprocessor;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
  return multiprocessor >> 28;
}

// The same for f64, which no compiler option flushes.
ROWSMITH_DEVICE double as_f64(u32 lo, u32 hi) {
  return __hiloint2double(static_cast<int>(hi), static_cast<int>(lo));
}
ROWSMITH_DEVICE u32 lo_word(double value) {
  return static_cast<u32>(__double2loint(value));
}
ROWSMITH_DEVICE u32 hi_word(double value) {
  return static_cast<u32>(__double2hiint(value));
}
ROWSMITH_DEVICE double add(double a, double b) {
  return __dadd_rn(a, b);
}
ROWSMITH_DEVICE double sub(double a, double b) {
  return __dsub_rn(a, b);
}
ROWSMITH_DEVICE double mul(double a, double b) {
  return __dmul_rn(a, b);
}
ROWSMITH_DEVICE double div_rn(double a, double b) {
  return __ddiv_rn(a, b);
}
ROWSMITH_DEVICE double max_num(double a, double b) {
  return fmax(a, b);
}
ROWSMITH_DEVICE double max_num(double a, double b, double c) {
  return fmax(fmax(a, b), c);
}
// e^x within 2^-52 relative where that is a normal number; e^-inf = 0; NaN stays.
ROWSMITH_DEVICE double exp_f64(double x) {
  return exp(x);
}

// ---- Conversions: to nearest even; f16 keeps subnormals ----

ROWSMITH_DEVICE float to_f32(float value) {
  return value;
}
ROWSMITH_DEVICE float to_f32(f16 value) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(value.bits));
  return f;
}
ROWSMITH_DEVICE float to_f32(bf16 value) {
  return as_f32(static_cast<u32>(value.bits) << 16);
}

template <class T>
ROWSMITH_DEVICE T from_f32(float value);
template <>
ROWSMITH_DEVICE float from_f32<float>(float value) {
  return value;
}
template <>
ROWSMITH_DEVICE f16 from_f32<f16>(float value) {
  f16 r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(value));
  return r;
}
template <>
ROWSMITH_DEVICE bf16 from_f32<bf16>(float value) {
  bf16 r;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.bits) : "f"(value));
#else
  const u32 w = as_u32(value);
  const bool nan = (w & 0x7fffffffu) > 0x7f800000u;
  r.bits = static_cast<u16>(nan ? 0x7fffu : (w + 0x7fffu + ((w >> 16) & 1u)) >> 16);
#endif
  return r;
}

// Two elements in one word, the first in the low half.
template <class T>
ROWSMITH_DEVICE u32 pack2(float lo, float hi) {
  return static_cast<u32>(from_f32<T>(lo).bits) | static_cast<u32>(from_f32<T>(hi).bits) << 16;
}
#if __CUDA_ARCH__ >= 800
template <>
ROWSMITH_DEVICE u32 pack2<f16>(float lo, float hi) {
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}
template <>
ROWSMITH_DEVICE u32 pack2<bf16>(float lo, float hi) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}
#endif
template <class T>
ROWSMITH_DEVICE float lo_f32(u32 word) {
  return to_f32(T{static_cast<u16>(word & 0xffffu)});
}
template <class T>
ROWSMITH_DEVICE float hi_f32(u32 word) {
  return to_f32(T{static_cast<u16>(word >> 16)});
}
template <>
ROWSMITH_DEVICE float hi_f32<bf16>(u32 word) {
  return as_f32(word & 0xffff0000u);
}

// The greater of the low and of the high elements; of a number and a NaN, the number.
template <class T>
ROWSMITH_DEVICE u32 max2(u32 a, u32 b);
template <>
ROWSMITH_DEVICE u32 max2<f16>(u32 a, u32 b) {
#if __CUDA_ARCH__ >= 800
  u32 r;
  asm("max.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
#else
  return pack2<f16>(max_num(lo_f32<f16>(a), lo_f32<f16>(b)),
                    max_num(hi_f32<f16>(a), hi_f32<f16>(b)));
#endif
}
template <>
ROWSMITH_DEVICE u32 max2<bf16>(u32 a, u32 b) {
#if __CUDA_ARCH__ >= 800
  u32 r;
  asm("max.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
#else
  return pack2<bf16>(max_num(lo_f32<bf16>(a), lo_f32<bf16>(b)),
                     max_num(hi_f32<bf16>(a), hi_f32<bf16>(b)));
#endif
}

}  // namespace rs

#endif  // !ROWSMITH_HOST
