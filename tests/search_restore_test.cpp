// SPDX-License-Identifier: Apache-2.0
//
// The search where an earlier run is known: what it times again, what it takes over and at which
// clocks, and that no verdict rests on another run's times.
#include "tests/support/search_fixture.h"

#include <gtest/gtest.h>

namespace rowsmith {
namespace {

using testing::Bench;
using testing::told;

// Candidate 0 is the default. What is known of 1 .. by an earlier run, as their times then, when
// the default took 100.
void restore(Search& search, const std::vector<double>& times_then) {
  std::vector<Search::Earlier> known;
  for (std::size_t i = 1; i <= times_then.size(); ++i) {
    if (times_then[i - 1] > 0) known.push_back({i, times_then[i - 1] / 100});
  }
  search.restore(known);
}

SearchOptions two_finalists() {
  SearchOptions options;
  options.finalists = 2;
  return options;
}

TEST(SearchRestore, ScreensOnlyTheBestOfAnEarlierRunAndWhatThatDidNotReach) {
  Bench bench({100, 90, 60, 62, 300, 70}, 0, two_finalists());
  restore(bench.search(), {90, 60, 62, 300});
  EXPECT_EQ(bench.search().restored(), 0u) << "before the default is timed";
  EXPECT_EQ(told(bench, 3 + 2 * 3 + 3),
            (std::vector<std::string>{"screened 0", "restored 1", "restored 4", "screened 2",
                                      "screened 3", "screened 5", "cut 5 finalist band",
                                      "cut 1 finalist band", "cut 4 finalist band", "finals 2"}));
  EXPECT_EQ(bench.search().restored(), 2u);
  EXPECT_EQ(bench.search().screened(), 6u);
  EXPECT_EQ(bench.run().search().verdict()->winner, 2u);
  EXPECT_EQ(bench.taken(1) + bench.taken(4), 0);
}

TEST(SearchRestore, RestoresTimesAtTheClocksOfThisRun) {
  // All take 1.3 times as long as then: 3 is within the band of what is screened now.
  Bench bench({130, 1.3 * 63, 1.3 * 64, 1.3 * 60, 130}, 0, two_finalists());
  restore(bench.search(), {61, 62, 65});
  double of_third = 0;
  bench.search().on_event([&](const SearchEvent& event) {
    if (event.kind == SearchEvent::Kind::kRestored) of_third = event.ns;
  });
  bench.run(3);
  EXPECT_DOUBLE_EQ(of_third, 1.3 * 65);
}

TEST(SearchRestore, TimesARestoredCandidateInTheFinalsAnew) {
  // Of the two best known one no longer is: its place is for the third.
  Bench bench({100, 200, 60, 59}, 0, two_finalists());
  restore(bench.search(), {58, 60, 61});
  const auto verdict = bench.run().search().verdict();
  EXPECT_EQ(bench.search().finalists(), (std::vector<std::size_t>{2, 3, 0}));
  EXPECT_EQ(bench.taken(3), static_cast<int>(SearchOptions().final_rounds)) << "not screened";
  EXPECT_EQ(verdict->fastest, 3u);
  EXPECT_EQ(bench.search().samples(3), std::vector<double>(SearchOptions().final_rounds, 59));
}

TEST(SearchRestore, StoppedNeverStandsByATimeOfAnEarlierRun) {
  const std::vector<double> times = {100, 60, 61, 62, 90};
  const int screened = 3 + 2 * 3 + 3;
  for (int samples = 3; samples <= screened + 3 * 3; ++samples) {
    Bench bench(times, 0, two_finalists());
    restore(bench.search(), {80, 79, 10});  // 3 was ten times as fast as any is today
    bench.run(samples).search().stop();
    const std::size_t winner = bench.search().verdict()->winner;
    EXPECT_GT(bench.taken(winner), 0) << samples;
    EXPECT_EQ(bench.search().has_caught_up(), samples >= 9) << samples;
  }
}

TEST(SearchRestore, ForgetsAnEarlierRunWhereTheDefaultFails) {
  Bench bench({100, 90, 60, 62, 70}, 0, two_finalists());
  restore(bench.search(), {90, 60, 62, 70});
  bench.search().reject(0);
  bench.run();
  EXPECT_EQ(bench.search().restored(), 0u);
  for (std::size_t i = 1; i < 5; ++i) EXPECT_GT(bench.taken(i), 0) << i;
  EXPECT_EQ(bench.search().verdict()->winner, 2u);
}

TEST(SearchRestore, KeepsWhatIsRestoredWhenItStartsAnew) {
  Bench bench({100, 10, 70, 130, 200}, 0, two_finalists());
  restore(bench.search(), {10, 70, 130, 200});
  bench.run().search().reject(1);
  bench.search().restart("");
  EXPECT_EQ(bench.run().search().verdict()->winner, 2u);
  EXPECT_EQ(bench.taken(3) + bench.taken(4), 0);
}

TEST(SearchRestore, ComparesKeptCandidatesOfThisRunAlone) {
  Bench bench({100, 60, 80, 90}, 0, two_finalists(), {3});
  restore(bench.search(), {60, 80, 90});
  bench.run();
  EXPECT_NEAR(*bench.search().ratio(3, 1), 90.0 / 60, 1e-9);
  EXPECT_EQ(bench.search().restored(), 0u);
}

}  // namespace
}  // namespace rowsmith
