// SPDX-License-Identifier: Apache-2.0
#include "runtime/softmax_launch.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <limits>

namespace rowsmith {
namespace {

using rowsmith_params::GenericParams;
using rowsmith_params::RowsParams;

// What lets one filled struct serve both kinds of family.
static_assert(offsetof(RowsParams, src) == offsetof(GenericParams, src) &&
              offsetof(RowsParams, dst) == offsetof(GenericParams, dst) &&
              offsetof(RowsParams, rows) == offsetof(GenericParams, rows) &&
              offsetof(RowsParams, src_stride) == offsetof(GenericParams, src_stride) &&
              offsetof(RowsParams, dst_stride) == offsetof(GenericParams, dst_stride) &&
              offsetof(RowsParams, out_scale) == offsetof(GenericParams, out_scale) &&
              offsetof(RowsParams, out_scale_f32) == offsetof(GenericParams, out_scale_f32) &&
              offsetof(RowsParams, pass) == offsetof(GenericParams, pass));

constexpr std::int64_t kMaxBlocks = std::numeric_limits<std::int32_t>::max();

GenericParams params_of(const SoftmaxCall& call) {
  return {call.src,
          call.dst,
          call.rows,
          call.src_stride,
          call.dst_stride,
          call.out_scale,
          static_cast<float>(call.out_scale),
          0,
          call.cols};
}

// Rows per block are those of a cluster where the geometry has one.
std::int64_t groups_of(const Geometry& geometry, std::int64_t rows) {
  const std::int64_t groups = (rows - 1) / geometry.rows_per_block + 1;
  return geometry.walkers > 0 ? std::min(groups, geometry.walkers) : groups;
}

// Blocks that work on the same rows.
std::int64_t group_size(const Geometry& geometry) {
  return std::int64_t{geometry.cluster} * geometry.blocks_per_row;
}

bool fits_one_grid(const Geometry& geometry, std::int64_t rows) {
  return groups_of(geometry, rows) <= kMaxBlocks / group_size(geometry);
}

LaunchCall launch_of(const LaunchPlan& plan, const GenericParams& params) {
  LaunchCall launch;
  launch.kernel = plan.kernel;
  launch.shape = {groups_of(plan.geometry, params.rows) * group_size(plan.geometry),
                  plan.geometry.threads, plan.geometry.cluster, plan.geometry.shared_bytes, true};
  launch.params = &params;
  launch.param_bytes = plan.exact ? sizeof(RowsParams) : sizeof(GenericParams);
  return launch;
}

template <typename Launch>
Status launch_passes(const LaunchPlan& plan, GenericParams& params, Launch& launch) {
  Status status;
  for (params.pass = 0; params.pass < plan.geometry.passes && status.ok(); ++params.pass) {
    status = launch(launch_of(plan, params));
  }
  return status;
}

template <typename Launch>
Status launch_in_parts(const LaunchPlan& plan, GenericParams params, Launch& launch) {
  const std::int64_t step = kMaxBlocks / group_size(plan.geometry) * plan.geometry.rows_per_block;
  std::int64_t left = params.rows;
  while (true) {
    params.rows = std::min(left, step);
    Status status = launch_passes(plan, params, launch);
    left -= params.rows;
    if (left == 0 || !status.ok()) return status;
    params.src = static_cast<const char*>(params.src) +
                 params.rows * params.src_stride * static_cast<std::int64_t>(plan.in_bytes);
    params.dst = static_cast<char*>(params.dst) +
                 params.rows * params.dst_stride * static_cast<std::int64_t>(plan.out_bytes);
  }
}

template <typename Launch>
Status for_each_launch(const LaunchPlan& plan, const SoftmaxCall& call, Launch&& launch) {
  GenericParams params = params_of(call);
  if (fits_one_grid(plan.geometry, call.rows)) return launch_passes(plan, params, launch);
  return launch_in_parts(plan, params, launch);
}

}  // namespace

LaunchPlan make_plan(const Problem& problem, const DeviceFacts& facts, const Config& config,
                     const Kernel* kernel) {
  const Family* family = find_family(config.family);
  assert(family != nullptr);
  return {kernel, family->exact(), family->geometry(problem, facts, config), size_of(problem.in),
          size_of(problem.out)};
}

Status launch_softmax(Device& device, const LaunchPlan& plan, const SoftmaxCall& call) {
  return for_each_launch(
      plan, call, [&](const LaunchCall& launch) { return device.launch(launch, call.stream); });
}

Status run_softmax(Device& device, const LaunchPlan& plan, const SoftmaxCall& call) {
  return for_each_launch(plan, call, [&](const LaunchCall& launch) { return device.run(launch); });
}

RecordedCall::RecordedCall(const LaunchPlan& plan, const SoftmaxCall& call, int pass)
    : params_(params_of(call)), launch_(launch_of(plan, params_)) {
  params_.pass = pass;
  assert(fits_one_grid(plan.geometry, call.rows));
}

}  // namespace rowsmith
