// SPDX-License-Identifier: Apache-2.0
//
// Measurement: an arena of rotating buffers past twice the L2, and a stopwatch that times one
// kernel over it. Knows Device only; what is slow and what is noise is for search.h.
//
// Policy. Each call of a sample works on the next slot of the arena, so that it finds its input in
// memory and not in the L2, as a kernel in the middle of a network does. Calls are recorded once
// and replayed (a graph on a GPU), so that no launch from the host is timed; nothing is subtracted.
// Small problems would need tens of thousands of slots; they get some, and a sweep of the L2 before
// each replay.
#pragma once

#include "runtime/device.h"
#include "runtime/softmax_launch.h"
#include "tuner/placement.h"

#include <cstdint>
#include <memory>
#include <string>

namespace rowsmith {

struct ArenaLimits {
  std::int64_t cap_bytes = std::int64_t{1} << 30;  // above what one slot needs, never above
  int max_slots = 256;  // nodes of a graph: more take longer to record than to replay
};

// Private buffers with normal random input; no caller's memory is ever touched.
class Arena {
 public:
  // Out of memory where not even one slot can be had; fewer slots than asked for are taken as they
  // come, and cold() says so.
  static Result<Arena> make(Device& device, const Problem& problem, const ArenaLimits& limits);

  int slots() const { return slots_; }
  // No call finds in the L2 what an earlier one left there: the slots together exceed twice the L2
  // by at least one, or a sweep of twice the L2 goes before each replay.
  bool cold() const { return cold_; }
  const Buffer& sweep() const { return sweep_; }  // empty where the slots suffice
  // The problem's call on a slot's buffers. In place, a slot holds the results of its last call.
  SoftmaxCall call(int slot) const;
  // Plain memory of a slot for the floor: bytes read and written by one call.
  const void* src(int slot) const;
  void* dst(int slot) const;
  std::int64_t in_bytes() const { return in_bytes_; }
  std::int64_t out_bytes() const { return out_bytes_; }
  // Writes the slot's input as make() did.
  Status refill(Device& device, int slot) const;

 private:
  Problem problem_;
  Placement placement_;
  Buffer src_, dst_, sweep_;
  std::int64_t src_pitch_ = 0, dst_pitch_ = 0;  // bytes from slot to slot
  std::int64_t in_bytes_ = 0, out_bytes_ = 0;
  int slots_ = 0;
  bool cold_ = false;
  std::shared_ptr<const std::string> noise_;  // elements that the inputs repeat
};

struct StopwatchOptions {
  double sample_ns = 200'000;  // a sample lasts at least this long: 400 times an event's resolution
  int attempts = 3;            // at a sample, where the timer answers nonsense
};

// One kernel (or copy) recorded over an arena.
class Stopwatch {
 public:
  // Records the launches of a call for each slot and runs them once, untimed: loads are lazy and
  // caches cold the first time. Short ones are then recorded in several turns over the arena.
  // `bytes` are those that one call must move. Codes of Device::record and Sequence::time_ns.
  static Result<Stopwatch> make(Device& device, const std::vector<LaunchCall>& launches,
                                const Arena& arena, std::int64_t bytes,
                                const StopwatchOptions& options);
  // The plan over every slot of the arena.
  static Result<Stopwatch> make(Device& device, const LaunchPlan& plan, const Arena& arena,
                                const StopwatchOptions& options);

  // One sample: nanoseconds a call. Internal, with the values, where every attempt was nonsense.
  Result<double> sample();

 private:
  // So many turns over the arena.
  Status record(Device& device, const std::vector<LaunchCall>& launches, const Arena& arena,
                int turns);

  std::unique_ptr<Sequence> sequence_;
  std::int64_t bytes_ = 0;
  double calls_ = 1;  // of one replay
  int replays_ = 1;   // of one sample
  int attempts_ = 3;
};

// Whether a call that must move `bytes` can have taken `ns`: finite, positive, and no faster than
// any memory (100 TB/s, ten times the L2 of the fastest GPU of 2026). Clocks that jump, events that
// were not recorded and counters that wrap give anything else.
bool plausible_time(double ns, std::int64_t bytes);

}  // namespace rowsmith
