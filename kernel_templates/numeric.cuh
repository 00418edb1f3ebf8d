// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of softmax in f32: exponential, sums that do not drift, and the NaN and infinity
// rules. Every family goes through these, so that all obey one bound: with p the exact quotient and
// m the row's maximum, the f32 value before output rounding is within 2^-24 (32 + 2 (m - x)) p.
//
// Rules: a partial maximum of -inf stands for "nothing yet" and must not make NaN of finite
// neighbours; a row whose whole maximum is -inf, or that holds NaN or +inf, is NaN throughout,
// because exp(-inf - -inf), exp(NaN - m) and exp(inf - inf) are, and the sum carries it.
#pragma once

#include "simt.cuh"

namespace rs {

ROWSMITH_DEVICE float minus_infinity() {
  return as_f32(0xff800000u);
}

// exp(x - m) for x <= m. log2(e) in two parts, so that its own rounding adds nothing: the errors
// left are the subtraction's and the product's, 2^-24 |x - m| each, and ex2's 2^-22.
ROWSMITH_DEVICE float exp_difference(float x, float m) {
  const float t = sub(x, m);
  return ex2(fma_rn(t, 1.44269502162933349609375f, mul(t, 1.925963033500921e-8f)));
}

// Exponentials of inputs of type In relative to a reference that stands for a maximum. What is
// common to a row cancels in the quotient, so the reference may be off, if all use the same.
template <class In>
struct Exponential {
  // The reference of a maximum; monotonic, -inf for -inf.
  ROWSMITH_DEVICE static float reference(float max) { return max; }
  // exp(x - max).
  ROWSMITH_DEVICE static float of(float x, float reference) { return exp_difference(x, reference); }
  // exp(from - to) for two references.
  ROWSMITH_DEVICE static float ratio(float from, float to) { return exp_difference(from, to); }
};

// f16 is bounded: max * log2(e), rounded, is within 2^-7.5 of itself, which as a common factor does
// no harm, so one multiply-add with one rounding does what takes three operations elsewhere. (For
// f32 and bf16 the same rounding may overflow the exponential.)
template <>
struct Exponential<f16> {
  static constexpr float kLog2e = 1.44269502162933349609375f;
  ROWSMITH_DEVICE static float reference(float max) { return mul(max, kLog2e); }
  ROWSMITH_DEVICE static float of(float x, float reference) {
    return ex2(fma_rn(x, kLog2e, -reference));
  }
  ROWSMITH_DEVICE static float ratio(float from, float to) { return ex2(sub(from, to)); }
};

// The reference to use within a part of a row: 0 where the part is all -inf, whose exponentials are
// then 0 and not NaN.
ROWSMITH_DEVICE float part_reference(float reference) {
  return reference == minus_infinity() ? 0.0f : reference;
}

// Pairwise sum of kCount values from v[kFirst]: error grows with log2 of the count.
template <int kCount, int kFirst = 0, int kSize>
ROWSMITH_DEVICE float tree_sum(const float (&v)[kSize]) {
  if constexpr (kCount == 0) {
    return 0.0f;
  } else if constexpr (kCount == 1) {
    return v[kFirst];
  } else {
    constexpr int kLeft = kCount / 2;
    return add(tree_sum<kLeft, kFirst>(v), tree_sum<kCount - kLeft, kFirst + kLeft>(v));
  }
}

// A long sum in bounded error: folds every 16 additions into a compensated total (Kahan 1965, in
// Neumaier's form for terms of any size; all are >= 0 here, or NaN).
struct LongSum {
  float total = 0.0f, correction = 0.0f, recent = 0.0f;
  int count = 0;

  ROWSMITH_DEVICE void put(float value) {
    recent = add(recent, value);
    if (++count == 16) fold();
  }
  ROWSMITH_DEVICE void fold() {
    const float next = add(total, recent);
    const float large = total > recent ? total : recent;
    const float small = total > recent ? recent : total;
    correction = add(correction, add(sub(large, next), small));
    total = next;
    recent = 0.0f;
    count = 0;
  }
  // Multiplies what has been summed so far.
  ROWSMITH_DEVICE void scale(float factor) {
    total = mul(total, factor);
    correction = mul(correction, factor);
    recent = mul(recent, factor);
  }
  ROWSMITH_DEVICE float value() {
    fold();
    return add(total, correction);
  }
};

}  // namespace rs
