// SPDX-License-Identifier: Apache-2.0
#include "runtime/ladder.h"

#include "kernel_templates/catalog.h"

#include <rowsmith/text.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace rowsmith {
namespace {

constexpr std::int64_t kMaxRows = std::numeric_limits<std::int64_t>::max();

RowRange power_of_two_bucket(std::int64_t rows) {
  const auto lo = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(rows)));
  return {lo, lo > kMaxRows / 2 ? kMaxRows : 2 * lo - 1};
}

std::string rows_text(std::int64_t rows) {
  return "S=" + std::to_string(rows);
}

std::string evidence_text(const WinnerRecord& winner) {
  const Evidence& evidence = winner.evidence;
  std::string text = "winner tuned at " + rows_text(winner.problem.rows) + ": median " +
                     duration_to_string(evidence.median_ns);
  if (evidence.default_ns > 0) text += ", default " + duration_to_string(evidence.default_ns);
  if (evidence.floor_ns > 0) text += ", floor " + duration_to_string(evidence.floor_ns);
  if (!evidence.verdict.empty()) text += ", verdict " + evidence.verdict;
  if (!evidence.device_name.empty()) text += ", on " + evidence.device_name;
  if (!winner.site.empty()) text += ", from " + winner.site;
  return text;
}

// One walk down the rungs; the first that holds answers.
class Ladder {
 public:
  explicit Ladder(const LadderInput& input) : in_(input), rows_(input.problem.rows) {}

  Result<Choice> walk() {
    if (in_.pin != nullptr) return pinned();
    sort_winners();
    if (exact() || nearest()) return std::move(choice_);
    const RowRange range = default_range();
    if (take(Source::kDefault, default_config(in_.problem, in_.facts), range) ||
        take(Source::kGeneric, generic_config(), range)) {
      return std::move(choice_);
    }
    choice_.config = Config();
    return std::move(choice_);
  }

 private:
  Result<Choice> pinned() {
    const std::string illegal = why_illegal(in_.problem, in_.facts, *in_.pin);
    if (!illegal.empty()) {
      return Status(Code::kInvalidArgument,
                    "the pinned config (ROWSMITH_PIN, or RuntimeOptions::pin) " +
                        to_string(*in_.pin) + " is not legal for " + to_string(in_.problem) + ": " +
                        illegal);
    }
    if (take(Source::kPinned, *in_.pin, power_of_two_bucket(rows_))) {
      choice_.reasons.push_back("the config is pinned: stored winners are not asked");
    }
    return std::move(choice_);
  }

  // Keeps the winners that may serve; says of those in reach why they may not.
  void sort_winners() {
    for (const WinnerRecord& winner : in_.winners) {
      const std::string unusable = why_unusable(winner);
      const RowRange reach = reach_of(winner.problem.rows);
      if (unusable.empty()) {
        usable_.push_back(&winner);
      } else if (reach.holds(rows_)) {
        say("winner of " + rows_text(winner.problem.rows) + ", " + to_string(winner.config) + ": " +
            unusable);
      }
    }
    if (in_.winners.empty()) {
      say("no winner is stored for this device class, dtypes, H and layout");
    }
  }

  std::string why_unusable(const WinnerRecord& winner) const {
    const Family* family = find_family(winner.config.family);
    if (family == nullptr) return "no family '" + winner.config.family + "'";
    if (family->digest() != winner.family_digest) {
      return "the family has changed since (digest " + winner.family_digest + ", now " +
             std::string(family->digest()) + ")";
    }
    return why_not(winner.config);
  }

  std::string why_not(const Config& config) const {
    std::string reason = why_illegal(in_.problem, in_.facts, config);
    if (reason.empty() && in_.refuse) reason = in_.refuse(config);
    return reason;
  }

  bool exact() {
    for (const WinnerRecord* winner : usable_) {
      if (winner->problem.rows == rows_) return serve(Source::kExact, *winner, {rows_, rows_});
    }
    return false;
  }

  // One of the winners around S, within what it may serve (reuse.h).
  bool nearest() {
    const auto split = std::partition_point(
        usable_.begin(), usable_.end(),
        [&](const WinnerRecord* winner) { return winner->problem.rows < rows_; });
    const WinnerRecord* below = split == usable_.begin() ? nullptr : *(split - 1);
    const WinnerRecord* above = split == usable_.end() ? nullptr : *split;
    if (below == nullptr && above == nullptr) return false;
    Shares shares{{1, 0}, {1, 0}};
    if (below != nullptr && above != nullptr) {
      shares = share_between(*below, *above);
    } else if (below != nullptr) {
      shares.below = {below->problem.rows + 1, reach_of(below->problem.rows).hi};
    } else {
      shares.above = {reach_of(above->problem.rows).lo, above->problem.rows - 1};
    }
    const bool served = (shares.below.holds(rows_) && serve_near(*below, shares.below)) ||
                        (shares.above.holds(rows_) && serve_near(*above, shares.above));
    if (!served) {
      std::string text = "the nearest winners of this H, at";
      if (below != nullptr) text += " " + rows_text(below->problem.rows);
      if (above != nullptr) text += " " + rows_text(above->problem.rows);
      say(text + ", are further than a factor of two from " + rows_text(rows_));
    }
    if (below != nullptr && above != nullptr) say(reuse_text(*below, *above));
    return served;
  }

  bool serve_near(const WinnerRecord& winner, RowRange range) {
    say("no winner is stored for " + rows_text(rows_) + " itself");
    return serve(Source::kNearest, winner, range);
  }

  bool serve(Source source, const WinnerRecord& winner, RowRange range) {
    choice_.winner_rows = winner.problem.rows;
    choice_.median_ns = winner.evidence.median_ns;
    set(source, winner.config, range);
    say(evidence_text(winner));
    return true;
  }

  bool take(Source source, const Config& config, RowRange range) {
    const std::string reason = why_not(config);
    if (reason.empty()) {
      set(source, config, range);
      return true;
    }
    say(std::string(to_string(source)) + " " + to_string(config) + ": " + reason);
    return false;
  }

  // The bucket of S without what the winners reach, so that they serve there when asked.
  RowRange default_range() const {
    RowRange range = power_of_two_bucket(rows_);
    for (const WinnerRecord* winner : usable_) {
      const RowRange reach = reach_of(winner->problem.rows);
      if (reach.lo > rows_) range.hi = std::min(range.hi, reach.lo - 1);
      if (reach.hi < rows_) range.lo = std::max(range.lo, reach.hi + 1);
    }
    return range;
  }

  void set(Source source, const Config& config, RowRange range) {
    choice_.source = source;
    choice_.config = config;
    choice_.lo = range.lo;
    choice_.hi = range.hi;
  }

  void say(std::string reason) { choice_.reasons.push_back(std::move(reason)); }

  const LadderInput& in_;
  const std::int64_t rows_;
  std::vector<const WinnerRecord*> usable_;
  Choice choice_;
};

}  // namespace

const char* to_string(Source source) noexcept {
  switch (source) {
    case Source::kExact: return "exact";
    case Source::kNearest: return "nearest";
    case Source::kDefault: return "default";
    case Source::kGeneric: return "generic";
    case Source::kPinned: return "pinned";
  }
  return "unknown";
}

Result<Choice> choose(const LadderInput& input) {
  return Ladder(input).walk();
}

}  // namespace rowsmith
