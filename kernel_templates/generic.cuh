// SPDX-License-Identifier: Apache-2.0
//
// generic: any H given at run time, any stride, any alignment; the fallback that is always legal
// and the yardstick for the others. A block a row, element by element, three reads.
//
// 1. Maximum of the row.  2. Sum of exponentials, folded so that it does not drift at any H.
// 3. Read, exponentiate, scale, write. A thread writes only what it alone reads: in place is safe.
// Geometry: kThreads threads a row; shared memory: a Part a warp. Offsets are 64-bit throughout.
// Traits: In, Out, kThreads, kMinBlocks.
#pragma once

#include "params.cuh"
#include "reduce.cuh"
#include "row_slice.cuh"

namespace rs {

using rowsmith_params::GenericParams;

template <class C>
ROWSMITH_DEVICE void generic(const GenericParams& p) {
  using In = typename C::In;
  using Out = typename C::Out;
  const In* src = static_cast<const In*>(p.src) + block_index() * p.src_stride;
  Out* dst = static_cast<Out*>(p.dst) + block_index() * p.dst_stride;

  using Exp = Exponential<In>;
  using Acc = Accumulator<In>;
  Acc lane_max = minus_infinity<Acc>();
  for (i64 c = thread_index(); c < p.cols; c += C::kThreads) {  // 1
    lane_max = max_num(lane_max, load_one<In, 0>(src + c));
  }
  Part<Acc> part;
  part.reference = Exp::reference(group_max<32>(lane_max));
  const Acc reference = part_reference(part.reference);
  LongSum<Acc> sum;
  for (i64 c = thread_index(); c < p.cols; c += C::kThreads) {  // 2
    sum.put(Exp::of(load_one<In, 0>(src + c), reference));
  }
  part.sum = group_sum<32>(sum.value());
  const Part<Acc> row =
      merge_warps<In, C::kThreads / 32>(part, reinterpret_cast<Part<Acc>*>(shared_base()));
  const Acc scale = normal_or_zero(div_rn(out_scale<Acc>(p), row.sum));
  for (i64 c = thread_index(); c < p.cols; c += C::kThreads) {  // 3
    store_one<Out, 0>(dst + c, mul(Exp::of(load_one<In, 0>(src + c), row.reference), scale));
  }
}

}  // namespace rs
