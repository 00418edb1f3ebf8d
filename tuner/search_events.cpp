// SPDX-License-Identifier: Apache-2.0
//
// The search's decisions as events, and their names.
#include "tuner/search.h"

namespace rowsmith {

const char* to_string(SearchEvent::Kind kind) noexcept {
  switch (kind) {
    case SearchEvent::Kind::kRanked: return "ranked";
    case SearchEvent::Kind::kCompiled: return "compiled";
    case SearchEvent::Kind::kDropped: return "dropped";
    case SearchEvent::Kind::kRestored: return "restored";
    case SearchEvent::Kind::kScreened: return "screened";
    case SearchEvent::Kind::kCut: return "cut";
    case SearchEvent::Kind::kFinals: return "finals";
    case SearchEvent::Kind::kRound: return "round";
    case SearchEvent::Kind::kLeft: return "left";
    case SearchEvent::Kind::kRestarted: return "restarted";
    case SearchEvent::Kind::kStopped: return "stopped";
    case SearchEvent::Kind::kVerdict: return "verdict";
  }
  return "?";
}

const char* to_string(SearchEvent::Rule rule) noexcept {
  switch (rule) {
    case SearchEvent::Rule::kNone: return "";
    case SearchEvent::Rule::kFirstSample: return "first sample";
    case SearchEvent::Rule::kLeastSample: return "least sample";
    case SearchEvent::Rule::kFinalistBand: return "finalist band";
    case SearchEvent::Rule::kFinalistCount: return "finalist count";
    case SearchEvent::Rule::kFaster: return "faster";
    case SearchEvent::Rule::kTie: return "tie";
    case SearchEvent::Rule::kDefaultFastest: return "default fastest";
    case SearchEvent::Rule::kGainInNoise: return "gain in noise";
    case SearchEvent::Rule::kNoDefault: return "no default";
  }
  return "?";
}

void Search::tell(SearchEvent event) const {
  if (sink_) sink_(std::move(event));
}

void Search::tell_restored() const {
  for (std::size_t i = 0; sink_ && i < candidates_.size(); ++i) {
    if (!candidates_[i].restored || !stands(i)) continue;
    SearchEvent event;
    event.kind = SearchEvent::Kind::kRestored;
    event.candidate = i;
    event.ns = screening_ns(candidates_[i]);
    tell(std::move(event));
  }
}

void Search::tell_cut(std::size_t candidate, SearchEvent::Rule rule, double ns,
                      double limit_ns) const {
  SearchEvent event;
  event.kind = SearchEvent::Kind::kCut;
  event.candidate = candidate;
  event.samples = candidates_[candidate].screening.size();
  event.ns = ns;
  event.rule = rule;
  event.limit_ns = limit_ns;
  tell(std::move(event));
}

void Search::tell_finals() const {
  if (!sink_ || finalists_.empty()) return;
  SearchEvent event;
  event.kind = SearchEvent::Kind::kFinals;
  event.candidate = finalists_.front();
  for (const std::size_t i : finalists_) {
    event.rivals.push_back({i, screening_ns(candidates_[i])});
  }
  tell(std::move(event));
}

void Search::tell_round(std::size_t leader) const {
  if (!sink_) return;
  SearchEvent event;
  event.kind = SearchEvent::Kind::kRound;
  event.candidate = leader;
  event.samples = round_;
  for (const std::size_t i : finalists_) {
    if (!stands(i)) continue;
    const std::vector<double>& finals = candidates_[i].finals;
    const auto comparison = compare_paired(finals, candidates_[leader].finals);
    event.rivals.push_back(
        {i, finals.back(), comparison.ratio, comparison.interval.low, comparison.interval.high});
  }
  tell(std::move(event));
}

}  // namespace rowsmith
