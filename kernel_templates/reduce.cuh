// SPDX-License-Identifier: Apache-2.0
//
// Maximum and sum over a group of lanes, and the merging of a row's parts over the warps of a
// block or a cluster.
#pragma once

#include "numeric.cuh"
#include "simt_async.cuh"

namespace rs {

#if ROWSMITH_WARP_REDUCTIONS
// The greatest of the warp's values by one integer reduction: floats whose negatives have all bits
// but the sign flipped are ordered as integers. Where there are NaNs one of them may be the
// greatest.
ROWSMITH_DEVICE float warp_max(float value) {
  const auto ordered = [](int bits) { return bits ^ (bits >> 31 & 0x7fffffff); };
  return as_f32(static_cast<u32>(ordered(warp_max(ordered(static_cast<int>(as_u32(value)))))));
}
#endif

// Over groups of kLanes consecutive lanes (a power of two <= 32); every lane gets the result. A
// butterfly adds in the same order in every lane, so all hold identical bits.
template <int kLanes, class Acc>
ROWSMITH_DEVICE Acc group_max(Acc value) {
#if ROWSMITH_WARP_REDUCTIONS
  if constexpr (kLanes == 32 && sizeof(Acc) == 4) return warp_max(value);
#endif
  ROWSMITH_UNROLL
  for (int mask = kLanes / 2; mask > 0; mask /= 2) value = max_num(value, shfl_xor(value, mask));
  return value;
}
template <int kLanes, class Acc>
ROWSMITH_DEVICE Acc group_sum(Acc value) {
  ROWSMITH_UNROLL
  for (int mask = kLanes / 2; mask > 0; mask /= 2) value = add(value, shfl_xor(value, mask));
  return value;
}

// A part of a row: the Exponential's reference of its maximum, and the sum of its exponentials
// relative to part_reference(reference).
template <class Acc>
struct alignas(2 * sizeof(Acc)) Part {
  Acc reference, sum;
};
// Of a row of In.
template <class In>
using PartOf = Part<Accumulator<In>>;

// What sums are made relative to: of a whole row that is all -inf, NaN is to come.
template <bool kWhole, class Acc>
ROWSMITH_DEVICE Acc base_of(Acc reference) {
  return kWhole ? reference : part_reference(reference);
}

// The warp's part of its lanes'.
template <class In>
ROWSMITH_DEVICE PartOf<In> warp_part(const PartOf<In>& lane) {
  PartOf<In> part;
  part.reference = group_max<32>(lane.reference);
  const auto ratio = Exponential<In>::ratio(lane.reference, part_reference(part.reference));
  part.sum = group_sum<32>(mul(lane.sum, ratio));
  return part;
}

// The sum and reference of kParts parts, of which lane i of the calling warp gives the i-th, i +
// 32nd .., and nothing in places past the last: for all its lanes, by two butterflies. The order is
// the same in every warp, so all hold identical bits.
template <class In, int kParts, bool kWhole = true>
ROWSMITH_DEVICE PartOf<In> fold_lanes(const PartOf<In> (&mine)[(kParts + 31) / 32]) {
  using Acc = Accumulator<In>;
  constexpr int kLaneParts = (kParts + 31) / 32;
  const int lane = thread_index() % 32;
  Acc reference = minus_infinity<Acc>();
  ROWSMITH_UNROLL
  for (int k = 0; k < kLaneParts; ++k) reference = max_num(reference, mine[k].reference);
  Part<Acc> row;
  row.reference = group_max<32>(reference);
  Acc sums[kLaneParts];
  ROWSMITH_UNROLL
  for (int k = 0; k < kLaneParts; ++k) {
    // A place past the last part adds 0; exp(-inf - -inf) of an all -inf row stays NaN.
    const Acc ratio = Exponential<In>::ratio(mine[k].reference, base_of<kWhole>(row.reference));
    sums[k] = k * 32 + lane < kParts ? mul(mine[k].sum, ratio) : Acc(0);
  }
  row.sum = group_sum<32>(tree_sum<kLaneParts>(sums));
  return row;
}
// The same of parts in memory.
template <class In, int kParts, bool kWhole = true>
ROWSMITH_DEVICE PartOf<In> fold_parts(const PartOf<In>* parts) {
  using Acc = Accumulator<In>;
  constexpr int kLaneParts = (kParts + 31) / 32;
  const int lane = thread_index() % 32;
  Part<Acc> mine[kLaneParts];
  ROWSMITH_UNROLL
  for (int k = 0; k < kLaneParts; ++k) {
    mine[k] = Part<Acc>{minus_infinity<Acc>(), Acc(0)};
    if (k * 32 + lane < kParts) mine[k] = parts[k * 32 + lane];
  }
  return fold_lanes<In, kParts, kWhole>(mine);
}

// Merges one part a warp into the row's, by one barrier (Milakov and Gimelshein, arXiv:1805.02867,
// with one rescale a part). Every thread calls it with its warp's part and gets the row's. `parts`:
// kWarps of them, in shared memory; a second merge needs others, or a barrier before it. Few warps
// fold all parts in every thread; more fold by shuffle. Where the block has not the whole row
// (kWhole false), the merged part may be all -inf and must be 0 then, not NaN.
template <class In, int kWarps, bool kWhole = true>
ROWSMITH_DEVICE PartOf<In> merge_warps(const PartOf<In>& mine, PartOf<In>* parts) {
  using Acc = Accumulator<In>;
  const int thread = thread_index();
  if (thread % 32 == 0) parts[thread / 32] = mine;
  sync();
  if constexpr (kWarps > 8) {
    return fold_parts<In, kWarps, kWhole>(parts);
  } else {
    Acc reference[kWarps], sum[kWarps];
    Part<Acc> row;
    ROWSMITH_UNROLL
    for (int w = 0; w < kWarps; ++w) reference[w] = parts[w].reference, sum[w] = parts[w].sum;
    row.reference = reference[0];
    ROWSMITH_UNROLL
    for (int w = 1; w < kWarps; ++w) row.reference = max_num(row.reference, reference[w]);
    ROWSMITH_UNROLL
    for (int w = 0; w < kWarps; ++w) {
      sum[w] = mul(sum[w], Exponential<In>::ratio(reference[w], base_of<kWhole>(row.reference)));
    }
    row.sum = tree_sum<kWarps>(sum);
    return row;
  }
}

#if ROWSMITH_HOST || __CUDA_ARCH__ >= 900

// The same over a cluster of kCluster blocks: every warp sends its part to each block, whose
// `arrival` tells when all have come; `parity` is that of the arrival's phase. `parts`: kCluster *
// kWarps of them. Merges in turn must use two sets of parts and arrivals in turn: a block may be
// one merge ahead of another, not two. Before the first one every thread must have arrived at the
// cluster barrier, after arrivals_ready(), and waited there. A block may end after its last merge.
template <class In, int kWarps, int kCluster>
ROWSMITH_DEVICE PartOf<In> merge_cluster(const PartOf<In>& mine, PartOf<In>* parts,
                                         Arrival* arrival, u32 parity) {
  static_assert(kCluster <= 32, "a lane a peer");
  const int lane = thread_index() % 32, warp = thread_index() / 32;
  const int rank = static_cast<int>(block_index() % kCluster);
  if (thread_index() == 0) arrival_expect(arrival, kCluster * kWarps * sizeof(PartOf<In>));
  if (lane < kCluster) peer_store(parts + rank * kWarps + warp, mine, arrival, lane);
  arrival_wait(arrival, parity);
  return fold_parts<In, kCluster * kWarps>(parts);
}

#endif

}  // namespace rs
