// SPDX-License-Identifier: Apache-2.0
//
// The candidate state machine: screening with early cut, interleaved finals, verdict.
#include "tuner/search.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace rowsmith {
namespace {

// Finals of fewer rounds than this say less than the screening does.
constexpr std::size_t kLeastRounds = 3;
// A finalist leaves early only where the interval has its full confidence (statistics.h).
constexpr std::size_t kRoundsBeforeDrop = 6;

using Rule = SearchEvent::Rule;

double least(const std::vector<double>& samples) {
  return *std::min_element(samples.begin(), samples.end());
}

SearchEvent::Rival rival(std::size_t candidate, double ns, const PairedComparison& comparison) {
  return {candidate, ns, comparison.ratio, comparison.interval.low, comparison.interval.high};
}

}  // namespace

Search::Search(const SearchOptions& options, std::size_t count, std::size_t default_index,
               const std::vector<std::size_t>& kept)
    : options_(options), candidates_(count), default_index_(default_index) {
  assert(default_index < count);
  for (const std::size_t i : kept) candidates_[i].kept = true;
  order_.resize(count);
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::rotate(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(default_index),
              order_.begin() + static_cast<std::ptrdiff_t>(default_index) + 1);
}

void Search::restore(const std::vector<Earlier>& known) {
  std::vector<Earlier> usable;
  for (const Earlier& it : known) {
    assert(it.ratio > 0);
    if (it.candidate != default_index_ && !candidates_[it.candidate].kept) usable.push_back(it);
  }
  std::stable_sort(usable.begin(), usable.end(),
                   [](const Earlier& a, const Earlier& b) { return a.ratio < b.ratio; });
  best_known_ = std::min(options_.finalists, usable.size());
  restored_ = usable.size() - best_known_;
  std::vector<std::size_t> best;
  for (std::size_t at = 0; at < usable.size(); ++at) {
    Candidate& candidate = candidates_[usable[at].candidate];
    candidate.earlier_ratio = usable[at].ratio;
    candidate.restored = at >= best_known_;
    if (!candidate.restored) best.push_back(usable[at].candidate);
  }
  std::erase_if(order_, [&](std::size_t i) { return candidates_[i].earlier_ratio > 0; });
  order_.insert(order_.begin() + 1, best.begin(), best.end());
}

// Nothing can be compared with what earlier runs knew: all are to be screened.
void Search::forget_earlier() {
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (candidates_[i].restored) order_.push_back(i);
    candidates_[i].restored = false;
  }
  restored_ = 0;
}

Search::Step Search::next() const {
  switch (stage_) {
    case Stage::kScreening: return {stage_, order_[position_]};
    case Stage::kFinals: return {stage_, turn()};
    case Stage::kRefining:
    case Stage::kDone: break;
  }
  return {stage_, 0};
}

void Search::report(double ns) {
  assert(ns > 0 && (stage_ == Stage::kScreening || stage_ == Stage::kFinals));
  if (stage_ == Stage::kFinals) {
    candidates_[turn()].finals.push_back(ns);
    ++position_;
    settle_finals();
    return;
  }
  Candidate& candidate = candidates_[order_[position_]];
  candidate.screening.push_back(ns);
  if (order_[position_] != default_index_ && beyond_cut(candidate)) {
    candidate.out = true;
    const bool first = candidate.screening.size() == 1;
    tell_cut(order_[position_], first ? Rule::kFirstSample : Rule::kLeastSample,
             least(candidate.screening), limit(candidate));
    end_screening_of_current();
  } else if (screened_whole(candidate)) {
    const double middle = median(candidate.screening);
    if (!leader_ || middle < leading_ns()) leader_ = order_[position_];
    SearchEvent event;
    event.kind = SearchEvent::Kind::kScreened;
    event.candidate = order_[position_];
    event.samples = candidate.screening.size();
    event.ns = middle;
    tell(std::move(event));
    if (order_[position_] == default_index_) tell_restored();
    end_screening_of_current();
  }
}

void Search::refine(std::size_t count) {
  assert(stage_ == Stage::kRefining);
  options_.refine_after = SearchOptions::kNever;
  for (std::size_t i = 0; i < count; ++i) order_.push_back(candidates_.size() + i);
  candidates_.resize(candidates_.size() + count);
  stage_ = Stage::kScreening;
  settle_screening();
}

void Search::reject(std::size_t candidate) {
  candidates_[candidate].rejected = true;
  if (leader_ == candidate) find_leader();
  if (stage_ == Stage::kScreening) settle_screening();
  if (stage_ == Stage::kFinals) settle_finals();
}

