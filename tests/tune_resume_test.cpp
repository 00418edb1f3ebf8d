// SPDX-License-Identifier: Apache-2.0
//
// A search of all configs that is cut goes on where it was: what is kept of it and for how long,
// what the next run times and takes over, and that its winner is that of a whole run.
#include "tests/support/tune_fixture.h"
#include "tuner/tuning_lock.h"

#include <set>

namespace rowsmith {
namespace {

using testing::kProblem;
using testing::ScriptedDevice;
using testing::TuneTest;
using State = TuneOutcome::State;

constexpr std::size_t kBatch = 64;  // what a killed process loses at most

class TuneResume : public TuneTest {
 protected:
  TuneResume() { begin(); }

  // A new store and device; chosen_ are all configs.
  void begin() {
    open(kProblem);
    const std::vector<Config> legal = legal_configs(problem_, device_->facts());
    chosen_ = choose_candidates(legal, default_of(legal), {legal.size()});
    takes(other(20), 600);
    takes(other(150), 590);
    takes(other(200), 595);
    device_->script.cost = [this](const LaunchCall& call) {
      clock_ += 0.0001;
      const auto found = times_.find(ScriptedDevice::entry_of(call));
      return Result<double>(drift_ * (found == times_.end() ? 1e6 : found->second));
    };
  }
  // The next process: what it finds is the store.
  void reopen(const DeviceFacts& facts) {
    const testing::DeviceScript script = device_->script;
    const auto store = session_.store;
    device_ = std::make_shared<ScriptedDevice>(facts);
    device_->script = script;
    session_ = make_session(device_, RuntimeOptions());
    session_.store = store;
  }
  void reopen() { reopen(device_->facts()); }

  TuneSettings thorough() {
    TuneSettings all = settings();
    all.effort = Effort::kThorough;
    return all;
  }
  // The budget ends once so many candidates are screened.
  TuneOutcome tune_cut_after(std::size_t candidates, TuneSettings all) {
    all.budget_s = 1000;
    all.progress = [=, this](const TuneProgress& progress) {
      if (progress.candidate >= candidates) clock_ += 1000;
    };
    return tune_with(all);
  }
  TuneOutcome tune_cut_after(std::size_t candidates) {
    return tune_cut_after(candidates, thorough());
  }

  // The candidates that were on the device.
  std::set<std::size_t> launched() const {
    std::map<std::string, std::size_t> places;
    for (std::size_t i = 0; i < chosen_.configs.size(); ++i) places[entry(i)] = i;
    std::set<std::size_t> found;
    for (const auto& launch : device_->launches()) {
      const auto place = places.find(launch.entry);
      if (place != places.end()) found.insert(place->second);
    }
    return found;
  }
  std::vector<Screening> screenings() { return session_.store->list_screenings().value(); }

