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

  Geometry geometry(const Problem&, const Config& config) const override {
    return {1, config.number("threads"), config.number("cluster"), lanes(config) / 32 * 8};
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
    return check_occupancy(facts, config.number("threads"), config.number("min_blocks"), held + 12);
  }
};

// Octaves from where each axis is expected to be best. Reasons, not yet fitted as block_row's are:
// the exchange costs about 1 us, so blocks that hold the row alone keep it; few long rows want all
// multiprocessors; many want small clusters, which leave fewer multiprocessors unused (a GPC's
// number of them is not a multiple of 8).
double ClusterRow::rank(const Problem& problem, const DeviceFacts& facts,
                        const Config& config) const {
  const int threads = config.number("threads"), cluster = config.number("cluster");
  const int pack = config.number("pack");
  const double row_bytes = static_cast<double>(problem.cols * bytes_of_wider(problem));
  const double lane_bytes = row_bytes / lanes(config);
  double rank = pack_rank(problem, pack) + policy_rank(problem, config);
  // Few rows: as many multiprocessors as there are; many: the fewest blocks that hold the row.
  const double wanted = static_cast<double>(facts.sm_count) / static_cast<double>(problem.rows);
  rank += 0.3 * octaves_from(cluster, std::clamp(wanted, 2.0, 16.0));
  rank += 0.4 * octaves_from(std::max(lane_bytes, 16.0), 96);
  rank += 0.1 * octaves_from(threads, 256);
  rank += 0.05 * octaves_from(config.number("min_blocks"), 1);
  const double packs = std::max(1.0, static_cast<double>(problem.cols / pack));
  rank += octaves_from(std::ceil(packs / lanes(config)) * lanes(config), packs);
  if (config.get("keep") == "packed") rank += 0.2;
  // A row that one block holds is a block's, unless rows are too few to fill the device.
  const bool few = problem.rows * 2 <= facts.sm_count;
  rank += 0.5 + std::max(0.0, (few ? 0.3 : 1.0) * std::log2((few ? 32768 : 131072) / row_bytes));
  return rank;
}

}  // namespace

const Family& cluster_row_family() {
  static const ClusterRow family;
  return family;
}

}  // namespace rowsmith
