// SPDX-License-Identifier: Apache-2.0
//
// A search of all configs that goes on where an earlier one was cut: its screenings are in the
// store until it ends.
#include "runtime/log.h"
#include "tuner/problem_tuner.h"

#include <rowsmith/text.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

namespace rowsmith {
namespace {

// What a killed process loses at most, whichever comes first.
constexpr std::size_t kUnsaved = 64;
constexpr double kUnsavedS = 1;

std::int64_t at_least_one(double ns) {
  return std::max<std::int64_t>(1, std::llround(ns));
}

}  // namespace

// Only times of what would be timed today: the same kernels by the same compiler and driver, beside
// the same default.
void ProblemTuner::restore_screenings() {
  saved_s_ = now();
  if (!keeps_screenings()) return;
  const auto found = session_.store->find_screenings(class_, outcome_.problem);
  if (!found.ok()) {
    log().warn("{}: what an earlier run screened is not known: {}", to_string(outcome_.problem),
               found.status().message());
    return;
  }
  if (found->empty()) return;
  for (const Screening& it : *found) saved_.insert(it.config);
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < chosen_.configs.size(); ++i) {
    places[to_string(chosen_.configs[i])] = i;
  }
  const std::string standard = to_string(chosen_.configs[chosen_.default_index]);
  std::map<std::size_t, double> ratios;
  for (const Screening& it : *found) {
    const auto place = places.find(it.config);
    if (place == places.end() || it.default_config != standard || it.compiler != facts_.compiler ||
        it.driver_version != facts_.driver_version ||
        it.family_digest != find_family(chosen_.configs[place->second].family)->digest()) {
      continue;
    }
    ratios[place->second] = static_cast<double>(it.median_ns) / static_cast<double>(it.default_ns);
  }
  std::vector<Search::Earlier> known;
  for (const auto& [candidate, ratio] : ratios) known.push_back({candidate, ratio});
  search_->restore(known);
}

// Of a candidate that was just screened or cut. Times without the default's are of no use to
// another run, nor are those that another process may have moved.
void ProblemTuner::keep_screening(std::size_t i) {
  const std::size_t standard = chosen_.default_index;
  if (!keeps_screenings() || i == standard || !candidates_[standard].verified ||
      lock_->contended()) {
    return;
  }
  const Config& config = chosen_.configs[i];
  unsaved_.push_back({class_, outcome_.problem, to_string(config), at_least_one(median_ns(i)),
                      to_string(chosen_.configs[standard]), at_least_one(median_ns(standard)),
                      std::string(find_family(config.family)->digest()), facts_.compiler,
                      facts_.driver_version});
  if (unsaved_.size() >= kUnsaved || now() - saved_s_ >= kUnsavedS) save_screenings();
}

void ProblemTuner::save_screenings() {
  if (unsaved_.empty()) return;
  for (const Screening& it : unsaved_) saved_.insert(it.config);
  const Status saved = session_.store->put_screenings(std::exchange(unsaved_, {}));
  if (!saved.ok()) log().warn("{}: screenings: {}", to_string(outcome_.problem), saved.message());
  saved_s_ = now();
}

// No later run may take over what this one found wanting.
void ProblemTuner::forget_screening(std::size_t i) {
  const std::string config = to_string(chosen_.configs[i]);
  std::erase_if(unsaved_, [&](const Screening& screening) { return screening.config == config; });
  if (saved_.erase(config) == 0) return;
  Screening screening;
  screening.device_class = class_;
  screening.problem = outcome_.problem;
  screening.config = config;
  const Status erased = session_.store->erase_screenings({screening});
  if (!erased.ok()) log().warn("{}: screenings: {}", to_string(outcome_.problem), erased.message());
}

// Where the search ended whole and no record that the store takes says so.
void ProblemTuner::end_screenings() {
  if (!keeps_screenings() || search_->was_stopped() || !settings_.families.empty()) return;
  const auto found = session_.store->find_screenings(class_, outcome_.problem);
  const Status ended = found.ok() ? session_.store->erase_screenings(*found) : found.status();
  if (!ended.ok()) log().warn("{}: screenings: {}", to_string(outcome_.problem), ended.message());
}

}  // namespace rowsmith
