// SPDX-License-Identifier: Apache-2.0
//
// The space of `grid_row`: pieces a row, threads that share it (a warp more runs the meeting), and
// RowSlice's axes.
#include "kernel_templates/families.h"
#include "kernel_templates/row_family.h"

#include "grid_row_text.h"

#include <algorithm>
#include <cmath>

namespace rowsmith {
namespace {

// Of a row: below, a block has it before two blocks have met. (A meeting asks for 1 KB of dst.)
constexpr std::int64_t kLeastBytes = 8192;

int block_threads(const Config& config) {
  return config.number("threads") + 32;
}

class GridRow final : public RowFamily {
 public:
  GridRow()
      : RowFamily({"grid_row",
                   "many blocks a row that run at once, row in registers, one launch; for few rows",
                   detail::kGridRowText, detail::kGridRowDigest},
                  {{"pieces", {"8", "16", "32", "64", "128"}},
                   {"threads", {"64", "128", "256", "384", "512", "768", "960"}},
                   {"min_blocks", {"1", "2", "4"}}}) {}

  bool context_may_refuse() const override { return true; }

  Geometry geometry(const Problem& problem, const DeviceFacts& facts,
                    const Config& config) const override {
    Geometry geometry;
    geometry.threads = block_threads(config);
    geometry.blocks_per_row = geometry.together = config.number("pieces");
    geometry.shared_bytes = block_threads(config) / 32 * part_bytes(problem);
    // A kernel that serves S rows is asked for its neighbours too, which are to fit as well.
    geometry.walkers = resident(facts, config) / geometry.together;
    return geometry;
  }

  double rank(const Problem& problem, const DeviceFacts& facts,
              const Config& config) const override;

 protected:
  int lanes(const Config& config) const override {
    return config.number("pieces") * config.number("threads");
  }
  std::string own_traits(const Config& config) const override {
    return int_trait("kPieces", config.number("pieces")) +
           int_trait("kWorkers", config.number("threads")) +
           int_trait("kThreads", block_threads(config)) +
           int_trait("kMinBlocks", config.number("min_blocks"));
  }
  const char* own_why_not(const Problem& problem, const DeviceFacts& facts,
                          const Config& config) const override {
    if (problem.cols * bytes_of_wider(problem) < kLeastBytes) return "a row that one block holds";
    if (problem.cols / config.number("pack") < lanes(config)) return "fewer packs than threads";
    if (problem.rows > resident(facts, config) / config.number("pieces")) {
      return "more blocks than run at once";
    }
    const int held = registers_for_row(problem, config, lanes(config));
    if (held > 128) return "the row does not fit the registers";
    return check_occupancy(facts, block_threads(config), config.number("min_blocks"),
                           held + 12 * accumulator_words(problem));
  }

 private:
  static int resident(const DeviceFacts& facts, const Config& config) {
    return resident_blocks(facts, block_threads(config), config.number("min_blocks"));
  }
};

// Registers that a thread may have: a quarter of a multiprocessor's warps has a quarter of its
// registers, dealt out in steps of eight.
int registers_at_most(const DeviceFacts& facts, const Config& config) {
  const int warps = block_threads(config) / 32 * config.number("min_blocks");
  const int warps_of_quarter = (warps + 3) / 4;
  return std::min(255, facts.registers_per_sm / 4 / (warps_of_quarter * 32) / 8 * 8);
}

// One read where split_row and online_row take two, at the price of a wait of all blocks for the
// slowest, so not for rows that a cluster holds. Evidence: H200, cold L2, 2026-11-30, `tune softmax
// --family grid_row,split_row --effort thorough`, best of each value over the best of all. f32
// 4 x 1048576 (13.3 us): pieces 32 / 64 / 128 1.00 / 1.03 / 1.10; threads of 32 pieces 256 / 384 /
// 512 / 768 / 960 1.06 / 1.06 / 1.03 / 1.03 / 1.00; pack 1 / 2 / 4 1.04 / 1.00 / 1.01. f32
// 1 x 1000003 (7.35 us): pieces 32 / 64 / 128 1.15 / 1.00 / 1.02; threads of 64 pieces 128 / 256 /
// 384 / 512 / 768 / 960 1.06 / 1.02 / 1.01 / 1.00 / 1.00 / 1.00; packs alike.
double GridRow::rank(const Problem& problem, const DeviceFacts& facts, const Config& config) const {
  const double threads = config.number("threads"), pieces = config.number("pieces");
  const double rows = static_cast<double>(problem.rows);
  const int pack = config.number("pack"), min_blocks = config.number("min_blocks");
  double rank = 0.5 * pack_rank(problem, pack) + policy_rank(problem, config);
  rank += keep_rank(problem, config);
  // More blocks take longer to meet, but half of the multiprocessors are to have one.
  rank += 0.3 * std::log2(pieces / 32);
  rank += 1.5 * std::max(0.0, std::log2(0.5 * facts.sm_count / (rows * pieces)));
  rank += 0.3 * octaves_from(threads, 960);
  const double packs = static_cast<double>(problem.cols / pack);
  rank += octaves_from(std::ceil(packs / lanes(config)) * lanes(config), packs);
  // Bounded more tightly, most spill, and are dropped for it: in both problems this rule finds 123
  // of the 129 that did, and 3 of the 771 others. (Of packed rows, see flight_rank.)
  const int held = registers_for_row(problem, config, lanes(config));
  const int working = config.get("keep") == "packed" ? 15 : 21 * accumulator_words(problem);
  if (held + working > registers_at_most(facts, config)) rank += 3;
  // More blocks a multiprocessor than are needed only bound the registers.
  const double needed = std::max(1.0, std::ceil(rows * pieces / facts.sm_count));
  rank += 0.05 * std::max(0.0, std::log2(min_blocks / needed));
  // Blocks that a family without a meeting of the whole grid would have at work.
  rank += 0.3 + std::max(0.0, std::log2(2 * rows * facts.max_cluster / facts.sm_count));
  const double row_bytes =
      static_cast<double>(problem.cols) * static_cast<double>(size_of(problem.in));
  return rank + std::max(0.0, 4 - std::log2(row_bytes / 64e3));
}

}  // namespace

const Family& grid_row_family() {
  static const GridRow family;
  return family;
}

}  // namespace rowsmith
