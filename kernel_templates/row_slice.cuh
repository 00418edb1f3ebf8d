// SPDX-License-Identifier: Apache-2.0
//
// RowSlice: one lane's share of a row, held in registers from load to store. A row is cut into a
// head up to the first pack border, whole packs, and a tail; the packs are dealt to the lanes in
// turn, and the at most 2 (kPack - 1) elements of head and tail one by one after them. So a row
// that starts anywhere moves at full pack width, every access is aligned, and none leaves the row.
//
// Traits used: In, Out, kCols, kPack (elements), kLanes, kAnyStart (rows may start inside a pack;
// src and dst then do so by the same number of elements), kKeepPacked (8-bit and 16-bit rows stay
// as loaded and are exponentiated twice; else the exponentials are kept as Accumulator<In>), kLoad,
// kStore.
#pragma once

#include "reduce.cuh"
#include "row_packs.cuh"
#include "simt_memory.cuh"

namespace rs {

// Bytes 2 i and 2 i + 1 of a pack.
template <int kBytes>
ROWSMITH_DEVICE u16 two_bytes(const Raw<kBytes>& raw, int i) {
  if constexpr (kBytes == 2) {
    return raw.h;
  } else {
    return static_cast<u16>(raw.w[i / 2] >> i % 2 * 16);
  }
}

// ---- A pack as accumulators, and back ----

template <class In, int kPack>
ROWSMITH_DEVICE void unpack(const Raw<kPack * sizeof(In)>& raw, Accumulator<In> (&v)[kPack]) {
  if constexpr (sizeof(In) == 8) {
    ROWSMITH_UNROLL
    for (int i = 0; i < kPack; ++i) v[i] = as_f64(raw.w[2 * i], raw.w[2 * i + 1]);
  } else if constexpr (sizeof(In) == 4) {
    ROWSMITH_UNROLL
    for (int i = 0; i < kPack; ++i) v[i] = as_f32(raw.w[i]);
  } else if constexpr (sizeof(In) == 2 && kPack == 1) {
    v[0] = to_f32(In{raw.h});
  } else if constexpr (sizeof(In) == 2) {
    ROWSMITH_UNROLL
    for (int i = 0; i < kPack / 2; ++i) {
      v[2 * i] = lo_f32<In>(raw.w[i]);
      v[2 * i + 1] = hi_f32<In>(raw.w[i]);
    }
  } else if constexpr (kPack == 1) {
    v[0] = to_f32(In{raw.b});
  } else {
    ROWSMITH_UNROLL
    for (int i = 0; i < kPack / 2; ++i) {
      const F32Pair pair = unpack_f8<In>(two_bytes(raw, i));
      v[2 * i] = pair.lo;
      v[2 * i + 1] = pair.hi;
    }
  }
}

template <class Out, int kPack>
ROWSMITH_DEVICE Raw<kPack * sizeof(Out)> pack(const Accumulator<Out> (&v)[kPack]) {
  Raw<kPack * sizeof(Out)> raw;
  if constexpr (sizeof(Out) == 8) {
    ROWSMITH_UNROLL
    for (int i = 0; i < kPack; ++i) {
      raw.w[2 * i] = lo_word(v[i]);
      raw.w[2 * i + 1] = hi_word(v[i]);
    }
  } else if constexpr (sizeof(Out) == 4) {
    ROWSMITH_UNROLL
    for (int i = 0; i < kPack; ++i) raw.w[i] = as_u32(v[i]);
  } else if constexpr (sizeof(Out) == 2 && kPack == 1) {
    raw.h = from_f32<Out>(v[0]).bits;
  } else if constexpr (sizeof(Out) == 2) {
    ROWSMITH_UNROLL
    for (int i = 0; i < kPack / 2; ++i) raw.w[i] = pack2<Out>(v[2 * i], v[2 * i + 1]);
  } else if constexpr (kPack == 1) {
    raw.b = from_f32<Out>(v[0]).bits;
  } else if constexpr (kPack == 2) {
    raw.h = pack_f8<Out>(v[0], v[1]);
  } else {
    ROWSMITH_UNROLL
    for (int i = 0; i < kPack / 4; ++i) {
      const u32 low = pack_f8<Out>(v[4 * i], v[4 * i + 1]);
      raw.w[i] = low | static_cast<u32>(pack_f8<Out>(v[4 * i + 2], v[4 * i + 3])) << 16;
    }
  }
  return raw;
}

// The greatest element of kCount packs; of NaN and a number, the number.
template <class In, int kPack, int kCount>
ROWSMITH_DEVICE Accumulator<In> max_of(const Raw<kPack * sizeof(In)> (&raw)[kCount]) {
  using Acc = Accumulator<In>;
  if constexpr (sizeof(In) == 2 && kPack > 1) {
    // Two at a time, unconverted; two chains.
    u32 top[2] = {raw[0].w[0], raw[0].w[kPack / 2 - 1]};
    ROWSMITH_UNROLL
    for (int k = 0; k < kCount; ++k) {
      ROWSMITH_UNROLL
      for (int i = 0; i < kPack / 2; ++i) top[i % 2] = max2<In>(top[i % 2], raw[k].w[i]);
    }
    const u32 both = max2<In>(top[0], top[1]);
    return max_num(lo_f32<In>(both), hi_f32<In>(both));
  } else {
    Acc max[2] = {minus_infinity<Acc>(), minus_infinity<Acc>()};
    ROWSMITH_UNROLL
    for (int k = 0; k < kCount; ++k) {
      Acc v[kPack];
      unpack<In, kPack>(raw[k], v);
      if constexpr (kPack > 1) {
        ROWSMITH_UNROLL
        for (int i = 0; i < kPack; i += 2) {
          max[i / 2 % 2] = max_num(max[i / 2 % 2], v[i], v[i + 1]);
        }
      } else {
        max[k % 2] = max_num(max[k % 2], v[0]);
      }
    }
    return max_num(max[0], max[1]);
  }
}

// What stands in for a pack that a row lacks: -inf as far as the type has it, else its least value.
template <class In, int kPack>
ROWSMITH_DEVICE Raw<kPack * sizeof(In)> nothing() {
  Accumulator<In> v[kPack];
  ROWSMITH_UNROLL
  for (int i = 0; i < kPack; ++i) v[i] = minus_infinity<Accumulator<In>>();
  return pack<In, kPack>(v);
}

template <class In, int kPolicy>
ROWSMITH_DEVICE Accumulator<In> load_one(const In* p) {
  Accumulator<In> v[1];
  unpack<In, 1>(load<kPolicy, sizeof(In)>(p), v);
  return v[0];
}

template <class Out, int kPolicy>
ROWSMITH_DEVICE void store_one(Out* p, Accumulator<Out> value) {
  const Accumulator<Out> v[1] = {value};
  store<kPolicy, sizeof(Out)>(p, pack<Out, 1>(v));
}

// ---- The slice ----

template <class C>
struct RowSlice {
  using In = typename C::In;
  using Out = typename C::Out;
  using Acc = Accumulator<In>;
  static constexpr int kPack = C::kPack, kLanes = C::kLanes, kCols = C::kCols;
  static constexpr int kInBytes = kPack * sizeof(In), kOutBytes = kPack * sizeof(Out);
  using Cut = RowPacks<C>;
  static constexpr int kMaxPacks = Cut::kMaxPacks, kMaxEdges = Cut::kMaxEdges;
  // Packs that every row holds.
  static constexpr int kMinPacks =
      Cut::kHeads ? (kCols >= kPack - 1 ? (kCols - (kPack - 1)) / kPack : 0) : kMaxPacks;
  static constexpr int kLanePacks = (kMaxPacks + kLanes - 1) / kLanes;
  static constexpr int kLaneEdges = (kMaxEdges + kLanes - 1) / kLanes;
  // A pack that the row lacks is loaded as -inf. fp8 cannot say so (e4m3 has no infinity, and
  // conversion to e5m2 saturates): there the values are made -inf wherever they are unpacked.
  static constexpr bool kPacksInfinity = sizeof(In) > 1;
  static_assert(!C::kKeepPacked || sizeof(In) <= 2, "only narrow rows are kept packed");
  static_assert(sizeof(Acc) == sizeof(Accumulator<Out>), "f64 goes to f64 alone");

