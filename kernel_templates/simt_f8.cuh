// SPDX-License-Identifier: Apache-2.0
//
// The two 8-bit floats, by the hardware's conversions where it has them (sm_89 and later), else and
// on the host device by exact bit arithmetic. To nearest even, subnormals kept; beyond the largest
// finite value, infinity included, that value; any NaN becomes 0x7f.
#pragma once

#include "simt.cuh"

namespace rs {

// 3 bits of fraction, largest 448, no infinity; NaN is 0x7f and 0xff.
struct f8e4m3 {
  u8 bits;
};
// 2 bits of fraction, largest 57344, infinity 0x7c, NaN above.
struct f8e5m2 {
  u8 bits;
};

struct F32Pair {
  float lo, hi;
};

// Two elements in 16 bits, the first in the low byte, as f32 and back.
template <class T>
ROWSMITH_DEVICE F32Pair unpack_f8(u16 pair);
template <class T>
ROWSMITH_DEVICE u16 pack_f8(float lo, float hi);

#if !ROWSMITH_HOST && __CUDA_ARCH__ >= 890

// By way of halves, which hold every value of both types.
template <>
ROWSMITH_DEVICE F32Pair unpack_f8<f8e4m3>(u16 pair) {
  u32 halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
  return {lo_f32<f16>(halves), hi_f32<f16>(halves)};
}
template <>
ROWSMITH_DEVICE F32Pair unpack_f8<f8e5m2>(u16 pair) {
  u32 halves;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(pair));
  return {lo_f32<f16>(halves), hi_f32<f16>(halves)};
}
template <>
ROWSMITH_DEVICE u16 pack_f8<f8e4m3>(float lo, float hi) {
  u16 pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(hi), "f"(lo));
  return pair;
}
template <>
ROWSMITH_DEVICE u16 pack_f8<f8e5m2>(float lo, float hi) {
  u16 pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(hi), "f"(lo));
  return pair;
}

#else

namespace f8 {

ROWSMITH_DEVICE float value_of(f8e5m2 element) {
  return to_f32(f16{static_cast<u16>(element.bits << 8)});
}
// The half's exponent is off by 15 - 7; multiplying rights it, subnormals included.
ROWSMITH_DEVICE float value_of(f8e4m3 element) {
  const u32 magnitude = element.bits & 0x7fu;
  if (magnitude == 0x7fu) return as_f32(0x7fffffffu);
  const u32 half = (element.bits & 0x80u) << 8 | magnitude << 7;
  return mul(to_f32(f16{static_cast<u16>(half)}), 256.0f);
}

template <u32 kFraction, u32 kBias, u32 kLargest>
ROWSMITH_DEVICE u8 code_of(float value) {
  constexpr u32 kShift = 23 - kFraction;
  constexpr u32 kLeastNormal = (128 - kBias) << 23;
  // The number whose last place is the unit of the subnormals: adding it rounds to them.
  constexpr u32 kRounder = (128 - kBias + kShift) << 23;
  const u32 word = as_u32(value), magnitude = word & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7f;
  u32 code = 0;
  if (magnitude < kLeastNormal) {
    code = as_u32(add(as_f32(magnitude), as_f32(kRounder))) - kRounder;
  } else {
    const u32 odd = magnitude >> kShift & 1u;
    code = (magnitude - ((127 - kBias) << 23) + (1u << (kShift - 1)) - 1 + odd) >> kShift;
  }
  return static_cast<u8>((word >> 24 & 0x80u) | (code < kLargest ? code : kLargest));
}
ROWSMITH_DEVICE u8 code_of(float value, f8e4m3) {
  return code_of<3, 7, 0x7e>(value);
}
ROWSMITH_DEVICE u8 code_of(float value, f8e5m2) {
  return code_of<2, 15, 0x7b>(value);
}

}  // namespace f8

template <class T>
ROWSMITH_DEVICE F32Pair unpack_f8(u16 pair) {
  return {f8::value_of(T{static_cast<u8>(pair)}), f8::value_of(T{static_cast<u8>(pair >> 8)})};
}
template <class T>
ROWSMITH_DEVICE u16 pack_f8(float lo, float hi) {
  return static_cast<u16>(f8::code_of(lo, T{}) | f8::code_of(hi, T{}) << 8);
}

#endif

// ---- One element ----

ROWSMITH_DEVICE float to_f32(f8e4m3 value) {
  return unpack_f8<f8e4m3>(value.bits).lo;
}
ROWSMITH_DEVICE float to_f32(f8e5m2 value) {
  return unpack_f8<f8e5m2>(value.bits).lo;
}
template <>
ROWSMITH_DEVICE f8e4m3 from_f32<f8e4m3>(float value) {
  return {static_cast<u8>(pack_f8<f8e4m3>(value, 0.0f))};
}
template <>
ROWSMITH_DEVICE f8e5m2 from_f32<f8e5m2>(float value) {
  return {static_cast<u8>(pack_f8<f8e5m2>(value, 0.0f))};
}

}  // namespace rs
