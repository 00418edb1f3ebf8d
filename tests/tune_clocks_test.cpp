// SPDX-License-Identifier: Apache-2.0
//
// Clocks in a tuning, on a scripted device: what they leave in the evidence, which runs are dirty,
// and which of two results stays.
#include "kernel_templates/copy.h"
#include "tests/support/tune_fixture.h"

namespace rowsmith {
namespace {

using testing::TuneTest;
using State = TuneOutcome::State;

class TuneClocksTest : public TuneTest {
 protected:
  TuneClocksTest() { runs_at(1980); }

  void runs_at(int mhz, std::uint32_t throttle = 0) {
    device_->script.state = [mhz, throttle] {
      return Result<DeviceState>(DeviceState{mhz, 3201, 60, throttle});
    };
  }
  static constexpr auto kPowerCap = static_cast<std::uint32_t>(Throttle::kPowerCap);
};

TEST_F(TuneClocksTest, AreEvidence) {
  const TuneOutcome outcome = tune();
  ASSERT_EQ(outcome.state, State::kTuned) << outcome.status.to_string();
  const Evidence evidence = stored(problem_)->evidence;
  EXPECT_EQ(evidence.sm_clock_mhz, 1980);
  EXPECT_EQ(evidence.sm_clock_high_mhz, 1980);
  EXPECT_EQ(evidence.memory_clock_mhz, 3201);
  EXPECT_EQ(evidence.throttled, "");
  EXPECT_EQ(why_dirty(evidence), "");
}

TEST_F(TuneClocksTest, ThatAreNotKnownLeaveACleanRun) {
  device_->script.state = nullptr;
  const Evidence evidence = tune().record.evidence;
  EXPECT_EQ(evidence.sm_clock_mhz, 0);
  EXPECT_EQ(why_dirty(evidence), "");
  EXPECT_EQ(tune().state, State::kKept);
}

TEST_F(TuneClocksTest, C39_AreAtRestBeforeTheFloorAndTheFirstCandidateAreTimed) {
  constexpr double kClimbs = 0.055;
  device_->script.state = [this] {
    const int mhz = clock_ < kClimbs ? 345 + static_cast<int>(clock_ * 29e3) : 1980;
    return Result<DeviceState>(DeviceState{mhz, 3201, 60, 0});
  };
  // What settles the clocks is the first copy; the floor goes on to the others.
  double first_other = 0;
  device_->script.cost = [&](const LaunchCall& call) {
    const bool settles = testing::ScriptedDevice::entry_of(call) == copy_variants().front().entry();
    if (!settles && first_other == 0) first_other = clock_;
    clock_ += 0.001;
    return Result<double>(1e6);
  };
  const Evidence evidence = tune().record.evidence;
  EXPECT_GT(first_other, kClimbs);
  EXPECT_LT(first_other, kClimbs + 0.04);
  EXPECT_EQ(evidence.sm_clock_mhz, 1980);
  EXPECT_EQ(why_dirty(evidence), "");
}

TEST_F(TuneClocksTest, ThatFallWhileTimesAreTakenMakeADirtyRun) {
  bool fallen = false;
  device_->script.on_launch = [&](const LaunchCall& call) {
    fallen = fallen || testing::ScriptedDevice::entry_of(call) == entry(other(1));
    return Status();
  };
  device_->script.state = [&] {
    return Result<DeviceState>(DeviceState{fallen ? 1410 : 1980, 3201, 60, 0});
  };
  ASSERT_EQ(tune().state, State::kTuned);
  EXPECT_EQ(why_dirty(stored(problem_)->evidence), "the SM clock moved between 1410 and 1980 MHz");
}

TEST_F(TuneClocksTest, OfADirtyRunAreTunedAgainUntilOneIsClean) {
  runs_at(1980, kPowerCap);
  EXPECT_EQ(tune().record.evidence.throttled, "power cap");
  ASSERT_TRUE(stored(problem_));
  runs_at(1980);
  EXPECT_EQ(tune().state, State::kTuned);
  EXPECT_EQ(stored(problem_)->evidence.throttled, "");
  EXPECT_EQ(tune().state, State::kKept);
}

TEST_F(TuneClocksTest, OfTwoDirtyRunsTheHigherOnesResultStays) {
  runs_at(1700, kPowerCap);
  takes(other(3), 700);
  ASSERT_EQ(tune().state, State::kTuned);
  runs_at(1400, kPowerCap);
  takes(other(3), 900);
  const TuneOutcome lower = tune();
  EXPECT_EQ(lower.state, State::kKept);
  EXPECT_EQ(lower.record.evidence.sm_clock_mhz, 1700);
  EXPECT_EQ(stored(problem_)->evidence.median_ns, 700'000);
  runs_at(1700, kPowerCap);
  EXPECT_EQ(tune().state, State::kTuned);  // of equals the later
  EXPECT_EQ(stored(problem_)->evidence.median_ns, 900'000);
}

TEST_F(TuneClocksTest, OfADirtyRunThatWasAskedForReplaceWhateverThereIs) {
  ASSERT_EQ(tune().state, State::kTuned);
  runs_at(1400, kPowerCap);
  EXPECT_EQ(tune().state, State::kKept);
  TuneSettings retune = settings();
  retune.retune = true;
  EXPECT_EQ(tune_with(retune).state, State::kTuned);
  EXPECT_EQ(stored(problem_)->evidence.sm_clock_mhz, 1400);
}

TEST_F(TuneClocksTest, TakeATenthOfABudgetAtTheMost) {
  device_->script.state = nullptr;  // a blind load is the longest
  TuneSettings limited = settings();
  limited.budget_s = 0.2;
  int copies = 0;
  device_->script.cost = [&](const LaunchCall& call) {
    clock_ += 0.001;
    copies += testing::ScriptedDevice::entry_of(call) == copy_variants().front().entry();
    return Result<double>(1e6);
  };
  ASSERT_EQ(tune_with(limited).state, State::kTuned);
  EXPECT_LE(copies, 20 + 20);  // those of the floor, too
}

}  // namespace
}  // namespace rowsmith
