// SPDX-License-Identifier: Apache-2.0
//
// flat_tile: short contiguous rows by way of shared memory, so that global memory sees one flat
// copy whatever H is: rows that start anywhere cost no narrow access, and no 32-byte sector is
// written by two blocks but at the ends of a tile.
//
// 1. The tile, a run of whole rows, is copied to shared memory: whole 16-byte packs between its
//    first and its last 16-byte border, the elements outside of them one by one. There it lies as
//    far past a border as in global memory (src and dst each for itself), so packs copy whole.
// 2. Units of kUnitRows rows are dealt to groups of kLanes lanes, a unit's chunks to the lanes in
//    turn. A chunk is the widest access that divides the unit; where the run does not start on a
//    chunk's border, chunks are single elements. Maximum, exponentials, sum and scale in registers.
// 3. Results are copied back as in 1.
// In place is safe: a block has read its tile before it writes, and tiles share no byte. In one
// stage results take the place of what their own lane has read. Rows past the end of a short tile
// are computed from whatever the stage holds, so that no barrier or shuffle depends on the row
// count, and are not copied out.
// Geometry: kThreads threads serve kThreads / kLanes * kUnitRows * kRounds consecutive rows, a
// multiple of 16 bytes on both sides. Shared memory: the tile in In plus 16 bytes, and the tile in
// Out plus 16 bytes unless kOneStage (elements of one size, equal offsets past a border).
// Traits: In, Out, kCols, kLanes, kUnitRows, kRounds, kOneStage, kThreads, kMinBlocks, kLoad,
// kStore.
#pragma once

#include "params.cuh"
#include "reduce.cuh"
#include "row_slice.cuh"

namespace rs {

using rowsmith_params::RowsParams;

// Copies a run of elements by all threads. `from` and `to` lie equally far past a 16-byte border;
// `head` elements come before the first border. One of them is shared memory, with policy 0.
template <int kLoad, int kStore, int kThreads, int kMaxCount, class T>
ROWSMITH_DEVICE void copy_run(const T* from, T* to, int head, int count) {
  constexpr int kPack = 16 / sizeof(T);
  constexpr int kThreadPacks = (kMaxCount / kPack + kThreads - 1) / kThreads;
  static_assert(2 * (kPack - 1) <= kThreads, "a thread copies at most one element beside packs");
  const int thread = thread_index();
  const int packs = static_cast<int>(static_cast<u32>(count - head) / kPack);
  Raw<16> held[kThreadPacks];
  ROWSMITH_UNROLL
  for (int k = 0; k < kThreadPacks; ++k) {
    const int at = k * kThreads + thread;
    // Left unset, a register would hold on to what an earlier copy had there.
    held[k] = at < packs ? load<kLoad, 16>(from + head + at * kPack) : Raw<16>{};
  }
  if (thread < count - packs * kPack) {
    const int at = thread < head ? thread : thread + packs * kPack;
    store<kStore, sizeof(T)>(to + at, load<kLoad, sizeof(T)>(from + at));
  }
  ROWSMITH_UNROLL
  for (int k = 0; k < kThreadPacks; ++k) {
    const int at = k * kThreads + thread;
    if (at < packs) store<kStore, 16>(to + head + at * kPack, held[k]);
  }
}

// Softmax of one row, of which the lane holds these values.
template <class C, int kCount, class Acc>
ROWSMITH_DEVICE void softmax_values(Acc (&v)[kCount], Acc out_scale) {
  using Exp = Exponential<typename C::In>;
  if constexpr (C::kCols == 1) {
    v[0] = add(mul(v[0], Acc(0)), out_scale);  // NaN unless finite
  } else {
    Acc max = v[0];
    ROWSMITH_UNROLL
    for (int i = 1; i < kCount; ++i) max = max_num(max, v[i]);
    const Acc reference = Exp::reference(group_max<C::kLanes>(max));
    ROWSMITH_UNROLL
    for (int i = 0; i < kCount; ++i) v[i] = Exp::of(v[i], reference);
    const Acc sum = group_sum<C::kLanes>(tree_sum<kCount>(v));
    const Acc scale = normal_or_zero(div_rn(out_scale, sum));
    ROWSMITH_UNROLL
    for (int i = 0; i < kCount; ++i) v[i] = mul(v[i], scale);
  }
}

template <class C>
struct FlatTile {
  using In = typename C::In;
  using Out = typename C::Out;
  using Acc = Accumulator<In>;
  static constexpr int kGroups = C::kThreads / C::kLanes;
  static constexpr int kRows = kGroups * C::kUnitRows * C::kRounds;
  static constexpr int kElements = kRows * C::kCols;
  static constexpr int kInBytes = kElements * sizeof(In), kOutBytes = kElements * sizeof(Out);
  static_assert(C::kLanes <= 32 && (C::kLanes & (C::kLanes - 1)) == 0, "lanes: 1, 2, 4 .. 32");
  static_assert(C::kLanes == 1 || C::kUnitRows == 1, "lanes share one row");
  static_assert(C::kThreads % 32 == 0, "whole warps");
  static_assert(kInBytes % 16 == 0 && kOutBytes % 16 == 0, "a tile ends where it started");
  static_assert(!C::kOneStage || sizeof(In) == sizeof(Out), "results fit where inputs were");

