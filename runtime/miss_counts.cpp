// SPDX-License-Identifier: Apache-2.0
#include "runtime/miss_counts.h"

#include "runtime/log.h"

#include <rowsmith/text.h>

namespace rowsmith {

StripedCount& MissCounts::of(std::uint64_t key, const Problem& problem) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Tally>& tally = tallies_[{key, problem.rows}];
  if (!tally) {
    tally = std::make_unique<Tally>();
    tally->problem = problem;
  }
  return tally->calls;
}

std::uint64_t MissCounts::pending() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t total = 0;
  for (const auto& [key, tally] : tallies_) total += tally->calls.sum() - tally->flushed;
  return total;
}

void MissCounts::flush(WinnerStore& store) {
  const std::lock_guard lock(mutex_);
  for (auto& [key, tally] : tallies_) {
    const std::uint64_t calls = tally->calls.sum();
    if (calls == tally->flushed) continue;
    const Status status = store.add_misses(device_class_, tally->problem,
                                           static_cast<std::int64_t>(calls - tally->flushed));
    tally->flushed = calls;
    if (!status.ok()) {
      log().info("misses of {} are not counted: {}", to_string(tally->problem), status.message());
    }
  }
}

}  // namespace rowsmith
