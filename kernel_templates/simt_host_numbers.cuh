// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic and conversions of the host device's half of simt.cuh.
#pragma once

#include "simt_host.cuh"

#if ROWSMITH_HOST

namespace rs {

// ---- Arithmetic: one rounding each; -ffp-contract=off keeps the compiler from fusing ----

ROWSMITH_DEVICE float as_f32(u32 bits) {
  return __builtin_bit_cast(float, bits);
}
ROWSMITH_DEVICE u32 as_u32(float value) {
  return __builtin_bit_cast(u32, value);
}
ROWSMITH_DEVICE float add(float a, float b) {
  return a + b;
}
ROWSMITH_DEVICE float sub(float a, float b) {
  return a - b;
}
ROWSMITH_DEVICE float mul(float a, float b) {
  return a * b;
}
ROWSMITH_DEVICE float fma_rn(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
ROWSMITH_DEVICE float div_rn(float a, float b) {
  return a / b;
}
ROWSMITH_DEVICE float max_num(float a, float b) {
  if (a != a) return b;
  return a < b ? b : a;
}
ROWSMITH_DEVICE float max_num(float a, float b, float c) {
  return max_num(max_num(a, b), c);
}
ROWSMITH_DEVICE float ex2(float x) {
  const float y = __builtin_exp2f(x);
  return y < 0x1p-126f ? 0.0f : y;
}

ROWSMITH_DEVICE double as_f64(u32 lo, u32 hi) {
  return __builtin_bit_cast(double, static_cast<u64>(hi) << 32 | lo);
}
ROWSMITH_DEVICE u32 lo_word(double value) {
  return static_cast<u32>(__builtin_bit_cast(u64, value));
}
ROWSMITH_DEVICE u32 hi_word(double value) {
  return static_cast<u32>(__builtin_bit_cast(u64, value) >> 32);
}
ROWSMITH_DEVICE double add(double a, double b) {
  return a + b;
}
ROWSMITH_DEVICE double sub(double a, double b) {
  return a - b;
}
ROWSMITH_DEVICE double mul(double a, double b) {
  return a * b;
}
ROWSMITH_DEVICE double div_rn(double a, double b) {
  return a / b;
}
ROWSMITH_DEVICE double max_num(double a, double b) {
  if (a != a) return b;
  return a < b ? b : a;
}
ROWSMITH_DEVICE double max_num(double a, double b, double c) {
  return max_num(max_num(a, b), c);
}
ROWSMITH_DEVICE double exp_f64(double x) {
  return __builtin_exp(x);
}

ROWSMITH_DEVICE u32 hidden_zero() {
  return 0;
}

// ---- Conversions: to nearest even; f16 keeps subnormals; any NaN becomes 0x7fff, as on CUDA ----

ROWSMITH_DEVICE float to_f32(float value) {
  return value;
}
ROWSMITH_DEVICE float to_f32(bf16 value) {
  return as_f32(static_cast<u32>(value.bits) << 16);
}
ROWSMITH_DEVICE float to_f32(f16 value) {
  const u32 sign = static_cast<u32>(value.bits & 0x8000u) << 16;
  const u32 magnitude = static_cast<u32>(value.bits & 0x7fffu) << 13;
  if (magnitude >= 0x1fu << 23) {  // infinity, NaN
    return as_f32(sign | magnitude | 0xffu << 23);
  }
  // The half's exponent is off by 127 - 15; multiplying rights it, subnormals included.
  return as_f32(sign | as_u32(mul(as_f32(magnitude), 0x1p112f)));
}

namespace host {

inline f16 f16_from(float value) {
  const u32 word = as_u32(value);
  const u32 sign = word >> 16 & 0x8000u;
  const u32 magnitude = word & 0x7fffffffu;
  u32 half = 0;
  if (magnitude > 0x7f800000u) {
    return {0x7fffu};
  } else if (magnitude >= 0x477ff000u) {  // 65520 and above round to infinity
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: one unit of the half is one of 0.5f
    half = as_u32(add(as_f32(magnitude), 0.5f)) - as_u32(0.5f);
  } else {
    half = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  }
  return {static_cast<u16>(sign | half)};
}

inline bf16 bf16_from(float value) {
  const u32 word = as_u32(value);
  if ((word & 0x7fffffffu) > 0x7f800000u) return {0x7fffu};
  return {static_cast<u16>((word + 0x7fffu + (word >> 16 & 1u)) >> 16)};
}

}  // namespace host

template <class T>
T from_f32(float value);
template <>
ROWSMITH_DEVICE float from_f32<float>(float value) {
  return value;
}
template <>
ROWSMITH_DEVICE f16 from_f32<f16>(float value) {
  return host::f16_from(value);
}
template <>
ROWSMITH_DEVICE bf16 from_f32<bf16>(float value) {
  return host::bf16_from(value);
}

template <class T>
ROWSMITH_DEVICE u32 pack2(float lo, float hi) {
  return static_cast<u32>(from_f32<T>(lo).bits) | static_cast<u32>(from_f32<T>(hi).bits) << 16;
}
template <class T>
ROWSMITH_DEVICE float lo_f32(u32 word) {
  return to_f32(T{static_cast<u16>(word & 0xffffu)});
}
template <class T>
ROWSMITH_DEVICE float hi_f32(u32 word) {
  return to_f32(T{static_cast<u16>(word >> 16)});
}
template <class T>
ROWSMITH_DEVICE u32 max2(u32 a, u32 b) {
  return pack2<T>(max_num(lo_f32<T>(a), lo_f32<T>(b)), max_num(hi_f32<T>(a), hi_f32<T>(b)));
}

}  // namespace rs

#endif  // ROWSMITH_HOST
