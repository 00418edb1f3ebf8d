// SPDX-License-Identifier: Apache-2.0
//
// The search on synthetic times: no device, no clock, seeded noise.
#include "tests/support/search_fixture.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rowsmith {
namespace {

using testing::Bench;
using testing::noise;
using testing::told;

TEST(Search, FindsTheFastestAndTheRunnerUp) {
  Bench bench({100, 90, 60, 80, 95});
  const auto verdict = bench.run().search().verdict();
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->winner, 2u);
  EXPECT_EQ(verdict->kind, "winner");
  EXPECT_EQ(verdict->runner_up, 0u);  // of the finalists: 3 was beyond the band, the default never
}

TEST(Search, ScreensTheDefaultFirstAndTimesItInTheFinals) {
  Bench bench({100, 60, 300}, 2);
  EXPECT_EQ(bench.search().next().candidate, 2u);
  bench.run();
  EXPECT_EQ(bench.search().samples(2).size(), SearchOptions().final_rounds);
  EXPECT_EQ(bench.search().verdict()->winner, 1u);
}

TEST(Search, KeepsTheDefaultForAGainWithinTheMargin) {
  const auto verdict = Bench({100, 99.5}).run().search().verdict();
  EXPECT_EQ(verdict->winner, 0u);
  EXPECT_EQ(verdict->kind, "default");
}

TEST(Search, KeepsTheDefaultForAGainWithinTheNoise) {
  int left = 0;
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    Bench bench({100, 100, 100, 100});
    left += bench.with(noise(0.05, seed)).run().search().verdict()->kind != "default" ? 1 : 0;
  }
  EXPECT_LE(left, 5);
}

TEST(Search, BreaksTiesByRankSoThatTwoRunsAgree) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    Bench bench({100, 60.2, 60, 60.1});
    const auto verdict = bench.with(noise(0.002, seed)).run().search().verdict();
    EXPECT_EQ(verdict->winner, 1u) << seed;
    EXPECT_EQ(verdict->kind, "tie") << seed;
  }
}

TEST(Search, C44_StopsACandidateFarBehindAfterOneSample) {
  Bench bench({100, 7000, 150, 90});
  bench.run();
  EXPECT_EQ(bench.taken(1), 1);
  EXPECT_EQ(bench.taken(2), 2);  // within the first cut, beyond the second
  EXPECT_EQ(bench.search().verdict()->winner, 3u);
}

TEST(Search, C37_IsNotWonByOneOptimisticOutlier) {
  // The worst variant is once a hundred times too fast: in screening, then in the finals.
  for (const int outlier : {0, 1, 2, 3, 8}) {
    Bench bench({100, 98, 130, 80});
    bench.with([&](std::size_t i, int nth, double ns) {
      return i == 2 && nth == outlier ? ns / 100 : ns;
    });
    EXPECT_EQ(bench.run().search().verdict()->winner, 3u) << outlier;
  }
}

TEST(Search, DoesNotCutTheRestBecauseOfOneOutlier) {
  Bench bench({100, 98, 80});
  bench.with([](std::size_t i, int nth, double ns) { return i == 0 && nth == 0 ? 0.5 : ns; });
  bench.run();
  EXPECT_GE(bench.taken(2), 3);
  EXPECT_EQ(bench.search().verdict()->winner, 2u);
}

TEST(Search, C43_StillFindsAWinnerUnderConstantMildNoise) {
  int found = 0;
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    Bench bench({100, 95, 80, 97, 110});
    const auto verdict = bench.with(noise(0.03, seed)).run().search().verdict();
    ASSERT_TRUE(verdict);
    found += verdict->winner == 2 ? 1 : 0;
  }
  EXPECT_GE(found, 49);
}

TEST(Search, C39_IsNotMisledByAClockThatSlowsDown) {
  double clock = 1;
  Bench bench({100, 90, 96});
  bench.with([&](std::size_t, int, double ns) { return ns * (clock *= 1.004); });
  EXPECT_EQ(bench.run().search().verdict()->winner, 1u);
}

TEST(Search, GoesOnWithoutRejectedCandidates) {
  Bench bench({100, 10, 70});
  bench.search().reject(1);
  EXPECT_EQ(bench.run().search().verdict()->winner, 2u);
  bench.search().reject(2);  // the winner fails its last check
  EXPECT_EQ(bench.search().verdict()->winner, 0u);
  EXPECT_EQ(bench.search().verdict()->kind, "default");
  bench.search().reject(0);
  EXPECT_FALSE(bench.search().verdict());
}

TEST(Search, RestartedAfterARejectionFindsWhatTheRejectedHadCut) {
  Bench bench({100, 10, 70});
  EXPECT_EQ(bench.run().search().verdict()->winner, 1u);
  EXPECT_EQ(bench.taken(2), 1);
  bench.search().reject(1);
  bench.search().restart("");
  EXPECT_EQ(bench.run().search().verdict()->winner, 2u);
}

TEST(Search, ReadmitsWhatWasRejected) {
  Bench bench({100, 90});
  bench.search().reject(0);
  bench.search().reject(1);
  bench.search().readmit(1);
  bench.search().restart("");
  EXPECT_EQ(bench.run().search().verdict()->winner, 1u);
}

