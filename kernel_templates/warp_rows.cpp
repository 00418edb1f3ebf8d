// SPDX-License-Identifier: Apache-2.0
//
// The space of `warp_rows`: lanes a row, rows a group, threads, and RowSlice's axes.
#include "kernel_templates/families.h"
#include "kernel_templates/row_family.h"
#include "warp_rows_text.h"

#include <algorithm>
#include <cmath>

namespace rowsmith {
namespace {

class WarpRows final : public RowFamily {
 public:
  WarpRows()
      : RowFamily({"warp_rows", "1 to 32 lanes a row, several rows a group, rows in registers",
                   detail::kWarpRowsText, detail::kWarpRowsDigest},
                  {{"lanes", {"1", "2", "4", "8", "16", "32"}},
                   {"rows", {"1", "2", "4", "8"}},
                   {"threads", {"64", "128", "256"}}}) {}

  Geometry geometry(const Problem&, const DeviceFacts&, const Config& config) const override {
    Geometry geometry;
    geometry.threads = config.number("threads");
    geometry.rows_per_block =
        std::int64_t{geometry.threads} / config.number("lanes") * config.number("rows");
    return geometry;
  }

  double rank(const Problem& problem, const DeviceFacts& facts,
              const Config& config) const override;

 protected:
  int lanes(const Config& config) const override { return config.number("lanes"); }
  std::string own_traits(const Config& config) const override {
    return int_trait("kRows", config.number("rows")) +
           int_trait("kThreads", config.number("threads")) + int_trait("kMinBlocks", 1);
  }
  const char* own_why_not(const Problem& problem, const DeviceFacts& facts,
                          const Config& config) const override {
    const int row_lanes = lanes(config), rows = config.number("rows");
    // Beyond this, lanes would have nothing to hold (twice the padded row is the bound).
    if (row_lanes > 1 &&
        row_lanes / 2 * config.number("pack") >= power_of_two_at_least(problem.cols)) {
      return "more lanes than the row has packs";
    }
    const int held = rows * registers_for_row(problem, config, row_lanes);
    // 128 held registers compile without a spill at 256 threads and below on sm_90; past 96 only
    // one row a group keeps that true. 24 more are addresses and temporaries.
    if (held > (rows == 1 ? 128 : 96)) return "rows do not fit the registers";
    return check_occupancy(facts, config.number("threads"), 1,
                           held + 24 * accumulator_words(problem));
  }
};

// Octaves from where each axis is expected to be best, weighted by what missing it costs. Evidence:
// H200, cold L2, `tune softmax --effort thorough`, 2026-11-30, best of each value over the best of
// all: f16 4096 x 257 lanes 8 / 16 / 32: 1.07 / 1.00 / 1.01; rows 1 / 2 / 4: 1.00 / 1.11 / 1.28.
// f16 65536 x 64 lanes 2 / 4 / 8 / 16: 1.11 / 1.01 / 1.00 / 1.07; packed 1.00, rows 2 1.00.
// f32 1048576 x 16 lanes 1 / 2 / 4 / 8: 1.60 / 1.00 / 1.00 / 1.01. f16 4096 x 1000 lanes 16 / 32:
// 1.06 / 1.01, packed 1.04. Threads and policies move less than 1 %. Rows that start anywhere, f16
// at 64 MB and more, all configs: H = 17 lanes 1 / 2 / 4 / 8 2.09 / 1.00 / 1.12 / 1.36, pack 1 / 2
// / 4 / 8 1.14 / 1.00 / 1.49 / 1.99; H = 43 lanes 2 / 4 / 8 / 16 1.45 / 1.00 / 1.11 / 1.30,
// pack 1.16 / 1.00 / 1.13 / 1.33; H = 65 lanes 4 / 8 / 16 1.14 / 1.00 / 1.34; H = 163 lanes 4 / 8 /
// 16 / 32 1.13 / 1.00 / 1.01 / 1.15, pack 1.15 / 1.01 / 1.00 / 1.01; H = 275 1.07 / 1.02 / 1.00
// / 1.07, pack alike.
double WarpRows::rank(const Problem& problem, const DeviceFacts& facts,
                      const Config& config) const {
  const int row_lanes = lanes(config), rows = config.number("rows");
  const int pack = config.number("pack"), threads = config.number("threads");
  const bool any = config.get("start") == "any", few = problem.rows <= facts.sm_count;
  const double element = static_cast<double>(bytes_of_wider(problem));
  const double row_bytes = static_cast<double>(problem.cols) * element;
  const double pack_bytes = pack * element, lane_bytes = row_bytes / row_lanes;
  double rank = policy_rank(problem, config) + keep_rank(problem, config);
  // What a lane does beside its share is done once a lane, and one that walks far alone loses
  // coalescing. Where rows are few only latency counts: two elements a lane, expected from
  // block_row (f16 16 x 37 by single elements 1.13 us; by packs of 8 that start anywhere, lanes of
  // 4, 1.62).
  double best_bytes = element < 4 ? 18 : 24;
  if (element < 4 && any) best_bytes = std::clamp(row_bytes / 8, 20.0, 34.0);
  if (few) best_bytes = 2 * element;
  const double least_bytes = few ? best_bytes : any ? 0 : 16;  // a pack's
  const double weight = lane_bytes <= best_bytes ? 0.5 : row_lanes == 32 ? 0.3 : 0.7;
  rank += weight * octaves_from(std::max(lane_bytes, least_bytes), best_bytes);
  rank += 0.3 * octaves_from(rows, 1);
  const bool spread = static_cast<double>(problem.rows) * row_lanes < 512.0 * facts.sm_count;
  rank += 0.1 * octaves_from(threads, spread ? 64 : 128);
  if (!few) rank += launch_rank(problem, static_cast<double>(threads) / row_lanes * rows);
  if (any) {
    // Elements outside of packs are dealt one a lane: with wide packs and few lanes, in many turns.
    rank += 0.15 * (std::ceil(2.0 * (pack - 1) / row_lanes) - 1) + 0.02 * octaves_from(pack, 8);
    // A few bytes of each row at a time, many times.
    if (row_lanes * pack_bytes <= 16) rank += 0.3 * std::max(0.0, lane_bytes / pack_bytes - 5);
    if (few) rank += 0.4;
    // flat_tile's work: f16 H = 31 to 55 at 64 MB 0.95 to 1.00 of the floor, by lanes of 4 0.71 to
    // 0.92.
    if (row_bytes < (element < 4 ? 120 : 64)) rank += 0.2;
  } else if (few && pack == 1) {
    rank += 0.1;
  } else if (pack == 1 && problem.layout.src_align % (2 * size_of(problem.in)) != 0) {
    // Rows that begin anywhere, without head and tail. A warp a row, all at once, is fastest so:
    // f16 4096 x 257 2.42 us, in packs of 2, 4 and 8 2.51, 2.53 and 2.54.
    const bool at_once = static_cast<double>(problem.rows) * row_lanes <= 2048.0 * facts.sm_count;
    rank += at_once && row_lanes == 32 ? 0.05 : 0.35;
  } else {
    rank += pack_rank(problem, pack) + (row_lanes == 1 && lane_bytes > 16 ? 0.3 : 0);
  }
  if (row_bytes > 2048) rank += octaves_from(row_bytes, 2048);  // a block's work
  return rank;
}

}  // namespace

const Family& warp_rows_family() {
  static const WarpRows family;
  return family;
}

}  // namespace rowsmith
