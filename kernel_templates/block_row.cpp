// SPDX-License-Identifier: Apache-2.0
//
// The space of `block_row`: threads, blocks a multiprocessor, and RowSlice's axes.
#include "block_row_text.h"
#include "kernel_templates/families.h"
#include "kernel_templates/space.h"

#include <algorithm>

namespace rowsmith {
namespace {

const std::vector<Axis>& axes() {
  static const std::vector<Axis> value{
      {"threads", {"64", "96", "128", "192", "256", "384", "512", "768", "1024"}},
      {"min_blocks", {"1", "2", "3", "4", "6", "8"}},
      pack_axis(),
      start_axis(),
      keep_axis(),
      load_axis(),
      store_axis()};
  return value;
}

class BlockRow final : public Family {
 public:
  std::string_view name() const override { return "block_row"; }
  std::string_view summary() const override {
    return "a block a row, row in registers, one merged (max, sum) reduction";
  }
  std::string_view text() const override { return detail::kBlockRowText; }
  std::string_view digest() const override { return detail::kBlockRowDigest; }
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
    const int threads = config.number("threads");
    return row_slice_traits(problem, config, threads) + int_trait("kThreads", threads) +
           int_trait("kMinBlocks", config.number("min_blocks"));
  }

  Geometry geometry(const Problem&, const Config& config) const override {
    const int threads = config.number("threads");
    return {1, threads, 1, threads / 32 * 8};
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
    const int threads = config.number("threads");
    if (problem.cols / config.number("pack") <= threads / 2) return "fewer packs than threads";
    const int held = registers_for_row(problem, config, threads);
    if (held > 128) return "the row does not fit the registers";
    // 12 registers beside the row suffice under a tight bound: ptxas 13.0 for sm_90 holds 48 values
    // in 64 registers at 1024 threads without a spill.
    return check_occupancy(facts, threads, config.number("min_blocks"), held + 12);
  }
};

// Octaves from where each axis is expected to be best, weighted by what it was seen to cost.
double BlockRow::rank(const Problem& problem, const DeviceFacts& facts,
                      const Config& config) const {
  const int pack = config.number("pack"), threads = config.number("threads");
  const double wide = std::max(size_of(problem.in), size_of(problem.out));
  const double row_bytes = static_cast<double>(problem.cols) * size_of(problem.in);
  double rank = 2.0 * octaves_from(pack * wide, 16);
  // Two packs a thread hide latency while the row is short; a long row needs them deeper, and a
  // block of its own alone on the device wants all the threads it can use.
  const double lane_bytes = row_bytes / threads;
  const bool alone = problem.rows < 2 * facts.sm_count;
  rank += 0.6 * octaves_from(lane_bytes, alone ? 16 : row_bytes <= 8192 ? 32 : 64);
  // As many resident blocks as the threads allow, up to 8, keep loads and stores overlapped.
  const double resident = facts.max_threads_per_sm / static_cast<double>(threads);
  rank += 0.15 * octaves_from(config.number("min_blocks"), std::clamp(resident / 2, 1.0, 4.0));
  const bool packable = size_of(problem.in) == 2 && pack > 1;
  if (packable && (config.get("keep") == "packed") != (lane_bytes > 32)) rank += 0.15;
  if (config.get("load") == "cs") rank += 0.05;
  if (config.get("load") == "default") rank += problem.layout.in_place ? 0 : 0.02;
  if (config.get("store") == "default") rank += 0.03;
  if (row_bytes < 2048) rank += octaves_from(row_bytes, 2048);
  return rank;
}

}  // namespace

const Family& block_row_family() {
  static const BlockRow family;
  return family;
}

}  // namespace rowsmith
