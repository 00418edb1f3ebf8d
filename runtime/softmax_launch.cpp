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

// Blocks that work on the same rows.
std::int64_t group_size(const Geometry& geometry) {
  return std::int64_t{geometry.cluster} * geometry.blocks_per_row;
}

// Blocks for so many rows; more than kMaxBlocks where one grid cannot hold them. Rows per block are
// those of a cluster where the geometry has one.
std::int64_t grid_of(const Geometry& geometry, std::int64_t rows) {
  const std::int64_t groups = std::min((rows - 1) / geometry.rows_per_block + 1, geometry.walkers);
  std::int64_t grid = 0;
  const bool too_many = __builtin_mul_overflow(groups, group_size(geometry), &grid);
  return too_many ? std::numeric_limits<std::int64_t>::max() : grid;
}

LaunchCall launch_of(const LaunchPlan& plan, const GenericParams& params, std::int64_t grid) {
  LaunchCall launch;
  launch.kernel = plan.kernel;
  const Geometry& geometry = plan.geometry;
  // Whether blocks that must run at once may also come early is not documented: they do not.
  const bool early = geometry.together == 1;
  launch.shape = {grid,  geometry.threads, geometry.cluster, geometry.shared_bytes,
                  early, geometry.together};
  launch.params = &params;
  launch.param_bytes = plan.exact ? sizeof(RowsParams) : sizeof(GenericParams);
  return launch;
}

// Requires params.pass = 0. Inline: the call of a hit goes here.
template <typename Launch>
[[gnu::always_inline]] inline Status launch_passes(const LaunchPlan& plan, GenericParams& params,
                                                   std::int64_t grid, Launch& launch) {
  const LaunchCall call = launch_of(plan, params, grid);
  Status status = launch(call);
  for (params.pass = 1; params.pass < plan.geometry.passes && status.ok(); ++params.pass) {
    status = launch(call);
  }
  return status;
}

template <typename Launch>
[[gnu::noinline]] Status launch_in_parts(const LaunchPlan& plan, GenericParams params,
                                         Launch& launch) {
  const std::int64_t step = kMaxBlocks / group_size(plan.geometry) * plan.geometry.rows_per_block;
  std::int64_t left = params.rows;
  while (true) {
    params.rows = std::min(left, step);
    params.pass = 0;
    Status status = launch_passes(plan, params, grid_of(plan.geometry, params.rows), launch);
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
  const std::int64_t grid = grid_of(plan.geometry, call.rows);
  if (grid <= kMaxBlocks) return launch_passes(plan, params, grid, launch);
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
    : params_(params_of(call)),
      launch_(launch_of(plan, params_, grid_of(plan.geometry, call.rows))) {
  params_.pass = pass;
  assert(launch_.shape.grid <= kMaxBlocks);
}

}  // namespace rowsmith
