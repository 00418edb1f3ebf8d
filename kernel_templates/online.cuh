// SPDX-License-Identifier: Apache-2.0
//
// OnlineLane: one lane's running maximum and sum over values that pass by once (Milakov and
// Gimelshein, arXiv:1805.02867), for families that keep no row in registers.
#pragma once

#include "reduce.cuh"
#include "row_slice.cuh"

namespace rs {

// The sum is relative to a reference that lags behind the maximum: it is raised, and the sum
// rescaled, only once the maximum has outgrown it by kSlack. Each rescale then shrinks what came
// before, with its error, at least 2^-5 times, however often the maximum moves; and exponentials
// stay below e^kSlack. A reference is common to what is summed, so it need not be the maximum.
template <class In>
struct OnlineLane {
  using Exp = Exponential<In>;
  using Acc = Accumulator<In>;
  static constexpr Acc kSlack = 5.5;
  Acc reference = minus_infinity<Acc>();
  LongSum<Acc> sum;

  // Takes kCount values of which `max` is the greatest (of NaN and a number, the number).
  template <int kCount>
  ROWSMITH_DEVICE void put(Acc (&v)[kCount], Acc max) {
    const Acc candidate = Exp::reference(max);
    // Never true of a NaN, whose exponential makes the sum NaN all the same.
    const Acc next = candidate > add(reference, kSlack) ? candidate : reference;
    const Acc base = part_reference(next);
    ROWSMITH_UNROLL
    for (int i = 0; i < kCount; ++i) v[i] = Exp::of(v[i], base);
    sum.scale(Exp::ratio(reference, base));
    sum.put(tree_sum<kCount>(v));
    reference = next;
  }

  ROWSMITH_DEVICE void put_one(Acc value) {
    Acc v[1] = {value};
    put(v, value);
  }
  // Takes packs.
  template <int kPack, int kCount>
  ROWSMITH_DEVICE void put_packs(const Raw<kPack * sizeof(In)> (&raw)[kCount]) {
    Acc v[kCount * kPack];
    ROWSMITH_UNROLL
    for (int k = 0; k < kCount; ++k) {
      Acc one[kPack];
      unpack<In, kPack>(raw[k], one);
      ROWSMITH_UNROLL
      for (int i = 0; i < kPack; ++i) v[k * kPack + i] = one[i];
    }
    put(v, max_of<In, kPack>(raw));
  }

  ROWSMITH_DEVICE Part<Acc> warp_part() { return rs::warp_part<In>({reference, sum.value()}); }
};

}  // namespace rs
