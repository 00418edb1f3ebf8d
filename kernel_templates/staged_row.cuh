// SPDX-License-Identifier: Apache-2.0
//
// staged_row: a block, or a cluster of blocks, a row at a time, with the next rows on their way:
// bulk copies fill a ring of stages in shared memory while the row at hand is computed and written.
//
// 1. One thread starts the copies of the first kStages rows' slices, chunk by chunk.
// For each row: 2. As chunks arrive, each lane folds its packs into a running maximum and sum.
// 3. Warps' parts are merged, over the cluster if there is one; that barrier also says that
// everyone is done with the row before, whose stage is then filled anew. 4. The packs are read
// again from shared memory, exponentiated, scaled and stored.
// Geometry: kCluster blocks of kThreads walk the rows with a stride; shared memory as laid
// out below. A row's first elements up to a 16-byte border and its last ones are the last block's,
// kept in registers and read one row ahead. In place is safe: a row is read whole before it is
// written. Traits: In, Out, kCols, kPack (16 bytes of In), kAnyStart, kStore, kCluster, kThreads,
// kMinBlocks, kStages (rows; with 1, a cluster has one row), kUnroll (packs a lane in a chunk).
#pragma once

#include "online.cuh"
#include "params.cuh"
#include "row_packs.cuh"

namespace rs {

using rowsmith_params::RowsParams;

#if ROWSMITH_HOST || __CUDA_ARCH__ >= 900

template <class C>
struct StagedRow {
  using In = typename C::In;
  using Out = typename C::Out;
  using Exp = Exponential<In>;
  using Acc = Accumulator<In>;
  static constexpr int kPack = C::kPack, kThreads = C::kThreads, kWarps = kThreads / 32;
  static_assert(kPack * sizeof(In) == 16 && kThreads % 32 == 0, "bulk copies; whole warps");

  static constexpr int kMaxPacks = RowPacks<C>::kMaxPacks, kMaxEdges = RowPacks<C>::kMaxEdges;
  static constexpr int kSlicePacks = (kMaxPacks + C::kCluster - 1) / C::kCluster;
  static constexpr int kChunkPacks = C::kUnroll * kThreads;
  static constexpr int kChunks = (kSlicePacks + kChunkPacks - 1) / kChunkPacks;
  static_assert(kMaxEdges <= 32, "an edge element a lane");

  // Shared memory: arrivals (of two merges in turn, then of the ring's chunks), two sets of parts,
  // the ring.
  static constexpr int kParts = C::kCluster * kWarps;
  static constexpr int kPartsAt = (2 + C::kStages * kChunks) * static_cast<int>(sizeof(Arrival));
  static constexpr int kRingAt =
      (kPartsAt + 2 * kParts * static_cast<int>(sizeof(Part<Acc>)) + 127) / 128 * 128;

  const RowsParams& p;
  const int thread, rank;
  const i64 first, step;  // this cluster's rows

  ROWSMITH_DEVICE explicit StagedRow(const RowsParams& params)
      : p(params),
        thread(thread_index()),
        rank(static_cast<int>(block_index() % C::kCluster)),
        first(block_index() / C::kCluster),
        step(block_count() / C::kCluster) {}

  ROWSMITH_DEVICE const In* src_row(i64 row) const {
    return static_cast<const In*>(p.src) + row * p.src_stride;
  }
  // This block's share of a row's packs.
  ROWSMITH_DEVICE int slice_of(const RowPacks<C>& packs) const {
    return between(packs.packs - rank * kSlicePacks, kSlicePacks);
  }
  ROWSMITH_DEVICE static int between(int value, int most) {
    return value < 0 ? 0 : value < most ? value : most;
  }

  ROWSMITH_DEVICE static Arrival* merge_arrival(u32 turn) {
    return reinterpret_cast<Arrival*>(shared_base()) + turn;
  }
  ROWSMITH_DEVICE static Arrival* chunk_arrival(int stage, int chunk) {
    return merge_arrival(2) + stage * kChunks + chunk;
  }
  ROWSMITH_DEVICE static Part<Acc>* parts(u32 turn) {
    return reinterpret_cast<Part<Acc>*>(shared_base() + kPartsAt) + turn * kParts;
  }
  ROWSMITH_DEVICE static char* stage_base(int stage) {
    return shared_base() + kRingAt + stage * (kSlicePacks * 16);
  }

  // By one thread: starts the copies of this block's slice of the row, if there is such a row.
  ROWSMITH_DEVICE void start_row(i64 row, int stage) const {
    if (row >= p.rows) return;
    const RowPacks<C> packs(src_row(row));
    const In* src = src_row(row) + packs.head + rank * kSlicePacks * kPack;
    const int slice = slice_of(packs);
    ROWSMITH_NO_UNROLL
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const int at = chunk * kChunkPacks;
      const auto bytes = static_cast<u32>(between(slice - at, kChunkPacks)) * 16;
      Arrival* const arrival = chunk_arrival(stage, chunk);
      arrival_expect(arrival, bytes);
      if (bytes > 0) bulk_read(arrival, stage_base(stage) + at * 16, src + at * kPack, bytes);
    }
  }

