// SPDX-License-Identifier: Apache-2.0
//
// StripedCount: a counter that many threads bump on the hot path. Each thread adds to its own cache
// line, so that counting costs no traffic between cores; reading sums the lines.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rowsmith {

constexpr std::size_t kCountLines = 8;

// The calling thread's line in every StripedCount; threads take them in turn.
inline std::size_t count_line() noexcept {
  static std::atomic<std::size_t> next{0};
  thread_local std::size_t mine = 0;  // line + 1; constant, so that reading it needs no guard
  if (mine == 0) mine = next.fetch_add(1, std::memory_order_relaxed) % kCountLines + 1;
  return mine - 1;
}

class StripedCount {
 public:
  // Requires line = count_line().
  void add(std::size_t line) noexcept {
    lines_[line].count.fetch_add(1, std::memory_order_relaxed);
  }
  std::uint64_t sum() const noexcept {
    std::uint64_t total = 0;
    for (const Line& line : lines_) total += line.count.load(std::memory_order_relaxed);
    return total;
  }

 private:
  struct alignas(64) Line {
    std::atomic<std::uint64_t> count{0};
  };
  Line lines_[kCountLines];
};

}  // namespace rowsmith