TEST(Search, HasAWinnerWhenTheDefaultFails) {
  Bench bench({100, 80, 70});
  bench.search().reject(0);
  EXPECT_EQ(bench.run().search().verdict()->winner, 2u);
  EXPECT_EQ(bench.search().verdict()->kind, "winner");
}

TEST(Search, IsDoneAtOnceWhenAllFail) {
  Search search({}, 2, 0);
  search.reject(0);
  search.reject(1);
  EXPECT_EQ(search.next().stage, Search::Stage::kDone);
  EXPECT_FALSE(search.verdict());
}

TEST(Search, StoppedAtAnySampleHasTheBestSoFar) {
  const int all = Bench({100, 90, 60, 80}).run().all_taken();
  for (int samples = 1; samples <= all; ++samples) {
    Bench bench({100, 90, 60, 80});
    bench.run(samples).search().stop();
    EXPECT_EQ(bench.search().next().stage, Search::Stage::kDone);
    const auto verdict = bench.search().verdict();
    ASSERT_TRUE(verdict) << samples;
    EXPECT_EQ(verdict->winner, samples < 6 ? 0u : samples < 9 ? 1u : 2u) << samples;
  }
}

TEST(Search, OfOneCandidateTimesIt) {
  Bench bench({100});
  EXPECT_EQ(bench.run().search().verdict()->kind, "default");
  EXPECT_EQ(bench.search().samples(0).size(), SearchOptions().final_rounds);
  EXPECT_FALSE(bench.search().verdict()->runner_up);
}

TEST(Search, SpendsLessThanTwoSamplesOnMostOfALargeSpace) {
  for (const std::size_t count : {500, 1000, 2000}) {
    std::vector<double> times;
    for (std::size_t i = 0; i < count; ++i) times.push_back(100 + static_cast<double>(i));
    Bench bench(times);
    bench.with(noise(0.01, 7)).run();
    EXPECT_LT(bench.all_taken(), 2 * static_cast<int>(count));
    EXPECT_EQ(bench.search().screened(), count);
  }
}

TEST(Search, TellsTheBestSoFarAfterEverySample) {
  Bench bench({100, 90, 60, 80});
  EXPECT_FALSE(bench.search().best_ns());
  EXPECT_FALSE(bench.run(2).search().best_ns());  // the default is not screened to the end
  for (const double best : {100, 90, 60, 60}) {
    EXPECT_DOUBLE_EQ(*bench.run(best == 100 ? 1 : 3).search().best_ns(), best);
  }
  bench.run().search().reject(2);
  EXPECT_DOUBLE_EQ(*bench.search().best_ns(), 100);  // of the finalists that are left
}

TEST(Search, TimesKeptCandidatesInTheFinalsBesideTheBest) {
  SearchOptions options;
  options.finalists = 2;
  // 1 and 5 are kept: one beyond the band and the later cuts, one among the best anyway.
  Bench bench({100, 150, 60, 62, 63, 61}, 0, options, {1, 5});
  bench.with([](std::size_t i, int, double ns) { return i == 1 ? 110.0 : ns; }).run();
  EXPECT_EQ(bench.search().finalists(), (std::vector<std::size_t>{2, 5, 1, 0}));
  EXPECT_EQ(bench.search().verdict()->winner, 2u);
  EXPECT_NEAR(*bench.search().ratio(1, 2), 110.0 / 60, 1e-9);
  EXPECT_NEAR(*bench.search().ratio(5, 2), 61.0 / 60, 1e-9);
}

TEST(Search, KeptCandidatesMayWin) {
  Bench bench({100, 99, 60}, 0, {}, {2});
  EXPECT_EQ(bench.run().search().verdict()->winner, 2u);
}

TEST(Search, AKeptCandidateFarBehindIsComparedByItsScreening) {
  Bench bench({100, 60, 7000}, 0, {}, {2});
  bench.run();
  EXPECT_EQ(bench.taken(2), 1);
  EXPECT_EQ(bench.search().finalists(), (std::vector<std::size_t>{1, 0}));
  EXPECT_NEAR(*bench.search().ratio(2, 1), 7000.0 / 60, 1e-9);
}

TEST(Search, HasNoRatioOfWhatFailedOrWasNotReached) {
  Bench bench({100, 60, 80}, 0, {}, {2});
  EXPECT_FALSE(bench.run(9).search().ratio(2, 1));  // screened, but no finals yet
  EXPECT_FALSE(bench.run(6).search().ratio(2, 1));  // two rounds
  EXPECT_NEAR(*bench.run(3).search().ratio(2, 1), 80.0 / 60, 1e-9);
  bench.search().reject(2);
  EXPECT_FALSE(bench.search().ratio(2, 1));
}

TEST(Search, KeepsKeptCandidatesWhenItStartsAnew) {
  Bench bench({100, 10, 70, 130}, 0, {}, {3});
  bench.run().search().reject(1);
  bench.search().restart("");
  bench.run();
  EXPECT_EQ(bench.search().finalists(), (std::vector<std::size_t>{2, 3, 0}));
  EXPECT_NEAR(*bench.search().ratio(3, 2), 130.0 / 70, 1e-9);
}

