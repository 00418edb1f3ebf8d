// SPDX-License-Identifier: Apache-2.0
//
// Maximum and sum over a group of lanes, and the merging of a row's parts over the warps of a
// block.
#pragma once

#include "numeric.cuh"

namespace rs {

// Over groups of kLanes consecutive lanes (a power of two <= 32); every lane gets the result. A
// butterfly adds in the same order in every lane, so all hold identical bits.
template <int kLanes, class Acc>
ROWSMITH_DEVICE Acc group_max(Acc value) {
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

// The parts' sum and reference, for all lanes of the calling warp: two butterflies, whatever their
// number. The order is the same in every warp, so all hold identical bits.
template <class In, int kParts>
ROWSMITH_DEVICE PartOf<In> fold_parts(const PartOf<In>* parts) {
  using Acc = Accumulator<In>;
  constexpr int kLaneParts = (kParts + 31) / 32;
  const int lane = thread_index() % 32;
  Part<Acc> mine[kLaneParts];
  Acc reference = minus_infinity<Acc>();
  ROWSMITH_UNROLL
  for (int k = 0; k < kLaneParts; ++k) {
    mine[k] = Part<Acc>{minus_infinity<Acc>(), Acc(0)};
    if (k * 32 + lane < kParts) mine[k] = parts[k * 32 + lane];
    reference = max_num(reference, mine[k].reference);
  }
  Part<Acc> row;
  row.reference = group_max<32>(reference);
  Acc sums[kLaneParts];
  ROWSMITH_UNROLL
  for (int k = 0; k < kLaneParts; ++k) {
    // A place past the last part adds 0; exp(-inf - -inf) of an all -inf row stays NaN.
    const Acc ratio = Exponential<In>::ratio(mine[k].reference, row.reference);
    sums[k] = k * 32 + lane < kParts ? mul(mine[k].sum, ratio) : Acc(0);
  }
  row.sum = group_sum<32>(tree_sum<kLaneParts>(sums));
  return row;
}

// Merges one part a warp into the row's, by one barrier (Milakov and Gimelshein, arXiv:1805.02867,
// with one rescale a part). Every thread calls it with its warp's part and gets the row's. Shared
// memory: kWarps parts. Few warps fold all parts in every thread; more fold by shuffle.
template <class In, int kWarps>
ROWSMITH_DEVICE PartOf<In> merge_warps(PartOf<In> mine) {
  using Acc = Accumulator<In>;
  Part<Acc>* parts = reinterpret_cast<Part<Acc>*>(shared_base());  // [kWarps]
  const int thread = thread_index();
  if (thread % 32 == 0) parts[thread / 32] = mine;
  sync();
  if constexpr (kWarps > 8) {
    return fold_parts<In, kWarps>(parts);
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
      sum[w] = mul(sum[w], Exponential<In>::ratio(reference[w], row.reference));
    }
    row.sum = tree_sum<kWarps>(sum);
    return row;
  }
}

}  // namespace rs
