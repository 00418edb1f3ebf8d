// SPDX-License-Identifier: Apache-2.0
#include "kernel_templates/catalog.h"

#include "kernel_templates/families.h"

#include <rowsmith/text.h>

#include <algorithm>
#include <limits>

namespace rowsmith {

const std::vector<const Family*>& catalog() {
  static const std::vector<const Family*> families{
      &warp_rows_family(),   &flat_tile_family(),  &block_row_family(),
      &cluster_row_family(), &staged_row_family(), &online_row_family(),
      &split_row_family(),   &grid_row_family(),   &generic_family(),
  };
  return families;
}

const Family* find_family(std::string_view name) {
  for (const Family* family : catalog()) {
    if (family->name() == name) return family;
  }
  return nullptr;
}

std::vector<Config> legal_configs(const Problem& problem, const DeviceFacts& facts) {
  std::vector<std::pair<double, Config>> ranked;
  for (const Family* family : catalog()) {
    for (Config& config : family->space(problem, facts)) {
      const double rank = family->rank(problem, facts, config);
      ranked.emplace_back(rank, std::move(config));
    }
  }
  // Stable: the spaces' fixed order breaks ties, the same everywhere.
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Config> configs;
  configs.reserve(ranked.size());
  for (auto& [rank, config] : ranked) configs.push_back(std::move(config));
  return configs;
}

std::string why_illegal(const Problem& problem, const DeviceFacts& facts, const Config& config) {
  const Family* family = find_family(config.family);
  if (family == nullptr) return "no family '" + config.family + "'";
  return family->why_illegal(problem, facts, config);
}

Config default_config(const Problem& problem, const DeviceFacts& facts) {
  Config best = generic_config();
  double best_rank = std::numeric_limits<double>::infinity();
  for (const Family* family : catalog()) {
    if (family->context_may_refuse()) continue;
    for (Config& config : family->space(problem, facts)) {
      const double rank = family->rank(problem, facts, config);
      // The first of equals, as in legal_configs.
      if (rank < best_rank) best_rank = rank, best = std::move(config);
    }
  }
  return best;
}

Config default_of(const std::vector<Config>& legal) {
  for (const Config& config : legal) {
    if (!find_family(config.family)->context_may_refuse()) return config;
  }
  return generic_config();
}

Config generic_config() {
  return {"generic", {{"threads", "256"}}};
}

Status check_supported(DType in, DType out) {
  const Problem problem = contiguous_problem(in, out, 1, 1);
  if (why_illegal(problem, DeviceFacts{}, generic_config()).empty()) return {};
  return Status(Code::kUnsupported,
                "no kernel for " + dtypes_to_string(in, out) +
                    "; f64 is served to f64 alone, every other dtype to every other");
}

}  // namespace rowsmith
