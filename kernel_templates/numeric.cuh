// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of softmax: accumulator types, exponential, sums that do not drift, and the NaN
// and infinity rules. Every family goes through these, so that all obey one bound: with p the exact
// quotient and m the row's maximum, the value before output rounding is within u (32 + 2 (m - x))
// p, u = 2^-24 in f32 and 2^-53 in f64.
//
// Rules: a partial maximum of -inf stands for "nothing yet" and must not make NaN of finite
// neighbours; a row whose whole maximum is -inf, or that holds NaN or +inf, is NaN throughout,
// because exp(-inf - -inf), exp(NaN - m) and exp(inf - inf) are, and the sum carries it.
#pragma once

#include "simt_f8.cuh"

namespace rs {

// What a row of In is computed in: f64 for f64, else f32.
template <class In>
struct AccumulatorOf {
  using Type = float;
};
template <>
struct AccumulatorOf<double> {
  using Type = double;
};
template <class In>
using Accumulator = typename AccumulatorOf<In>::Type;

template <class Acc>
ROWSMITH_DEVICE Acc minus_infinity();
template <>
ROWSMITH_DEVICE float minus_infinity<float>() {
  return as_f32(0xff800000u);
}
template <>
ROWSMITH_DEVICE double minus_infinity<double>() {
  return as_f64(0u, 0xfff00000u);
}

// The value, or 0 where it is subnormal: its few bits would be an error beyond the bound. In f32
// the GPU's arithmetic does so by itself, and the host device's does not.
ROWSMITH_DEVICE float normal_or_zero(float value) {
  return value < 0x1p-126f ? 0.0f : value;
}
ROWSMITH_DEVICE double normal_or_zero(double value) {
  return value < 0x1p-1022 ? 0.0 : value;
}

// exp(x - m) for x <= m. log2(e) in two parts, so that its own rounding adds nothing: the errors
// left are the subtraction's and the product's, 2^-24 |x - m| each, and ex2's 2^-22.
ROWSMITH_DEVICE float exp_difference(float x, float m) {
  const float t = sub(x, m);
  return ex2(fma_rn(t, 1.44269502162933349609375f, mul(t, 1.925963033500921e-8f)));
}
ROWSMITH_DEVICE double exp_difference(double x, double m) {
  return normal_or_zero(exp_f64(sub(x, m)));
}

// Exponentials of inputs of type In relative to a reference that stands for a maximum. What is
// common to a row cancels in the quotient, so the reference may be off, if all use the same.
template <class In>
struct Exponential {
  using Acc = Accumulator<In>;
  // The reference of a maximum; monotonic, -inf for -inf.
  ROWSMITH_DEVICE static Acc reference(Acc max) { return max; }
  // exp(x - max).
  ROWSMITH_DEVICE static Acc of(Acc x, Acc reference) { return exp_difference(x, reference); }
  // exp(from - to) for two references.
  ROWSMITH_DEVICE static Acc ratio(Acc from, Acc to) { return exp_difference(from, to); }
};

// Of inputs that are at most 65504: max * log2(e), rounded, is within 2^-7.5 of itself, which as a
// common factor does no harm, so one multiply-add with one rounding does what takes three
// operations elsewhere. (For f32 and bf16 the same rounding may overflow the exponential.)
struct BoundedExponential {
  using Acc = float;
  static constexpr float kLog2e = 1.44269502162933349609375f;
  ROWSMITH_DEVICE static float reference(float max) { return mul(max, kLog2e); }
  ROWSMITH_DEVICE static float of(float x, float reference) {
    return ex2(fma_rn(x, kLog2e, -reference));
  }
  ROWSMITH_DEVICE static float ratio(float from, float to) { return ex2(sub(from, to)); }
};
template <>
struct Exponential<f16> : BoundedExponential {};
template <>
struct Exponential<f8e4m3> : BoundedExponential {};
template <>
struct Exponential<f8e5m2> : BoundedExponential {};

// The reference to use within a part of a row: 0 where the part is all -inf, whose exponentials are
// then 0 and not NaN.
template <class Acc>
ROWSMITH_DEVICE Acc part_reference(Acc reference) {
  return reference == minus_infinity<Acc>() ? Acc(0) : reference;
}

// The call's factor on every result, in the accumulator's type: of any parameter struct.
template <class Acc, class Params>
ROWSMITH_DEVICE Acc out_scale(const Params& p) {
  if constexpr (sizeof(Acc) == 8) {
    return p.out_scale;
  } else {
    return p.out_scale_f32;
  }
}

// Pairwise sum of kCount values from v[kFirst]: error grows with log2 of the count.
template <int kCount, int kFirst = 0, class Acc, int kSize>
ROWSMITH_DEVICE Acc tree_sum(const Acc (&v)[kSize]) {
  if constexpr (kCount == 0) {
    return Acc(0);
  } else if constexpr (kCount == 1) {
    return v[kFirst];
  } else {
    constexpr int kLeft = kCount / 2;
    return add(tree_sum<kLeft, kFirst>(v), tree_sum<kCount - kLeft, kFirst + kLeft>(v));
  }
}

// A long sum in bounded error: folds every 16 additions into a compensated total (Kahan 1965, in
// Neumaier's form for terms of any size; all are >= 0 here, or NaN).
template <class Acc>
struct LongSum {
  Acc total = 0, correction = 0, recent = 0;
  int count = 0;

  ROWSMITH_DEVICE void put(Acc value) {
    recent = add(recent, value);
    if (++count == 16) fold();
  }
  ROWSMITH_DEVICE void fold() {
    const Acc next = add(total, recent);
    const Acc large = total > recent ? total : recent;
    const Acc small = total > recent ? recent : total;
    correction = add(correction, add(sub(large, next), small));
    total = next;
    recent = 0;
    count = 0;
  }
  // Multiplies what has been summed so far.
  ROWSMITH_DEVICE void scale(Acc factor) {
    total = mul(total, factor);
    correction = mul(correction, factor);
    recent = mul(recent, factor);
  }
  ROWSMITH_DEVICE Acc value() {
    fold();
    return add(total, correction);
  }
};

}  // namespace rs
