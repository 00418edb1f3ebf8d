// SPDX-License-Identifier: Apache-2.0
//
// The space of `warp_rows`: lanes a row, rows a group, threads, and RowSlice's axes.
#include "kernel_templates/families.h"
#include "kernel_templates/row_family.h"
#include "warp_rows_text.h"

#include <algorithm>

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
// 1.06 / 1.01, packed 1.04. Threads and policies move less than 1 %.
double WarpRows::rank(const Problem& problem, const DeviceFacts& facts,
                      const Config& config) const {
  const int row_lanes = lanes(config), rows = config.number("rows");
  const int pack = config.number("pack"), threads = config.number("threads");
  const double row_bytes = static_cast<double>(problem.cols * bytes_of_wider(problem));
  double rank = pack_rank(problem, pack) + policy_rank(problem, config);
  // 16 to 32 bytes a lane, of narrow elements fewer: 8 of them; a lane that walks further alone
  // loses coalescing. f16 1048576 x 16: lanes 1 / 2 19.9 / 17.2 us.
  const double lane_bytes = std::max(row_bytes / row_lanes, 16.0);
  const double best_bytes = bytes_of_wider(problem) < 4 ? 18 : 24;
  rank += (lane_bytes > best_bytes ? 0.7 : 0.5) * octaves_from(lane_bytes, best_bytes);
  rank += 0.3 * octaves_from(rows, 1);
  // Few rows: spread them over all multiprocessors first.
  const double blocks = static_cast<double>(problem.rows) * row_lanes * rows / threads;
  rank += 0.1 * octaves_from(threads, blocks < 4.0 * facts.sm_count ? 64 : 128);
  rank += keep_rank(problem, config);
  if (row_bytes > 2048) rank += octaves_from(row_bytes, 2048);  // a block's work
  return rank;
}

}  // namespace

const Family& warp_rows_family() {
  static const WarpRows family;
  return family;
}

}  // namespace rowsmith