void Search::restart(std::string why) {
  for (Candidate& candidate : candidates_) {
    candidate.screening.clear();
    candidate.finals.clear();
    candidate.out = false;
  }
  stage_ = Stage::kScreening;
  position_ = round_ = 0;
  leader_.reset();
  finalists_.clear();
  SearchEvent event;
  event.kind = SearchEvent::Kind::kRestarted;
  event.reason = std::move(why);
  tell(std::move(event));
  settle_screening();
}

void Search::stop() {
  if (stage_ == Stage::kDone) return;
  stage_ = Stage::kDone;
  stopped_ = true;
  SearchEvent event;
  event.kind = SearchEvent::Kind::kStopped;
  tell(std::move(event));
}

std::size_t Search::screened() const {
  const bool screening = stage_ == Stage::kScreening || stage_ == Stage::kRefining;
  return (screening ? position_ : order_.size()) + restored();
}

std::size_t Search::restored() const {
  return default_is_timed() ? restored_ : 0;
}

bool Search::has_caught_up() const {
  const auto begin = order_.begin() + 1;
  return std::all_of(begin, begin + static_cast<std::ptrdiff_t>(best_known_),
                     [&](std::size_t i) { return !stands(i) || screened_whole(candidates_[i]); });
}

std::optional<double> Search::best_ns() const {
  double best = leading_ns();
  if (finals_count()) {
    best = 0;
    for (const std::size_t i : finalists_) {
      if (!stands(i) || candidates_[i].finals.empty()) continue;
      const double middle = median(candidates_[i].finals);
      best = best == 0 ? middle : std::min(best, middle);
    }
  }
  return best > 0 ? std::optional(best) : std::nullopt;
}

const std::vector<double>& Search::samples(std::size_t candidate) const {
  const Candidate& it = candidates_[candidate];
  return finals_count() && !it.finals.empty() ? it.finals : it.screening;
}

std::optional<double> Search::ratio(std::size_t a, std::size_t b) const {
  const Candidate &one = candidates_[a], &other = candidates_[b];
  if (one.rejected || other.rejected) return std::nullopt;
  if (std::min(one.finals.size(), other.finals.size()) >= kLeastRounds) {
    return compare_paired(one.finals, other.finals).ratio;
  }
  const bool cut = one.out && one.finals.empty();
  if (!cut || one.screening.empty() || other.screening.empty()) return std::nullopt;
  return median(one.screening) / median(other.screening);
}

bool Search::stands(std::size_t candidate) const {
  return !candidates_[candidate].rejected && !candidates_[candidate].out;
}

// By the least sample: an outlier to the slow side alone must not end a good candidate.
bool Search::beyond_cut(const Candidate& candidate) const {
  return leader_ && least(candidate.screening) > limit(candidate);
}

double Search::limit(const Candidate& candidate) const {
  const bool wide = candidate.kept || candidate.screening.size() == 1;
  return leading_ns() * (wide ? options_.first_cut : options_.screen_cut);
}

bool Search::screened_whole(const Candidate& candidate) const {
  return candidate.screening.size() >= options_.screen_samples;
}

void Search::find_leader() {
  leader_.reset();
  for (const std::size_t i : order_) {
    if (!stands(i) || !screened_whole(candidates_[i])) continue;
    if (!leader_ || median(candidates_[i].screening) < leading_ns()) leader_ = i;
  }
}

double Search::screening_ns(const Candidate& candidate) const {
  return candidate.restored
             ? candidate.earlier_ratio * median(candidates_[default_index_].screening)
             : median(candidate.screening);
}

double Search::leading_ns() const {
  return leader_ ? median(candidates_[*leader_].screening) : 0;
}

void Search::end_screening_of_current() {
  ++position_;
  settle_screening();
}

void Search::settle_screening() {
  if (candidates_[default_index_].rejected && !default_is_timed()) forget_earlier();
  while (position_ < order_.size() && candidates_[order_[position_]].rejected) ++position_;
  if (position_ >= options_.refine_after) {
    stage_ = Stage::kRefining;
  } else if (position_ == order_.size()) {
    start_finals();
  }
}

std::vector<std::size_t> Search::by_screening(std::vector<std::size_t> candidates) const {
  std::stable_sort(candidates.begin(), candidates.end(), [&](std::size_t a, std::size_t b) {
    return screening_ns(candidates_[a]) < screening_ns(candidates_[b]);
  });
  return candidates;
}

std::vector<std::size_t> Search::best(std::size_t count) const {
  std::vector<std::size_t> screened;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (stands(i) && screened_whole(candidates_[i])) screened.push_back(i);
  }
  screened = by_screening(std::move(screened));
  screened.resize(std::min(count, screened.size()));
  return screened;
}

