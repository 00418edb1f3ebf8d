// SPDX-License-Identifier: Apache-2.0
//
// What a tuning learns of its neighbours in S, and lists that grow by what lies between: on a
// scripted device whose times depend on config and S.
#include "kernel_templates/params.cuh"
#include "runtime/ladder.h"
#include "tests/support/tune_fixture.h"

#include <cstring>
#include <set>

namespace rowsmith {
namespace {

using testing::Fault;
using testing::kProblem;
using testing::ScriptedDevice;
using testing::TuneTest;
using State = TuneOutcome::State;

class TuneBucketsTest : public TuneTest {
 protected:
  TuneBucketsTest() {
    device_->script.cost = [this](const LaunchCall& call) {
      clock_ += 0.001;
      rowsmith_params::RowsParams params{};
      if (call.param_bytes >= sizeof params) std::memcpy(&params, call.params, sizeof params);
      double us = 1000;
      for (const Times& times : times_at_) {
        const bool meant = times.entry == ScriptedDevice::entry_of(call);
        if (meant && times.rows.holds(params.rows)) us = times.us;
      }
      return Result<double>(us * 1000);
    };
  }

  static Problem at(std::int64_t rows) {
    Problem problem = kProblem;
    problem.rows = rows;
    return problem;
  }
  const Config& config(std::size_t nth) const { return chosen_.configs[other(nth)]; }
  // Microseconds at these S, where all else takes 1000.
  void takes_at(RowRange rows, const Config& config, double us) {
    times_at_.push_back({rows, entry_name({problem_, config}), us});
  }
  TuneOutcome tune_at(std::int64_t rows, TuneSettings with) {
    FloorMeter floor;
    return tune_problem(session_, at(rows), with, floor);
  }
  Evidence tuned_at(std::int64_t rows) {
    const TuneOutcome outcome = tune_at(rows, settings());
    EXPECT_EQ(outcome.state, State::kTuned) << outcome.status.to_string();
    return outcome.record.evidence;
  }
  void store(std::int64_t rows, const Config& config) {
    WinnerRecord record;
    record.device_class = device_class(device_->facts());
    record.problem = at(rows);
    record.config = config;
    record.family_digest = std::string(find_family(config.family)->digest());
    record.evidence.median_ns = 1;
    ASSERT_TRUE(session_.store->put(record).ok());
  }
  TuneReport run(TuneRequest request, const std::function<bool()>& stop = {}) {
    request.effort = Effort::kQuick;
    return tune_all(
        session_, request, [&](const TuneProgress& it) { progress_.push_back(it); }, stop,
        settings());
  }
  static std::vector<std::pair<std::int64_t, State>> states(const TuneReport& report) {
    std::vector<std::pair<std::int64_t, State>> all;
    for (const TuneOutcome& outcome : report.outcomes) {
      all.emplace_back(outcome.problem.rows, outcome.state);
    }
    return all;
  }

