// SPDX-License-Identifier: Apache-2.0
#include "runtime/reuse.h"

#include <rowsmith/text.h>

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace rowsmith {
namespace {

constexpr std::int64_t kMaxRows = std::numeric_limits<std::int64_t>::max();
constexpr RowRange kNothing{1, 0};

bool within_tolerance(double ratio) {
  return ratio > 0 && ratio <= kReuseTolerance;
}

std::string ratio_text(const WinnerRecord& winner, const WinnerRecord& at) {
  const double ratio = reuse_ratio(winner, at);
  if (ratio <= 0) return {};
  return fmt::format("; that of S={} takes {:.3f} of the other's time at S={}", winner.problem.rows,
                     ratio, at.problem.rows);
}

}  // namespace

RowRange reach_of(std::int64_t rows) noexcept {
  return {std::max<std::int64_t>(1, rows / 2 + rows % 2),
          rows > kMaxRows / 2 ? kMaxRows : 2 * rows};
}

std::int64_t geometric_middle(std::int64_t below, std::int64_t above) noexcept {
  const long double root =
      std::sqrt(static_cast<long double>(below) * static_cast<long double>(above));
  return std::clamp(static_cast<std::int64_t>(root), below, above - 1);
}

double reuse_ratio(const WinnerRecord& winner, const WinnerRecord& at) {
  if (winner.config == at.config) return 1;
  const bool below = winner.problem.rows < at.problem.rows;
  const Reuse& known = below ? at.evidence.below : at.evidence.above;
  const bool counts = known.rows == winner.problem.rows && known.config == to_string(winner.config);
  return counts ? known.ratio : 0;
}

bool is_bounded(const WinnerRecord& below, const WinnerRecord& above) {
  return within_tolerance(reuse_ratio(below, above)) || within_tolerance(reuse_ratio(above, below));
}

Shares share_between(const WinnerRecord& below, const WinnerRecord& above) {
  const std::int64_t first = below.problem.rows + 1, last = above.problem.rows - 1;
  const std::int64_t middle = geometric_middle(below.problem.rows, above.problem.rows);
  const bool below_holds = within_tolerance(reuse_ratio(below, above));
  const bool above_holds = within_tolerance(reuse_ratio(above, below));
  if (below_holds && above_holds) return {{first, middle}, {middle + 1, last}};
  if (below_holds) return {{first, last}, kNothing};
  if (above_holds) return {kNothing, {first, last}};
  return {{first, std::min(middle, reach_of(below.problem.rows).hi)},
          {std::max(middle + 1, reach_of(above.problem.rows).lo), last}};
}

std::string reuse_text(const WinnerRecord& below, const WinnerRecord& above) {
  const std::string both =
      fmt::format("the winners of S={} and S={} ", below.problem.rows, above.problem.rows);
  if (below.config == above.config) return both + "have one config, which serves all between them";
  std::string measured = ratio_text(below, above) + ratio_text(above, below);
  if (measured.empty()) measured = "; what reuse costs was not measured";
  return both + (is_bounded(below, above) ? "serve all between them" : "serve a factor of two") +
         fmt::format(" (reuse may cost {:.2f})", kReuseTolerance) + measured;
}

}  // namespace rowsmith
