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
                   {"min_blocks", {"1", "2", "4"}}}) {}

  Geometry geometry(const Problem& problem, const Config& config) const override {
    return {1, config.number("threads"), config.number("cluster"),
            lanes(config) / 32 * part_bytes(problem)};
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

// Octaves from where each axis is expected to be best. Evidence: winners of `tune softmax` on an
// H200, 2026-11-30, as cluster x threads (bytes a lane): f32 512 x 50257 4 x 384 (131), 256 x
// 128256 8 x 512 (125), 64 x 151936 8 x 512 (148), 16 x 262144 16 x 256 (256), 1 x 131072 16 x 256
// (128); f16 512 x 50257 2 x 256 (196), 64 x 151936 8 x 512 (74), 16 x 262144 16 x 256 (128).
double ClusterRow::rank(const Problem& problem, const DeviceFacts& facts,
                        const Config& config) const {
  const int threads = config.number("threads"), cluster = config.number("cluster");
  const int pack = config.number("pack");
  const double row_bytes = static_cast<double>(problem.cols * bytes_of_wider(problem));
  const double lane_bytes = row_bytes / lanes(config);
  double rank = pack_rank(problem, pack) + policy_rank(problem, config);
  // Few rows: as many multiprocessors as there are.
  const double wanted = 2.0 * facts.sm_count / static_cast<double>(problem.rows);
  rank += 0.2 * octaves_from(cluster, std::clamp(wanted, 4.0, 16.0));
  const bool alone = problem.rows * 16 <= facts.sm_count;
  rank += 0.4 * octaves_from(std::max(lane_bytes, 16.0), alone ? 64 : 128);
  rank += 0.25 * octaves_from(threads, 384);
  rank += 0.05 * octaves_from(config.number("min_blocks"), 1);
  const double packs = std::max(1.0, static_cast<double>(problem.cols / pack));
  rank += octaves_from(std::ceil(packs / lanes(config)) * lanes(config), packs);
  rank += keep_rank(config);
  // A row that one block holds with ease is a block's, unless rows are too few to fill the device:
  // 2048 x 32000 by a block in f32 131 us, f16 71; f16 512 x 50257 by a block 48.9, a cluster 36.2.
  const bool few = problem.rows * 2 <= facts.sm_count;
  rank += 0.5;
  if (few) {
    rank += 0.3 * std::max(0.0, std::log2(32768 / row_bytes));
  } else if (problem.cols <= 40 * 1024) {
    rank += 0.5 + std::max(0.0, std::log2(131072 / row_bytes));
  }
  return rank;
}

}  // namespace

const Family& cluster_row_family() {
  static const ClusterRow family;
  return family;
}

}  // namespace rowsmith
