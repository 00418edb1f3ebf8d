// SPDX-License-Identifier: Apache-2.0
//
// warp_rows: a group of 1 to 32 lanes a row, several rows a group, rows in registers.
//
// 1. Each group loads its kRows rows, all before the first use, so that many bytes are in flight.
// 2. Maximum by butterfly in the group.  3. Exponentials and their sum, by butterfly.
// 4. Scale and store.
// Geometry: kThreads threads serve kThreads / kLanes * kRows consecutive rows; no shared memory, no
// barrier. Neighbouring groups take neighbouring rows, so that a warp's accesses stay contiguous.
// Traits: those of RowSlice with kLanes a power of two <= 32, and kRows, kThreads, kMinBlocks.
#pragma once

#include "params.cuh"
#include "reduce.cuh"
#include "row_slice.cuh"

namespace rs {

using rowsmith_params::RowsParams;

template <class C>
ROWSMITH_DEVICE void warp_rows(const RowsParams& p) {
  static_assert(C::kLanes <= 32 && (C::kLanes & (C::kLanes - 1)) == 0, "lanes: 1, 2, 4 .. 32");
  static_assert(C::kThreads % 32 == 0, "whole warps");
  using Acc = Accumulator<typename C::In>;
  constexpr int kGroups = C::kThreads / C::kLanes;
  const int lane = thread_index() % C::kLanes;
  const i64 first = block_index() * (kGroups * C::kRows) + thread_index() / C::kLanes;
  const auto* src = static_cast<const typename C::In*>(p.src);
  auto* dst = static_cast<typename C::Out*>(p.dst);

  RowSlice<C> slice[C::kRows];
  Acc max[C::kRows];
  ROWSMITH_UNROLL
  for (int r = 0; r < C::kRows; ++r) {  // 1
    const i64 row = first + r * kGroups;
    max[r] = slice[r].read(src + row * p.src_stride, lane, row < p.rows);
  }
  ROWSMITH_UNROLL
  for (int r = 0; r < C::kRows; ++r) max[r] = group_max<C::kLanes>(max[r]);  // 2
  ROWSMITH_UNROLL
  for (int r = 0; r < C::kRows; ++r) {
    // The group holds the whole row: an all -inf row is to be NaN, so no part_reference.
    const Acc reference = Exponential<typename C::In>::reference(max[r]);
    const Acc sum = group_sum<C::kLanes>(slice[r].exponentiate(reference));  // 3
    const i64 row = first + r * kGroups;
    slice[r].write(dst + row * p.dst_stride, lane, row < p.rows, reference,
                   normal_or_zero(div_rn(out_scale<Acc>(p), sum)));  // 4
  }
}

}  // namespace rs
