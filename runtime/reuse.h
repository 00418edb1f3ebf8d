// SPDX-License-Identifier: Apache-2.0
//
// Reuse: which S a winner may serve beside its own. Pure functions of stored records.
//
// Rule. A winner reaches a factor of two either way. The S between two winners are bounded where
// the config of one of them, timed at the other's S, costs at most kReuseTolerance there: then it
// may serve all of them. Why one number at one end is enough: a call takes about a fixed time and a
// time a row, so any config's time in between is the mean of its times at the two ends, weighted
// alike for all. At either end no config is faster than the winner, and the reused one is slower by
// that number at most; so it is in between.
#pragma once

#include <rowsmith/winner_store.h>

#include <cstdint>
#include <string>

namespace rowsmith {

// Above what two tunings of one problem differ by (2 %), or noise would ask for more tunings; below
// what the default may lose (10 %), which needs none.
inline constexpr double kReuseTolerance = 1.05;

struct RowRange {
  std::int64_t lo, hi;  // empty where lo > hi
  bool holds(std::int64_t rows) const noexcept { return lo <= rows && rows <= hi; }
};

// What a winner tuned at `rows` may serve when no other is nearer: a factor of two either way.
RowRange reach_of(std::int64_t rows) noexcept;

// The last S that is nearer to `below` than to `above`, by ratio. Requires 0 < below < above.
std::int64_t geometric_middle(std::int64_t below, std::int64_t above) noexcept;

// What follows is of two winners of one device class, dtypes, H and layout, S ascending.

// What `winner` costs at the S of `at`: the time of its config over that of the winner there; 0 =
// not measured. A number counts for the config alone that it was measured of; 1 for the same
// config.
double reuse_ratio(const WinnerRecord& winner, const WinnerRecord& at);

// One of the two may serve every S between them.
bool is_bounded(const WinnerRecord& below, const WinnerRecord& above);

// What each of them serves of the S between.
struct Shares {
  RowRange below, above;
};
Shares share_between(const WinnerRecord& below, const WinnerRecord& above);

// For people: what was measured between them.
std::string reuse_text(const WinnerRecord& below, const WinnerRecord& above);

}  // namespace rowsmith
