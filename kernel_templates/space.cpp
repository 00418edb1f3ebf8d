// SPDX-License-Identifier: Apache-2.0
#include "kernel_templates/space.h"

#include <rowsmith/text.h>

#include <algorithm>
#include <cassert>
#include <cmath>

namespace rowsmith {
namespace {

const char* device_type(DType dtype) {
  switch (dtype) {
    case DType::kF64: return "double";
    case DType::kF32: return "float";
    default: return to_string(dtype);
  }
}

bool pack_divides_rows(const Problem& problem, int pack) {
  return problem.layout.src_align % (pack * size_of(problem.in)) == 0 &&
         problem.layout.dst_align % (pack * size_of(problem.out)) == 0;
}

}  // namespace

std::vector<Config> enumerate(std::string_view family, const std::vector<Axis>& axes,
                              const std::vector<Constraint>& constraints) {
  std::vector<std::vector<const Constraint*>> ending(axes.size());  // by the axis they end at
  for (const Constraint& constraint : constraints) {
    const auto last = std::find_if(axes.begin(), axes.end(),
                                   [&](const Axis& axis) { return axis.name == constraint.last; });
    assert(last != axes.end());
    ending[static_cast<std::size_t>(last - axes.begin())].push_back(&constraint);
  }
  std::vector<Config> configs;
  std::vector<std::size_t> at(axes.size(), 0);
  Config point{std::string(family), {}};
  for (const Axis& axis : axes) point.params.emplace_back(axis.name, axis.values[0]);
  std::size_t changed = 0;  // the first axis that has moved
  while (true) {
    std::size_t axis = changed;
    while (axis < axes.size() &&
           std::all_of(ending[axis].begin(), ending[axis].end(),
                       [&](const Constraint* c) { return c->why_not(point) == nullptr; })) {
      ++axis;
    }
    if (axis == axes.size()) {
      configs.push_back(point);
      --axis;
    }
    // Moves on at this axis; those after it begin anew.
    for (std::size_t i = axis + 1; i < axes.size(); ++i) {
      at[i] = 0;
      point.params[i].second = axes[i].values[0];
    }
    while (++at[axis] == axes[axis].values.size()) {
      at[axis] = 0;
      point.params[axis].second = axes[axis].values[0];
      if (axis == 0) return configs;
      --axis;
    }
    point.params[axis].second = axes[axis].values[at[axis]];
    changed = axis;
  }
}

std::string check_axes(std::string_view family, const std::vector<Axis>& axes,
                       const Config& config) {
  const std::string prefix = std::string(family) + ": ";
  if (config.params.size() != axes.size()) {
    return prefix + "takes " + std::to_string(axes.size()) + " parameters, given " +
           std::to_string(config.params.size());
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto& [name, value] = config.params[i];
    if (name != axes[i].name) {
      return prefix + "parameter " + std::to_string(i + 1) + " is '" + std::string(axes[i].name) +
             "', given '" + name + "'";
    }
    const auto& values = axes[i].values;
    if (std::find(values.begin(), values.end(), value) == values.end()) {
      return prefix + "'" + name + "' has no value '" + value + "'";
    }
  }
  return "";
}

const char* check_row_problem(const Problem& problem) {
  if (problem.in != problem.out && (problem.in == DType::kF64 || problem.out == DType::kF64)) {
    return "f64 goes to f64 alone";
  }
  if (problem.cols < 1 || problem.cols > 0x7fffffff) return "H must be 1 to 2^31 - 1";
  return nullptr;
}

const char* check_pack(const Problem& problem, const DeviceFacts& facts, const Config& config) {
  const int pack = config.number("pack");
  const bool wide = facts.kind == "host" || facts.capability >= 100;
  if (pack * bytes_of_wider(problem) > (wide ? 32 : 16)) return "no access is as wide as the pack";
  if (pack > problem.cols) return "the row is shorter than the pack";
  const bool aligned = pack_divides_rows(problem, pack);
  if (config.get("start") == "aligned") {
    return aligned ? nullptr : "rows do not start on pack borders";
  }
  if (aligned) return "rows start on pack borders: start=aligned serves them";
  if (problem.layout.co_align % pack != 0) {
    return "src and dst rows start at different places in a pack";
  }
  return nullptr;
}

const char* check_load(const Problem& problem, const Config& config) {
  return problem.layout.in_place && config.get("load") == "nc" ? "load=nc reads what y overwrites"
                                                               : nullptr;
}

const char* check_keep(const Problem& problem, const Config& config) {
  if (config.get("keep") != "packed") return nullptr;
  if (size_of(problem.in) > 2) return "keep=packed is for 8-bit and 16-bit input";
  return config.number("pack") < 2 ? "keep=packed needs a pack of 2 or more" : nullptr;
}

const char* check_occupancy(const DeviceFacts& facts, int threads, int min_blocks,
                            int registers_needed) {
  if (threads > facts.max_threads_per_block) return "more threads than a block may have";
  if (threads * min_blocks > facts.max_threads_per_sm) {
    return "more threads than a multiprocessor holds";
  }
  const int share = std::min(255, facts.registers_per_sm / (threads * min_blocks));
  return registers_needed > share ? "the row does not fit the registers of its threads" : nullptr;
}

int resident_blocks(const DeviceFacts& facts, int threads, int min_blocks) {
  // The host device's threads are fibers, each with a stack of its own.
  constexpr int kHostThreads = 8192;
  return facts.kind == "host" ? kHostThreads / threads : facts.sm_count * min_blocks;
}

int registers_for_row(const Problem& problem, const Config& config, int lanes) {
  const long long pack = config.number("pack");
  const long long packs = (problem.cols / pack + lanes - 1) / lanes;
  const long long edges = config.get("start") == "any" && pack > 1
                              ? (2 * (pack - 1) + lanes - 1) / lanes
                              : (problem.cols % pack + lanes - 1) / lanes;
  const long long per_pack = config.get("keep") == "packed"
                                 ? (pack * static_cast<long long>(size_of(problem.in)) + 3) / 4
                                 : pack * accumulator_words(problem);
  return static_cast<int>(
      std::min(packs * per_pack + edges * accumulator_words(problem), 1LL << 20));
}

std::string int_trait(std::string_view name, long long value) {
  return "  static constexpr int " + std::string(name) + " = " + std::to_string(value) + ";\n";
}

std::string bool_trait(std::string_view name, bool value) {
  return "  static constexpr bool " + std::string(name) + (value ? " = true;\n" : " = false;\n");
}

std::string row_types(const Problem& problem) {
  return std::string("  using In = ") + device_type(problem.in) +
         ";\n  using Out = " + device_type(problem.out) + ";\n";
}

std::string row_traits(const Problem& problem, const Config& config, int lanes) {
  return row_types(problem) + int_trait("kCols", problem.cols) +
         int_trait("kPack", config.number("pack")) + int_trait("kLanes", lanes) +
         bool_trait("kAnyStart", config.get("start") == "any") + policy_traits(config);
}

std::string row_slice_traits(const Problem& problem, const Config& config, int lanes) {
  return row_traits(problem, config, lanes) +
         bool_trait("kKeepPacked", config.get("keep") == "packed");
}

std::string policy_traits(const Config& config) {
  const std::string_view load = config.get("load");
  const int policy = load == "nc" ? 1 : load == "cs" ? 2 : 0;
  return int_trait("kLoad", policy) + int_trait("kStore", config.get("store") == "cs" ? 1 : 0);
}

const std::vector<Axis>& row_slice_axes() {
  static const std::vector<Axis> axes{{"pack", {"1", "2", "4", "8", "16", "32"}},
                                      {"start", {"aligned", "any"}},
                                      {"keep", {"f32", "packed"}},
                                      {"load", {"default", "nc", "cs"}},
                                      {"store", {"default", "cs"}}};
  return axes;
}

double pack_rank(const Problem& problem, int pack) {
  const double bytes = static_cast<double>(pack * bytes_of_wider(problem));
  return 0.5 * octaves_from(bytes, 16);
}

// H200, 2026-12-01, all configs, 16-bit elements by packs of 8 over packs of 4: 64 x 151936 1.075,
// 4 x 102400 1.02, 1 x 131072 1.014, 8192 x 8192 1.009, 2048 x 32000 1.004.
double long_row_pack_rank(const Problem& problem, int pack) {
  const bool half = bytes_of_wider(problem) == 2;
  return half && pack == 4 ? 0 : pack_rank(problem, pack) + (half ? 0.03 : 0);
}

// Rows that start inside a pack share sectors with their neighbours, which the read-only policy,
// kept out of L1, fetches twice: f32 4096 x 257 4.38 us, 3.68 with cs; f16 512 x 50257 5 % apart.
double policy_rank(const Problem& problem, const Config& config) {
  const std::string_view load = config.get("load");
  double rank = config.get("store") == "default" ? 0.15 : 0;
  if (config.get("start") == "any") return rank + (load == "cs" ? 0 : load == "nc" ? 0.25 : 0.15);
  if (load == "cs") rank += 0.15;
  if (load == "default" && !problem.layout.in_place) rank += 0.25;
  return rank;
}

// H200, 2026-11-30: where both are in flight alike, packed is up to 8 % behind for few values a
// lane (f16 1 x 131072 1.08) and even with many (f16 512 x 50257, 256 x 128256: 1.00 to 0.97).
double keep_rank(const Problem& problem, const Config& config) {
  if (config.get("keep") != "packed") return 0;
  // Two exponentials an element are what an 8-bit row has no time for: f8e4m3 4096 x 8192 24.0 us
  // packed, 19.5 in f32.
  return size_of(problem.in) == 1 ? 0.8 : 0.06;
}

double flight_rank(const Problem& problem, const DeviceFacts& facts, const Config& config,
                   int lanes) {
  const int threads = config.number("threads"), min_blocks = config.number("min_blocks");
  const int held = registers_for_row(problem, config, lanes);
  const double lane_bytes = static_cast<double>(problem.cols * bytes_of_wider(problem)) / lanes;
  // Left free, the compiler takes some 28 registers beside the row, up to 40 where it has a head
  // and a tail (in f64 56: f64 4096 x 4096 in blocks of 512 unbounded 118 us, bounded for three
  // 66), and unpacks ahead as if there were no end of them.
  const bool packed = config.get("keep") == "packed";
  const int beside = (config.get("start") == "any" ? 40 : 28) + (held > 96 ? 28 : 0);
  const int taken = packed ? 4 * held : held + beside * accumulator_words(problem);
  const int free_blocks = facts.registers_per_sm / (threads * std::max(32, taken));
  const int blocks = std::min({std::max(min_blocks, free_blocks), facts.max_blocks_per_sm,
                               facts.max_threads_per_sm / threads});
  const double block_bytes = threads * lane_bytes, in_flight = std::max(1, blocks) * block_bytes;
  const double all = static_cast<double>(problem.rows * problem.cols * bytes_of_wider(problem));
  // Two blocks, one of which moves data while the other computes; of clusters, which also wait for
  // each other, more.
  const double wanted = std::min(
      all / facts.sm_count, std::max(2 * block_bytes, config.number("cluster", 1) > 1  ? 128e3
                                                      : accumulator_words(problem) > 1 ? 96e3
                                                                                       : 64e3));
  double rank = 0.6 * std::max(0.0, std::log2(wanted / in_flight));
  // Few rows, all at once: with room for half as many blocks more, the next launch's begin early.
  // f16 16 x 262144 by 256 blocks of 256 threads in 80 registers (three a multiprocessor) 7.3 us,
  // in 83 to 96 8.5 to 9.2; of 128 threads in 168 7.7 to 8.0, in 185 9.3.
  const int cluster = config.number("cluster", 1);
  const double waves =
      static_cast<double>(problem.rows * cluster) / (std::max(1, blocks) * facts.sm_count);
  if (cluster > 1 && problem.rows * 8 <= facts.sm_count)
    rank += 0.2 * std::clamp(3 * waves - 2, 0.0, 1.0);
  // Bounded more tightly than this, most spill, and are dropped for it; those that do not may be
  // the fastest (f16 1024 x 5829, 128 threads for 8 blocks): twice the weight keeps them from being
  // tried.
  const int share = std::min(255, facts.registers_per_sm / (threads * min_blocks));
  const bool easy = cluster > 1 && config.get("start") == "aligned";
  const int working = threads <= 256 ? (easy ? 16 : 20) : packed ? 15 : 24;
  if (held + working > share) rank += 0.4;
  // A bound beyond what is needed ties the compiler's hands for nothing.
  return rank + 0.02 * std::max(0.0, std::log2(min_blocks));
}

// H200, 2026-11-30: 65536 blocks take 79.3 us whatever is in them (f16, warp_rows, block_row,
// twenty H), 1.2 ns each, in which a copy moves 5 KB: f16 262144 x 128 in blocks of 8 rows 39.9 us,
// of 16 33.4; 32768 x 1080 in blocks of one 40.1, of four 35.4.
double launch_rank(const Problem& problem, double rows_per_block) {
  constexpr double kCopiedMeanwhile = 5e3;
  const double element = static_cast<double>(size_of(problem.in) + size_of(problem.out));
  const double bytes = rows_per_block * static_cast<double>(problem.cols) * element;
  return std::max(0.0, std::log2(kCopiedMeanwhile / bytes));
}

int accumulator_words(const Problem& problem) {
  return problem.in == DType::kF64 ? 2 : 1;
}

int part_bytes(const Problem& problem) {
  return 8 * accumulator_words(problem);
}

std::int64_t bytes_of_wider(const Problem& problem) {
  return static_cast<std::int64_t>(std::max(size_of(problem.in), size_of(problem.out)));
}

double octaves_from(double value, double ideal) {
  return std::fabs(std::log2(value / ideal));
}

long long power_of_two_at_least(long long value) {
  long long power = 1;
  while (power < value) power *= 2;
  return power;
}

}  // namespace rowsmith
