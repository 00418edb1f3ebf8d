// SPDX-License-Identifier: Apache-2.0
//
// The space of `block_row`: threads, blocks a multiprocessor, and RowSlice's axes.
#include "block_row_text.h"
#include "kernel_templates/families.h"
#include "kernel_templates/row_family.h"

#include <algorithm>
#include <cmath>

namespace rowsmith {
namespace {

class BlockRow final : public RowFamily {
 public:
  BlockRow()
      : RowFamily({"block_row", "a block a row, row in registers, one merged (max, sum) reduction",
                   detail::kBlockRowText, detail::kBlockRowDigest},
                  {{"threads", {"64", "96", "128", "192", "256", "384", "512", "768", "1024"}},
                   {"min_blocks", {"1", "2", "3", "4", "6", "8"}}}) {}

  Geometry geometry(const Problem& problem, const DeviceFacts&,
                    const Config& config) const override {
    Geometry geometry;
    geometry.threads = config.number("threads");
    geometry.shared_bytes = geometry.threads / 32 * part_bytes(problem);
    return geometry;
  }

  double rank(const Problem& problem, const DeviceFacts& facts,
              const Config& config) const override;

 protected:
  int lanes(const Config& config) const override { return config.number("threads"); }
  std::string own_traits(const Config& config) const override {
    return int_trait("kThreads", config.number("threads")) +
           int_trait("kMinBlocks", config.number("min_blocks"));
  }
  const char* own_why_not(const Problem& problem, const DeviceFacts& facts,
                          const Config& config) const override {
    const int threads = config.number("threads");
    if (problem.cols / config.number("pack") <= threads / 2) return "fewer packs than threads";
    const int held = registers_for_row(problem, config, threads);
    if (held > 128) return "the row does not fit the registers";
    // 12 registers beside the row suffice under a tight bound: ptxas 13.0 for sm_90 holds 48 values
    // in 64 registers at 1024 threads without a spill.
    return check_occupancy(facts, threads, config.number("min_blocks"),
                           held + 12 * accumulator_words(problem));
  }
};

// Octaves from where each axis is expected to be best, weighted by what missing it costs. Evidence:
// H200, cold L2, `tune softmax --effort thorough`, 2026-11-30, best of each value over the best of
// all: f32 4096 x 1024 threads 64 / 96 / 128 / 256 / 512: 1.00 / 1.01 / 1.02 / 1.12 / 1.62. f16
// 4096 x 8192 threads 64 / 128 / 256 / 512 / 768 / 1024: 1.07 / 1.01 / 1.01 / 1.00 / 1.26 / 1.26.
// f16 2048 x 32000 threads 256 / 384 / 512 / 768 / 1024: 1.06 / 1.00 / 1.01 / 1.00 / 1.00, all
// packed with two or three blocks a multiprocessor; one block 1.08. f16 8 x 1024 threads 64 / 96 /
// 128 / 192: 1.05 / 1.02 / 1.00 / 1.04. Policies move less than 1.5 %.
double BlockRow::rank(const Problem& problem, const DeviceFacts& facts,
                      const Config& config) const {
  const int pack = config.number("pack"), threads = config.number("threads");
  const double row_bytes = static_cast<double>(problem.cols * bytes_of_wider(problem));
  double rank = long_row_pack_rank(problem, pack) + policy_rank(problem, config);
  // About 48 bytes a thread; where blocks are few, latency counts and threads are free.
  const bool alone = problem.rows < 2 * facts.sm_count;
  rank += 0.5 * octaves_from(std::max(row_bytes / threads, 16.0), alone ? 16 : 48);
  // The last round of packs occupies all threads whether they have one or not.
  const double packs = std::max(1.0, static_cast<double>(problem.cols / pack));
  rank += octaves_from(std::ceil(packs / threads) * threads, packs);
  rank += flight_rank(problem, facts, config, lanes(config));
  rank += keep_rank(problem, config);
  // Rows too few to fill the device are better split over a cluster's blocks where they are long:
  // f16 32 x 18295 by 768 threads 3.37 us, by clusters of 8, 4, 2 and 16 2.58, 2.70, 2.98 and 3.13.
  if (facts.max_cluster > 1 && problem.rows * 4 <= facts.sm_count) {
    rank += 0.5 * std::max(0.0, std::log2(row_bytes / 16e3));
  }
  // Few rows: all that counts is latency. f16 16 x 163 by 64 threads 1.27 us, by a warp 1.45.
  const bool few = problem.rows <= facts.sm_count;
  rank += few ? 0.1 * octaves_from(std::min(row_bytes, 2048.0), 2048) : launch_rank(problem, 1);
  return rank;
}

}  // namespace

const Family& block_row_family() {
  static const BlockRow family;
  return family;
}

}  // namespace rowsmith
