// SPDX-License-Identifier: Apache-2.0
//
// cluster_row: a cluster of blocks a row, the row in their registers, one exchange through
// distributed shared memory. For rows beyond one block's registers, and for few rows.
//
// 1. Arrive at the cluster barrier, so that peers are known to run before they are written to.
// 2. Load the slice.  3. Maximum of each warp, exponentials relative to it, their sum.
// 4. Each warp writes its (maximum, sum) part into every block of the cluster; one cluster barrier;
//    every warp folds all parts.  5. Rescale and store.
// Geometry: kCluster blocks of kThreads a row; shared memory: a Part a warp of the cluster.
// Traits: those of RowSlice with kLanes = kThreads * kCluster, and kThreads, kCluster, kMinBlocks.
#pragma once

#include "params.cuh"
#include "reduce.cuh"
#include "row_slice.cuh"

namespace rs {

using rowsmith_params::RowsParams;

#if ROWSMITH_HOST || __CUDA_ARCH__ >= 900

// Every thread calls it with its warp's part, after arriving at the cluster barrier once, and gets
// the row's. Nothing touches a peer's memory after the last wait, so blocks may end as they like.
template <class In, int kWarps, int kCluster>
ROWSMITH_DEVICE PartOf<In> merge_cluster(PartOf<In> mine) {
  PartOf<In>* parts = reinterpret_cast<PartOf<In>*>(shared_base());  // [kCluster, kWarps]
  const int lane = thread_index() % 32, warp = thread_index() / 32;
  const int rank = static_cast<int>(block_index() % kCluster);
  cluster_wait();
  if (lane < kCluster) *peer(parts + rank * kWarps + warp, lane) = mine;
  cluster_arrive();
  cluster_wait();
  return fold_parts<In, kCluster * kWarps>(parts);
}

template <class C>
ROWSMITH_DEVICE void cluster_row(const RowsParams& p) {
  static_assert(C::kLanes == C::kThreads * C::kCluster, "all threads of the cluster share the row");
  static_assert(C::kThreads % 32 == 0 && C::kCluster <= 32, "whole warps, a lane a peer");
  using Exp = Exponential<typename C::In>;
  using Acc = Accumulator<typename C::In>;
  cluster_arrive();  // 1
  const i64 row = block_index() / C::kCluster;
  const int lane = static_cast<int>(block_index() % C::kCluster) * C::kThreads + thread_index();
  RowSlice<C> slice;
  const Acc lane_max =
      slice.read(static_cast<const typename C::In*>(p.src) + row * p.src_stride, lane, true);  // 2
  Part<Acc> part;
  part.reference = Exp::reference(group_max<32>(lane_max));  // 3
  part.sum = group_sum<32>(slice.exponentiate(part_reference(part.reference)));
  const Part<Acc> whole = merge_cluster<typename C::In, C::kThreads / 32, C::kCluster>(part);  // 4
  Acc scale = div_rn(out_scale<Acc>(p), whole.sum);
  // As in block_row: by the true reference, since exp(0 - max) may be infinite.
  if constexpr (!C::kKeepPacked) scale = mul(scale, Exp::ratio(part.reference, whole.reference));
  slice.write(static_cast<typename C::Out*>(p.dst) + row * p.dst_stride, lane, true,
              whole.reference, normal_or_zero(scale));  // 5
}

#endif

}  // namespace rs
