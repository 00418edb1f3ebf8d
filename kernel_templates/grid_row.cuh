// SPDX-License-Identifier: Apache-2.0
//
// grid_row: many blocks a row in one launch, the row in their registers, read once and written
// once. For few rows too long for a cluster, and for long rows on GPUs without clusters. The blocks
// wait for each other (row_meeting.cuh), so that all must be resident at once.
//
// 1. Each warp's part of the block's share of the row, as in block_row; meanwhile one more warp,
//    the clerk, which holds nothing of the row, joins the row's meeting. 2. A barrier; the clerk
//    folds the warps' parts, publishes the block's, waits for all blocks' and folds them. 3. A
//    barrier; all others rescale and store, while the clerk leaves the meeting.
// The parts wait in the program's own memory and not in dst, as split_row's do: the clerk alone
// then writes and reads them, without a barrier or a fence over what the block wrote; y may be x,
// and no part need fit a pack. Geometry: kPieces blocks of kWorkers threads and the clerk a row; if
// there are more rows than places for them, blocks walk them. Shared memory: a Part a warp. Traits:
// those of RowSlice with kLanes = kPieces * kWorkers, and kPieces, kWorkers, kThreads = kWorkers +
// 32, kMinBlocks.
#pragma once

#include "params.cuh"
#include "row_meeting.cuh"
#include "row_slice.cuh"

namespace rs {

using rowsmith_params::RowsParams;

template <class C>
ROWSMITH_DEVICE void serve_piece(const RowsParams& p, i64 row, int piece) {
  using In = typename C::In;
  using Out = typename C::Out;
  using Acc = Accumulator<In>;
  constexpr int kWarps = C::kWorkers / 32, kPieces = C::kPieces;
  auto* parts = reinterpret_cast<Part<Acc>*>(shared_base());
  Part<Acc>& shared_whole = parts[kWarps];
  const int thread = thread_index();
  const bool clerk = thread >= C::kWorkers;
  const int lane = piece * C::kWorkers + thread;
  Out* const dst = static_cast<Out*>(p.dst) + row * p.dst_stride;
  const RowMeeting<Acc, kPieces> meeting(p.dst, row, dst, piece);

  RowSlice<C> slice;
  if (!clerk) {  // 1
    const Part<Acc> mine =
        slice.read_part(static_cast<const In*>(p.src) + row * p.src_stride, lane);
    const Part<Acc> part = warp_part<In>(mine);
    if (thread % 32 == 0) parts[thread / 32] = part;
  } else if (thread == C::kWorkers) {
    meeting.join();
  }
  sync();
  if (clerk) {  // 2
    const Part<Acc> block = fold_parts<In, kWarps, false>(parts);
    if (thread == C::kWorkers) meeting.publish(block);
    Part<Acc> others[RowMeeting<Acc, kPieces>::kLaneParts];
    meeting.collect(others);
    const Part<Acc> whole = fold_lanes<In, kPieces>(others);
    if (thread == C::kWorkers) shared_whole = whole;
  }
  sync();
  if (!clerk) {  // 3
    const Part<Acc> whole = shared_whole;
    slice.write_part(dst, lane, whole, out_scale<Acc>(p));
  } else if (thread == C::kWorkers) {
    meeting.leave();
  }
}

template <class C>
ROWSMITH_DEVICE void grid_row(const RowsParams& p) {
  static_assert(C::kLanes == C::kPieces * C::kWorkers, "all but the clerks share the row");
  static_assert(C::kWorkers % 32 == 0 && C::kThreads == C::kWorkers + 32, "whole warps");
  static_assert(i64{C::kCols} * sizeof(typename C::Out) >= i64{1} << kRowShift,
                "a meeting tells rows apart by their addresses");
  const int piece = static_cast<int>(block_index() % C::kPieces);
  ROWSMITH_NO_UNROLL
  for (i64 row = block_index() / C::kPieces; row < p.rows; row += block_count() / C::kPieces) {
    serve_piece<C>(p, row, piece);
  }
}

}  // namespace rs
