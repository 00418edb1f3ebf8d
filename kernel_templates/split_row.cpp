// SPDX-License-Identifier: Apache-2.0
//
// The space of `split_row`: pieces a row, threads, packs in flight a lane, and how rows begin, are
// loaded and stored.
#include "kernel_templates/axis_family.h"
#include "kernel_templates/families.h"

#include "split_row_text.h"

#include <algorithm>
#include <cmath>

namespace rowsmith {
namespace {

const std::vector<Axis>& axes() {
  static const std::vector<Axis> all{{"pieces", {"4", "8", "16", "32", "64", "128"}},
                                     {"threads", {"128", "256", "512", "1024"}},
                                     {"unroll", {"2", "4", "8"}},
                                     {"pack", {"1", "2", "4", "8", "16", "32"}},
                                     {"start", {"aligned", "any"}},
                                     {"load", {"default", "nc"}},
                                     {"store", {"default", "cs"}}};
  return all;
}

// Whatever `load` and `store`.
const char* shape_why_not(const Problem& problem, const DeviceFacts& facts, const Config& config) {
  if (const char* reason = check_pack(problem, facts, config)) return reason;
  if (problem.layout.in_place) return "dst holds partial results while src is still read";
  const std::int64_t pack = config.number("pack"), pieces = config.number("pieces");
  const auto out_bytes = static_cast<std::int64_t>(size_of(problem.out));
  const std::int64_t part = part_bytes(problem);
  if (pack * out_bytes < part) return "a pack of dst cannot hold a partial result";
  // A head may cost the row a pack.
  const std::int64_t piece_packs = (problem.cols / pack - 1) / pieces;
  if (piece_packs < config.number("threads")) return "fewer packs than threads";
  if (piece_packs * pack * out_bytes < pieces * part) {
    return "a piece of dst cannot hold the partial results";
  }
  return check_occupancy(
      facts, config.number("threads"), 1,
      static_cast<int>(config.number("unroll") * pack) * accumulator_words(problem) + 40);
}

class SplitRow final : public AxisFamily {
 public:
  SplitRow()
      : AxisFamily(
            {"split_row",
             "many blocks a row, two launches, partial results kept in dst; for few long rows",
             detail::kSplitRowText, detail::kSplitRowDigest},
            axes()) {}

  std::string traits(const Problem& problem, const Config& config) const override {
    return row_traits(problem, config, config.number("threads")) +
           int_trait("kPieces", config.number("pieces")) +
           int_trait("kThreads", config.number("threads")) + int_trait("kMinBlocks", 1) +
           int_trait("kUnroll", config.number("unroll"));
  }

  Geometry geometry(const Problem& problem, const DeviceFacts&,
                    const Config& config) const override {
    Geometry geometry;
    geometry.threads = config.number("threads");
    geometry.blocks_per_row = config.number("pieces");
    geometry.shared_bytes = geometry.threads / 32 * part_bytes(problem);
    geometry.passes = 2;
    return geometry;
  }

  double rank(const Problem& problem, const DeviceFacts& facts,
              const Config& config) const override;

 protected:
  std::vector<Constraint> constraints(const Problem& problem,
                                      const DeviceFacts& facts) const override {
    return {{"start", [&](const Config& config) { return shape_why_not(problem, facts, config); }},
            {"load", [&](const Config& config) { return check_load(problem, config); }}};
  }
};

// It wins where a cluster, or without clusters a block, leaves most of the device idle. Evidence:
// H200, 2026-11-30: f32 4 x 1048576 15.0 us (online_row 17.0, floor 9.8), 1 x 1000003 7.5
// (online_row 16.0, floor 3.1); the second launch costs about 2 us, so that rows that fit a
// cluster's registers are the cluster's (f32 1 x 131072 3.2).
double SplitRow::rank(const Problem& problem, const DeviceFacts& facts,
                      const Config& config) const {
  const double pieces = config.number("pieces"), rows = static_cast<double>(problem.rows);
  double rank = pack_rank(problem, config.number("pack")) + policy_rank(problem, config);
  const double threads = config.number("threads");
  rank += 0.3 * octaves_from(rows * pieces * threads, facts.sm_count * 1024.0);
  rank += 0.2 * octaves_from(threads, 512) + 0.1 * octaves_from(config.number("unroll"), 4);
  // Blocks that a family of one launch would have at work.
  const double others = rows * facts.max_cluster;
  rank += 0.5 + std::max(0.0, std::log2(2 * others / facts.sm_count));
  const double row_bytes =
      static_cast<double>(problem.cols) * static_cast<double>(size_of(problem.in));
  return rank + std::max(0.0, 4 - std::log2(row_bytes / 64e3));
}

}  // namespace

const Family& split_row_family() {
  static const SplitRow family;
  return family;
}

}  // namespace rowsmith
