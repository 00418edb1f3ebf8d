// SPDX-License-Identifier: Apache-2.0
//
// The arena's sizes and contents, and the stopwatch's calls a sample.
#include "tuner/measure.h"

#include "tuner/reference.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>
#include <sstream>

namespace rowsmith {
namespace {

constexpr std::int64_t kNoiseElements = 1 << 18;
constexpr std::int64_t kBorder = 256;
// More take longer to record than to replay.
constexpr std::size_t kMostLaunches = 256;

std::int64_t round_up(std::size_t bytes) {
  return (static_cast<std::int64_t>(bytes) + kBorder - 1) / kBorder * kBorder;
}

std::string normal_noise(DType dtype, std::int64_t elements) {
  std::mt19937_64 random(20260101);
  std::normal_distribution<float> normal;
  std::string noise(static_cast<std::size_t>(std::min(elements, kNoiseElements)) * size_of(dtype),
                    '\0');
  for (std::size_t at = 0; at < noise.size(); at += size_of(dtype)) {
    encode(dtype, normal(random), noise.data() + at);
  }
  return noise;
}

// Twice the L2 and one slot more (five times gives the same times on an H200); one on the host
// device, which has no cache to be cold in that its fibers would notice.
std::int64_t slots_wanted(const DeviceFacts& facts, std::int64_t touched_bytes) {
  return facts.kind == "host" ? 1 : 2 * facts.l2_bytes / touched_bytes + 2;
}

}  // namespace

Result<Arena> Arena::make(Device& device, const Problem& problem, const ArenaLimits& limits) {
  Arena arena;
  arena.problem_ = problem;
  Result<Placement> placement = place(problem);
  if (!placement.ok()) return placement.status();
  arena.placement_ = *placement;
  const std::int64_t elements = problem.rows * problem.cols;
  arena.in_bytes_ = elements * static_cast<std::int64_t>(size_of(problem.in));
  arena.out_bytes_ = elements * static_cast<std::int64_t>(size_of(problem.out));
  arena.src_pitch_ = round_up(placement->src_bytes(problem, problem.rows));
  arena.dst_pitch_ = round_up(placement->dst_bytes(problem, problem.rows));
  const bool in_place = problem.layout.in_place;
  const std::int64_t slot_bytes = (in_place ? 0 : arena.src_pitch_) + arena.dst_pitch_;
  const std::int64_t touched = (in_place ? 0 : arena.in_bytes_) + arena.out_bytes_;
  const std::int64_t l2_bytes = device.facts().l2_bytes;
  const std::int64_t wanted = slots_wanted(device.facts(), touched);
  // A slot takes more memory than a call touches: padding.
  std::int64_t slots = std::clamp<std::int64_t>(std::min(wanted, limits.cap_bytes / slot_bytes), 1,
                                                limits.max_slots);
  while (true) {
    Result<Buffer> dst = device.allocate(static_cast<std::size_t>(slots * arena.dst_pitch_));
    Result<Buffer> src = in_place || !dst.ok()
                             ? dst
                             : device.allocate(static_cast<std::size_t>(slots * arena.src_pitch_));
    if (src.ok()) {
      arena.dst_ = *dst;
      arena.src_ = *src;
      break;
    }
    if (src.status().code() != Code::kOutOfMemory || slots == 1) {
      return src.status().with_context("buffers to time " + std::to_string(slots) + " calls in");
    }
    slots /= 2;
  }
  arena.slots_ = static_cast<int>(slots);
  if (slots < wanted) {
    Result<Buffer> sweep = device.allocate(static_cast<std::size_t>(2 * l2_bytes));
    if (sweep.ok()) arena.sweep_ = *sweep;
    if (!sweep.ok() && sweep.status().code() != Code::kOutOfMemory) return sweep.status();
  }
  arena.cold_ = arena.sweep_.bytes() > 0 || (slots - 1) * touched >= 2 * l2_bytes;
  arena.noise_ = std::make_shared<const std::string>(normal_noise(problem.in, elements));
  for (int slot = 0; slot < arena.slots_; ++slot) {
    if (Status status = arena.refill(device, slot); !status.ok()) return status;
  }
  return arena;
}

const void* Arena::src(int slot) const {
  if (problem_.layout.in_place) return dst(slot);
  return static_cast<const char*>(src_.data()) + slot * src_pitch_;
}

void* Arena::dst(int slot) const {
  return static_cast<char*>(dst_.data()) + slot * dst_pitch_;
}

SoftmaxCall Arena::call(int slot) const {
  return placement_.call(problem_, problem_.rows, src(slot), dst(slot));
}

Status Arena::refill(Device& device, int slot) const {
  const SoftmaxCall at = call(slot);
  auto* to = static_cast<char*>(const_cast<void*>(at.src));
  std::size_t left = placement_.src_bytes(problem_, problem_.rows) -
                     static_cast<std::size_t>(placement_.src_offset_bytes);
  while (left > 0) {
    const std::size_t bytes = std::min(left, noise_->size());
    if (Status status = device.copy_in(to, noise_->data(), bytes); !status.ok()) return status;
    to += bytes;
    left -= bytes;
  }
  return {};
}

bool plausible_time(double ns, std::int64_t bytes) {
  constexpr double kBytesPerNs = 100e3;
  return std::isfinite(ns) && ns > 0 && ns >= static_cast<double>(bytes) / kBytesPerNs;
}

Result<Stopwatch> Stopwatch::make(Device& device, const std::vector<LaunchCall>& launches,
                                  const Arena& arena, std::int64_t bytes,
                                  const StopwatchOptions& options) {
  Stopwatch watch;
  watch.bytes_ = bytes;
  watch.attempts_ = options.attempts;
  Status recorded = watch.record(device, launches, arena, 1);
  if (!recorded.ok()) return recorded;
  Result<double> first = watch.sequence_->time_ns(1);
  if (!first.ok()) return first.status();
  // An estimate from a first run is too long rather than too short; a wrong one costs time only.
  if (!plausible_time(*first / watch.calls_, bytes)) return watch;
  constexpr double kMostReplays = 1000;
  const double replays = std::clamp(std::ceil(options.sample_ns / *first), 1.0, kMostReplays);
  // A second turn over an arena that needs the sweep would find the first's rows in the L2.
  const bool one_turn = arena.sweep().bytes() > 0 || launches.size() > kMostLaunches;
  const double most_turns = one_turn ? 1 : static_cast<double>(kMostLaunches / launches.size());
  watch.replays_ = static_cast<int>(std::ceil(replays / most_turns));
  const int turns = static_cast<int>(std::ceil(replays / watch.replays_));
  if (turns > 1) recorded = watch.record(device, launches, arena, turns);
  return recorded.ok() ? Result<Stopwatch>(std::move(watch)) : recorded;
}

// Where a replay ends the next launch does not come early, and all of the device runs dry: that is
// to be a small part of what is timed.
Status Stopwatch::record(Device& device, const std::vector<LaunchCall>& launches,
                         const Arena& arena, int turns) {
  std::vector<LaunchCall> all;
  for (int turn = 0; turn < turns; ++turn) all.insert(all.end(), launches.begin(), launches.end());
  Result<std::unique_ptr<Sequence>> sequence = device.record(all, arena.sweep());
  if (!sequence.ok()) return sequence.status();
  sequence_ = std::move(*sequence);
  calls_ = static_cast<double>(arena.slots()) * turns;
  return {};
}

Result<Stopwatch> Stopwatch::make(Device& device, const LaunchPlan& plan, const Arena& arena,
                                  const StopwatchOptions& options) {
  std::deque<RecordedCall> recorded;  // a launch points into its call
  std::vector<LaunchCall> launches;
  for (int slot = 0; slot < arena.slots(); ++slot) {
    for (int pass = 0; pass < plan.geometry.passes; ++pass) {
      launches.push_back(recorded.emplace_back(plan, arena.call(slot), pass).launch());
    }
  }
  return make(device, launches, arena, arena.in_bytes() + arena.out_bytes(), options);
}

Result<double> Stopwatch::sample() {
  std::ostringstream seen;
  for (int attempt = 0; attempt < attempts_; ++attempt) {
    Result<double> total = sequence_->time_ns(replays_);
    if (!total.ok()) return total.status();
    const double ns = *total / (calls_ * replays_);
    if (plausible_time(ns, bytes_)) return ns;
    seen << (attempt == 0 ? "" : ", ") << ns;
  }
  return Status(Code::kInternal, "the timer gave no plausible time in " +
                                     std::to_string(attempts_) + " attempts: " + seen.str() +
                                     " ns a call");
}

}  // namespace rowsmith
