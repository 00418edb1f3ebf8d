// SPDX-License-Identifier: Apache-2.0
//
// MissCounts: how many calls of each problem no exact winner served, in memory until flushed to the
// winner store. An interval of S counts under the problem of the call that opened it.
#pragma once

#include "runtime/counters.h"

#include <rowsmith/types.h>
#include <rowsmith/winner_store.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace rowsmith {

// Thread-safe.
class MissCounts {
 public:
  explicit MissCounts(std::string device_class) : device_class_(std::move(device_class)) {}

  // The counter of a problem, made on first use; it lives as long as this.
  StripedCount& of(std::uint64_t key, const Problem& problem);
  // Counted and not yet flushed.
  std::uint64_t pending() const;
  // Adds what is pending to the store. What it refuses is dropped: a cache fault fails no launch.
  void flush(WinnerStore& store);

 private:
  struct Tally {
    Problem problem;
    StripedCount calls;
    std::uint64_t flushed = 0;
  };
  const std::string device_class_;
  mutable std::mutex mutex_;
  std::map<std::pair<std::uint64_t, std::int64_t>, std::unique_ptr<Tally>> tallies_;
};

}  // namespace rowsmith
