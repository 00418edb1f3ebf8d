// SPDX-License-Identifier: Apache-2.0
//
// The language of the search's tests: synthetic times, seeded noise, decisions as text.
#pragma once

#include "tuner/search.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace rowsmith::testing {

// Runs a search over candidates with the given true times; `distort` may change a sample, given the
// candidate, how many of its samples came before, and the time.
class Bench {
 public:
  using Distort = std::function<double(std::size_t candidate, int nth, double ns)>;

  explicit Bench(std::vector<double> times, std::size_t default_index = 0,
                 SearchOptions options = {}, const std::vector<std::size_t>& kept = {})
      : times_(std::move(times)),
        taken_(times_.size()),
        search_(options, times_.size(), default_index, kept) {}

  Bench& with(Distort distort) {
    distort_ = std::move(distort);
    return *this;
  }
  // Those that join once the search asks for more.
  Bench& then(const std::vector<double>& times) {
    further_ = times;
    return *this;
  }
  Bench& run(int most_samples = 1 << 20) {
    while (most_samples-- > 0 && search_.next().stage != Search::Stage::kDone) {
      if (search_.next().stage == Search::Stage::kRefining) {
        asked_at_.push_back(search_.screened());
        times_.insert(times_.end(), further_.begin(), further_.end());
        taken_.resize(times_.size());
        search_.refine(further_.size());
        continue;
      }
      const std::size_t i = search_.next().candidate;
      const int nth = taken_[i]++;
      search_.report(distort_ ? distort_(i, nth, times_[i]) : times_[i]);
    }
    return *this;
  }
  Search& search() { return search_; }
  int taken(std::size_t candidate) const { return taken_[candidate]; }
  // How many were screened each time that it asked for more.
  const std::vector<std::size_t>& asked_at() const { return asked_at_; }
  int all_taken() const { return std::accumulate(taken_.begin(), taken_.end(), 0); }

 private:
  std::vector<double> times_, further_;
  std::vector<int> taken_;
  std::vector<std::size_t> asked_at_;
  Search search_;
  Distort distort_;
};

inline Bench::Distort noise(double sigma, std::uint32_t seed) {
  auto random = std::make_shared<std::mt19937>(seed);
  return [=](std::size_t, int, double ns) {
    return ns * std::max(0.01, std::normal_distribution<double>(1, sigma)(*random));
  };
}

// The events of a run, as "kind candidate [rule]".
inline std::vector<std::string> told(Bench& bench, int most_samples = 1 << 20) {
  std::vector<std::string> lines;
  bench.search().on_event([&](const SearchEvent& event) {
    lines.push_back(to_string(event.kind) + (" " + std::to_string(event.candidate)));
    if (event.rule != SearchEvent::Rule::kNone)
      lines.back() += std::string(" ") + to_string(event.rule);
  });
  bench.run(most_samples).search().on_event({});
  return lines;
}

}  // namespace rowsmith::testing
