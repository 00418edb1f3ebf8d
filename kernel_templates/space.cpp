// SPDX-License-Identifier: Apache-2.0
#include "kernel_templates/space.h"

#include <rowsmith/text.h>

#include <algorithm>
#include <cmath>

namespace rowsmith {
namespace {

bool is_row_dtype(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

const char* device_type(DType dtype) {
  switch (dtype) {
    case DType::kF16: return "f16";
    case DType::kBF16: return "bf16";
    default: return "float";
  }
}

bool pack_divides_rows(const Problem& problem, int pack) {
  return problem.layout.src_align % (pack * size_of(problem.in)) == 0 &&
         problem.layout.dst_align % (pack * size_of(problem.out)) == 0;
}

}  // namespace

std::vector<Config> enumerate(std::string_view family, const std::vector<Axis>& axes,
                              const std::function<const char*(const Config&)>& why_not) {
  std::vector<Config> configs;
  std::vector<std::size_t> at(axes.size(), 0);
  Config point{std::string(family), {}};
  for (const Axis& axis : axes) point.params.emplace_back(axis.name, axis.values[0]);
  while (true) {
    if (why_not(point) == nullptr) configs.push_back(point);
    std::size_t axis = axes.size();
    while (axis > 0) {
      const auto& values = axes[axis - 1].values;
      const bool wraps = ++at[axis - 1] == values.size();
      if (wraps) at[axis - 1] = 0;
      point.params[axis - 1].second = values[at[axis - 1]];
      if (!wraps) break;
      --axis;
    }
    if (axis == 0) return configs;
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
  if (!is_row_dtype(problem.in) || !is_row_dtype(problem.out)) {
    return "no kernel for these dtypes";
  }
  if (problem.cols < 1 || problem.cols > 0x7fffffff) return "H must be 1 to 2^31 - 1";
  return nullptr;
}

const char* check_pack(const Problem& problem, const Config& config) {
  const int pack = config.number("pack");
  if (pack * bytes_of_wider(problem) > 16) return "a pack is at most 16 bytes";
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
  if (size_of(problem.in) != 2) return "keep=packed is for 16-bit input";
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

int registers_for_row(const Problem& problem, const Config& config, int lanes) {
  const long long pack = config.number("pack");
  const long long packs = (problem.cols / pack + lanes - 1) / lanes;
  const long long edges = config.get("start") == "any" && pack > 1
                              ? (2 * (pack - 1) + lanes - 1) / lanes
                              : (problem.cols % pack + lanes - 1) / lanes;
  const long long per_pack = config.get("keep") == "packed"
                                 ? (pack * static_cast<long long>(size_of(problem.in)) + 3) / 4
                                 : pack;
  return static_cast<int>(std::min(packs * per_pack + edges, 1LL << 20));
}

std::string int_trait(std::string_view name, long long value) {
  return "  static constexpr int " + std::string(name) + " = " + std::to_string(value) + ";\n";
}

std::string row_types(const Problem& problem) {
  return std::string("  using In = ") + device_type(problem.in) +
         ";\n  using Out = " + device_type(problem.out) + ";\n";
}

std::string row_slice_traits(const Problem& problem, const Config& config, int lanes) {
  std::string text = row_types(problem);
  text += int_trait("kCols", problem.cols);
  text += int_trait("kPack", config.number("pack"));
  text += int_trait("kLanes", lanes);
  text += std::string("  static constexpr bool kAnyStart = ") +
          (config.get("start") == "any" ? "true" : "false") + ";\n";
  text += std::string("  static constexpr bool kKeepPacked = ") +
          (config.get("keep") == "packed" ? "true" : "false") + ";\n";
  return text + policy_traits(config);
}

std::string policy_traits(const Config& config) {
  const std::string_view load = config.get("load");
  return int_trait("kLoad", load == "nc"   ? 1
                            : load == "cs" ? 2
                                           : 0) +
         int_trait("kStore", config.get("store") == "cs" ? 1 : 0);
}

const std::vector<Axis>& row_slice_axes() {
  static const std::vector<Axis> axes{{"pack", {"1", "2", "4", "8"}},
                                      {"start", {"aligned", "any"}},
                                      {"keep", {"f32", "packed"}},
                                      {"load", {"default", "nc", "cs"}},
                                      {"store", {"default", "cs"}}};
  return axes;
}

double pack_rank(const Problem& problem, int pack) {
  return 0.5 * octaves_from(static_cast<double>(pack * bytes_of_wider(problem)), 16);
}

double policy_rank(const Problem& problem, const Config& config) {
  const std::string_view load = config.get("load");
  double rank = config.get("store") == "default" ? 0.15 : 0;
  if (load == "cs") rank += 0.15;
  if (load == "default" && !problem.layout.in_place) rank += 0.25;
  return rank;
}

// H200, 2026-11-30: packed costs 2 to 8 % where a lane holds up to 32 values (f16 4096 x 1000, 2048
// x 32000), and more where it holds 98 (f16 512 x 50257 in clusters: 36.2 us kept in f32, 41.7
// packed). Preferring it beyond 48 values was tried and made four of five long-row defaults slower,
// f16 64 x 151936 by 16 %. It is for rows that fit no other way.
double keep_rank(const Config& config) {
  return config.get("keep") == "packed" ? 0.2 : 0;
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
