// SPDX-License-Identifier: Apache-2.0
//
// The space of `warp_rows`: lanes a row, rows a group, threads, and RowSlice's axes.
#include "kernel_templates/families.h"
#include "kernel_templates/space.h"
#include "warp_rows_text.h"

#include <algorithm>

namespace rowsmith {
namespace {

const std::vector<Axis>& axes() {
  static const std::vector<Axis> value{{"lanes", {"1", "2", "4", "8", "16", "32"}},
                                       {"rows", {"1", "2", "4", "8"}},
                                       {"threads", {"64", "128", "256"}},
                                       pack_axis(),
                                       start_axis(),
                                       keep_axis(),
                                       load_axis(),
                                       store_axis()};
  return value;
}

class WarpRows final : public Family {
 public:
  std::string_view name() const override { return "warp_rows"; }
  std::string_view summary() const override {
    return "1 to 32 lanes a row, several rows a group, rows in registers";
  }
  std::string_view text() const override { return detail::kWarpRowsText; }
  std::string_view digest() const override { return detail::kWarpRowsDigest; }
  bool exact() const override { return true; }

  std::vector<Config> space(const Problem& problem, const DeviceFacts& facts) const override {
    return enumerate(name(), axes(),
                     [&](const Config& config) { return why_not(problem, facts, config); });
  }

  std::string why_illegal(const Problem& problem, const DeviceFacts& facts,
                          const Config& config) const override {
    std::string why = check_axes(name(), axes(), config);
    if (!why.empty()) return why;
    const char* reason = why_not(problem, facts, config);
    return reason == nullptr ? "" : std::string(name()) + ": " + reason;
  }

  std::string traits(const Problem& problem, const Config& config) const override {
    return row_slice_traits(problem, config, config.number("lanes")) +
           int_trait("kRows", config.number("rows")) +
           int_trait("kThreads", config.number("threads")) + int_trait("kMinBlocks", 1);
  }

  Geometry geometry(const Problem&, const Config& config) const override {
    const int threads = config.number("threads");
    return {std::int64_t{threads} / config.number("lanes") * config.number("rows"), threads, 1, 0};
  }

  double rank(const Problem& problem, const DeviceFacts& facts,
              const Config& config) const override;

 private:
  const char* why_not(const Problem& problem, const DeviceFacts& facts,
                      const Config& config) const {
    for (const char* reason : {check_row_problem(problem), check_pack(problem, config),
                               check_load(problem, config), check_keep(problem, config)}) {
      if (reason != nullptr) return reason;
    }
    const int lanes = config.number("lanes"), rows = config.number("rows");
    // Beyond this, lanes would have nothing to hold (twice the padded row is the bound).
    if (lanes > 1 && lanes / 2 * config.number("pack") >= power_of_two_at_least(problem.cols)) {
      return "more lanes than the row has packs";
    }
    const int held = rows * registers_for_row(problem, config, lanes);
    // 128 held registers compile without a spill at 256 threads and below on sm_90; past 96 only
    // one row a group keeps that true. 24 more are addresses and temporaries.
    if (held > (rows == 1 ? 128 : 96)) return "rows do not fit the registers";
    return check_occupancy(facts, config.number("threads"), 1, held + 24);
  }
};

// Octaves from where each axis is expected to be best, weighted by what it was seen to cost.
double WarpRows::rank(const Problem& problem, const DeviceFacts& facts,
                      const Config& config) const {
  const int lanes = config.number("lanes"), rows = config.number("rows");
  const int pack = config.number("pack"), threads = config.number("threads");
  const double row_bytes = static_cast<double>(problem.cols) * size_of(problem.in);
  const double lane_bytes = row_bytes / lanes;
  double rank = 0;
  // Full packs first: narrow accesses cost more than any other axis.
  const double wide = std::max(size_of(problem.in), size_of(problem.out));
  rank += 2.0 * octaves_from(pack * wide, 16);
  // A lane holds 16 to 64 bytes of a row; several short rows a group keep the bytes in flight up.
  rank += 0.5 * octaves_from(std::max(lane_bytes, 1.0), lane_bytes < 32 ? 32 : 64);
  const double groups = static_cast<double>(problem.rows) * lanes / threads / rows;
  const bool enough_blocks = groups >= 4.0 * facts.sm_count;
  rank += 0.3 * octaves_from(rows, enough_blocks && row_bytes <= 512 ? 2 : 1);
  rank += 0.2 * octaves_from(threads, 128);
  if (!enough_blocks) rank += 0.2 * octaves_from(threads, 64);
  if (config.get("keep") == "packed") rank += 0.15;
  if (config.get("load") == "cs") rank += 0.05;
  if (config.get("load") == "default") rank += problem.layout.in_place ? 0 : 0.02;
  if (config.get("store") == "default") rank += 0.03;
  // Long rows are a block's work.
  if (row_bytes > 2048) rank += octaves_from(row_bytes, 2048);
  return rank;
}

}  // namespace

const Family& warp_rows_family() {
  static const WarpRows family;
  return family;
}

}  // namespace rowsmith