  Raw<kInBytes> raw[kLanePacks > 0 && C::kKeepPacked ? kLanePacks : 1];
  Acc wide[kLanePacks > 0 && !C::kKeepPacked ? kLanePacks : 1][kPack];
  Acc edge[kLaneEdges > 0 ? kLaneEdges : 1];
  Cut cut;        // of a row that is absent: no packs
  int lane_read;  // the lane that read() was called for
  Acc own;        // what read_part() made the exponentials relative to

  // The pack's place exists in every row: no test needed.
  ROWSMITH_DEVICE static constexpr bool certain(int k) { return (k + 1) * kLanes <= kMinPacks; }
  ROWSMITH_DEVICE bool has_pack(int k, int lane) const {
    return certain(k) || k * kLanes + lane < cut.packs;
  }

  // Reads the lane's share of the row at src; places that the row lacks hold -inf. Returns the
  // lane's maximum (of NaN and a number the number; -inf where it holds none).
  ROWSMITH_DEVICE Acc read(const In* src, int lane, bool present) {
    lane_read = lane;
    cut = Cut(src);
    if (!present) cut.packs = 0;
    const In* body = src + cut.head + lane * kPack;
    Raw<kInBytes> got[kLanePacks > 0 ? kLanePacks : 1];
    ROWSMITH_UNROLL
    for (int k = 0; k < kLanePacks; ++k) {
      if (present && has_pack(k, lane)) {
        got[k] = load<C::kLoad, kInBytes>(body + k * kLanes * kPack);
      } else {
        got[k] = nothing<In, kPack>();
      }
    }
    ROWSMITH_UNROLL
    for (int k = 0; k < kLaneEdges; ++k) {
      const int e = k * kLanes + lane;
      edge[k] = present && e < cut.edges() ? load_one<In, C::kLoad>(src + cut.edge_column(e))
                                           : minus_infinity<Acc>();
    }
    Acc max = minus_infinity<Acc>();
    if constexpr (kLanePacks > 0) max = max_of<In, kPack>(got);
    ROWSMITH_UNROLL
    for (int k = 0; k < kLaneEdges; ++k) max = max_num(max, edge[k]);
    ROWSMITH_UNROLL
    for (int k = 0; k < kLanePacks; ++k) {
      if constexpr (C::kKeepPacked) {
        raw[k] = got[k];
      } else {
        values_of(got[k], k, wide[k]);
      }
    }
    return max;
  }

