// SPDX-License-Identifier: Apache-2.0
//
// block_row: a block a row, the row in registers, one barrier.
//
// 1. Load the row.  2. Exponentials relative to the lane's own maximum, and their sum, while the
// warp's maximum is found.  3. The warp's sum, relative to that.  4. Merge the warps' (maximum,
// sum) parts through shared memory.  5. Rescale and store. Geometry: a block of kThreads (whole
// warps, 2 to 32) a row; shared memory: a Part a warp. Traits: those of RowSlice with kLanes =
// kThreads, and kThreads, kMinBlocks.
#pragma once

#include "params.cuh"
#include "reduce.cuh"
#include "row_slice.cuh"

namespace rs {

using rowsmith_params::RowsParams;

template <class C>
ROWSMITH_DEVICE void block_row(const RowsParams& p) {
  static_assert(C::kLanes == C::kThreads && C::kThreads % 32 == 0, "all threads share the row");
  const i64 row = block_index();
  const int lane = thread_index();
  using Acc = Accumulator<typename C::In>;
  RowSlice<C> slice;
  const Part<Acc> mine = slice.read_part(
      static_cast<const typename C::In*>(p.src) + row * p.src_stride, lane);  // 1, 2
  const Part<Acc> part = warp_part<typename C::In>(mine);                     // 3
  const Part<Acc> whole = merge_warps<typename C::In, C::kThreads / 32>(
      part, reinterpret_cast<Part<Acc>*>(shared_base()));  // 4
  slice.write_part(static_cast<typename C::Out*>(p.dst) + row * p.dst_stride, lane, whole,
                   out_scale<Acc>(p));  // 5
}

}  // namespace rs
