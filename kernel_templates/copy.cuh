// SPDX-License-Identifier: Apache-2.0
//
// copy: a plain copy of contiguous bytes, the floor that softmax is measured against: it moves the
// same bytes and does nothing else. Several shapes are timed and the best one counts.
// Geometry: kThreads threads move kThreads * kPacks packs of 16 bytes a block; the last block's
// first threads move the under-16-byte rest. Requires 16-byte aligned src and dst.
// Traits: kThreads, kMinBlocks, kPacks, kLoad, kStore.
#pragma once

#include "params.cuh"
#include "simt_memory.cuh"

namespace rs {

using rowsmith_params::CopyParams;

template <class C>
ROWSMITH_DEVICE void copy(const CopyParams& p) {
  const char* src = static_cast<const char*>(p.src);
  char* dst = static_cast<char*>(p.dst);
  const i64 packs = p.bytes / 16;
  const i64 first = block_index() * (C::kThreads * C::kPacks) + thread_index();
  Raw<16> held[C::kPacks];
  ROWSMITH_UNROLL
  for (int k = 0; k < C::kPacks; ++k) {
    const i64 at = first + k * C::kThreads;
    if (at < packs) held[k] = load<C::kLoad, 16>(src + at * 16);
  }
  ROWSMITH_UNROLL
  for (int k = 0; k < C::kPacks; ++k) {
    const i64 at = first + k * C::kThreads;
    if (at < packs) store<C::kStore, 16>(dst + at * 16, held[k]);
  }
  const i64 rest = packs * 16 + thread_index();
  if (block_index() == block_count() - 1 && rest < p.bytes) dst[rest] = src[rest];
}

}  // namespace rs