  // Sum over the lane of the exponentials. Where exponentials are kept they replace the values.
  ROWSMITH_DEVICE Acc exponentiate(Acc reference) {
    Acc sums[4] = {0, 0, 0, 0};
    [[maybe_unused]] const u32 zero = C::kKeepPacked ? hidden_zero() : 0;
    ROWSMITH_UNROLL
    for (int k = 0; k < kLanePacks; ++k) {
      Acc v[kPack];
      if constexpr (C::kKeepPacked) {
        values_of(again(raw[k], zero), k, v);
      } else {
        ROWSMITH_UNROLL
        for (int i = 0; i < kPack; ++i) v[i] = wide[k][i];
      }
      ROWSMITH_UNROLL
      for (int i = 0; i < kPack; ++i) v[i] = Exponential<In>::of(v[i], reference);
      sums[k % 4] = add(sums[k % 4], tree_sum<kPack>(v));
      if constexpr (!C::kKeepPacked) {
        ROWSMITH_UNROLL
        for (int i = 0; i < kPack; ++i) wide[k][i] = v[i];
      }
    }
    ROWSMITH_UNROLL
    for (int k = 0; k < kLaneEdges; ++k) {
      const Acc e = Exponential<In>::of(edge[k], reference);
      sums[(kLanePacks + k) % 4] = add(sums[(kLanePacks + k) % 4], e);
      if constexpr (!C::kKeepPacked) edge[k] = e;
    }
    return tree_sum<4>(sums);
  }

