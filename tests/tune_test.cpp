// SPDX-License-Identifier: Apache-2.0
//
// Tuning from end to end on a scripted device: what is stored, kept, skipped and reported, lists
// and budgets. Failures have tune_failures_test.cpp.
#include "kernel_templates/params.cuh"
#include "tests/support/tune_fixture.h"
#include "tuner/tuning_lock.h"

#include <cstring>
#include <map>
#include <set>

namespace rowsmith {
namespace {

using testing::Fault;
using testing::kProblem;
using testing::ScriptedDevice;
using testing::TuneTest;
using State = TuneOutcome::State;

TEST_F(TuneTest, StoresTheFastestWithItsEvidence) {
  takes(other(3), 700);
  const TuneOutcome outcome = tune();
  ASSERT_EQ(outcome.state, State::kTuned) << outcome.status.to_string();
  const std::optional<WinnerRecord> record = stored(problem_);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->config, chosen_.configs[other(3)]);
  EXPECT_EQ(record->family_digest, find_family(record->config.family)->digest());
  const Evidence& evidence = record->evidence;
  EXPECT_EQ(evidence.median_ns, 700'000);
  EXPECT_EQ(evidence.default_ns, 1000'000);
  EXPECT_DOUBLE_EQ(evidence.speedup_low, 1000.0 / 700);
  EXPECT_DOUBLE_EQ(evidence.speedup_high, 1000.0 / 700);
  EXPECT_EQ(evidence.default_config, to_string(chosen_.configs[chosen_.default_index]));
  EXPECT_EQ(evidence.runner_up_ns, 1000'000);
  EXPECT_EQ(evidence.verdict, "winner");
  EXPECT_EQ(evidence.candidates, static_cast<std::int64_t>(all_tried()));
  EXPECT_EQ(evidence.rejected, 0);
  EXPECT_EQ(evidence.samples, 9);
  EXPECT_GT(evidence.floor_ns, 0);
  EXPECT_LE(evidence.error_ratio, 1);
  EXPECT_EQ(evidence.effort, "quick");
  EXPECT_EQ(evidence.device_uuid, device_->facts().uuid);
  EXPECT_FALSE(evidence.contended);
  EXPECT_NE(evidence.policy.find("compared with generic: all rows"), std::string::npos);
}

TEST_F(TuneTest, LeavesTheWinnersKernelLoadedAndBuiltAlone) {
  takes(other(3), 700);
  ASSERT_EQ(tune().state, State::kTuned);
  EXPECT_NE(session_.modules->loaded(problem_, chosen_.configs[other(3)]), nullptr);
}

TEST_F(TuneTest, KeepsTheDefaultWhereNothingBeatsIt) {
  const TuneOutcome outcome = tune();
  EXPECT_EQ(outcome.record.config, chosen_.configs[chosen_.default_index]);
  EXPECT_EQ(outcome.record.evidence.verdict, "default");
}

TEST_F(TuneTest, KeepsAValidRecordWithoutCompilingOrTiming) {
  takes(other(2), 600);
  tune();
  const auto compiles = device_->compiles();
  const std::size_t launches = device_->launches().size();
  const TuneOutcome again = tune();
  EXPECT_EQ(again.state, State::kKept);
  EXPECT_EQ(again.record.config, chosen_.configs[other(2)]);
  EXPECT_EQ(device_->compiles(), compiles);
  EXPECT_EQ(device_->launches().size(), launches);
}

TEST_F(TuneTest, TunesAgainWhenAskedOrWhenTheFamilyChanged) {
  tune();
  TuneSettings retune = settings();
  retune.retune = true;
  EXPECT_EQ(tune_with(retune).state, State::kTuned);
  WinnerRecord record = *stored(problem_);
  record.family_digest = "of an older text";
  ASSERT_TRUE(session_.store->put(record).ok());
  EXPECT_EQ(tune().state, State::kTuned);
}

TEST_F(TuneTest, SkipsEmptyProblemsAndRefusesNegativeOnes) {
  problem_.rows = 0;
  EXPECT_EQ(tune().state, State::kSkipped);
  problem_.rows = -1;
  EXPECT_EQ(tune().status.code(), Code::kInvalidArgument);
  EXPECT_EQ(device_->compiles(), 0u);
}

TEST_F(TuneTest, C28_TouchesNoMemoryButItsOwn) {
  std::vector<char> caller(1 << 16, 'c');
  tune();
  std::set<std::uintptr_t> seen;
  for (const auto& launched : device_->launches()) {
    rowsmith_params::RowsParams params;
    if (launched.params.size() < sizeof params) continue;
    std::memcpy(&params, launched.params.data(), sizeof params);
    EXPECT_TRUE(launched.own_stream);
    seen.insert(reinterpret_cast<std::uintptr_t>(params.dst));
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(caller.data());
  EXPECT_EQ(seen.lower_bound(begin), seen.lower_bound(begin + caller.size()));
  EXPECT_EQ(caller, std::vector<char>(1 << 16, 'c'));
}

TEST_F(TuneTest, StandsByTheBestSoFarWhenTheBudgetEnds) {
  takes(other(1), 500);
  const TuneOutcome full = tune();
  const double needed = clock_;
  for (const double share : {0.05, 0.3, 0.5, 0.7, 0.9}) {
    open(kProblem);
    clock_ = 0;
    TuneSettings limited = settings();
    limited.budget_s = needed * share;
    const TuneOutcome outcome = tune_with(limited);
    ASSERT_EQ(outcome.state, State::kTuned) << share << outcome.status.to_string();
    EXPECT_LE(clock_, needed * share + 0.25 * needed) << share;
    EXPECT_TRUE(outcome.record.config == full.record.config ||
                outcome.record.config == chosen_.configs[chosen_.default_index]);
    const Evidence& evidence = outcome.record.evidence;
    EXPECT_TRUE(evidence.cut || share > 0.5) << share;
    EXPECT_EQ(evidence.cut, evidence.timed > 0) << share;
    EXPECT_EQ(evidence.cut, !why_dirty(evidence).empty()) << share;
  }
  EXPECT_FALSE(full.record.evidence.cut);
}

TEST_F(TuneTest, TunesAgainWhatTheTimeCutOrLessEffortWasSpentOn) {
  takes(other(1), 500);
  tune();
  const double needed = std::exchange(clock_, 0);
  open(kProblem);
  TuneSettings limited = settings();
  limited.budget_s = needed * 0.6;
  const std::int64_t timed = tune_with(limited).record.evidence.timed;
  limited.budget_s = needed * 0.05;
  const TuneOutcome shorter = tune_with(limited);
  EXPECT_EQ(shorter.state, State::kKept);  // it tried less than the earlier one
  EXPECT_EQ(shorter.record.evidence.timed, timed);
  EXPECT_EQ(tune().state, State::kTuned);
  EXPECT_EQ(tune().state, State::kKept);
  TuneSettings more = settings();
  more.effort = Effort::kStandard;
  EXPECT_EQ(tune_with(more).state, State::kTuned);
  EXPECT_EQ(tune_with(more).state, State::kKept);
  EXPECT_EQ(tune().state, State::kKept);
}

TEST_F(TuneTest, AWinnerOfSomeFamiliesGivesWayToOneOfAll) {
  TuneSettings some = settings();
  some.families = {"warp_rows", "block_row", "warp_rows"};
  ASSERT_EQ(tune_with(some).state, State::kTuned);
  EXPECT_EQ(why_dirty(stored(problem_)->evidence), "its search was limited to block_row,warp_rows");
  std::swap(some.families[0], some.families[1]);
  EXPECT_EQ(tune_with(some).state, State::kKept) << "nothing more was asked for";
  EXPECT_EQ(tune().state, State::kTuned);
  EXPECT_EQ(why_dirty(stored(problem_)->evidence), "");
  some.effort = Effort::kThorough;
  EXPECT_EQ(tune_with(some).state, State::kKept) << "another family may be faster";
  EXPECT_EQ(stored(problem_)->evidence.effort, "quick");
  some.retune = true;
  EXPECT_EQ(tune_with(some).state, State::kTuned);
}

TEST_F(TuneTest, C41_MarksWhatWasTimedBesideAnotherTuning) {
  const TuningLock other_process(directory_, device_->facts().uuid, 0, {});
  ASSERT_TRUE(other_process.held());
  EXPECT_TRUE(tune().record.evidence.contended);
}

TEST_F(TuneTest, ReportsProgressUpToTheLastCandidate) {
  std::vector<TuneProgress> seen;
  TuneSettings with_progress = settings();
  with_progress.progress = [&](const TuneProgress& progress) { seen.push_back(progress); };
  takes(other(3), 700);
  tune_with(with_progress);
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back().candidate, seen.back().candidates);
  EXPECT_EQ(seen.back().best_ns, 700'000);
  EXPECT_EQ(seen.back().default_ns, 1000'000);
  EXPECT_GT(seen.back().floor_ns, 0);
}

TEST_F(TuneTest, ExplainsTheSearchFromRanksToVerdict) {
  std::vector<SearchEvent> events;
  TuneSettings explaining = settings();
  explaining.explain = [&](const SearchEvent& event) { events.push_back(event); };
  takes(other(3), 700);
  takes(other(1), 600);
  does(other(1), Fault::kDropsNan);
  tune_with(explaining);
  std::map<SearchEvent::Kind, std::size_t> counts;
  for (const SearchEvent& event : events) ++counts[event.kind];
  using Kind = SearchEvent::Kind;
  EXPECT_EQ(counts[Kind::kRanked], all_tried());
  EXPECT_EQ(counts[Kind::kCompiled], all_tried());
  EXPECT_EQ(counts[Kind::kDropped], 1u);
  EXPECT_EQ(counts[Kind::kRound], 9u);
  for (std::size_t i = 0; i < chosen_.configs.size(); ++i) {
    EXPECT_EQ(events[i].kind, Kind::kRanked);
    EXPECT_EQ(events[i].config, to_string(chosen_.configs[i]));
    EXPECT_EQ(events[i].is_default, i == chosen_.default_index);
  }
  const SearchEvent& verdict = events.back();
  EXPECT_EQ(verdict.kind, Kind::kVerdict);
  EXPECT_EQ(verdict.candidate, other(3));
  EXPECT_EQ(verdict.rule, SearchEvent::Rule::kFaster);
  ASSERT_EQ(verdict.rivals.size(), 1u);
  EXPECT_DOUBLE_EQ(verdict.rivals[0].ratio, 0.7);
}

// Forty problems that differ in S.
class TuneListTest : public TuneTest {
 protected:
  TuneListTest() {
    request_.effort = Effort::kQuick;
    for (int rows = 1; rows <= 40; ++rows) {
      request_.problems.push_back(contiguous_problem(DType::kF16, DType::kF16, rows, 100));
    }
  }
  TuneReport run(const std::function<bool()>& stop = {}) {
    return tune_all(session_, request_, {}, stop, settings());
  }
  static std::map<State, int> count(const TuneReport& report) {
    std::map<State, int> states;
    for (const TuneOutcome& outcome : report.outcomes) ++states[outcome.state];
    return states;
  }
  TuneRequest request_;
};

TEST_F(TuneListTest, C52_KeepsTheTenThatWereDoneWhenStoppedAndResumesAtTheEleventh) {
  const auto done = [this] { return session_.store->list().value().size() >= 10; };
  const TuneReport first = run(done);
  EXPECT_TRUE(first.interrupted);
  EXPECT_EQ(count(first), (std::map<State, int>{{State::kTuned, 10}, {State::kSkipped, 30}}));
  EXPECT_EQ(session_.store->list().value().size(), 10u);
  const TuneReport second = run();
  EXPECT_FALSE(second.interrupted);
  EXPECT_EQ(count(second), (std::map<State, int>{{State::kKept, 10}, {State::kTuned, 30}}));
  EXPECT_EQ(second.outcomes[9].state, State::kKept);
  EXPECT_EQ(second.outcomes[10].state, State::kTuned);
}

TEST_F(TuneListTest, TellsEachOutcomeAsSoonAsItStands) {
  std::vector<std::size_t> told;
  request_.finished = [&](std::size_t problem, const TuneOutcome& outcome) {
    EXPECT_EQ(outcome.problem, request_.problems[problem]);
    EXPECT_EQ(session_.store->list().value().size(), problem + 1);
    told.push_back(problem);
  };
  request_.problems.resize(3);
  run();
  EXPECT_EQ(told, (std::vector<std::size_t>{0, 1, 2}));
}

TEST_F(TuneListTest, StoppedInsideAProblemStoresNothingOfIt) {
  const TuneReport report = run([this] { return timed_ > 100; });
  EXPECT_TRUE(report.interrupted);
  EXPECT_EQ(count(report)[State::kTuned], static_cast<int>(session_.store->list().value().size()));
  EXPECT_GT(count(report)[State::kSkipped], 30);
}

TEST_F(TuneListTest, SpendsNoMoreThanItsBudgetOnTheWholeList) {
  request_.problems.resize(12);
  run();
  const double needed = clock_;
  open(kProblem);
  clock_ = 0;
  request_.budget_s = needed / 2;
  const TuneReport report = run();
  EXPECT_LE(report.elapsed_s, needed * 0.65);
  EXPECT_GT(count(report)[State::kTuned], 6);
}

TEST_F(TuneListTest, GivesMoreOfItsBudgetToProblemsWithMoreAtStake) {
  DeviceFacts slow = device_->facts();
  slow.memory_clock_khz = 1;  // so that bytes, not launches, are at stake
  device_ = std::make_shared<ScriptedDevice>(slow);
  device_->script.effect = testing::emulated_softmax(kProblem, {});
  device_->script.cost = [this](const LaunchCall&) {
    clock_ += 0.001;
    return Result<double>(1e6);
  };
  session_ = make_session(device_, RuntimeOptions());
  request_.problems.clear();
  for (const int rows : {1, 2, 100, 3}) {
    request_.problems.push_back(contiguous_problem(DType::kF16, DType::kF16, rows, 100));
  }
  std::map<std::size_t, int> samples;
  request_.explain = [&](const SearchEvent& event) {
    samples[event.problem] +=
        event.kind == SearchEvent::Kind::kScreened || event.kind == SearchEvent::Kind::kRound;
  };
  run();
  const double needed = clock_;
  session_ = make_session(device_, RuntimeOptions());
  samples.clear();
  clock_ = 0;
  request_.budget_s = needed / 2;
  const TuneReport report = run();
  EXPECT_LE(report.elapsed_s, needed * 0.65);
  EXPECT_EQ(count(report)[State::kTuned], 4);
  EXPECT_GT(samples[2], 2 * samples[0]);
  EXPECT_GT(samples[2], 2 * samples[1]);
}

TEST_F(TuneListTest, KeepsWhatABudgetLeftDoneAndSpendsTheNextOnTheRest) {
  request_.problems.resize(8);
  run();
  const double needed = clock_;
  open(kProblem);
  clock_ = 0;
  request_.problems.resize(4);
  run();
  for (int rows = 5; rows <= 8; ++rows) {
    request_.problems.insert(request_.problems.begin(),
                             contiguous_problem(DType::kF16, DType::kF16, rows, 100));
  }
  clock_ = 0;
  request_.budget_s = needed * 0.55;  // enough for half the list
  const TuneReport report = run();
  EXPECT_EQ(count(report), (std::map<State, int>{{State::kTuned, 4}, {State::kKept, 4}}));
  for (const TuneOutcome& outcome : report.outcomes) {
    EXPECT_EQ(outcome.record.evidence.samples, 9) << outcome.problem.rows;  // all finals
  }
}

TEST_F(TuneListTest, GoesOnAfterOneProblemFails) {
  request_.problems.resize(8);
  request_.problems[5].layout.src_align = 16;
  request_.problems[5].layout.co_align = 1;
  request_.problems[5].layout.dst_align = 32;
  request_.problems[5].cols = 101;  // no placement has such a layout
  const TuneReport report = run();
  EXPECT_EQ(count(report), (std::map<State, int>{{State::kTuned, 7}, {State::kFailed, 1}}));
  EXPECT_EQ(report.outcomes[5].state, State::kFailed);
}

TEST(Tune, NamesTheDeviceThatIsNotThere) {
  RuntimeOptions options;
  options.device = "no-such-device";
  EXPECT_FALSE(tune(options, {}, {}, {}).ok());
}

TEST(Effort, CapsTheCandidatesAndAllowsFewOnTheHost) {
  DeviceFacts host;
  host.kind = "host";
  for (const Effort effort : {Effort::kQuick, Effort::kStandard, Effort::kThorough}) {
    EXPECT_LT(plan_of(effort, host).candidates,
              plan_of(effort, testing::scripted_facts()).candidates);
  }
  EXPECT_EQ(plan_of(Effort::kQuick, host).candidates, 4u);
}

TEST(TuningLock, IsHeldByOneAtATimeAndByEachDeviceAlone) {
  char pattern[] = "/tmp/rowsmith-lock-test-XXXXXX";
  const std::string directory = ::mkdtemp(pattern);
  {
    const TuningLock first(directory, "GPU-1", 0, {});
    EXPECT_TRUE(first.held());
    const TuningLock second(directory, "GPU-1", 0, {});
    EXPECT_FALSE(second.held());
    EXPECT_TRUE(second.contended());
    EXPECT_FALSE(TuningLock(directory, "GPU-1", 1e9, [] { return true; }).held());
    EXPECT_TRUE(TuningLock(directory, "GPU-2", 0, {}).held());
  }
  EXPECT_TRUE(TuningLock(directory, "GPU-1", 0, {}).held());
  const TuningLock nowhere(directory + "/absent", "GPU-1", 0, {});
  EXPECT_FALSE(nowhere.held());
  EXPECT_FALSE(nowhere.contended());
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace rowsmith
