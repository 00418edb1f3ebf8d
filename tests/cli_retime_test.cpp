// SPDX-License-Identifier: Apache-2.0
//
// What `tune bench` finds of a stored winner, on a scripted device with synthetic times.

#include "tuner/cli_retime.h"
#include "tests/support/tune_fixture.h"

namespace rowsmith {
namespace {

using State = Retimed::State;

class RetimeTest : public testing::TuneTest {
 protected:
  // A winner that was stored when it took 700 us and the default 1000.
  WinnerRecord winner(std::size_t candidate) {
    WinnerRecord record;
    record.device_class = device_class(device_->facts());
    record.problem = problem_;
    record.config = chosen_.configs[candidate];
    record.family_digest = find_family(record.config.family)->digest();
    record.evidence.median_ns = 700'000;
    record.evidence.verdict = "winner";
    return record;
  }
  Retimed retimed(const WinnerRecord& record, const std::function<bool()>& stop = nullptr) {
    FloorMeter floor;
    return retime(session_, record, floor, stop, [this] { return clock_; });
  }
};

TEST_F(RetimeTest, AWinnerThatIsStillFasterHolds) {
  takes(other(3), 700);
  const Retimed found = retimed(winner(other(3)));
  EXPECT_EQ(found.state, State::kHolds) << found.status.to_string();
  EXPECT_EQ(found.winner_ns, 700'000);
  EXPECT_EQ(found.default_ns, 1000'000);
  EXPECT_GT(found.floor_ns, 0);
  EXPECT_DOUBLE_EQ(found.against_default.ratio, 0.7);
}

TEST_F(RetimeTest, OneThatTheDefaultHasOvertakenIsLost) {
  takes(other(3), 1050);
  const Retimed found = retimed(winner(other(3)));
  EXPECT_EQ(found.state, State::kLost);
  EXPECT_EQ(found.winner_ns, 1050'000);
}

TEST_F(RetimeTest, OneWithinTheMarginHolds) {
  takes(other(3), 1005);
  EXPECT_EQ(retimed(winner(other(3))).state, State::kHolds);
}

TEST_F(RetimeTest, NoiseLosesNoWinner) {
  takes(other(3), 1010);
  device_->script.noise = 0.05;
  EXPECT_EQ(retimed(winner(other(3))).state, State::kHolds);
}

TEST_F(RetimeTest, TheDefaultHoldsAgainstItself) {
  const Retimed found = retimed(winner(chosen_.default_index));
  EXPECT_EQ(found.state, State::kHolds);
  EXPECT_EQ(found.winner_ns, found.default_ns);
}

TEST_F(RetimeTest, AChangedFamilyIsStaleAndNotTimed) {
  WinnerRecord record = winner(other(3));
  record.family_digest = "of an older text";
  const Retimed found = retimed(record);
  EXPECT_EQ(found.state, State::kStale);
  EXPECT_NE(found.status.message().find("has changed since it was tuned"), std::string::npos);
  EXPECT_EQ(timed_, 0);
}

TEST_F(RetimeTest, OneThatDoesNotLaunchFailsByName) {
  const std::string victim = entry(other(3));
  device_->script.on_launch = [&](const LaunchCall& call) {
    return testing::ScriptedDevice::entry_of(call) == victim
               ? Status(Code::kLaunchFailed, "too many resources")
               : Status();
  };
  const Retimed found = retimed(winner(other(3)));
  EXPECT_EQ(found.state, State::kFailed);
  EXPECT_NE(found.status.message().find(to_string(chosen_.configs[other(3)])), std::string::npos)
      << found.status.to_string();
}

TEST_F(RetimeTest, ClocksAreReadBeforeAndAfter) {
  device_->script.state = [this] {
    return Result<DeviceState>(DeviceState{clock_ < 0.05 ? 1980 : 1755, 3201, 60, 0});
  };
  const Retimed found = retimed(winner(other(3)));
  EXPECT_EQ(found.state, State::kHolds);
  Evidence evidence;
  found.clocks.tell(evidence);
  EXPECT_EQ(why_dirty(evidence), "the SM clock moved between 1755 and 1980 MHz");
}

TEST_F(RetimeTest, AnInterruptEndsItWithoutAVerdict) {
  const Retimed found = retimed(winner(other(3)), [] { return true; });
  EXPECT_EQ(found.state, State::kFailed);
  EXPECT_EQ(found.status.code(), Code::kNotTuned);
}

}  // namespace
}  // namespace rowsmith
