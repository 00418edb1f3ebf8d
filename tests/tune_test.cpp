// SPDX-License-Identifier: Apache-2.0
//
// Tuning from end to end on a scripted device: synthetic times by entry name, planted faults, a
// clock that the test moves.
#include "tuner/tune.h"

#include "kernel_templates/params.cuh"
#include "tests/support/emulated_softmax.h"
#include "tests/support/scripted_device.h"
#include "tuner/build.h"
#include "tuner/effort.h"
#include "tuner/tuning_lock.h"

#include <rowsmith/text.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

namespace rowsmith {
namespace {

using testing::Fault;
using testing::ScriptedDevice;
using State = TuneOutcome::State;

const Problem kProblem = contiguous_problem(DType::kF16, DType::kF16, 4, 100);

// A session on a scripted device whose candidates have the times and faults that a case gives them.
class TuneTest : public ::testing::Test {
 protected:
  TuneTest() {
    char pattern[] = "/tmp/rowsmith-tune-test-XXXXXX";
    directory_ = ::mkdtemp(pattern);
    open(kProblem);
  }
  ~TuneTest() override { std::filesystem::remove_all(directory_); }

  void open(const Problem& problem) {
    problem_ = problem;
    DeviceFacts facts = testing::scripted_facts();
    facts.l2_bytes = 0;
    device_ = std::make_shared<ScriptedDevice>(facts);
    device_->script.effect = testing::emulated_softmax(problem, [this](const std::string& entry) {
      const auto found = faults_.find(entry);
      return found == faults_.end() ? Fault::kNone : found->second;
    });
    device_->script.cost = [this](const LaunchCall& call) {
      ++timed_;
      clock_ += 0.001;
      const auto found = times_.find(ScriptedDevice::entry_of(call));
      return Result<double>(found == times_.end() ? 1e6 : found->second);
    };
    session_ = make_session(device_, RuntimeOptions());
    const std::vector<Config> ranked = legal_configs(problem, facts);
    chosen_ = choose_candidates(ranked, default_config(problem, facts),
                                plan_of(Effort::kQuick, facts).candidates);
  }
  std::string entry(std::size_t candidate) const {
    return entry_name({problem_, chosen_.configs[candidate]});
  }
  // A candidate that is not the default.
  std::size_t other(std::size_t nth) const { return nth < chosen_.default_index ? nth : nth + 1; }
  // Microseconds, where all others take 1000.
  void takes(std::size_t candidate, double us) { times_[entry(candidate)] = us * 1000; }
  void does(std::size_t candidate, Fault fault) { faults_[entry(candidate)] = fault; }

