// SPDX-License-Identifier: Apache-2.0
//
// cluster_row: a cluster of blocks a row, the row in their registers, one exchange through
// distributed shared memory. For rows beyond one block's registers, and for few rows.
//
// 1. Arrive at the cluster barrier, so that peers are known to run before they are sent anything.
// 2. Load the slice.  3. Each warp's part, as in block_row.
// 4. Each warp sends its (maximum, sum) part to every block of the cluster; every warp folds all
//    parts once they have come.  5. Rescale and store.
// Geometry: kCluster blocks of kThreads a row; shared memory: an Arrival, and a Part a warp of the
// cluster.
// Traits: those of RowSlice with kLanes = kThreads * kCluster, and kThreads, kCluster, kMinBlocks.
#pragma once

#include "params.cuh"
#include "reduce.cuh"
#include "row_slice.cuh"

namespace rs {

using rowsmith_params::RowsParams;

#if ROWSMITH_HOST || __CUDA_ARCH__ >= 900

template <class C>
ROWSMITH_DEVICE void cluster_row(const RowsParams& p) {
  static_assert(C::kLanes == C::kThreads * C::kCluster, "all threads of the cluster share the row");
  static_assert(C::kThreads % 32 == 0, "whole warps");
  using Acc = Accumulator<typename C::In>;
  auto* arrival = reinterpret_cast<Arrival*>(shared_base());
  if (thread_index() == 0) {
    arrival_init(arrival);
    arrivals_ready();
  }
  cluster_arrive();  // 1
  const i64 row = block_index() / C::kCluster;
  const int lane = static_cast<int>(block_index() % C::kCluster) * C::kThreads + thread_index();
  RowSlice<C> slice;
  const Part<Acc> mine =
      slice.read_part(static_cast<const typename C::In*>(p.src) + row * p.src_stride, lane);  // 2
  const Part<Acc> part = warp_part<typename C::In>(mine);                                     // 3
  cluster_wait();
  const Part<Acc> whole = merge_cluster<typename C::In, C::kThreads / 32, C::kCluster>(
      part, reinterpret_cast<Part<Acc>*>(arrival + 1), arrival, 0);  // 4
  slice.write_part(static_cast<typename C::Out*>(p.dst) + row * p.dst_stride, lane, whole,
                   out_scale<Acc>(p));  // 5
}

#endif

}  // namespace rs
