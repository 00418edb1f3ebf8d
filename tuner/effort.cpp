// SPDX-License-Identifier: Apache-2.0
//
// The host device runs a kernel's threads as fibers, a thousand times slower than a GPU, and its
// times say little about any other machine: few candidates and few samples are enough there.
#include "tuner/effort.h"

#include <algorithm>
#include <limits>

namespace rowsmith {
namespace {

struct Amounts {
  std::size_t candidates, near, finalists, final_rounds;
};

constexpr Amounts kGpu[] = {
    {8, 4, 3, 9}, {24, 16, 4, 15}, {std::numeric_limits<std::size_t>::max(), 0, 6, 31}};
constexpr Amounts kHost[] = {{4, 0, 1, 5}, {6, 0, 2, 5}, {16, 0, 2, 7}};

}  // namespace

EffortPlan plan_of(Effort effort, const DeviceFacts& facts) {
  const bool host = facts.kind == "host";
  const Amounts& amounts = (host ? kHost : kGpu)[static_cast<int>(effort)];
  EffortPlan plan;
  plan.candidates = amounts.candidates;
  plan.near = amounts.near;
  if (effort == Effort::kStandard && !host) plan.compile_s = 14;
  plan.search.finalists = amounts.finalists;
  plan.search.final_rounds = amounts.final_rounds;
  plan.compare_bytes = std::int64_t{64} << 20;
  plan.floor_samples = 5;
  // A quarter of the device at most: the caller's own buffers are on it as well.
  if (facts.memory_bytes > 0) plan.arena.cap_bytes = facts.memory_bytes / 4;
  plan.arena.cap_bytes = std::min(plan.arena.cap_bytes, std::int64_t{1} << 30);
  if (host) {
    plan.search.screen_samples = 2;
    // A steady clock ticks in tens of ns, a call takes a millisecond.
    plan.stopwatch.sample_ns = 1;
    plan.verify.random_rows = 8;
    plan.verify.random_elements = 1 << 16;
    plan.verify.runs = 1;
    plan.floor_samples = 3;
  }
  return plan;
}

}  // namespace rowsmith