  double drift_ = 1;
};

TEST_F(TuneResume, TimesOnlyTheRestAndFindsTheWinnerOfAWholeRun) {
  const Config winner = tune_with(thorough()).record.config;
  EXPECT_EQ(winner, chosen_.configs[other(150)]);
  const std::size_t all = launched().size();
  EXPECT_EQ(all, chosen_.configs.size());
  EXPECT_TRUE(screenings().empty()) << "the search has ended";
  begin();
  const TuneOutcome cut = tune_cut_after(100);
  ASSERT_EQ(cut.state, State::kTuned);
  EXPECT_EQ(cut.record.config, chosen_.configs[other(20)]);
  EXPECT_EQ(cut.record.evidence.timed, 100);
  EXPECT_EQ(cut.restored, 0u);
  EXPECT_EQ(screenings().size(), 99u) << "all but the default";
  reopen();
  const TuneOutcome outcome = tune_with(thorough());
  ASSERT_EQ(outcome.state, State::kTuned);
  EXPECT_EQ(outcome.record.config, winner);
  EXPECT_FALSE(outcome.record.evidence.cut);
  const std::size_t finalists = plan_of(Effort::kThorough, device_->facts()).search.finalists;
  EXPECT_EQ(outcome.restored, 99 - finalists);
  EXPECT_EQ(launched().size(), all - outcome.restored);
  EXPECT_TRUE(screenings().empty());
  EXPECT_EQ(tune_with(thorough()).state, State::kKept);
}

TEST_F(TuneResume, CountsWhatIsRestoredAsTimedWhereItIsCutAgain) {
  tune_cut_after(100);
  reopen();
  const TuneOutcome again = tune_cut_after(180);
  ASSERT_EQ(again.state, State::kTuned);
  EXPECT_EQ(again.record.evidence.timed, 180);
  EXPECT_EQ(again.record.config, chosen_.configs[other(150)]);
  EXPECT_EQ(screenings().size(), 179u);
}

TEST_F(TuneResume, KeepsTheEarlierWinnerWhereItIsCutBeforeThatIsTimedAgain) {
  tune_cut_after(100);
  reopen();
  TuneSettings all = thorough();
  all.budget_s = 1e-6;
  const TuneOutcome again = tune_with(all);
  EXPECT_EQ(again.state, State::kKept);
  EXPECT_EQ(stored(problem_)->config, chosen_.configs[other(20)]);
}

TEST_F(TuneResume, FindsTheWinnerWhateverTheClocksAreInTheSecondRun) {
  for (const double drift : {1.3, 1 / 1.3}) {
    begin();
    // More of them near the best than are timed again.
    for (std::size_t i = 40; i < 60; ++i) takes(other(i), 640);
    drift_ = 1;
    tune_cut_after(170);
    reopen();
    drift_ = drift;
    const TuneOutcome outcome = tune_with(thorough());
    EXPECT_GT(outcome.restored, 0u);
    EXPECT_EQ(outcome.record.config, chosen_.configs[other(150)]) << drift;
    EXPECT_NEAR(outcome.record.evidence.median_ns, 590'000 * drift, 1);
  }
}

TEST_F(TuneResume, BeginsAnewForAnotherDriverCompilerOrFamilyText) {
  const DeviceFacts facts = device_->facts();
  DeviceFacts other_driver = facts, other_compiler = facts;
  ++other_driver.driver_version;
  other_compiler.compiler = "another";
  for (const auto& [now, digest] : {std::pair(other_driver, ""), std::pair(other_compiler, ""),
                                    std::pair(facts, "of an earlier text"), std::pair(facts, "")}) {
    begin();
    tune_cut_after(100);
    std::vector<Screening> changed = screenings();
    for (Screening& screening : changed) {
      if (*digest != '\0') screening.family_digest = digest;
    }
    ASSERT_TRUE(session_.store->put_screenings(changed).ok());
    reopen(now);
    const bool same = now.driver_version == facts.driver_version && now.compiler == facts.compiler;
    EXPECT_EQ(tune_with(thorough()).restored > 0, same && *digest == '\0');
  }
}

TEST_F(TuneResume, BeginsAnewBesideAnotherDefault) {
  tune_cut_after(100);
  std::vector<Screening> changed = screenings();
  for (Screening& screening : changed) screening.default_config = to_string(generic_config());
  ASSERT_TRUE(session_.store->put_screenings(changed).ok());
  reopen();
  EXPECT_EQ(tune_with(thorough()).restored, 0u);
}

TEST_F(TuneResume, KeepsNoTimeOfAWrongCandidate) {
  does(other(20), testing::Fault::kOffByOneColumn);
  tune_cut_after(100);
  EXPECT_EQ(screenings().size(), 98u);
  for (const Screening& screening : screenings()) {
    EXPECT_NE(screening.config, to_string(chosen_.configs[other(20)]));
  }
}

TEST_F(TuneResume, KeepsNoTimeOfAWrongCandidateThatWasInTheStoreAlready) {
  does(other(20), testing::Fault::kOffByOneColumn);
  TuneSettings all = thorough();
  bool stop = false;
  all.progress = [&](const TuneProgress& progress) {
    clock_ += 2;
    stop = progress.candidate >= 100;
  };
  all.stop = [&] { return stop; };
  tune_with(all);
  EXPECT_EQ(screenings().size(), 98u);
  for (const Screening& screening : screenings()) {
    EXPECT_NE(screening.config, to_string(chosen_.configs[other(20)]));
  }
}

TEST_F(TuneResume, KeepsNoTimesTakenBesideAnotherTuning) {
  const TuningLock other_process(directory_, device_->facts().uuid, 0, {});
  ASSERT_TRUE(other_process.held());
  ASSERT_EQ(tune_cut_after(100).state, State::kTuned);
  EXPECT_TRUE(screenings().empty());
}

TEST_F(TuneResume, CompilesEachRestoredFinalistOnce) {
  for (std::size_t i = 40; i < 60; ++i) takes(other(i), 640);
  tune_cut_after(170);
  reopen();
  // Those that are timed anew fall behind, and give their places to some that are restored.
  for (std::size_t i = 40; i < 47; ++i) takes(other(i), 900);
  std::set<std::string> restored, compiled;
  TuneSettings all = thorough();
  all.explain = [&](const SearchEvent& event) {
    const std::string entry = entry_name({problem_, chosen_.configs[event.candidate]});
    if (event.kind == SearchEvent::Kind::kRestored) restored.insert(entry);
    if (event.kind == SearchEvent::Kind::kCompiled) compiled.insert(entry);
  };
  tune_with(all);
  std::size_t finalists = 0;
  for (const std::size_t i : launched()) {
    if (restored.count(entry(i)) == 0) continue;
    ++finalists;
    const std::vector<std::string> entries = device_->compiled_entries();
    EXPECT_EQ(std::count(entries.begin(), entries.end(), entry(i)), 1) << entry(i);
    EXPECT_EQ(compiled.count(entry(i)), 1u) << "it is told";
  }
  EXPECT_GT(finalists, 1u);
}

TEST_F(TuneResume, ASearchOfSomeFamiliesIsNoneOfAll) {
  tune_cut_after(100);
  reopen();
  TuneSettings some = thorough();
  some.families = {"warp_rows"};
  const TuneOutcome limited = tune_with(some);
  ASSERT_EQ(limited.state, State::kTuned);
  EXPECT_EQ(limited.record.evidence.families, "warp_rows");
  EXPECT_FALSE(limited.record.evidence.cut);
  EXPECT_GT(limited.record.evidence.timed, 100);
  EXPECT_GE(screenings().size(), 99u) << "they are the whole search's";
  EXPECT_EQ(tune_with(some).state, State::kKept);
  const TuneOutcome whole = tune_with(thorough());
  ASSERT_EQ(whole.state, State::kTuned);
  EXPECT_EQ(whole.record.evidence.families, "");
  EXPECT_GT(whole.restored, 0u);
  EXPECT_TRUE(screenings().empty());
  EXPECT_EQ(tune_with(some).state, State::kKept) << "all families are more";
}

TEST_F(TuneResume, TellsWhatIsRestored) {
  tune_cut_after(100);
  reopen();
  std::size_t told = 0, ranked = 0;
  TuneSettings all = thorough();
  all.explain = [&](const SearchEvent& event) {
    ranked += event.kind == SearchEvent::Kind::kRanked;
    told += event.kind == SearchEvent::Kind::kRestored;
    if (event.kind == SearchEvent::Kind::kRestored) {
      EXPECT_DOUBLE_EQ(event.ns, 1e6);
      EXPECT_EQ(event.config, to_string(chosen_.configs[event.candidate]));
    }
  };
  EXPECT_EQ(tune_with(all).restored, told);
  EXPECT_GT(told, 0u);
  EXPECT_EQ(ranked, chosen_.configs.size());
}

TEST_F(TuneResume, AKilledProcessLosesOneBatchAtTheMost) {
  std::vector<Screening> left;
  TuneSettings all = thorough();
  all.progress = [&](const TuneProgress& progress) {
    if (progress.candidate > 200) return;
    const auto kept = session_.store->list_screenings().value();
    EXPECT_LE(progress.candidate, kept.size() + kBatch + 1);
    if (progress.candidate == 150) left = kept;
  };
  tune_with(all);
  EXPECT_GE(left.size(), 150 - kBatch - 1);
  EXPECT_LT(left.size(), 149u) << "in batches";
  begin();
  ASSERT_TRUE(session_.store->put_screenings(left).ok());
  const TuneOutcome outcome = tune_with(thorough());
  EXPECT_GE(outcome.restored, 150 - kBatch - 10);
  EXPECT_EQ(outcome.record.config, chosen_.configs[other(150)]);
}

TEST_F(TuneResume, KeepsEachOfSlowCandidatesAtOnce) {
  TuneSettings all = thorough();
  std::size_t most = 0;
  all.progress = [&](const TuneProgress& progress) {
    clock_ += 2;
    if (progress.candidate < 100) most = progress.candidate;
    if (progress.candidate == 100) {
      EXPECT_GE(session_.store->list_screenings()->size(), most - 1);
    }
  };
  tune_with(all);
  EXPECT_EQ(most, 99u);
}

TEST_F(TuneResume, GoesOnAfterAnInterrupt) {
  TuneSettings all = thorough();
  bool stop = false;
  all.progress = [&](const TuneProgress& progress) { stop = progress.candidate >= 100; };
  all.stop = [&] { return stop; };
  EXPECT_EQ(tune_with(all).state, State::kSkipped);
  EXPECT_EQ(screenings().size(), 99u);
  reopen();
  EXPECT_GT(tune_with(thorough()).restored, 80u);
}

TEST_F(TuneResume, KeepsNoScreeningsOfASearchThatTriesAFew) {
  TuneSettings few = settings();
  few.effort = Effort::kStandard;
  tune_cut_after(10, few);
  EXPECT_TRUE(screenings().empty());
}

}  // namespace
}  // namespace rowsmith
