// SPDX-License-Identifier: Apache-2.0
//
// online_row: a block, or a cluster of blocks, a row that fits nowhere on the chip: read once for
// maximum and sum, and again to be written, from L2 where the rows in flight fit there.
//
// 1. Each lane walks its packs with a running maximum and sum.  2. Warps' parts are merged, over
// the cluster if there is one.  3. The same lane reads the same packs again, scales and stores.
// Geometry: kCluster blocks of kThreads walk the rows with a stride; shared memory: two arrivals
// and two sets of parts, in turn. A thread writes only what it alone reads: in place is safe.
// Traits: those of PackWalk with kLanes = kThreads * kCluster, and kCluster, kThreads, kMinBlocks.
#pragma once

#include "pack_walk.cuh"
#include "params.cuh"

namespace rs {

using rowsmith_params::RowsParams;

#if ROWSMITH_HOST || __CUDA_ARCH__ >= 900
#define ROWSMITH_HAS_CLUSTERS 1
#else
#define ROWSMITH_HAS_CLUSTERS 0
#endif

// Of an Arrival, where there are any.
constexpr int kArrivalBytes = 32;

template <class C>
ROWSMITH_DEVICE void online_row(const RowsParams& p) {
  using In = typename C::In;
  using Out = typename C::Out;
  using Exp = Exponential<In>;
  using Acc = Accumulator<In>;
  static_assert(C::kLanes == C::kThreads * C::kCluster && C::kThreads % 32 == 0, "whole warps");
  constexpr int kWarps = C::kThreads / 32, kParts = C::kCluster * kWarps;
  auto* const parts = reinterpret_cast<Part<Acc>*>(shared_base() + 2 * kArrivalBytes);
#if ROWSMITH_HAS_CLUSTERS
  auto* const arrivals = reinterpret_cast<Arrival*>(shared_base());
  if constexpr (C::kCluster > 1) {
    if (thread_index() == 0) {
      arrival_init(arrivals);
      arrival_init(arrivals + 1);
      arrivals_ready();
    }
    cluster_arrive();
    cluster_wait();
  }
#endif
  const int lane = static_cast<int>(block_index() % C::kCluster) * C::kThreads + thread_index();
  u32 merges = 0;
  for (i64 row = block_index() / C::kCluster; row < p.rows;
       row += block_count() / C::kCluster, ++merges) {
    const In* src = static_cast<const In*>(p.src) + row * p.src_stride;
    Out* dst = static_cast<Out*>(p.dst) + row * p.dst_stride;
    const RowPacks<C> row_packs(src);
    const PackWalk<C> walk{src + row_packs.head, dst + row_packs.head, row_packs.packs, lane};
    OnlineLane<In> running;  // 1
    const bool has_edge = lane < row_packs.edges();
    Acc edge = minus_infinity<Acc>();
    if (has_edge) {
      edge = load_one<In, C::kLoad>(src + row_packs.edge_column(lane));
      running.put_one(edge);
    }
    walk.read(running);
    const Part<Acc> mine = running.warp_part();  // 2
    const u32 turn = merges % 2;
    Part<Acc> whole;
#if ROWSMITH_HAS_CLUSTERS
    if constexpr (C::kCluster > 1) {
      whole = merge_cluster<In, kWarps, C::kCluster>(mine, parts + turn * kParts, arrivals + turn,
                                                     merges / 2 % 2);
    } else
#endif
    {
      whole = merge_warps<In, kWarps>(mine, parts + turn * kParts);
    }
    const Acc scale = normal_or_zero(div_rn(out_scale<Acc>(p), whole.sum));  // 3
    walk.write(whole.reference, scale);
    if (has_edge) {
      store_one<Out, C::kStore>(dst + row_packs.edge_column(lane),
                                mul(Exp::of(edge, whole.reference), scale));
    }
  }
}

}  // namespace rs