  // The last block has the elements outside of packs, one a lane.
  ROWSMITH_DEVICE bool has_edge(const RowPacks<C>& packs) const {
    return rank == C::kCluster - 1 && thread < packs.edges();
  }
  ROWSMITH_DEVICE Acc read_edge(i64 row) const {
    if (kMaxEdges == 0 || row >= p.rows) return minus_infinity<Acc>();
    const RowPacks<C> packs(src_row(row));
    return has_edge(packs) ? load_one<In, 0>(src_row(row) + packs.edge_column(thread))
                           : minus_infinity<Acc>();
  }

  ROWSMITH_DEVICE Part<Acc> read_row(int slice, int stage, u32 parity, Acc edge) const {
    OnlineLane<In> lane;
    if constexpr (kMaxEdges > 0) lane.put_one(edge);
    const char* base = stage_base(stage) + thread * 16;
    ROWSMITH_NO_UNROLL
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      arrival_wait(chunk_arrival(stage, chunk), parity);
      if ((chunk + 1) * kChunkPacks <= slice) {
        Raw<16> raw[C::kUnroll];
        ROWSMITH_UNROLL
        for (int k = 0; k < C::kUnroll; ++k) {
          raw[k] = load_shared(base + (chunk * kChunkPacks + k * kThreads) * 16);
        }
        lane.template put_packs<kPack>(raw);
      } else {
        ROWSMITH_NO_UNROLL
        for (int k = 0; k < C::kUnroll; ++k) {
          const int at = chunk * kChunkPacks + k * kThreads;
          if (at + thread >= slice) break;
          const Raw<16> raw[1] = {load_shared(base + at * 16)};
          lane.template put_packs<kPack>(raw);
        }
      }
    }
    return lane.warp_part();
  }

  ROWSMITH_DEVICE void write_row(i64 row, const RowPacks<C>& packs, int stage, Acc edge,
                                 const Part<Acc>& whole) const {
    const Acc scale = normal_or_zero(div_rn(out_scale<Acc>(p), whole.sum));
    Out* dst = static_cast<Out*>(p.dst) + row * p.dst_stride;
    const int slice = slice_of(packs);
    Out* body = dst + packs.head + (rank * kSlicePacks + thread) * kPack;
    const char* base = stage_base(stage) + thread * 16;
    ROWSMITH_NO_UNROLL
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      ROWSMITH_UNROLL
      for (int k = 0; k < C::kUnroll; ++k) {
        const int at = chunk * kChunkPacks + k * kThreads;
        if (at + thread >= slice) continue;
        Acc v[kPack];
        unpack<In, kPack>(load_shared(base + at * 16), v);
        ROWSMITH_UNROLL
        for (int i = 0; i < kPack; ++i) v[i] = mul(Exp::of(v[i], whole.reference), scale);
        store<C::kStore, kPack * sizeof(Out)>(body + at * kPack, pack<Out, kPack>(v));
      }
    }
    if (kMaxEdges > 0 && has_edge(packs)) {
      store_one<Out, C::kStore>(dst + packs.edge_column(thread),
                                mul(Exp::of(edge, whole.reference), scale));
    }
  }

  ROWSMITH_DEVICE void run() const {
    if (thread == 0) {  // 1
      for (int i = 0; i < 2 + C::kStages * kChunks; ++i) arrival_init(merge_arrival(i));
      arrivals_ready();
      ROWSMITH_NO_UNROLL
      for (int n = 0; n < C::kStages; ++n) start_row(first + n * step, n);
    }
    if constexpr (C::kCluster > 1) {
      cluster_arrive();
      cluster_wait();
    } else {
      sync();
    }
    int stage = 0;
    u32 parity = 0, merges = 0;
    Acc edge = read_edge(first);
    for (i64 row = first; row < p.rows; row += step, ++merges) {
      const u32 turn = merges % 2;
      const Acc next_edge = read_edge(row + step);
      const RowPacks<C> packs(src_row(row));
      const Part<Acc> mine = read_row(slice_of(packs), stage, parity, edge);  // 2
      Part<Acc> whole;                                                        // 3
      if constexpr (C::kCluster > 1) {
        whole = merge_cluster<In, kWarps, C::kCluster>(mine, parts(turn), merge_arrival(turn),
                                                       merges / 2 % 2);
      } else {
        whole = merge_warps<In, kWarps>(mine, parts(turn));
      }
      if (C::kStages > 1 && thread == 0 && row != first) {
        start_row(row + (C::kStages - 1) * step, stage == 0 ? C::kStages - 1 : stage - 1);
      }
      write_row(row, packs, stage, edge, whole);  // 4
      edge = next_edge;
      if (++stage == C::kStages) stage = 0, parity ^= 1;
    }
  }
};

template <class C>
ROWSMITH_DEVICE void staged_row(const RowsParams& p) {
  StagedRow<C>(p).run();
}

#endif

}  // namespace rs
