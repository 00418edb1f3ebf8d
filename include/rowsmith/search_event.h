// SPDX-License-Identifier: Apache-2.0
//
// What the tuner decides on its way to a winner, decision by decision: for whoever wants to know
// why a config won, or why it was never timed.
#pragma once

#include <rowsmith/types.h>

#include <cstddef>
#include <string>
#include <vector>

namespace rowsmith {

struct SearchEvent {
  // In the order in which a candidate meets them. Behind each: the fields that it fills, beside
  // problem, in_hand and, where one candidate is meant, candidate, config and is_default.
  enum class Kind {
    kRanked,     // takes part
    kCompiled,   // registers, spill_bytes
    kDropped,    // reason
    kRestored,   // ns: what an earlier run's screening makes of it today; not screened
    kScreened,   // samples, ns: their median
    kCut,        // samples, ns, rule, limit_ns
    kFinals,     // rivals with their screening medians; `candidate` is the first of them
    kRound,      // samples: rounds so far; rivals beside the fastest, which is `candidate`
    kLeft,       // the finals, slower beyond noise and margin: rivals: itself beside the fastest
    kRestarted,  // reason; all that stand are screened anew
    kStopped,    // the time was up: the best so far stands
    kVerdict     // rule, rivals: the fastest beside the default where both have times
  };
  enum class Rule {
    kNone,
    // Of a cut.
    kFirstSample,    // slower than limit_ns, which is wide, by its first sample
    kLeastSample,    // slower than limit_ns by its least sample
    kFinalistBand,   // slower than limit_ns, within which medians reach the finals
    kFinalistCount,  // within it, but enough others are faster
    // Of a verdict.
    kFaster,          // than the default, beyond noise and margin, and than the rest
    kTie,             // faster than the default, and the best in rank of several equals
    kDefaultFastest,  // nothing has a smaller median
    kGainInNoise,     // the fastest is not surely faster than the default: that stays
    kNoDefault        // the default was dropped: the fastest of the rest
  };
  // A candidate beside another: median of the ratios of samples taken side by side, its interval.
  struct Rival {
    std::size_t candidate = 0;
    double ns = 0;  // of the latest round; in kFinals and kVerdict the median
    double ratio = 1, low = 1, high = 1;
  };

  Kind kind = Kind::kRanked;
  std::size_t problem = 0;  // index of its outcome in the report
  Problem in_hand;
  std::size_t candidate = 0;  // place in the ranked list, from 0
  std::string config;         // of the candidate
  bool is_default = false;
  int registers = 0, spill_bytes = 0;  // a thread, as the compiler says
  std::string reason;
  std::size_t samples = 0;
  double ns = 0, limit_ns = 0;
  Rule rule = Rule::kNone;
  std::vector<Rival> rivals;
};

// "ranked", "compiled", .. and "first sample", "least sample", ..; "" for Rule::kNone.
const char* to_string(SearchEvent::Kind kind) noexcept;
const char* to_string(SearchEvent::Rule rule) noexcept;

}  // namespace rowsmith
