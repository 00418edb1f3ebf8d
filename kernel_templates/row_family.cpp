// SPDX-License-Identifier: Apache-2.0
#include "kernel_templates/row_family.h"

#include <utility>

namespace rowsmith {
namespace {

std::vector<Axis> with_row_slice_axes(std::vector<Axis> axes) {
  for (const Axis& axis : row_slice_axes()) axes.push_back(axis);
  return axes;
}

}  // namespace

RowFamily::RowFamily(const Identity& identity, std::vector<Axis> own_axes)
    : AxisFamily(identity, with_row_slice_axes(std::move(own_axes))) {}

std::vector<Constraint> RowFamily::constraints(const Problem& problem,
                                               const DeviceFacts& facts) const {
  return {{"start", [&](const Config& config) { return check_pack(problem, facts, config); }},
          {"keep", [&](const Config& config) { return check_keep(problem, config); }},
          {"keep", [&, this](const Config& config) { return own_why_not(problem, facts, config); }},
          {"load", [&](const Config& config) { return check_load(problem, config); }}};
}

std::string RowFamily::traits(const Problem& problem, const Config& config) const {
  return row_slice_traits(problem, config, lanes(config)) + own_traits(config);
}

}  // namespace rowsmith
