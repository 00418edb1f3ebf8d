// SPDX-License-Identifier: Apache-2.0
#include "tuner/buckets.h"

#include "runtime/reuse.h"

#include <algorithm>

namespace rowsmith {
namespace {

bool leaves_gap(const WinnerRecord& below, const WinnerRecord& above) {
  return !reach_of(below.problem.rows).holds(above.problem.rows) && !is_bounded(below, above);
}

bool differ_in_rows_at_most(Problem a, const Problem& b) {
  a.rows = b.rows;
  return a == b;
}

}  // namespace

Buckets::Buckets(const std::vector<Problem>& listed) {
  for (const Problem& problem : listed) {
    if (problem.rows <= 0 || problem.cols <= 0) continue;
    const auto known = std::find_if(frames_.begin(), frames_.end(), [&](const Frame& frame) {
      return differ_in_rows_at_most(frame.any, problem);
    });
    Frame& frame = known == frames_.end() ? frames_.emplace_back(Frame{problem, {}}) : *known;
    frame.named.insert(problem.rows);
  }
}

std::vector<Problem> Buckets::next(const WinnersOf& winners_of) {
  std::vector<Problem> problems;
  for (Frame& frame : frames_) {
    const RowRange range{*frame.named.begin(), *frame.named.rbegin()};
    const std::vector<WinnerRecord> winners = winners_of(frame.any);
    for (std::size_t i = 1; i < winners.size(); ++i) {
      const WinnerRecord &below = winners[i - 1], &above = winners[i];
      const std::int64_t lo = below.problem.rows, hi = above.problem.rows;
      if (!range.holds(lo) || !range.holds(hi) || !leaves_gap(below, above)) continue;
      Problem middle = frame.any;
      middle.rows = std::max(lo + 1, geometric_middle(lo, hi));
      if (frame.named.insert(middle.rows).second) problems.push_back(middle);
    }
  }
  return problems;
}

}  // namespace rowsmith
