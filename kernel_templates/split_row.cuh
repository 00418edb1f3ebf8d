// SPDX-License-Identifier: Apache-2.0
//
// split_row: many blocks a row by two launches, for few rows too long for a cluster, and for GPUs
// without clusters. It needs no memory beside src and dst: what the first launch finds out waits in
// dst, where the second will write its results.
//
// Pass 0: 1. each block walks its piece of the row with a running maximum and sum, and merges its
// warps' parts. 2. It writes its part to the beginning of every piece of the row in dst, each time
// at its own index. Pass 1: 3. each block folds the parts that stand in its own piece; a barrier.
// 4. It reads its piece of src again, scales, and overwrites its piece of dst. No block touches
// another's piece, so that no block need wait for another.
// Geometry: kPieces blocks of kThreads a row, twice; shared memory: 8 bytes a warp. Pieces differ
// by at most one pack. The elements outside of packs are the last piece's. Never in place. Traits:
// those of PackWalk with kLanes = kThreads, and kPieces, kThreads, kMinBlocks.
#pragma once

#include "pack_walk.cuh"
#include "params.cuh"

namespace rs {

using rowsmith_params::RowsParams;

template <class C>
struct SplitRow {
  using In = typename C::In;
  using Out = typename C::Out;
  using Exp = Exponential<In>;
  using Acc = Accumulator<In>;
  static constexpr int kPieces = C::kPieces, kWarps = C::kThreads / 32;
  static_assert(C::kLanes == C::kThreads && C::kThreads % 32 == 0, "whole warps");
  static_assert(C::kPack * sizeof(Out) >= alignof(Part<Acc>), "parts lie on pack borders of dst");

  const int piece, lane;
  const In* const src;
  Out* const dst;
  const RowPacks<C> row_packs;

  ROWSMITH_DEVICE SplitRow(const RowsParams& p, i64 row)
      : piece(static_cast<int>(block_index() % kPieces)),
        lane(thread_index()),
        src(static_cast<const In*>(p.src) + row * p.src_stride),
        dst(static_cast<Out*>(p.dst) + row * p.dst_stride),
        row_packs(src) {}

  // First element of a piece, from the row's begin.
  ROWSMITH_DEVICE i64 begin(int at) const {
    return row_packs.head + i64{row_packs.packs} * at / kPieces * C::kPack;
  }
  ROWSMITH_DEVICE PackWalk<C> walk() const {
    const i64 first = begin(piece);
    return {src + first, dst + first, (begin(piece + 1) - first) / C::kPack, lane};
  }
  ROWSMITH_DEVICE Part<Acc>* parts(int at) const {
    return reinterpret_cast<Part<Acc>*>(dst + begin(at));
  }
  ROWSMITH_DEVICE bool has_edge() const { return piece == kPieces - 1 && lane < row_packs.edges(); }

  ROWSMITH_DEVICE void find_part() const {
    OnlineLane<In> running;  // 1
    if (has_edge()) {
      running.put_one(load_one<In, C::kLoad>(src + row_packs.edge_column(lane)));
    }
    walk().read(running);
    const Part<Acc> mine = merge_warps<In, kWarps, false>(
        running.warp_part(), reinterpret_cast<Part<Acc>*>(shared_base()));
    for (int at = lane; at < kPieces; at += C::kThreads) parts(at)[piece] = mine;  // 2
  }

  ROWSMITH_DEVICE void write_piece(Acc out_scale) const {
    const Part<Acc> whole = fold_parts<In, kPieces>(parts(piece));  // 3
    sync();
    const Acc scale = normal_or_zero(div_rn(out_scale, whole.sum));  // 4
    walk().write(whole.reference, scale);
    if (has_edge()) {
      const Acc value = load_one<In, C::kLoad>(src + row_packs.edge_column(lane));
      store_one<Out, C::kStore>(dst + row_packs.edge_column(lane),
                                mul(Exp::of(value, whole.reference), scale));
    }
  }
};

template <class C>
ROWSMITH_DEVICE void split_row(const RowsParams& p) {
  const SplitRow<C> work(p, block_index() / C::kPieces);
  if (p.pass == 0) {
    work.find_part();
  } else {
    work.write_piece(out_scale<Accumulator<typename C::In>>(p));
  }
}

}  // namespace rs
