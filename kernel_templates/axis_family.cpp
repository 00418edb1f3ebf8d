// SPDX-License-Identifier: Apache-2.0
#include "kernel_templates/axis_family.h"

#include <utility>

namespace rowsmith {

AxisFamily::AxisFamily(const Identity& identity, std::vector<Axis> axes)
    : identity_(identity), axes_(std::move(axes)) {}

std::vector<Config> AxisFamily::space(const Problem& problem, const DeviceFacts& facts) const {
  if (check_problem(problem) != nullptr) return {};
  return enumerate(name(), axes_, constraints(problem, facts));
}

std::string AxisFamily::why_illegal(const Problem& problem, const DeviceFacts& facts,
                                    const Config& config) const {
  std::string why = check_axes(name(), axes_, config);
  if (!why.empty()) return why;
  const std::string prefix = std::string(name()) + ": ";
  if (const char* reason = check_problem(problem)) return prefix + reason;
  for (const Constraint& constraint : constraints(problem, facts)) {
    if (const char* reason = constraint.why_not(config)) return prefix + reason;
  }
  return "";
}

const char* AxisFamily::check_problem(const Problem& problem) const {
  return check_row_problem(problem);
}

}  // namespace rowsmith
