// SPDX-License-Identifier: Apache-2.0
//
// Buckets: which further S to tune so that all S of a frame are served by a number. Knows neither a
// device nor a store: it is given the winners that there are and names problems.
//
// Rule. Two winners next to each other in S leave no gap where one of them may serve all between
// (reuse.h), or where their S differ by no more than a factor of two. In every other gap the
// geometric middle is tuned; it is measured beside both neighbours, so that two smaller gaps or
// none are left. A gap thus costs at most as many tunings as it has octaves, and where the winner
// changes once, the logarithm of that: only the half that holds the border is divided again.
#pragma once

#include <rowsmith/types.h>
#include <rowsmith/winner_store.h>

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

namespace rowsmith {

class Buckets {
 public:
  // The frame of each (dtypes, H, layout) goes from the least S that is listed to the greatest.
  explicit Buckets(const std::vector<Problem>& listed);

  // By a problem: the winners that differ from it in S at most, ascending.
  using WinnersOf = std::function<std::vector<WinnerRecord>(const Problem&)>;
  // The middles of all gaps as they are now, in the order of the list, S ascending. Each S is named
  // once: one that could not be tuned is not asked for again. Empty: nothing is left to do.
  std::vector<Problem> next(const WinnersOf& winners_of);

 private:
  struct Frame {
    Problem any;
    std::set<std::int64_t> named;  // listed ones too
  };
  std::vector<Frame> frames_;
};

}  // namespace rowsmith