  static constexpr int kUnit = C::kUnitRows * C::kCols;  // elements
  static constexpr int kWidest = 16 / (sizeof(In) > sizeof(Out) ? sizeof(In) : sizeof(Out));
  static constexpr int kDivisor = kUnit & -kUnit;  // the largest power of two
  static constexpr int kChunk = kDivisor < kWidest ? kDivisor : kWidest;

  // The rows of the unit at src, by the lanes of a group.
  template <int kAccess>
  ROWSMITH_DEVICE static void serve_unit(const In* src, Out* dst, int lane, Acc out_scale) {
    constexpr int kChunks = kUnit / kAccess;
    constexpr int kLaneChunks = (kChunks + C::kLanes - 1) / C::kLanes;
    constexpr int kRowValues = C::kLanes == 1 ? C::kCols : kLaneChunks * kAccess;
    Acc v[C::kUnitRows][kRowValues];
    ROWSMITH_UNROLL
    for (int k = 0; k < kLaneChunks; ++k) {
      const int chunk = k * C::kLanes + lane;
      Acc part[kAccess];
      ROWSMITH_UNROLL
      for (int i = 0; i < kAccess; ++i) part[i] = minus_infinity<Acc>();
      if ((k + 1) * C::kLanes <= kChunks || chunk < kChunks) {
        unpack<In, kAccess>(load<0, kAccess * sizeof(In)>(src + chunk * kAccess), part);
      }
      ROWSMITH_UNROLL
      for (int i = 0; i < kAccess; ++i) {
        v[(k * kAccess + i) / kRowValues][(k * kAccess + i) % kRowValues] = part[i];
      }
    }
    ROWSMITH_UNROLL
    for (int r = 0; r < C::kUnitRows; ++r) softmax_values<C>(v[r], out_scale);
    ROWSMITH_UNROLL
    for (int k = 0; k < kLaneChunks; ++k) {
      const int chunk = k * C::kLanes + lane;
      Acc part[kAccess];
      ROWSMITH_UNROLL
      for (int i = 0; i < kAccess; ++i) {
        part[i] = v[(k * kAccess + i) / kRowValues][(k * kAccess + i) % kRowValues];
      }
      if ((k + 1) * C::kLanes <= kChunks || chunk < kChunks) {
        store<0, kAccess * sizeof(Out)>(dst + chunk * kAccess, pack<Out, kAccess>(part));
      }
    }
  }

  // The first `rounds` units of each group.
  template <int kAccess>
  ROWSMITH_DEVICE static void serve(const In* src, Out* dst, int rounds, Acc out_scale) {
    const int lane = thread_index() % C::kLanes;
    const int first = thread_index() / C::kLanes * kUnit;
    for (int round = 0; round < rounds; ++round) {
      const int at = first + round * kGroups * kUnit;
      serve_unit<kAccess>(src + at, dst + at, lane, out_scale);
    }
  }
};

template <class C>
ROWSMITH_DEVICE void flat_tile(const RowsParams& p) {
  using Tile = FlatTile<C>;
  using In = typename C::In;
  using Out = typename C::Out;
  const i64 first = block_index() * Tile::kRows;
  const i64 left = p.rows - first;
  const int rows = left < Tile::kRows ? static_cast<int>(left) : Tile::kRows;
  const int count = rows * C::kCols;
  const In* src = static_cast<const In*>(p.src) + first * C::kCols;
  Out* dst = static_cast<Out*>(p.dst) + first * C::kCols;
  // Bytes past a 16-byte border, and elements up to the next.
  const u32 src_past = static_cast<u32>(reinterpret_cast<u64>(src)) % 16;
  const u32 dst_past = static_cast<u32>(reinterpret_cast<u64>(dst)) % 16;
  const int src_head = static_cast<int>((16 - src_past) % 16 / sizeof(In));
  const int dst_head = static_cast<int>((16 - dst_past) % 16 / sizeof(Out));
  In* in = reinterpret_cast<In*>(shared_base() + src_past);
  Out* out =
      reinterpret_cast<Out*>(shared_base() + dst_past + (C::kOneStage ? 0 : Tile::kInBytes + 16));

  copy_run<C::kLoad, 0, C::kThreads, Tile::kElements>(src, in, src_head < count ? src_head : count,
                                                      count);  // 1
  sync();
  const bool on_chunks =
      src_past % (Tile::kChunk * sizeof(In)) == 0 && dst_past % (Tile::kChunk * sizeof(Out)) == 0;
  constexpr int kRoundRows = Tile::kRows / C::kRounds;
  const auto scale = out_scale<Accumulator<In>>(p);
  const int rounds = C::kRounds == 1 ? 1 : (rows + kRoundRows - 1) / kRoundRows;
  if (Tile::kChunk == 1 || on_chunks) {  // 2
    Tile::template serve<Tile::kChunk>(in, out, rounds, scale);
  } else {
    Tile::template serve<1>(in, out, rounds, scale);
  }
  sync();
  copy_run<0, C::kStore, C::kThreads, Tile::kElements>(
      out, dst, dst_head < count ? dst_head : count, count);  // 3
}

}  // namespace rs
