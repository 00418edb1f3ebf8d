// SPDX-License-Identifier: Apache-2.0
//
// Which configs a search tries: first kinds that differ in more than a few percent, then what lies
// next to the best of those. Pure functions of ranked lists.
#pragma once

#include <rowsmith/types.h>

#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

namespace rowsmith {

// Room for candidates: `places`, and `compile_s` of one core, of which a config takes cost(config).
// Where the seconds run out, half of the places are filled all the same.
struct Room {
  std::size_t places = 0;
  double compile_s = std::numeric_limits<double>::infinity();
  std::function<double(const Config&)> cost = [](const Config&) { return 0.0; };
};

// The configs that a search begins with, as many as there is room for, in order of rank, and where
// the default stands among them: the best of each family, since ranks of different families are
// guesses of different people; a quarter of the other places by rank alone; then the best of each
// kind, which is a config but for its policies and the bound of registers; then whatever ranks
// next. Generic only where nothing else is left or it is the default. What of `kept` is ranked
// needs no room.
struct Candidates {
  std::vector<Config> configs;
  std::size_t default_index = 0;
  std::vector<std::size_t> kept;  // where those of `kept` stand
};
Candidates choose_candidates(const std::vector<Config>& ranked, const Config& standard,
                             const Room& room, const std::vector<Config>& kept = {});

// What there is room for of `ranked` that is not `tried` and differs from one of `best` (fastest
// first) in one axis, load and store counted as one. Half of the places are for what is near the
// fastest, half of the rest for the next, and so on; the best in rank of each first.
//
// Shares by the times of all configs of 10 problems drawn by seed (H200, docs/performance.md): 24
// to begin with and 16 near the two best miss the fastest by 0.6 % at most; 48 by rank alone by 6.8
// %, 48 kinds by 4.9 %, 32 kinds and 16 near the three best by 3.4 %. By the times of 25 problems,
// and today's ranks, 24 and 16 miss it by 0.42 % in the mean (1.9 % at most); with 10 near the two
// best and then 6 near the two best of all 0.31 %, for one more wait for compilers; axes in turn in
// place of by rank 0.44 %.
std::vector<Config> choose_near(const std::vector<Config>& ranked, const std::vector<Config>& tried,
                                const std::vector<Config>& best, const Room& room);

}  // namespace rowsmith