void Search::start_finals() {
  std::vector<std::size_t> standing;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (i != default_index_ && stands(i)) standing.push_back(i);
  }
  std::size_t places = options_.finalists;
  const double band = leading_ns() * options_.finalist_band;
  for (const std::size_t i : by_screening(std::move(standing))) {
    const double middle = screening_ns(candidates_[i]);
    const bool among_best = middle <= band && places > 0;
    if (among_best) --places;
    if (among_best || candidates_[i].kept) {
      finalists_.push_back(i);
      continue;
    }
    candidates_[i].out = true;
    tell_cut(i, middle > band ? Rule::kFinalistBand : Rule::kFinalistCount, middle, band);
  }
  if (stands(default_index_)) finalists_.push_back(default_index_);
  stage_ = Stage::kFinals;
  position_ = 0;
  tell_finals();
  settle_finals();
}

std::size_t Search::turn() const {
  const bool backwards = round_ % 2 == 1;
  return finalists_[backwards ? finalists_.size() - 1 - position_ : position_];
}

void Search::settle_finals() {
  const auto standing =
      std::count_if(finalists_.begin(), finalists_.end(), [&](std::size_t i) { return stands(i); });
  if (standing == 0) {
    stage_ = Stage::kDone;
    return;
  }
  while (true) {
    while (position_ < finalists_.size() && !stands(turn())) ++position_;
    if (position_ < finalists_.size()) return;
    position_ = 0;
    end_round();
    if (round_ >= options_.final_rounds) {
      stage_ = Stage::kDone;
      return;
    }
  }
}

void Search::end_round() {
  ++round_;
  const std::size_t leader = fastest(contenders());
  tell_round(leader);
  if (round_ >= kRoundsBeforeDrop) drop_slow_finalists(leader);
}

void Search::drop_slow_finalists(std::size_t leader) {
  for (const std::size_t i : finalists_) {
    if (i == leader || i == default_index_ || !stands(i)) continue;
    const auto comparison = compare_paired(candidates_[i].finals, candidates_[leader].finals);
    if (!comparison.slower_by(options_.margin)) continue;
    candidates_[i].out = true;
    SearchEvent event;
    event.kind = SearchEvent::Kind::kLeft;
    event.candidate = i;
    event.rivals = {rival(i, candidates_[i].finals.back(), comparison)};
    tell(std::move(event));
  }
}

// A rejected finalist may have left before it had any round.
bool Search::finals_count() const {
  return round_ >= kLeastRounds;
}

std::vector<std::size_t> Search::contenders() const {
  std::vector<std::size_t> standing, complete;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (!stands(i) || samples(i).empty()) continue;
    standing.push_back(i);
    if (screened_whole(candidates_[i]) || candidates_[i].restored) complete.push_back(i);
  }
  return complete.empty() ? standing : complete;
}

std::size_t Search::fastest(const std::vector<std::size_t>& of) const {
  return *std::min_element(of.begin(), of.end(), [&](std::size_t a, std::size_t b) {
    return median(samples(a)) < median(samples(b));
  });
}

std::optional<Search::Verdict> Search::verdict() const {
  const std::vector<std::size_t> pool = contenders();
  if (pool.empty()) return std::nullopt;
  const std::size_t leader = fastest(pool);
  const bool has_default = std::find(pool.begin(), pool.end(), default_index_) != pool.end();
  const auto beats_default = [&](std::size_t i) {
    return !has_default ||
           compare_paired(samples(i), samples(default_index_)).faster_by(options_.margin);
  };
  Verdict verdict{leader, std::nullopt, "winner", has_default ? Rule::kFaster : Rule::kNoDefault};
  verdict.fastest = leader;
  if (has_default && leader != default_index_) {
    verdict.against_default = compare_paired(samples(leader), samples(default_index_));
  }
  if (has_default && (leader == default_index_ || !beats_default(leader))) {
    verdict.winner = default_index_;
    verdict.kind = "default";
    verdict.rule = leader == default_index_ ? Rule::kDefaultFastest : Rule::kGainInNoise;
  } else {
    std::size_t equals = 0;
    for (auto i = pool.rbegin(); i != pool.rend(); ++i) {
      const auto comparison = compare_paired(samples(*i), samples(leader));
      const bool ties = *i != default_index_ && !comparison.slower_by(options_.margin) &&
                        comparison.ratio <= 1 + options_.tie_band && beats_default(*i);
      if (!ties && *i != leader) continue;
      verdict.winner = *i;
      ++equals;
    }
    if (equals > 1) {
      verdict.kind = "tie";
      verdict.rule = has_default ? Rule::kTie : Rule::kNoDefault;
    }
  }
  std::vector<std::size_t> rest;
  std::copy_if(pool.begin(), pool.end(), std::back_inserter(rest),
               [&](std::size_t i) { return i != verdict.winner; });
  if (!rest.empty()) verdict.runner_up = fastest(rest);
  return verdict;
}

}  // namespace rowsmith
