// SPDX-License-Identifier: Apache-2.0
//
// Tuning where something goes wrong: kernels that are wrong, fail, spill or have no plausible time,
// a lost device, and memory that runs out.
#include "tests/support/tune_fixture.h"

#include <cmath>
#include <map>
#include <set>

namespace rowsmith {
namespace {

using testing::Fault;
using testing::kProblem;
using testing::ScriptedDevice;
using testing::TuneTest;
using State = TuneOutcome::State;

TEST_F(TuneTest, C30_NeverLetsAWrongKernelWinHoweverFast) {
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

TEST_F(TuneTest, C50_RecordsFailuresApartFromTimes) {
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

TEST_F(TuneTest, C49_RejectsCandidatesWithoutAPlausibleTime) {
  const double wrong[] = {0, -3, std::nan(""), INFINITY};
  for (std::size_t i = 0; i < 4; ++i) takes(other(i), wrong[i]);
  takes(other(5), 800);
  const TuneOutcome outcome = tune();
  EXPECT_EQ(outcome.record.config, chosen_.configs[other(5)]);
  EXPECT_EQ(outcome.rejections.size(), 4u);
  EXPECT_EQ(outcome.record.evidence.median_ns, 800'000);
}

// Who screens first, in between and last: what a wrong one is faster than is not lost by it.
TEST_F(TuneTest, CutsNobodyByTheTimeOfAWrongCandidate) {
  for (const std::size_t wrong : {other(0), other(4), chosen_.configs.size() - 1}) {
    open(kProblem);
    const std::size_t best = wrong == other(2) ? other(3) : other(2);
    takes(wrong, 100);
    takes(best, 700);
    does(wrong, Fault::kLastColumnUnwritten);
    const TuneOutcome outcome = tune();
    EXPECT_EQ(outcome.record.config, chosen_.configs[best]) << wrong;
    ASSERT_EQ(outcome.rejections.size(), 1u) << wrong;
    EXPECT_EQ(outcome.rejections[0].config, to_string(chosen_.configs[wrong]));
    times_.clear();
    faults_.clear();
  }
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

TEST_F(TuneTest, DropsSpillersWithoutTimingThemAndSaysSo) {
  const std::string spiller = entry(other(0));
  device_->script.resources = [=](const std::string& name) {
    return KernelResources{64, name == spiller ? 128 : 0, 1024};
  };
  takes(other(0), 100);
  const TuneOutcome outcome = tune();
  EXPECT_NE(outcome.record.config, chosen_.configs[other(0)]);
  for (const auto& launched : device_->launches()) EXPECT_NE(launched.entry, spiller);
  ASSERT_EQ(stored_rejections().size(), 1u);
  EXPECT_EQ(stored_rejections()[0].config, to_string(chosen_.configs[other(0)]));
  EXPECT_EQ(stored_rejections()[0].reason, "spills 128 bytes a thread to local memory");
  EXPECT_EQ(outcome.record.evidence.rejected, 1);
}

TEST_F(TuneTest, NeverDropsADefaultThatSpills) {
  device_->script.resources = [](const std::string&) { return KernelResources{64, 128, 1024}; };
  takes(other(0), 100);
  const TuneOutcome outcome = tune();
  ASSERT_EQ(outcome.state, State::kTuned) << outcome.status.to_string();
  EXPECT_EQ(outcome.record.config, chosen_.configs[chosen_.default_index]);
  EXPECT_EQ(outcome.rejections.size(), all_tried() - 1);
}

TEST_F(TuneTest, TriesSpillersWhereNothingElseStands) {
  device_->script.resources = [](const std::string&) { return KernelResources{64, 128, 1024}; };
  does(chosen_.default_index, Fault::kLastColumnUnwritten);
  takes(other(2), 100);
  const TuneOutcome outcome = tune();
  ASSERT_EQ(outcome.state, State::kTuned) << outcome.status.to_string();
  EXPECT_EQ(outcome.record.config, chosen_.configs[other(2)]);
  ASSERT_EQ(stored_rejections().size(), 1u);
  EXPECT_EQ(stored_rejections()[0].code, Code::kAccuracyFailed);
}

TEST_F(TuneTest, C31_StopsWithAPreciseMessageWhenTheDeviceIsLost) {
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

TEST_F(TuneTest, NeverLaunchesWhatOnceLostTheDevice) {
  const Config& killer = chosen_.configs[other(1)];
  remember_killer(killer);
  takes(other(1), 10);
  takes(other(2), 500);
  const TuneOutcome outcome = tune();
  EXPECT_EQ(outcome.record.config, chosen_.configs[other(2)]);
  EXPECT_FALSE(was_launched(killer));
  ASSERT_EQ(outcome.rejections.size(), 1u);
  EXPECT_EQ(outcome.rejections[0].config, to_string(killer));
}

TEST_F(TuneTest, LaunchesItAgainOnceItsFamilyHasChanged) {
  remember_killer(chosen_.configs[other(1)], "an earlier digest");
  takes(other(1), 10);
  EXPECT_EQ(tune().record.config, chosen_.configs[other(1)]);
}

TEST_F(TuneTest, HasAnotherDefaultWhereThatOnceLostTheDevice) {
  const Config& standard = chosen_.configs[chosen_.default_index];
  remember_killer(standard);
  const TuneOutcome outcome = tune();
  ASSERT_EQ(outcome.state, State::kTuned) << outcome.status.to_string();
  EXPECT_FALSE(was_launched(standard));
  EXPECT_EQ(outcome.record.evidence.default_config, to_string(chosen_.configs[other(0)]));
}

TEST_F(TuneTest, ComparesNothingWithAGenericThatOnceLostTheDevice) {
  tune();
  ASSERT_TRUE(was_launched(generic_config()));
  open(kProblem);
  remember_killer(generic_config());
  EXPECT_EQ(tune().state, State::kTuned);
  EXPECT_FALSE(was_launched(generic_config()));
}

TEST_F(TuneTest, BlamesAGenericThatFailsAtTheEndAndNotTheWinner) {
  const std::string generic = entry_name({problem_, generic_config()});
  takes(other(1), 600);
  device_->script.on_launch = [=](const LaunchCall& call) {
    const bool fails = ScriptedDevice::entry_of(call) == generic;
    return fails ? Status(Code::kLaunchFailed, "too many resources") : Status();
  };
  const TuneOutcome outcome = tune();
  EXPECT_EQ(outcome.record.config, chosen_.configs[other(1)]);
  EXPECT_EQ(outcome.record.evidence.policy.find("compared with generic"), std::string::npos);
  ASSERT_EQ(stored_rejections().size(), 1u);
  EXPECT_EQ(stored_rejections()[0].config, to_string(generic_config()));
  EXPECT_EQ(stored_rejections()[0].code, Code::kLaunchFailed);
}

TEST_F(TuneTest, BlamesAGenericWhoseResultsAreWrong) {
  faults_[entry_name({problem_, generic_config()})] = Fault::kOffByOneColumn;
  takes(other(1), 600);
  EXPECT_EQ(tune().record.config, chosen_.configs[other(1)]);
  ASSERT_EQ(stored_rejections().size(), 1u);
  EXPECT_EQ(stored_rejections()[0].config, to_string(generic_config()));
  EXPECT_EQ(stored_rejections()[0].code, Code::kAccuracyFailed);
}

TEST_F(TuneTest, NamesAGenericThatLosesTheDevice) {
  const std::string generic = entry_name({problem_, generic_config()});
  device_->script.on_launch = [=](const LaunchCall& call) {
    const bool lost = ScriptedDevice::entry_of(call) == generic;
    return lost ? Status(Code::kDeviceLost, "illegal address") : Status();
  };
  const TuneOutcome outcome = tune();
  EXPECT_EQ(outcome.status.code(), Code::kDeviceLost);
  EXPECT_EQ(outcome.status.message().rfind(to_string(generic_config()), 0), 0u)
      << outcome.status.message();
}

TEST_F(TuneTest, FailsWithoutALaunchWhereEveryConfigOnceLostTheDevice) {
  for (const Config& config : legal_configs(problem_, device_->facts())) remember_killer(config);
  const TuneOutcome outcome = tune();
  EXPECT_EQ(outcome.state, State::kFailed);
  EXPECT_EQ(outcome.status.code(), Code::kLaunchFailed) << "the device itself is well";
  EXPECT_NE(outcome.status.message().find("the worker died"), std::string::npos);
  EXPECT_TRUE(device_->launches().empty());
}

TEST_F(TuneTest, TellsWhatIsOnTheDeviceBeforeItsFirstLaunch) {
  std::string told;  // entry
  int wrong = 0, compared = 0;
  std::set<std::string> told_entries;
  TuneSettings watched = settings();
  watched.trying = [&](std::size_t, const Problem&, const std::string& config) {
    told = config.empty() ? "" : entry_name({problem_, *parse_config(config)});
    told_entries.insert(told);
  };
  const std::string generic = entry_name({problem_, generic_config()});
  device_->script.on_launch = [&](const LaunchCall& call) {
    const std::string& launched = ScriptedDevice::entry_of(call);
    const bool is_copy = launched.find("copy") != std::string::npos;
    compared += launched == generic;
    wrong += launched != told && !(is_copy && told.empty());
    return Status();
  };
  for (std::size_t i = 0; i < 4; ++i) takes(other(i), 900);
  tune_with(watched);
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(compared, 0);
  EXPECT_EQ(told_entries.size(), all_tried() + 2) << "each, generic, and none";
}

TEST_F(TuneTest, C35_SurvivesMemoryThatRunsOutAtAnyAllocation) {
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

TEST_F(TuneTest, C36_TunesWithoutAColdCacheWhereOnlyTheArenaIsRefused) {
  DeviceFacts facts = testing::scripted_facts();
  facts.l2_bytes = std::int64_t{1} << 18;
  device_ = std::make_shared<FullDevice>(facts);
  device_->script.effect = testing::emulated_softmax(problem_, {});
  session_ = make_session(device_, RuntimeOptions());
  const TuneOutcome outcome = tune();
  ASSERT_EQ(outcome.state, State::kTuned) << outcome.status.to_string();
  EXPECT_EQ(outcome.record.evidence.policy.rfind("warm L2, ", 0), 0u);
}

}  // namespace
}  // namespace rowsmith