SearchOptions refining(std::size_t after) {
  SearchOptions options;
  options.refine_after = after;
  return options;
}

TEST(Search, AsksOnceForMoreAndTimesThemLikeTheOthers) {
  Bench bench({100, 90, 80, 95}, 0, refining(3));
  bench.then({70, 6000}).run();
  EXPECT_EQ(bench.asked_at(), std::vector<std::size_t>{3});
  EXPECT_EQ(bench.search().verdict()->winner, 4u);
  EXPECT_EQ(bench.taken(5), 1);  // beyond the first cut
  EXPECT_EQ(bench.search().screened(), 6u);
}

TEST(Search, GoesToTheFinalsWhereNoneJoin) {
  Bench bench({100, 90, 80}, 0, refining(3));
  EXPECT_EQ(bench.run().search().verdict()->winner, 2u);
  EXPECT_EQ(bench.asked_at(), std::vector<std::size_t>{3});
  EXPECT_TRUE(Bench({100, 90}, 0, refining(3)).run().asked_at().empty());
}

TEST(Search, TellsTheBestSoFarForOthersToBeNear) {
  Bench bench({80, 75, 60, 70, 5000}, 0, refining(5));
  bench.run(13);
  ASSERT_EQ(bench.search().next().stage, Search::Stage::kRefining);
  EXPECT_EQ(bench.search().best(2), (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(bench.search().best(9), (std::vector<std::size_t>{2, 3, 1, 0}));
  bench.search().reject(2);
  EXPECT_EQ(bench.search().best(1), std::vector<std::size_t>{3});
}

TEST(Search, AsksThoughTheLastToBeScreenedFail) {
  Bench bench({100, 90, 80}, 0, refining(3));
  bench.run(6);
  bench.search().reject(2);
  EXPECT_EQ(bench.then({50}).run().search().verdict()->winner, 3u);
}

TEST(Search, ScreensThoseThatJoinedAnewAndAsksForNoMore) {
  Bench bench({100, 90, 10}, 0, refining(2));
  bench.then({70, 80}).run().search().reject(2);
  bench.search().restart("");
  bench.run();
  EXPECT_EQ(bench.asked_at().size(), 1u);
  EXPECT_EQ(bench.search().verdict()->winner, 3u);
}

TEST(Search, StoppedWhileItWaitsForMoreHasTheBestSoFar) {
  Bench bench({100, 90, 80}, 0, refining(3));
  bench.run(9);
  ASSERT_EQ(bench.search().next().stage, Search::Stage::kRefining);
  bench.search().stop();
  EXPECT_EQ(bench.search().verdict()->winner, 2u);
  EXPECT_EQ(bench.search().next().stage, Search::Stage::kDone);
}

TEST(Search, TellsEveryDecisionInOrder) {
  SearchOptions options;
  options.finalists = 1;
  options.final_rounds = 7;
  Bench bench({100, 7000, 150, 90, 98, 120}, 0, options);
  EXPECT_EQ(told(bench),
            (std::vector<std::string>{"screened 0", "cut 1 first sample", "cut 2 least sample",
                                      "screened 3", "screened 4", "cut 5 least sample",
                                      "cut 4 finalist count", "finals 3", "round 3", "round 3",
                                      "round 3", "round 3", "round 3", "round 3", "round 3"}));
  const auto verdict = bench.search().verdict();
  EXPECT_EQ(verdict->rule, SearchEvent::Rule::kFaster);
  EXPECT_DOUBLE_EQ(verdict->against_default->ratio, 0.9);
}

TEST(Search, TellsWhichFinalistsLeaveAndThatTheTimeIsUp) {
  SearchOptions options;
  options.screen_samples = 1;
  Bench leaving({100, 110, 90}, 0, options);
  const std::vector<std::string> lines = told(leaving, 3 + 2 * 6);
  EXPECT_EQ(lines[2], "screened 2");
  EXPECT_EQ(lines[3], "cut 1 finalist band");
  Bench close({120, 100, 110}, 0, options);
  EXPECT_EQ(told(close, 3 + 3 * 6).back(), "left 2");
  Bench stopped({100, 90});
  std::vector<std::string> last;
  told(stopped, 4);
  stopped.search().on_event(
      [&](const SearchEvent& event) { last.push_back(to_string(event.kind)); });
  stopped.search().stop();
  stopped.search().stop();
  EXPECT_EQ(last, std::vector<std::string>{"stopped"});
}

TEST(Search, HasTheNextBestLeadWhereTheLeaderIsRejected) {
  Bench bench({100, 60, 70, 65});
  EXPECT_FALSE(bench.search().leader());
  bench.run(9);  // three samples each of the first three
  EXPECT_EQ(bench.search().leader(), 1u);
  bench.search().reject(1);
  EXPECT_EQ(bench.search().leader(), 2u);
  EXPECT_EQ(bench.search().best_ns(), 70);
  bench.run(3);
  EXPECT_EQ(bench.search().leader(), 3u);
}

}  // namespace
}  // namespace rowsmith
