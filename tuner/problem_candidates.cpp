// SPDX-License-Identifier: Apache-2.0
//
// Which configs of a problem are tried, and their kernels.
#include "tuner/problem_tuner.h"

#include <algorithm>

namespace rowsmith {
namespace {

// So many of the best, near which others join a search.
constexpr std::size_t kRefined = 2;

}  // namespace

// The candidates, and generic to compare the winner with, begin to be compiled.
void ProblemTuner::begin_builds(std::vector<Config> legal) {
  const Problem& problem = outcome_.problem;
  const Config standard = default_of(legal);
  if (!settings_.families.empty()) {
    const auto& names = settings_.families;
    std::erase_if(legal, [&](const Config& config) {
      return std::find(names.begin(), names.end(), config.family) == names.end();
    });
  }
  neighbours_ = find_neighbours(session_, problem);
  chosen_ = choose_candidates(legal, standard, room_for(plan_.candidates), neighbours_.configs());
  candidates_.resize(chosen_.configs.size());
  SearchOptions options = plan_.search;
  if (plan_.near > 0) options.refine_after = candidates_.size() - candidates_.size() / 4;
  ranked_ = std::move(legal);
  search_.emplace(options, candidates_.size(), chosen_.default_index, chosen_.kept);
  if (settings_.explain) {
    search_->on_event([this](SearchEvent event) { explain(std::move(event)); });
  }
  explain_ranks(0);
  restore_screenings();
  start_builds();
}

// Those that are restored are built when they reach the finals.
void ProblemTuner::start_builds() {
  const Problem& problem = outcome_.problem;
  std::vector<Config> configs;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (search_->is_restored(i)) continue;
    candidates_[i].build = configs.size();
    configs.push_back(chosen_.configs[i]);
  }
  const Config generic = generic_config();
  if (session_.modules->loaded(problem, generic) == nullptr) {
    const auto found = std::find(configs.begin(), configs.end(), generic);
    generic_ = static_cast<std::size_t>(found - configs.begin());
    if (found == configs.end()) configs.push_back(generic);
  }
  builds_.emplace(session_, problem, configs, *candidates_[chosen_.default_index].build,
                  BuildMeans{threads_, settings_.compile, settings_.front_ends});
}

// Of the seconds as large a share as of all places.
Room ProblemTuner::room_for(std::size_t places) const {
  Room room;
  room.places = places;
  if (plan_.compile_s > 0) {
    const double all = static_cast<double>(plan_.candidates + plan_.near);
    room.compile_s = plan_.compile_s * static_cast<double>(places) / all;
    room.cost = [this](const Config& config) {
      return compile_s(outcome_.problem, facts_, config);
    };
  }
  return room;
}

// What is near the best so far joins, while the last of the others are still being compiled.
void ProblemTuner::refine() {
  std::vector<Config> best;
  for (const std::size_t i : search_->best(kRefined)) best.push_back(chosen_.configs[i]);
  const std::vector<Config> further =
      choose_near(ranked_, chosen_.configs, best, room_for(plan_.near));
  const std::size_t before = candidates_.size();
  std::size_t build = builds_->add(further);
  for (const Config& config : further) {
    chosen_.configs.push_back(config);
    candidates_.emplace_back().build = build++;
  }
  explain_ranks(before);
  search_->refine(further.size());
}

Status ProblemTuner::take_build(std::size_t i) {
  if (!candidates_[i].build) candidates_[i].build = builds_->add({chosen_.configs[i]});
  const BuiltCandidate built = builds_->take(*candidates_[i].build);
  if (!built.status.ok()) return built.status;
  candidates_[i].plan = make_plan(outcome_.problem, facts_, chosen_.configs[i], built.kernel);
  candidates_[i].built = true;
  explain_build(i);
  return {};
}

Status ProblemTuner::build_alone(std::size_t i) {
  const Config& config = chosen_.configs[i];
  const auto& build = candidates_[i].build;
  Result<const Kernel*> kernel = session_.modules->get(
      outcome_.problem, config, build ? builds_->compiled_alone(*build) : nullptr);
  if (!kernel.ok()) return kernel.status();
  candidates_[i].plan = make_plan(outcome_.problem, facts_, config, *kernel);
  return {};
}

}  // namespace rowsmith
