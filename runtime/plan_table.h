// SPDX-License-Identifier: Apache-2.0
//
// PlanTable: (dtypes, H, layout) -> a few intervals of S -> what serves them. Reading takes no
// lock: nodes are only added, and a node's intervals are an immutable array behind one atomic
// pointer. Writers take turns; the arrays that they replace live until the table does, since a
// reader may still hold one.
#pragma once

#include "runtime/counters.h"
#include "runtime/softmax_launch.h"

#include <rowsmith/runtime.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace rowsmith {

// What serves an interval of S.
struct Served {
  LaunchPlan plan;
  Source source = Source::kGeneric;
  Config config;
  StripedCount* misses = nullptr;  // null where a call is no miss
};

// Dtypes, H and layout in one word, without loss. Requires 0 < cols < 2^31.
inline std::uint64_t node_key(const Problem& problem) noexcept {
  const Layout& layout = problem.layout;
  std::uint64_t key = static_cast<std::uint64_t>(problem.cols);
  key = key << 3 | static_cast<std::uint64_t>(problem.in);
  key = key << 3 | static_cast<std::uint64_t>(problem.out);
  key = key << 6 | layout.src_align;
  key = key << 6 | layout.dst_align;
  key = key << 6 | layout.co_align;
  return key << 3 | static_cast<std::uint64_t>(layout.src_pitched) << 2 |
         static_cast<std::uint64_t>(layout.dst_pitched) << 1 |
         static_cast<std::uint64_t>(layout.in_place);
}

class PlanTable {
 public:
  PlanTable() = default;
  ~PlanTable();
  PlanTable(const PlanTable&) = delete;
  PlanTable& operator=(const PlanTable&) = delete;

  // What serves `rows`, or nullptr. Wait-free. The answer lives as long as the table.
  const Served* find(std::uint64_t key, std::int64_t rows) const noexcept;

  // Serves [lo, hi] from now on. Exact winners keep their S: an interval that is not exact is cut
  // to what lies between them around `rows`. Anything else that it meets gives way.
  // Requires lo <= rows <= hi.
  void publish(std::uint64_t key, std::int64_t rows, std::int64_t lo, std::int64_t hi,
               Served served);
  // Takes `served` away wherever the key has it; nothing happens where it is gone already.
  void evict(std::uint64_t key, const Served* served);

 private:
  static constexpr std::size_t kBuckets = 4096;

  struct Interval {
    std::int64_t lo, hi;
    const Served* served;
  };
  using Intervals = std::vector<Interval>;  // disjoint, ascending
  struct Node {
    std::uint64_t key;
    Node* next;
    std::atomic<const Intervals*> intervals{nullptr};
  };

  static std::size_t bucket_of(std::uint64_t key) noexcept {
    return (key * 0x9e3779b97f4a7c15u) >> 52;
  }
  Node* node_of(std::uint64_t key) const noexcept;
  // The node's array becomes `next`.
  void replace(Node& node, Intervals next);

  std::array<std::atomic<Node*>, kBuckets> buckets_{};
  std::mutex writers_;
  std::vector<std::unique_ptr<const Intervals>> arrays_;
  std::vector<std::unique_ptr<const Served>> served_;
};

}  // namespace rowsmith
