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
  static constexpr int kPack = C::kPack;
  int head = 0;
  i64 packs = 0;

  ROWSMITH_DEVICE explicit RowPacks(const typename C::In* src) {
    if constexpr (C::kAnyStart && kPack > 1) {
      const u32 offset =
          static_cast<u32>(reinterpret_cast<u64>(src) / sizeof(typename C::In)) % kPack;
      head = offset == 0 ? 0 : kPack - static_cast<int>(offset);
      if (head > C::kCols) head = C::kCols;
    }
    packs = (C::kCols - head) / kPack;
  }
  // Elements outside of packs, at most 2 (kPack - 1): the head first, then the tail.
  ROWSMITH_DEVICE int edges() const { return static_cast<int>(C::kCols - packs * kPack); }
  ROWSMITH_DEVICE i64 edge_column(int e) const { return e < head ? e : e + packs * kPack; }
};

}  // namespace rs
