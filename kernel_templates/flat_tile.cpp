// SPDX-License-Identifier: Apache-2.0
//
// The space of `flat_tile`: how a tile of whole rows is dealt to lanes, its size, and policies.
#include "flat_tile_text.h"
#include "kernel_templates/axis_family.h"
#include "kernel_templates/families.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

namespace rowsmith {
namespace {

// What a block may have where the device does not say: every CUDA device has it.
constexpr std::int64_t kSharedBytesAtLeast = 48 * 1024;
constexpr int kMostLaneValues = 32, kOtherRegisters = 24;
constexpr std::int64_t kMostThreadPacks = 8;  // in flight, 4 registers each
constexpr int kWarp = 32, kBanks = 32, kBankBytes = 4, kTurnBytes = kBanks * kBankBytes;

const std::vector<Axis>& axes() {
  static const std::vector<Axis> value{{"lanes", {"1", "2", "4", "8", "16", "32"}},
                                       {"rows", {"1", "2", "4", "8"}},
                                       {"rounds", {"1", "2", "4", "8"}},
                                       {"threads", {"64", "128", "256"}},
                                       {"stages", {"1", "2"}},
                                       {"load", {"default", "nc", "cs"}},
                                       {"store", {"default", "cs"}}};
  return value;
}

// What the axes come to for a problem; the names are those of flat_tile.cuh.
struct Tile {
  Tile(const Problem& problem, const Config& config)
      : lanes(config.number("lanes")),
        threads(config.number("threads")),
        unit(config.number("rows") * problem.cols),
        chunk(std::min<std::int64_t>(unit & -unit, 16 / bytes_of_wider(problem))),
        lane_chunks((unit / chunk + lanes - 1) / lanes),
        rows(std::int64_t{threads} / lanes * config.number("rows") * config.number("rounds")),
        in_bytes(rows * problem.cols * static_cast<std::int64_t>(size_of(problem.in))),
        out_bytes(rows * problem.cols * static_cast<std::int64_t>(size_of(problem.out))),
        // Each stage with room for an offset past a 16-byte border.
        shared_bytes(in_bytes + 16 + (config.number("stages") == 1 ? 0 : out_bytes + 16)) {}

  // Packs that a thread moves on the wider side.
  double thread_packs() const {
    return static_cast<double>(std::max(in_bytes, out_bytes)) / (16.0 * threads);
  }

  std::int64_t lane_values() const { return lane_chunks * chunk; }
  // Blocks that fill a copy between them, by registers that ptxas 13.0 does with: 64 a thread, and
  // 80 where a lane holds more than 16 values (two rounds of 32 spill 52 bytes under 64).
  int min_blocks() const { return (lane_values() > 16 ? 768 : 1024) / threads; }

  int lanes, threads;
  std::int64_t unit, chunk, lane_chunks, rows, in_bytes, out_bytes, shared_bytes;
};

// How often the banks of shared memory take as long as they need, for a warp's first access: lanes
// that move together and want different words of one bank wait for each other.
double bank_turns(const Tile& tile, std::int64_t element_bytes) {
  const std::int64_t access = tile.chunk * element_bytes;
  const int together = static_cast<int>(std::min<std::int64_t>(kWarp, kTurnBytes / access));
  double turns = 0;
  for (int first = 0; first < kWarp; first += together) {
    std::array<std::set<std::int64_t>, kBanks> words;
    std::size_t most = 1;
    for (int lane = first; lane < first + together; ++lane) {
      const std::int64_t begin =
          lane / tile.lanes * tile.unit * element_bytes + lane % tile.lanes * access;
      for (std::int64_t at = begin; at < begin + access; at += kBankBytes) {
        auto& bank = words[static_cast<std::size_t>(at / kBankBytes % kBanks)];
        bank.insert(at / kBankBytes);
        most = std::max(most, bank.size());
      }
    }
    turns += static_cast<double>(most);
  }
  return turns * together / kWarp;
}

class FlatTile final : public AxisFamily {
 public:
  FlatTile()
      : AxisFamily(
            {"flat_tile", "contiguous short rows through shared memory, copied flat whatever H is",
             detail::kFlatTileText, detail::kFlatTileDigest},
            axes()) {}

  std::string traits(const Problem& problem, const Config& config) const override {
    const Tile tile(problem, config);
    return row_types(problem) + int_trait("kCols", problem.cols) + int_trait("kLanes", tile.lanes) +
           int_trait("kUnitRows", config.number("rows")) +
           int_trait("kRounds", config.number("rounds")) +
           bool_trait("kOneStage", config.number("stages") == 1) +
           int_trait("kThreads", tile.threads) + int_trait("kMinBlocks", tile.min_blocks()) +
           policy_traits(config);
  }

