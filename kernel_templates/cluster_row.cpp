// SPDX-License-Identifier: Apache-2.0
//
// The space of `cluster_row`: blocks a cluster, threads, and RowSlice's axes.
#include "kernel_templates/families.h"
#include "kernel_templates/row_family.h"

#include "cluster_row_text.h"

#include <algorithm>
#include <cmath>

namespace rowsmith {
namespace {

class ClusterRow final : public RowFamily {
 public:
  ClusterRow()
      : RowFamily({"cluster_row",
                   "a cluster of blocks a row, row in registers, one exchange (sm_90 and later)",
                   detail::kClusterRowText, detail::kClusterRowDigest},
                  {{"cluster", {"2", "4", "8", "16"}},
                   {"threads", {"128", "256", "384", "512", "768", "1024"}},
                   {"min_blocks", {"1", "2", "3", "4", "6"}}}) {}

  Geometry geometry(const Problem& problem, const DeviceFacts&,
                    const Config& config) const override {
    Geometry geometry;
    geometry.threads = config.number("threads");
    geometry.cluster = config.number("cluster");
    geometry.shared_bytes = kArrivalBytes + lanes(config) / 32 * part_bytes(problem);
    return geometry;
  }

  double rank(const Problem& problem, const DeviceFacts& facts,
              const Config& config) const override;

 protected:
  int lanes(const Config& config) const override {
    return config.number("threads") * config.number("cluster");
  }
  std::string own_traits(const Config& config) const override {
    return int_trait("kCluster", config.number("cluster")) +
           int_trait("kThreads", config.number("threads")) +
           int_trait("kMinBlocks", config.number("min_blocks"));
  }
  const char* own_why_not(const Problem& problem, const DeviceFacts& facts,
                          const Config& config) const override {
    if (config.number("cluster") > facts.max_cluster) return "the device has no such clusters";
    // A cluster costs more than a block; below a pack for each thread it has nothing to do.
    if (problem.cols / config.number("pack") < lanes(config)) return "fewer packs than threads";
    const int held = registers_for_row(problem, config, lanes(config));
    if (held > 128) return "the row does not fit the registers";
    return check_occupancy(facts, config.number("threads"), config.number("min_blocks"),
                           held + 12 * accumulator_words(problem));
  }
};

// Octaves from where each axis is expected to be best, weighted by what missing it costs. Evidence:
// H200, cold L2, 80 to 200 random configs each, 2026-11-30, best of each value over the best of
// all. cluster 2 / 4 / 8 / 16: f16 512 x 50257 1.04 / 1.00 / 1.04 / 1.29, 256 x 128256 1.31 / 1.07
// / 1.00 / 1.03, 64 x 151936 1.13 / 1.14 / 1.00 / 1.03, 32 x 18295 1.16 / 1.05 / 1.00 / 1.22, 16 x
// 262144 - / 1.20 / 1.13 / 1.00; f32 256 x 128256 - / 1.08 / 1.01 / 1.00: slices of 25 to 38 KB.
// threads 128 / 256 / 384 / 512 / 768 / 1024: f16 256 x 128256 1.03 / 1.05 / 1.00 / 1.04 / 1.10 /
// 1.08, f32 64 x 151936 1.00 / 1.01 / 1.07 / 1.09 / 1.25 / 1.25. Rows in flight decide: f16 64 x
// 151936 in one wave 13.2 us, in two 18.7; bf16 64 x 85276 8.8 and 10.6.
double ClusterRow::rank(const Problem& problem, const DeviceFacts& facts,
                        const Config& config) const {
  const int threads = config.number("threads"), cluster = config.number("cluster");
  const int pack = config.number("pack");
  const double row_bytes = static_cast<double>(problem.cols * bytes_of_wider(problem));
  double rank = long_row_pack_rank(problem, pack) + policy_rank(problem, config);
  const bool few = problem.rows * 4 <= facts.sm_count;
  double blocks = std::clamp(row_bytes / 28e3, 2.0, 16.0);
  if (few) blocks = problem.rows * 8 <= facts.sm_count ? 16 : 8;
  rank += 0.3 * octaves_from(cluster, blocks);
  rank += 0.15 * octaves_from(threads, 192);
  rank += flight_rank(problem, facts, config, lanes(config));
  const double packs = std::max(1.0, static_cast<double>(problem.cols / pack));
  rank += octaves_from(std::ceil(packs / lanes(config)) * lanes(config), packs);
  rank += keep_rank(problem, config);
  // What a block holds with ease is a block's, unless rows are too few to fill the device.
  if (few) {
    rank += 0.3 * std::max(0.0, std::log2(32768 / row_bytes));
  } else {
    rank += std::max(0.0, 0.3 + 2 * std::log2(80e3 / row_bytes));
  }
  return rank;
}

}  // namespace

const Family& cluster_row_family() {
  static const ClusterRow family;
  return family;
}

}  // namespace rowsmith
