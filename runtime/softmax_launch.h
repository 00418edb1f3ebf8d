// SPDX-License-Identifier: Apache-2.0
//
// From a config and a call to launches: parameter struct, grid computed from S, and the splitting
// of row counts that one grid cannot hold.
#pragma once

#include "kernel_templates/catalog.h"
#include "kernel_templates/params.cuh"
#include "runtime/device.h"

#include <rowsmith/runtime.h>

#include <vector>

namespace rowsmith {

// A kernel ready to serve every S of its (dtypes, H, layout).
struct LaunchPlan {
  const Kernel* kernel = nullptr;
  bool exact = false;  // RowsParams; else GenericParams
  Geometry geometry;
  std::size_t in_bytes = 0, out_bytes = 0;  // of an element
};

// Requires a legal config.
LaunchPlan make_plan(const Problem& problem, const DeviceFacts& facts, const Config& config,
                     const Kernel* kernel);

// Launches rows x cols on `stream`: the family's passes, usually one; in parts where the grid would
// pass 2^31 - 1 blocks.
// Requires rows, cols > 0 and resolved strides. No heap.
Status launch_softmax(Device& device, const LaunchPlan& plan, const SoftmaxCall& call);
// The same on the device's own stream, waiting for the end.
Status run_softmax(Device& device, const LaunchPlan& plan, const SoftmaxCall& call);

// One pass of a call with parameters that outlive it: what the tuner records and replays.
// Requires rows that one grid can hold.
class RecordedCall {
 public:
  RecordedCall(const LaunchPlan& plan, const SoftmaxCall& call, int pass = 0);
  // Refers to this object, which must stay where it is meanwhile.
  LaunchCall launch() const {
    LaunchCall launch = launch_;
    launch.params = &params_;
    return launch;
  }

 private:
  rowsmith_params::GenericParams params_;  // RowsParams is its prefix
  LaunchCall launch_;
};

}  // namespace rowsmith
