// SPDX-License-Identifier: Apache-2.0
//
// RowPacks: how a row is cut into a head up to the first pack border, whole packs, and a tail, so
// that a row that starts anywhere moves at full pack width.
// Traits used: In, kCols, kPack (elements), kAnyStart.
#pragma once

#include "simt.cuh"

namespace rs {

template <class C>
struct RowPacks {
  static constexpr int kPack = C::kPack, kCols = C::kCols;
  static constexpr bool kHeads = C::kAnyStart && kPack > 1;
  // Packs that a row can hold, and elements outside of packs, at most.
  static constexpr int kMaxPacks = kCols / kPack;
  static constexpr int kMaxEdges =
      kHeads ? (kCols < 2 * (kPack - 1) ? kCols : 2 * (kPack - 1)) : kCols % kPack;

  int head = 0, packs = kMaxPacks;  // elements before the first pack border; packs after it

  RowPacks() = default;
  ROWSMITH_DEVICE explicit RowPacks(const typename C::In* src) {
    if constexpr (kHeads) {
      const u32 offset =
          static_cast<u32>(reinterpret_cast<u64>(src) / sizeof(typename C::In)) % kPack;
      head = offset == 0 ? 0 : kPack - static_cast<int>(offset);
      if (head > kCols) head = kCols;
      packs = (kCols - head) / kPack;
    }
  }
  ROWSMITH_DEVICE int edges() const { return kHeads ? kCols - packs * kPack : kMaxEdges; }
  // Column of the element at place e among those outside of packs: the head first, then the tail.
  ROWSMITH_DEVICE int edge_column(int e) const { return e < head ? e : e + packs * kPack; }
};

}  // namespace rs