  Geometry geometry(const Problem& problem, const DeviceFacts&,
                    const Config& config) const override {
    const Tile tile(problem, config);
    Geometry geometry;
    geometry.rows_per_block = tile.rows;
    geometry.threads = tile.threads;
    geometry.shared_bytes = tile.shared_bytes;
    return geometry;
  }

  double rank(const Problem& problem, const DeviceFacts& facts,
              const Config& config) const override;

 protected:
  std::vector<Constraint> constraints(const Problem& problem,
                                      const DeviceFacts& facts) const override {
    return {{"stages", [&](const Config& config) { return shape_why_not(problem, facts, config); }},
            {"load", [&](const Config& config) { return check_load(problem, config); }}};
  }

 private:
  const char* check_problem(const Problem& problem) const override;
  // Whatever `load` and `store`.
  static const char* shape_why_not(const Problem& problem, const DeviceFacts& facts,
                                   const Config& config);
};

const char* FlatTile::check_problem(const Problem& problem) const {
  if (const char* reason = check_row_problem(problem)) return reason;
  if (problem.layout.src_pitched || problem.layout.dst_pitched) return "rows lie apart";
  return problem.cols > kWarp * kMostLaneValues ? "the row does not fit a warp" : nullptr;
}

const char* FlatTile::shape_why_not(const Problem& problem, const DeviceFacts& facts,
                                    const Config& config) {
  const Tile tile(problem, config);
  if (tile.lanes > 1 && config.number("rows") > 1) return "lanes share one row";
  if (tile.lanes > 1 && tile.unit <= tile.lanes / 2 * tile.chunk) return "more lanes than chunks";
  if (tile.lane_values() * accumulator_words(problem) > kMostLaneValues)
    return "rows do not fit the registers";
  if (tile.in_bytes % 16 != 0 || tile.out_bytes % 16 != 0) return "tiles start on no pack border";
  if (tile.thread_packs() > kMostThreadPacks) return "the tile does not fit the registers";
  if (config.number("stages") == 1 && (size_of(problem.in) != size_of(problem.out) ||
                                       problem.layout.co_align * size_of(problem.in) % 16 != 0)) {
    return "src and dst lie differently: stages=2 serves them";
  }
  const std::int64_t limit =
      facts.shared_bytes_per_block > 0 ? facts.shared_bytes_per_block : kSharedBytesAtLeast;
  if (tile.shared_bytes > limit) return "the tile does not fit shared memory";
  return check_occupancy(facts, tile.threads, tile.min_blocks(), kMostLaneValues + kOtherRegisters);
}

// Octaves from where each axis is expected to be best. An expectation, not yet measured: per lane a
// row costs about 20 instructions beside 8 a value, a narrow or conflicting access to shared memory
// as much again, and 2 to 4 packs a thread in 4 to 8 blocks keep the bytes in flight that a
// multiprocessor needs.
double FlatTile::rank(const Problem& problem, const DeviceFacts& facts,
                      const Config& config) const {
  const Tile tile(problem, config);
  const double element = static_cast<double>(bytes_of_wider(problem));
  const double row_bytes = static_cast<double>(problem.cols) * element;
  double rank = policy_rank(problem, config);
  rank += 0.15 * octaves_from(static_cast<double>(tile.lane_values()), 18);
  // Places in the last chunks that hold nothing.
  const double places = static_cast<double>(tile.lane_values() * tile.lanes);
  rank += 0.4 * octaves_from(places, static_cast<double>(tile.unit));
  rank += 0.04 * octaves_from(static_cast<double>(tile.chunk) * element, 16);
  rank += 0.1 * (bank_turns(tile, bytes_of_wider(problem)) - 1);
  rank += 0.15 * octaves_from(tile.thread_packs(), 4.5) + 0.05 * octaves_from(tile.threads, 96);
  if (config.number("stages") == 2) rank += 0.05;
  // Few rows: spread them over all multiprocessors first.
  const double blocks = static_cast<double>(problem.rows) / static_cast<double>(tile.rows);
  rank += 0.1 *
          std::max(0.0, octaves_from(std::min(blocks, 4.0 * facts.sm_count), 4.0 * facts.sm_count));
  // Rows on pack borders are warp_rows', which reaches the floor there (f32 1048576 x 16); others
  // are expected here to 64 bytes, and beside warp_rows (0.91 of the floor at f16 4096 x 257)
  // above.
  const int align = std::min(problem.layout.src_align, problem.layout.dst_align);
  if (align >= 16) rank += 1;
  rank += 0.08 * std::log2(row_bytes / 64);
  if (row_bytes > 1024) rank += 0.5 * octaves_from(row_bytes, 1024);
  return rank;
}

}  // namespace

const Family& flat_tile_family() {
  static const FlatTile family;
  return family;
}

}  // namespace rowsmith