  // Reads the share and gives the lane's part: its exponentials wait for no other lane's maximum.
  ROWSMITH_DEVICE PartOf<In> read_part(const In* src, int lane) {
    own = Exponential<In>::reference(read(src, lane, true));
    return {own, exponentiate(part_reference(own))};
  }
  // After read_part(): writes the results of a row of which `whole` is the part.
  ROWSMITH_DEVICE void write_part(Out* dst, int lane, const PartOf<In>& whole,
                                  Acc out_scale) const {
    Acc scale = div_rn(out_scale, whole.sum);
    // Kept exponentials are relative to the lane's maximum; packed ones are made anew. Not by
    // part_reference: an all -inf lane has only zeros, and exp(0 - max) may be infinite.
    if constexpr (!C::kKeepPacked) scale = mul(scale, Exponential<In>::ratio(own, whole.reference));
    write(dst, lane, true, whole.reference, normal_or_zero(scale));
  }

  // Writes the exponentials times scale. Kept exponentials are relative to what exponentiate() was
  // given, so `reference` matters to packed rows alone.
  ROWSMITH_DEVICE void write(Out* dst, int lane, bool present, Acc reference, Acc scale) const {
    if (!present) return;
    Out* body = dst + cut.head + lane * kPack;
    [[maybe_unused]] const u32 zero = C::kKeepPacked ? hidden_zero() : 0;
    ROWSMITH_UNROLL
    for (int k = 0; k < kLanePacks; ++k) {
      Acc v[kPack];
      if constexpr (C::kKeepPacked) {
        values_of(again(raw[k], zero), k, v);
        ROWSMITH_UNROLL
        for (int i = 0; i < kPack; ++i) v[i] = Exponential<In>::of(v[i], reference);
      } else {
        ROWSMITH_UNROLL
        for (int i = 0; i < kPack; ++i) v[i] = wide[k][i];
      }
      ROWSMITH_UNROLL
      for (int i = 0; i < kPack; ++i) v[i] = mul(v[i], scale);
      if (has_pack(k, lane))
        store<C::kStore, kOutBytes>(body + k * kLanes * kPack, pack<Out, kPack>(v));
    }
    ROWSMITH_UNROLL
    for (int k = 0; k < kLaneEdges; ++k) {
      const int e = k * kLanes + lane;
      if (e < cut.edges()) {
        const Acc kept = C::kKeepPacked ? Exponential<In>::of(edge[k], reference) : edge[k];
        store_one<Out, C::kStore>(dst + cut.edge_column(e), mul(kept, scale));
      }
    }
  }

 private:
  // The values of the lane's k-th pack; -inf where the row lacks it.
  ROWSMITH_DEVICE void values_of(const Raw<kInBytes>& pack, int k, Acc (&v)[kPack]) const {
    unpack<In, kPack>(pack, v);
    if constexpr (!kPacksInfinity) {
      const bool has = has_pack(k, lane_read);
      ROWSMITH_UNROLL
      for (int i = 0; i < kPack; ++i) v[i] = has ? v[i] : minus_infinity<Acc>();
    }
  }
  // The pack as another value of the same bits: converting it again is cheaper than keeping what it
  // was converted to.
  ROWSMITH_DEVICE static Raw<kInBytes> again(Raw<kInBytes> raw, u32 zero) {
    if constexpr (kInBytes == 1) {
      raw.b = static_cast<u8>(raw.b + zero);
    } else if constexpr (kInBytes == 2) {
      raw.h = static_cast<u16>(raw.h + zero);
    } else {
      ROWSMITH_UNROLL
      for (int i = 0; i < kInBytes / 4; ++i) raw.w[i] += zero;
    }
    return raw;
  }
};

}  // namespace rs
