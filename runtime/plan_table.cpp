// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan_table.h"

#include <algorithm>
#include <utility>

namespace rowsmith {

PlanTable::~PlanTable() {
  for (std::atomic<Node*>& bucket : buckets_) {
    Node* node = bucket.load(std::memory_order_relaxed);
    while (node != nullptr) delete std::exchange(node, node->next);
  }
}

const Served* PlanTable::find(std::uint64_t key, std::int64_t rows) const noexcept {
  const Node* node = node_of(key);
  if (node == nullptr) return nullptr;
  const Intervals* intervals = node->intervals.load(std::memory_order_acquire);
  if (intervals == nullptr) return nullptr;
  const auto after = std::upper_bound(
      intervals->begin(), intervals->end(), rows,
      [](std::int64_t value, const Interval& interval) { return value < interval.lo; });
  if (after == intervals->begin()) return nullptr;
  const Interval& interval = *(after - 1);
  return rows <= interval.hi ? interval.served : nullptr;
}

void PlanTable::publish(std::uint64_t key, std::int64_t rows, std::int64_t lo, std::int64_t hi,
                        Served served) {
  const std::lock_guard lock(writers_);
  Node* node = node_of(key);
  if (node == nullptr) {
    std::atomic<Node*>& bucket = buckets_[bucket_of(key)];
    node = new Node{key, bucket.load(std::memory_order_relaxed)};
    bucket.store(node, std::memory_order_release);
  }
  const bool exact = served.source == Source::kExact;
  static const Intervals none;
  const Intervals* old = node->intervals.load(std::memory_order_relaxed);
  if (old == nullptr) old = &none;
  Intervals next;
  for (const Interval& other : *old) {
    if (!exact && other.served->source == Source::kExact) {
      if (other.hi < rows) lo = std::max(lo, other.hi + 1);
      if (other.lo > rows) hi = std::min(hi, other.lo - 1);
    }
  }
  for (const Interval& other : *old) {
    if (other.lo < lo) next.push_back({other.lo, std::min(other.hi, lo - 1), other.served});
    if (other.hi > hi) next.push_back({std::max(other.lo, hi + 1), other.hi, other.served});
  }
  served_.push_back(std::make_unique<const Served>(std::move(served)));
  next.push_back({lo, hi, served_.back().get()});
  std::sort(next.begin(), next.end(),
            [](const Interval& a, const Interval& b) { return a.lo < b.lo; });
  replace(*node, std::move(next));
}

void PlanTable::evict(std::uint64_t key, const Served* served) {
  const std::lock_guard lock(writers_);
  Node* node = node_of(key);
  if (node == nullptr) return;
  const Intervals* old = node->intervals.load(std::memory_order_relaxed);
  if (old == nullptr) return;
  Intervals next = *old;
  std::erase_if(next, [&](const Interval& interval) { return interval.served == served; });
  replace(*node, std::move(next));
}

PlanTable::Node* PlanTable::node_of(std::uint64_t key) const noexcept {
  Node* node = buckets_[bucket_of(key)].load(std::memory_order_acquire);
  while (node != nullptr && node->key != key) node = node->next;
  return node;
}

void PlanTable::replace(Node& node, Intervals next) {
  arrays_.push_back(std::make_unique<const Intervals>(std::move(next)));
  node.intervals.store(arrays_.back().get(), std::memory_order_release);
}

}  // namespace rowsmith
