// SPDX-License-Identifier: Apache-2.0
#include "kernel_templates/row_family.h"

#include <utility>

namespace rowsmith {

RowFamily::RowFamily(const Identity& identity, std::vector<Axis> own_axes)
    : identity_(identity), axes_(std::move(own_axes)) {
  for (const Axis& axis : row_slice_axes()) axes_.push_back(axis);
}

std::vector<Config> RowFamily::space(const Problem& problem, const DeviceFacts& facts) const {
  if (check_row_problem(problem) != nullptr) return {};
  return enumerate(
      name(), axes_,
      {{"start", [&](const Config& config) { return check_pack(problem, facts, config); }},
       {"keep", [&](const Config& config) { return check_keep(problem, config); }},
       {"keep", [&](const Config& config) { return own_why_not(problem, facts, config); }},
       {"load", [&](const Config& config) { return check_load(problem, config); }}});
}

std::string RowFamily::why_illegal(const Problem& problem, const DeviceFacts& facts,
                                   const Config& config) const {
  std::string why = check_axes(name(), axes_, config);
  if (!why.empty()) return why;
  const char* reason = why_not(problem, facts, config);
  return reason == nullptr ? "" : std::string(name()) + ": " + reason;
}

std::string RowFamily::traits(const Problem& problem, const Config& config) const {
  return row_slice_traits(problem, config, lanes(config)) + own_traits(config);
}

const char* RowFamily::why_not(const Problem& problem, const DeviceFacts& facts,
                               const Config& config) const {
  for (const char* reason : {check_row_problem(problem), check_pack(problem, facts, config),
                             check_load(problem, config), check_keep(problem, config)}) {
    if (reason != nullptr) return reason;
  }
  return own_why_not(problem, facts, config);
}

}  // namespace rowsmith
