// SPDX-License-Identifier: Apache-2.0
//
// The space of `online_row`: blocks a cluster, threads, packs in flight a lane, the share of L2
// that the rows in flight may take, and how rows begin, are loaded and stored.
#include "kernel_templates/axis_family.h"
#include "kernel_templates/families.h"

#include "online_row_text.h"

#include <algorithm>
#include <cmath>

namespace rowsmith {
namespace {

const std::vector<Axis>& axes() {
  static const std::vector<Axis> all{{"cluster", {"1", "2", "4", "8", "16"}},
                                     {"threads", {"256", "512", "1024"}},
                                     {"l2_percent", {"0", "40", "70"}},
                                     {"unroll", {"2", "4", "8"}},
                                     {"pack", {"1", "2", "4", "8", "16", "32"}},
                                     {"start", {"aligned", "any"}},
                                     {"load", {"default", "nc"}},
                                     {"store", {"default", "cs"}}};
  return all;
}

// Blocks that a multiprocessor holds at once, by threads.
int blocks_per_sm(const DeviceFacts& facts, int threads) {
  return std::max(1, std::min(facts.max_threads_per_sm / threads, facts.max_blocks_per_sm));
}

// Rows that may be in flight so that their second read comes from L2.
std::int64_t rows_in_flight(const Problem& problem, const DeviceFacts& facts,
                            const Config& config) {
  const std::int64_t row_bytes = problem.cols * static_cast<std::int64_t>(size_of(problem.in));
  return facts.l2_bytes * config.number("l2_percent") / 100 / row_bytes;
}

// Whatever `load` and `store`.
const char* shape_why_not(const Problem& problem, const DeviceFacts& facts, const Config& config) {
  if (const char* reason = check_pack(problem, facts, config)) return reason;
  const int threads = config.number("threads"), cluster = config.number("cluster");
  if (cluster > facts.max_cluster) return "the device has no such clusters";
  if (problem.cols / config.number("pack") < 2 * threads * cluster) {
    return "fewer than two packs a thread";
  }
  if (config.number("l2_percent") > 0) {
    const std::int64_t rows = rows_in_flight(problem, facts, config);
    if (rows == 0) return "a row exceeds that share of L2";
    const std::int64_t running = facts.sm_count * blocks_per_sm(facts, threads) / cluster;
    if (rows >= running) return "all rows that run at once fit that share of L2";
  }
  return check_occupancy(
      facts, threads, 1,
      config.number("unroll") * config.number("pack") * accumulator_words(problem) + 40);
}

class OnlineRow final : public AxisFamily {
 public:
  OnlineRow()
      : AxisFamily({"online_row",
                    "a block or cluster a row of any length, read twice, the second time from L2",
                    detail::kOnlineRowText, detail::kOnlineRowDigest},
                   axes()) {}

  std::string traits(const Problem& problem, const Config& config) const override {
    return row_traits(problem, config, config.number("cluster") * config.number("threads")) +
           int_trait("kCluster", config.number("cluster")) +
           int_trait("kThreads", config.number("threads")) + int_trait("kMinBlocks", 1) +
           int_trait("kUnroll", config.number("unroll"));
  }

  Geometry geometry(const Problem& problem, const DeviceFacts& facts,
                    const Config& config) const override {
    Geometry geometry;
    geometry.threads = config.number("threads");
    geometry.cluster = config.number("cluster");
    geometry.shared_bytes = 2 * (kArrivalBytes + std::int64_t{geometry.cluster} *
                                                     (geometry.threads / 32) * part_bytes(problem));
    if (config.number("l2_percent") > 0) {
      geometry.walkers = rows_in_flight(problem, facts, config);
    }
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

// It is to win only where a row fits neither the registers nor the shared memory of the largest
// cluster: two reads against one. Evidence: H200, 2026-11-30: f32 64 x 1000003 194 us (floor 122)
// with l2_percent=70, 206 without a cap; cluster 16 / 4: 1.00 / 1.22.
double OnlineRow::rank(const Problem& problem, const DeviceFacts& facts,
                       const Config& config) const {
  const int threads = config.number("threads"), cluster = config.number("cluster");
  double rank = pack_rank(problem, config.number("pack")) + policy_rank(problem, config);
  const double row_bytes =
      static_cast<double>(problem.cols) * static_cast<double>(size_of(problem.in));
  rank += 0.3 * octaves_from(cluster, std::clamp(row_bytes / 64e3, 1.0, 16.0));
  rank += 0.2 * octaves_from(threads, 512) + 0.1 * octaves_from(config.number("unroll"), 4);
  const double flight =
      std::min(static_cast<double>(problem.rows), 2.0 * facts.sm_count * 512 / threads / cluster);
  const bool overflows = flight * row_bytes > 0.7 * static_cast<double>(facts.l2_bytes);
  if (overflows != (config.number("l2_percent") > 0)) rank += 0.5;
  if (config.number("l2_percent") == 40) rank += 0.05;
  // The reverse of what holds for rows read once.
  if (!problem.layout.in_place) rank += config.get("load") == "nc" ? 0.1 : -0.25;
  return rank + 2.5;
}

}  // namespace

const Family& online_row_family() {
  static const OnlineRow family;
  return family;
}

}  // namespace rowsmith