  TuneSettings settings() {
    TuneSettings settings;
    settings.effort = Effort::kQuick;
    settings.compile_threads = 2;
    settings.lock_directory = directory_;
    settings.lock_wait_s = 0;
    settings.now_s = [this] { return clock_; };
    return settings;
  }
  TuneOutcome tune() { return tune_with(settings()); }
  TuneOutcome tune_with(const TuneSettings& settings) {
    FloorMeter floor;
    return tune_problem(session_, problem_, settings, floor);
  }
  std::optional<WinnerRecord> stored(const Problem& problem) {
    return session_.store->find(device_class(device_->facts()), problem).value();
  }
  std::vector<Rejection> stored_rejections() {
    return session_.store->list_rejections(device_class(device_->facts()), problem_).value();
  }
  std::string directory_;
  Problem problem_;
  std::shared_ptr<ScriptedDevice> device_;
  Session session_;
  Candidates chosen_;
  std::map<std::string, double> times_;
  std::map<std::string, Fault> faults_;
  double clock_ = 0;
  int timed_ = 0;
};

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
  EXPECT_EQ(evidence.default_config, to_string(chosen_.configs[chosen_.default_index]));
  EXPECT_EQ(evidence.runner_up_ns, 1000'000);
  EXPECT_EQ(evidence.verdict, "winner");
  EXPECT_EQ(evidence.candidates, static_cast<std::int64_t>(chosen_.configs.size()));
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

TEST_F(TuneTest, NeverLetsAWrongKernelWinHoweverFast) {
  const std::pair<Fault, const char*> faults[] = {
      {Fault::kLastColumnUnwritten, "not written"}, {Fault::kOffByOneColumn, "expected"},
      {Fault::kDropsNan, "expected NaN"},           {Fault::kWritesPast, "past the end"},
      {Fault::kWritesInput, "wrote to its input"},  {Fault::kRaces, "error ratio"}};
  for (const auto& [fault, words] : faults) {
    open(kProblem);
    does(other(1), fault);
    takes(other(1), 10);
    takes(other(4), 900);
    const TuneOutcome outcome = tune();
    EXPECT_EQ(outcome.record.config, chosen_.configs[other(4)]) << words;
    ASSERT_EQ(stored_rejections().size(), 1u) << words;
    EXPECT_EQ(stored_rejections()[0].config, to_string(chosen_.configs[other(1)]));
    EXPECT_EQ(stored_rejections()[0].code, Code::kAccuracyFailed);
    EXPECT_NE(stored_rejections()[0].reason.find(words), std::string::npos);
    faults_.clear();
    times_.clear();
  }
}

TEST_F(TuneTest, RejectsAWinnerThatIsWrongAtTheProblemsOwnSizeAndTakesTheNext) {
  open(contiguous_problem(DType::kF16, DType::kF16, 150, 100));
  does(other(1), Fault::kLargeOnly);
  takes(other(1), 10);
  takes(other(2), 600);
  const TuneOutcome outcome = tune();
  EXPECT_EQ(outcome.record.config, chosen_.configs[other(2)]);
  ASSERT_EQ(outcome.rejections.size(), 1u);
  EXPECT_NE(outcome.rejections[0].reason.find("row 149"), std::string::npos);
}

TEST_F(TuneTest, RecordsFailuresApartFromTimes) {
  const std::string compile_fails = entry(other(0)), launch_fails = entry(other(1));
  device_->script.on_compile = [&](const Program& program) {
    return program.source.find(compile_fails) == std::string::npos
               ? Status()
               : Status(Code::kCompileFailed, "error: no such thing");
  };
  device_->script.on_launch = [&](const LaunchCall& call) {
    return ScriptedDevice::entry_of(call) == launch_fails
               ? Status(Code::kLaunchFailed, "too many resources")
               : Status();
  };
  takes(other(2), 500);
  const TuneOutcome outcome = tune();
  EXPECT_EQ(outcome.record.config, chosen_.configs[other(2)]);
  EXPECT_EQ(outcome.record.evidence.rejected, 2);
  std::map<std::string, Code> codes;
  for (const Rejection& rejection : stored_rejections()) codes[rejection.config] = rejection.code;
  EXPECT_EQ(codes.size(), 2u);
  EXPECT_EQ(codes[to_string(chosen_.configs[other(0)])], Code::kCompileFailed);
  EXPECT_EQ(codes[to_string(chosen_.configs[other(1)])], Code::kLaunchFailed);
  const Result<std::vector<WinnerRecord>> records = session_.store->list();
  for (const WinnerRecord& record : *records) {
    EXPECT_LT(record.evidence.median_ns, 2'000'000);
  }
}

TEST_F(TuneTest, RejectsCandidatesWithoutAPlausibleTime) {
  const double wrong[] = {0, -3, std::nan(""), INFINITY};
  for (std::size_t i = 0; i < 4; ++i) takes(other(i), wrong[i]);
  takes(other(5), 800);
  const TuneOutcome outcome = tune();
  EXPECT_EQ(outcome.record.config, chosen_.configs[other(5)]);
  EXPECT_EQ(outcome.rejections.size(), 4u);
  EXPECT_EQ(outcome.record.evidence.median_ns, 800'000);
}

TEST_F(TuneTest, HasAnotherWinnerWhereTheDefaultFails) {
  does(chosen_.default_index, Fault::kLastColumnUnwritten);
  const TuneOutcome outcome = tune();
  EXPECT_EQ(outcome.state, State::kTuned);
  EXPECT_NE(outcome.record.config, chosen_.configs[chosen_.default_index]);
  EXPECT_EQ(outcome.record.evidence.default_ns, 0);
}

TEST_F(TuneTest, FailsWithTheFirstReasonWhereEveryCandidateFails) {
  device_->script.on_launch = [](const LaunchCall&) {
    return Status(Code::kLaunchFailed, "no kernel image");
  };
  const TuneOutcome outcome = tune();
  EXPECT_EQ(outcome.state, State::kFailed);
  EXPECT_EQ(outcome.status.code(), Code::kLaunchFailed);
  EXPECT_NE(outcome.status.message().find("no kernel image"), std::string::npos);
  EXPECT_FALSE(stored(problem_));
}

TEST_F(TuneTest, DropsSpillersWithoutTimingThem) {
  const std::string spiller = entry(other(0));
  device_->script.resources = [=](const std::string& name) {
    return KernelResources{64, name == spiller ? 128 : 0, 1024};
  };
  takes(other(0), 100);
  const TuneOutcome outcome = tune();
  EXPECT_NE(outcome.record.config, chosen_.configs[other(0)]);
  for (const auto& launched : device_->launches()) EXPECT_NE(launched.entry, spiller);
}

TEST_F(TuneTest, StopsWithAPreciseMessageWhenTheDeviceIsLost) {
  const std::string culprit = entry(other(1));
  bool lost = false;
  device_->script.on_launch = [&](const LaunchCall& call) {
    lost = lost || ScriptedDevice::entry_of(call) == culprit;
    return lost ? Status(Code::kDeviceLost, "illegal address") : Status();
  };
  TuneRequest request;
  request.problems = {problem_, contiguous_problem(DType::kF16, DType::kF16, 8, 100)};
  const TuneReport report = tune_all(session_, request, {}, {}, settings());
  for (const TuneOutcome& outcome : report.outcomes) {
    EXPECT_EQ(outcome.state, State::kFailed);
    EXPECT_EQ(outcome.status.code(), Code::kDeviceLost);
    EXPECT_NE(outcome.status.message().find(to_string(chosen_.configs[other(1)])),
              std::string::npos);
  }
  EXPECT_TRUE(session_.store->list().value().empty());
  EXPECT_TRUE(stored_rejections().empty());
}

TEST_F(TuneTest, SurvivesMemoryThatRunsOutAtAnyAllocation) {
  tune();
  const int needed = device_->allocations();
  ASSERT_GT(needed, 3);
  for (int k = 0; k < needed; ++k) {
    open(kProblem);
    device_->script.out_of_memory_at = k;
    const TuneOutcome outcome = tune();
    if (outcome.state == State::kFailed) {
      EXPECT_EQ(outcome.status.code(), Code::kOutOfMemory) << outcome.status.to_string();
      EXPECT_FALSE(stored(problem_)) << k;
    }
    EXPECT_TRUE(stored_rejections().empty()) << k;
    device_->script.out_of_memory_at = -1;
    EXPECT_NE(tune().state, State::kFailed) << k;
  }
}

// Refuses large buffers, as a GPU does that others have filled.
class FullDevice : public ScriptedDevice {
 public:
  using ScriptedDevice::ScriptedDevice;
  Result<Buffer> allocate(std::size_t bytes) override {
    if (bytes <= 32 << 10) return ScriptedDevice::allocate(bytes);
    return Status(Code::kOutOfMemory, "scripted: " + std::to_string(bytes) + " bytes");
  }
};

TEST_F(TuneTest, TunesWithoutAColdCacheWhereOnlyTheArenaIsRefused) {
  DeviceFacts facts = testing::scripted_facts();
  facts.l2_bytes = std::int64_t{1} << 18;
  device_ = std::make_shared<FullDevice>(facts);
  device_->script.effect = testing::emulated_softmax(problem_, {});
  session_ = make_session(device_, RuntimeOptions());
  const TuneOutcome outcome = tune();
  ASSERT_EQ(outcome.state, State::kTuned) << outcome.status.to_string();
  EXPECT_EQ(outcome.record.evidence.policy.rfind("warm L2, ", 0), 0u);
}

TEST_F(TuneTest, TouchesNoMemoryButItsOwn) {
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
  }
}

TEST_F(TuneTest, MarksWhatWasTimedBesideAnotherTuning) {
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

TEST_F(TuneListTest, KeepsTheTenThatWereDoneWhenStoppedAndResumesAtTheEleventh) {
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

TEST(ChooseCandidates, KeepsRankTheDefaultAndAPlaceForEachFamily) {
  const Config a1{"a", {{"n", "1"}}}, a2{"a", {{"n", "2"}}}, a3{"a", {{"n", "3"}}},
      b1{"b", {{"n", "1"}}}, generic = generic_config();
  const std::vector<Config> ranked{a1, a2, a3, b1, generic};
  const Candidates three = choose_candidates(ranked, a2, 3);
  EXPECT_EQ(three.configs, (std::vector<Config>{a1, a2, b1}));
  EXPECT_EQ(three.default_index, 1u);
  EXPECT_EQ(choose_candidates(ranked, a1, 1).configs, std::vector<Config>{a1});
  EXPECT_EQ(choose_candidates(ranked, a1, 100).configs, ranked);
  EXPECT_EQ(choose_candidates({b1}, generic, 2).configs, (std::vector<Config>{generic, b1}));
}

TEST(TuningLock, IsHeldByOneAtATimeAndByEachDeviceAlone) {
  char pattern[] = "/tmp/rowsmith-lock-test-XXXXXX";
  const std::string directory = ::mkdtemp(pattern);
  {
    const TuningLock first(directory, "GPU-1", 0, {});
    EXPECT_TRUE(first.held());
    EXPECT_FALSE(TuningLock(directory, "GPU-1", 0, {}).held());
    EXPECT_FALSE(TuningLock(directory, "GPU-1", 1e9, [] { return true; }).held());
    EXPECT_TRUE(TuningLock(directory, "GPU-2", 0, {}).held());
  }
  EXPECT_TRUE(TuningLock(directory, "GPU-1", 0, {}).held());
  EXPECT_FALSE(TuningLock(directory + "/absent", "GPU-1", 0, {}).held());
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace rowsmith
