// SPDX-License-Identifier: Apache-2.0
//
// Tuning from end to end under what times suffer from: noise, another tuning on the device,
// candidates that take forever, and caches that stay warm. Clocks have tune_clocks_test.cpp.
#include "tests/support/tune_fixture.h"
#include "tuner/tuning_lock.h"

#include <sys/stat.h>
#include <unistd.h>

#include <optional>

namespace rowsmith {
namespace {

using testing::kProblem;
using testing::ScriptedDevice;
using testing::TuneTest;
using State = TuneOutcome::State;

class TuneConditionsTest : public TuneTest {
 protected:
  double width() const {
    const Evidence evidence = session_.store->list().value().at(0).evidence;
    return evidence.speedup_high - evidence.speedup_low;
  }
};

TEST_F(TuneConditionsTest, C43_ConstantMildNoiseStillYieldsAWinnerWithLessConfidence) {
  takes(other(3), 700);
  tune();
  EXPECT_EQ(width(), 0);
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    open(kProblem);
    device_->script.noise = 0.05;
    device_->script.seed = seed;
    const TuneOutcome outcome = tune();
    ASSERT_EQ(outcome.state, State::kTuned) << outcome.status.to_string();
    EXPECT_EQ(outcome.record.config, chosen_.configs[other(3)]) << seed;
    ASSERT_TRUE(stored(problem_));
    EXPECT_GT(stored(problem_)->evidence.spread_ns, 0);
    EXPECT_GT(width(), 0.01);
  }
}

TEST_F(TuneConditionsTest, C43_NoiseThatDrownsAllDifferencesKeepsTheDefaultAndSaysItsSpread) {
  int left = 0;
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    open(kProblem);
    device_->script.noise = 0.3;
    device_->script.seed = seed;
    ASSERT_EQ(tune().state, State::kTuned);
    const Evidence evidence = stored(problem_)->evidence;
    EXPECT_GT(evidence.spread_ns, evidence.median_ns / 50);
    left += evidence.verdict != "default" ? 1 : 0;
  }
  EXPECT_LE(left, 2);
}

TEST_F(TuneConditionsTest, C44_ACandidateFarBehindIsOnTheDeviceForOneSampleAlone) {
  takes(other(2), 1e6);  // a second a call, a thousand times the others
  const std::string slow = entry(other(2));
  ASSERT_EQ(tune().state, State::kTuned);
  const auto launches = device_->launches();
  const auto launched = std::count_if(launches.begin(), launches.end(),
                                      [&](const auto& one) { return one.entry == slow; });
  const int slots = 2;  // of the arena, where there is no L2 to leave
  EXPECT_EQ(launched, 2 * slots) << "one warm-up and one sample";
}

TEST_F(TuneConditionsTest, C44_TheBudgetEndsASearchAmongSlowCandidates) {
  device_->script.cost = [this](const LaunchCall&) {
    clock_ += 1;  // seconds a call
    return Result<double>(1e9);
  };
  tune();
  const double unlimited = clock_;
  open(kProblem);
  device_->script.cost = [this](const LaunchCall&) {
    clock_ += 1;
    return Result<double>(1e9);
  };
  clock_ = 0;
  TuneSettings limited = settings();
  limited.budget_s = 40;
  ASSERT_EQ(tune_with(limited).state, State::kTuned);
  EXPECT_LT(clock_, 40 + 30);  // the floor, and the default, which is screened whatever it takes
  EXPECT_GT(unlimited, 2 * clock_);
}

TEST_F(TuneConditionsTest, C41_WhatWasTimedBesideAnotherTuningIsReplacedByALoneOne) {
  takes(other(1), 600);
  std::optional<TuningLock> other_process;
  other_process.emplace(directory_, device_->facts().uuid, 0, std::function<bool()>());
  ASSERT_TRUE(tune().record.evidence.contended);
  EXPECT_EQ(stored(problem_)->config, chosen_.configs[other(1)]);
  other_process.reset();
  times_.clear();
  takes(other(2), 600);
  EXPECT_EQ(tune().state, State::kTuned);
  EXPECT_FALSE(stored(problem_)->evidence.contended);
  EXPECT_EQ(stored(problem_)->config, chosen_.configs[other(2)]);
  EXPECT_EQ(tune().state, State::kKept);
}

// As one finds it in a directory that all may write to.
TEST_F(TuneConditionsTest, C55_ALockFileThatIsNotOursIsNeitherOpenedNorFatal) {
  const std::string bait = directory_ + "/of-somebody-else";
  { const TuningLock made(directory_, "GPU-1", 0, {}); }
  const std::string name = std::filesystem::directory_iterator(directory_)->path().filename();
  std::string ours = name;
  ours.replace(ours.find("GPU-1"), 5, device_->facts().uuid);
  std::filesystem::create_symlink(bait, directory_ + "/" + ours);
  const TuningLock lock(directory_, device_->facts().uuid, 0, {});
  EXPECT_FALSE(lock.held());
  EXPECT_FALSE(lock.contended());
  EXPECT_EQ(tune().state, State::kTuned);
  EXPECT_FALSE(std::filesystem::exists(bait));
}

TEST_F(TuneConditionsTest, C55_LocksAreKeptInADirectoryOfTheUsersOwn) {
  const std::string directory = TuningLock::default_directory();
  EXPECT_NE(directory.find(std::to_string(::getuid())), std::string::npos) << directory;
  struct stat info {};
  ASSERT_EQ(::stat(directory.c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, ::getuid());
}

TEST_F(TuneConditionsTest, C45_ThePolicyOfTheCachesIsStoredWithTheWinner) {
  EXPECT_EQ(tune().record.evidence.policy.rfind("cold L2, graph replay over 2 buffers;", 0), 0u);
  DeviceFacts facts = device_->facts();
  for (const auto& [l2_bytes, policy] :
       {std::pair(1 << 13, "cold L2, graph replay over 12 buffers;"),
        std::pair(1 << 20,
                  "cold L2, graph replay over 256 buffers, "
                  "swept before each;")}) {
    facts.l2_bytes = l2_bytes;
    device_ = std::make_shared<ScriptedDevice>(facts);
    device_->script.effect = testing::emulated_softmax(problem_, {});
    session_ = make_session(device_, RuntimeOptions());
    ASSERT_EQ(tune().state, State::kTuned);
    const std::string stored_policy = stored(problem_)->evidence.policy;
    EXPECT_EQ(stored_policy.rfind(policy, 0), 0u) << stored_policy;
  }
}

}  // namespace
}  // namespace rowsmith
