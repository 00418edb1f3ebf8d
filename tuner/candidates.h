// SPDX-License-Identifier: Apache-2.0
//
// Which configs a search tries: first kinds that differ in more than a few percent, then what lies
// next to the best of those. Pure functions of ranked lists.
#pragma once

#include <rowsmith/types.h>

#include <cstddef>
#include <vector>

namespace rowsmith {

// The configs that a search begins with, at most `cap`, in order of rank, and where the default
// stands among them: the best of each family, since ranks of different families are guesses of
// different people; a quarter of the other places by rank alone; then the best of each kind, which
// is a config but for its policies and the bound of registers; then whatever ranks next. Generic
// only where nothing else is left or it is the default. What of `kept` is ranked comes beside the
// cap.
struct Candidates {
  std::vector<Config> configs;
  std::size_t default_index = 0;
  std::vector<std::size_t> kept;  // where those of `kept` stand
};
Candidates choose_candidates(const std::vector<Config>& ranked, const Config& standard,
                             std::size_t cap, const std::vector<Config>& kept = {});

// Shares by the times of all configs of 10 problems drawn by seed (H200, docs/performance.md): 24
// such, then 16 near the two best, miss the fastest by 0.6 % at most; 48 by rank alone by 6.8 %, 48
// such alone by 4.9 %, 32 and 8 near by 3.4 %.
//
// Up to `places` of `ranked` that are not `tried` and differ from one of `best` (fastest first) in
// one axis, load and store counted as one. Half of the places are for the neighbours of the
// fastest, half of the rest for those of the next, and so on; the best in rank of each first.
std::vector<Config> choose_near(const std::vector<Config>& ranked, const std::vector<Config>& tried,
                                const std::vector<Config>& best, std::size_t places);

}  // namespace rowsmith
