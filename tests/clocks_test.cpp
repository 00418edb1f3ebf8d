// SPDX-License-Identifier: Apache-2.0
//
// Clocks brought to rest and watched, on a scripted device whose clock the test moves.
#include "tuner/clocks.h"
#include "tests/support/scripted_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace rowsmith {
namespace {

using testing::scripted_facts;
using testing::ScriptedDevice;

class Clocks : public ::testing::Test {
 protected:
  // The SM clock as a function of the seconds of load so far.
  void clock_is(std::function<int(double)> mhz) {
    device_.script.state = [this, mhz] {
      ++readings_;
      return Result<DeviceState>(DeviceState{mhz(loaded_s_), 3201, 60, 0});
    };
  }
  Status settle(ClockSettler& settler, const std::function<bool()>& stop = nullptr) {
    const auto load = [this]() -> Status {
      loaded_s_ += 0.0002;
      now_s_ += 0.0002;
      return load_fails_;
    };
    return settler.settle(
        device_, load, [this] { return now_s_; }, stop);
  }
  // The seconds of load that settling takes.
  double load_to_settle(ClockSettler& settler) {
    const double before = loaded_s_;
    EXPECT_TRUE(settle(settler).ok());
    return loaded_s_ - before;
  }

  ScriptedDevice device_;
  double now_s_ = 100, loaded_s_ = 0;
  int readings_ = 0;
  Status load_fails_;
  const SettleLimits limits_;
};

TEST_F(Clocks, OfADeviceThatMayHaveBeenIdleAreLoadedForTheLeastTime) {
  clock_is([](double) { return 1980; });
  ClockSettler settler;
  EXPECT_NEAR(load_to_settle(settler), limits_.least_s, limits_.step_s);
}

TEST_F(Clocks, ThatClimbAreLoadedUntilTheyStandStill) {
  clock_is([](double loaded_s) { return std::min(1980, 345 + static_cast<int>(loaded_s * 30e3)); });
  ClockSettler settler;
  const double climb_s = (1980 - 345) / 30e3;
  const double load_s = load_to_settle(settler);
  EXPECT_GT(load_s, climb_s);
  EXPECT_LT(load_s, climb_s + 3 * limits_.step_s);
}

TEST_F(Clocks, ThatNeverRestAreLoadedToTheLimit) {
  clock_is([this](double) { return readings_ % 2 == 0 ? 1200 : 1980; });
  ClockSettler settler;
  EXPECT_NEAR(load_to_settle(settler), limits_.most_s, 0.001);
}

TEST_F(Clocks, FoundWhereTheyWereLeftAreHardlyLoaded) {
  clock_is([](double) { return 1980; });
  ClockSettler settler;
  load_to_settle(settler);
  readings_ = 0;
  EXPECT_NEAR(load_to_settle(settler), limits_.warm_least_s, 0.001);
  EXPECT_EQ(readings_, 2);
}

TEST_F(Clocks, ThatNeverRestAreLoadedBrieflyAfterTheFirstTime) {
  clock_is([this](double) { return readings_ % 2 == 0 ? 1940 : 1980; });
  ClockSettler settler;
  load_to_settle(settler);
  EXPECT_NEAR(load_to_settle(settler), limits_.warm_most_s, 0.001);
}

TEST_F(Clocks, ThatFellMeanwhileAreLoadedAsAtFirst) {
  clock_is([](double) { return 1980; });
  ClockSettler settler;
  load_to_settle(settler);
  clock_is([](double) { return 345; });
  EXPECT_NEAR(load_to_settle(settler), limits_.least_s, limits_.step_s);
}

TEST_F(Clocks, ThatCannotBeReadAreLoadedOnceForAFixedTime) {
  ClockSettler settler;
  EXPECT_NEAR(load_to_settle(settler), limits_.most_s, 0.001);
  EXPECT_EQ(load_to_settle(settler), 0);
}

TEST_F(Clocks, AreNotLoadedForEverWhereTimeStandsStill) {
  for (const bool known : {false, true}) {
    if (known) clock_is([](double) { return 1980; });
    int loads = 0;
    const auto load = [&]() -> Status {
      ++loads;
      return {};
    };
    EXPECT_TRUE(ClockSettler().settle(device_, load, [] { return 1.0; }, {}).ok());
    EXPECT_EQ(loads, limits_.most_loads);
  }
}

TEST_F(Clocks, OfTheHostDeviceAreLeftAlone) {
  DeviceFacts facts = scripted_facts();
  facts.kind = "host";
  ScriptedDevice host(facts);
  const auto load = [] { return Status(Code::kInternal, "loaded"); };
  EXPECT_TRUE(ClockSettler().settle(host, load, [] { return 0.0; }, {}).ok());
}

TEST_F(Clocks, AreNotWaitedForOnceAsked) {
  clock_is([](double) { return 1980; });
  ClockSettler settler;
  EXPECT_TRUE(settle(settler, [] { return true; }).ok());
  EXPECT_NEAR(loaded_s_, 0.0002, 1e-6);
  EXPECT_NEAR(load_to_settle(settler), limits_.least_s, limits_.step_s);  // the first still waits
}

TEST_F(Clocks, FailAsTheLoadDoes) {
  load_fails_ = Status(Code::kDeviceLost, "gone");
  ClockSettler settler;
  EXPECT_EQ(settle(settler).code(), Code::kDeviceLost);
}

// --- what a run's readings come to ---

Evidence evidence_of(const std::vector<DeviceState>& states) {
  ScriptedDevice device;
  ClockWatch watch;
  for (const DeviceState& state : states) {
    device.script.state = [&] { return Result<DeviceState>(state); };
    watch.read(device);
  }
  device.script.state = nullptr;
  watch.read(device);  // a reading that fails takes nothing away
  Evidence evidence;
  watch.tell(evidence);
  return evidence;
}

std::uint32_t bit(Throttle throttle) {
  return static_cast<std::uint32_t>(throttle);
}

TEST(ClockWatch, KeepsTheLowestAndTheHighest) {
  const Evidence evidence = evidence_of({{1950, 3201, 0, 0}, {1980, 3195, 0, 0}, {1965, 0, 0, 0}});
  EXPECT_EQ(evidence.sm_clock_mhz, 1950);
  EXPECT_EQ(evidence.sm_clock_high_mhz, 1980);
  EXPECT_EQ(evidence.memory_clock_mhz, 3195);
  EXPECT_EQ(evidence.throttled, "");
  EXPECT_EQ(why_dirty(evidence), "");
}

TEST(ClockWatch, KeepsEveryReasonThatWasSeenOnce) {
  const Evidence evidence = evidence_of({{1980, 3201, 0, bit(Throttle::kThermal)},
                                         {1980, 3201, 0, bit(Throttle::kPowerCap)},
                                         {1980, 3201, 0, 0}});
  EXPECT_EQ(evidence.throttled, "power cap, thermal");
  EXPECT_EQ(why_dirty(evidence), "throttled: power cap, thermal");
}

TEST(ClockWatch, OfADeviceThatTellsNothingDoubtsNothing) {
  const Evidence evidence = evidence_of({});
  EXPECT_EQ(evidence.sm_clock_mhz, 0);
  EXPECT_EQ(why_dirty(evidence), "");
}

TEST(WhyDirty, BeginsAtAClockThatMovedByMoreThanAFewPercent) {
  EXPECT_EQ(why_dirty(evidence_of({{1900, 0, 0, 0}, {1990, 0, 0, 0}})), "");
  EXPECT_EQ(why_dirty(evidence_of({{2000, 0, 0, 0}, {1900, 0, 0, 0}})),
            "the SM clock moved between 1900 and 2000 MHz");
}

TEST(WhyDirty, NamesEverything) {
  Evidence evidence = evidence_of({{1980, 0, 0, 0}, {990, 0, 0, bit(Throttle::kPowerBrake)}});
  evidence.contended = true;
  EXPECT_EQ(why_dirty(evidence),
            "another process may have used the device; throttled: power brake; the SM clock moved "
            "between 990 and 1980 MHz");
}

}  // namespace
}  // namespace rowsmith
