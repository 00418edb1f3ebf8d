// SPDX-License-Identifier: Apache-2.0
//
// PackWalk: a stretch of a row's packs that lanes walk with a stride, kUnroll packs in flight each,
// for families that read a row twice rather than hold it.
// Traits used: those of RowPacks, and Out, kLanes, kLoad, kStore, kUnroll.
#pragma once

#include "online.cuh"
#include "row_packs.cuh"

namespace rs {

template <class C>
struct PackWalk {
  using In = typename C::In;
  using Out = typename C::Out;
  using Exp = Exponential<In>;
  using Acc = Accumulator<In>;
  static constexpr int kPack = C::kPack, kLanes = C::kLanes, kUnroll = C::kUnroll;
  static constexpr int kInBytes = kPack * sizeof(In), kOutBytes = kPack * sizeof(Out);

  const In* src;  // of the stretch's first pack
  Out* dst;
  i64 packs;
  int lane;

  ROWSMITH_DEVICE i64 at(i64 place) const { return (place * kLanes + lane) * kPack; }
  // Places at which every lane has a pack; after them some lanes have one more.
  ROWSMITH_DEVICE i64 full_places() const { return packs / kLanes; }
  ROWSMITH_DEVICE bool has_last() const { return full_places() * kLanes + lane < packs; }

  // Folds the lane's packs into `running`.
  ROWSMITH_DEVICE void read(OnlineLane<In>& running) const {
    const i64 full = full_places();
    i64 place = 0;
    ROWSMITH_NO_UNROLL
    for (; place + kUnroll <= full; place += kUnroll) take<kUnroll>(running, place);
    ROWSMITH_NO_UNROLL
    for (; place < full; ++place) take<1>(running, place);
    if (has_last()) take<1>(running, full);
  }

  // Reads the lane's packs again, latest first, since those are likeliest to be in a cache, and
  // writes exponentials times scale.
  ROWSMITH_DEVICE void write(Acc reference, Acc scale) const {
    i64 place = full_places();
    if (has_last()) give<1>(place, reference, scale);
    ROWSMITH_NO_UNROLL
    for (; place % kUnroll != 0; --place) give<1>(place - 1, reference, scale);
    ROWSMITH_NO_UNROLL
    for (; place > 0; place -= kUnroll) give<kUnroll>(place - kUnroll, reference, scale);
  }

 private:
  template <int kCount>
  ROWSMITH_DEVICE void fetch(Raw<kInBytes> (&raw)[kCount], i64 place) const {
    ROWSMITH_UNROLL
    for (int k = 0; k < kCount; ++k) raw[k] = load<C::kLoad, kInBytes>(src + at(place + k));
  }
  template <int kCount>
  ROWSMITH_DEVICE void take(OnlineLane<In>& running, i64 place) const {
    Raw<kInBytes> raw[kCount];
    fetch(raw, place);
    running.template put_packs<kPack>(raw);
  }
  template <int kCount>
  ROWSMITH_DEVICE void give(i64 place, Acc reference, Acc scale) const {
    Raw<kInBytes> raw[kCount];
    fetch(raw, place);
    ROWSMITH_UNROLL
    for (int k = 0; k < kCount; ++k) {
      Acc v[kPack];
      unpack<In, kPack>(raw[k], v);
      ROWSMITH_UNROLL
      for (int i = 0; i < kPack; ++i) v[i] = mul(Exp::of(v[i], reference), scale);
      store<C::kStore, kOutBytes>(dst + at(place + k), pack<Out, kPack>(v));
    }
  }
};

}  // namespace rs