  struct Times {
    RowRange rows;
    std::string entry;
    double us;
  };
  std::vector<Times> times_at_;
  std::vector<TuneProgress> progress_;
};

constexpr RowRange kAllRows{1, 1 << 20};

void expect_reuse(const Reuse& reuse, std::int64_t rows, const Config& config, double ratio) {
  EXPECT_EQ(reuse.rows, rows);
  EXPECT_EQ(reuse.config, to_string(config));
  EXPECT_NEAR(reuse.ratio, ratio, 1e-9);
}

TEST_F(TuneBucketsTest, MeasuresWhatTheConfigsOfBothNeighboursCostHere) {
  takes_at({1, 7}, config(1), 700);
  takes_at({8, 31}, config(2), 600);
  takes_at({8, 31}, config(1), 630);
  takes_at({8, 31}, config(3), 840);  // beyond what screening lets through, were it no neighbour
  takes_at({32, 64}, config(3), 500);
  EXPECT_EQ(tuned_at(4).below.rows, 0);
  const Evidence top = tuned_at(64);
  expect_reuse(top.below, 4, config(1), 2);
  EXPECT_EQ(top.above.rows, 0);
  const Evidence middle = tuned_at(16);
  EXPECT_EQ(stored(at(16))->config, config(2));
  expect_reuse(middle.below, 4, config(1), 1.05);
  expect_reuse(middle.above, 64, config(3), 1.4);
  expect_reuse(stored(at(16))->evidence.above, 64, config(3), 1.4);
}

TEST_F(TuneBucketsTest, TakesNeighboursIntoTheFinalsWhateverTheirScreeningSays) {
  store(2, config(1));
  store(64, config(4));
  takes_at(kAllRows, config(2), 600);  // all others are beyond the cut
  std::set<std::string> finalists;
  TuneSettings with = settings();
  with.explain = [&](const SearchEvent& event) {
    if (event.kind != SearchEvent::Kind::kFinals) return;
    for (const SearchEvent::Rival& rival : event.rivals) {
      finalists.insert(to_string(chosen_.configs[rival.candidate]));
    }
  };
  tune_at(4, with);
  EXPECT_EQ(finalists,
            (std::set<std::string>{to_string(config(1)), to_string(config(2)), to_string(config(4)),
                                   to_string(chosen_.configs[chosen_.default_index])}));
}

TEST_F(TuneBucketsTest, KnowsWithoutMeasuringThatTheSameConfigLosesNothing) {
  takes_at(kAllRows, config(1), 700);
  tuned_at(4);
  const Evidence evidence = tuned_at(64);
  EXPECT_EQ(evidence.below.rows, 4);
  EXPECT_EQ(evidence.below.ratio, 1);
}

TEST_F(TuneBucketsTest, ANeighbourFarBehindIsMeasuredByItsScreening) {
  takes_at({1, 7}, config(1), 700);
  takes_at({8, 64}, config(1), 9000);
  takes_at({8, 64}, config(2), 500);
  tuned_at(4);
  expect_reuse(tuned_at(64).below, 4, config(1), 18);
}

TEST_F(TuneBucketsTest, TriesANeighbourThatItsRankWouldNotAdmit) {
  const std::vector<Config> legal = legal_configs(problem_, device_->facts());
  const std::set<std::string> chosen = [&] {
    std::set<std::string> texts;
    for (const Config& each : chosen_.configs) texts.insert(to_string(each));
    return texts;
  }();
  const auto late = std::find_if(legal.begin(), legal.end(), [&](const Config& each) {
    return chosen.count(to_string(each)) == 0;
  });
  ASSERT_NE(late, legal.end());
  store(64, *late);
  takes_at(kAllRows, *late, 400);
  const Evidence evidence = tuned_at(4);
  EXPECT_EQ(evidence.candidates, static_cast<std::int64_t>(all_tried() + 1));
  EXPECT_EQ(stored(at(4))->config, *late);
  expect_reuse(evidence.above, 64, *late, 1);
}

TEST_F(TuneBucketsTest, AWinnerThatMayNotServeIsNoNeighbour) {
  store(2, config(1));
  Config illegal = config(1);
  illegal.params.back().second = "no-such-value";
  store(3, illegal);
  expect_reuse(tuned_at(4).below, 2, config(1), 1);  // both take what all others take
}

TEST_F(TuneBucketsTest, ARejectedNeighbourIsNamedButNotMeasured) {
  store(2, config(1));
  faults_[entry_name({problem_, config(1)})] = Fault::kLastColumnUnwritten;
  expect_reuse(tuned_at(4).below, 2, config(1), 0);
}

TEST_F(TuneBucketsTest, ANeighbourOfAFamilyThatIsNotWantedIsNotTried) {
  const auto foreign =
      std::find_if(chosen_.configs.begin(), chosen_.configs.end(), [&](const Config& each) {
        return each.family != chosen_.configs[chosen_.default_index].family;
      });
  ASSERT_NE(foreign, chosen_.configs.end());
  store(2, *foreign);
  TuneSettings with = settings();
  with.families = {chosen_.configs[chosen_.default_index].family};
  takes_at(kAllRows, *foreign, 10);
  const TuneOutcome outcome = tune_at(4, with);
  EXPECT_NE(outcome.record.config, *foreign);
  expect_reuse(outcome.record.evidence.below, 2, *foreign, 0);
}

TEST_F(TuneBucketsTest, ABudgetThatEndsBeforeTheFinalsLeavesReuseUnmeasured) {
  store(2, config(3));
  TuneSettings limited = settings();
  limited.budget_s = 1e-6;
  const TuneOutcome outcome = tune_at(4, limited);
  ASSERT_EQ(outcome.state, State::kTuned) << outcome.status.to_string();
  expect_reuse(outcome.record.evidence.below, 2, config(3), 0);
}

// S = 2 and 64 with the border of their configs above 12.
class TuneFrameTest : public TuneBucketsTest {
 protected:
  TuneFrameTest() {
    takes_at({1, 12}, config(1), 500);
    takes_at({13, 1 << 20}, config(2), 500);
    request_.problems = {at(2), at(64)};
    request_.buckets = true;
  }
  TuneRequest request_;
};

TEST_F(TuneFrameTest, GrowsByTheMiddlesUntilTheBorderIsFound) {
  const TuneReport report = run(request_);
  EXPECT_EQ(states(report), (std::vector<std::pair<std::int64_t, State>>{{2, State::kTuned},
                                                                         {64, State::kTuned},
                                                                         {11, State::kTuned},
                                                                         {26, State::kTuned},
                                                                         {16, State::kTuned}}));
  EXPECT_EQ(progress_.front().problems, 2u);
  EXPECT_EQ(progress_.back().problem, 4u);
  EXPECT_EQ(progress_.back().problems, 5u);
  EXPECT_EQ(progress_.back().in_hand, at(16));
}

TEST_F(TuneFrameTest, LeavesNoSOfTheFrameToTheDefault) {
  run(request_);
  for (std::int64_t rows = 2; rows <= 64; ++rows) {
    const Problem asked = at(rows);
    const auto winners = session_.store->find_same_cols(device_class(device_->facts()), asked);
    const Result<Choice> choice = choose({asked, device_->facts(), *winners, nullptr, {}});
    ASSERT_TRUE(choice.ok());
    EXPECT_TRUE(choice->source == Source::kExact || choice->source == Source::kNearest) << rows;
    if (rows <= 11) {
      EXPECT_EQ(choice->config, config(1)) << rows;
    } else if (rows >= 16) {
      EXPECT_EQ(choice->config, config(2)) << rows;
    }
  }
}

TEST_F(TuneFrameTest, TunesTheListAloneUnlessAsked) {
  request_.buckets = false;
  EXPECT_EQ(run(request_).outcomes.size(), 2u);
}

TEST_F(TuneFrameTest, AsksForNothingMoreWhenRunAgain) {
  run(request_);
  EXPECT_EQ(states(run(request_)),
            (std::vector<std::pair<std::int64_t, State>>{{2, State::kKept}, {64, State::kKept}}));
}

TEST_F(TuneFrameTest, GoesOnWhereItWasStopped) {
  const auto three = [this] { return session_.store->list().value().size() >= 3; };
  const TuneReport first = run(request_, three);
  EXPECT_TRUE(first.interrupted);
  EXPECT_EQ(first.outcomes.size(), 3u);
  EXPECT_EQ(states(run(request_)),
            (std::vector<std::pair<std::int64_t, State>>{
                {2, State::kKept}, {64, State::kKept}, {26, State::kTuned}, {16, State::kTuned}}));
}

TEST_F(TuneFrameTest, NamesWhatTheBudgetLeftOpen) {
  run(request_);
  const double needed = clock_;
  session_ = make_session(device_, RuntimeOptions());
  clock_ = 0;
  request_.budget_s = needed * 0.45;
  const TuneReport report = run(request_);
  EXPECT_LE(report.elapsed_s, needed * 0.6);
  ASSERT_GT(report.outcomes.size(), 2u);
  EXPECT_EQ(report.outcomes.back().state, State::kSkipped);
  EXPECT_EQ(report.outcomes.back().status.message(), "the budget was spent");
}

TEST_F(TuneFrameTest, ADeviceThatIsLostEndsTheRun) {
  device_->script.on_launch = [](const LaunchCall& call) {
    rowsmith_params::RowsParams params{};
    if (call.param_bytes >= sizeof params) std::memcpy(&params, call.params, sizeof params);
    return params.rows == 11 ? Status(Code::kDeviceLost, "illegal address") : Status();
  };
  EXPECT_EQ(states(run(request_)),
            (std::vector<std::pair<std::int64_t, State>>{
                {2, State::kTuned}, {64, State::kTuned}, {11, State::kFailed}}));
}

}  // namespace
}  // namespace rowsmith
