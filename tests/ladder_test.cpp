// SPDX-License-Identifier: Apache-2.0
#include "runtime/ladder.h"
#include "kernel_templates/catalog.h"
#include "tests/support/scripted_device.h"

#include <rowsmith/text.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <ostream>

namespace rowsmith {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::int64_t kCols = 1000;

Problem problem(std::int64_t rows) {
  return contiguous_problem(DType::kF32, DType::kF32, rows, kCols);
}

// The ladder over winners given as (S, index into the legal configs).
class LadderTest : public ::testing::Test {
 protected:
  void store(std::int64_t rows, std::size_t config = 1) {
    WinnerRecord record;
    record.device_class = device_class(facts_);
    record.problem = problem(rows);
    static const std::vector<Config> legal = legal_configs(problem(4), facts_);
    record.config = legal.at(config);
    record.family_digest = std::string(find_family(record.config.family)->digest());
    record.evidence.median_ns = 1000 + rows;
    winners_.push_back(record);
  }
  // Of the winners: the config of `other`, timed at the S of `at`.
  void measured(std::size_t at, std::size_t other, double ratio) {
    const WinnerRecord& of = winners_[other];
    Evidence& evidence = winners_[at].evidence;
    (other < at ? evidence.below : evidence.above) = {of.problem.rows, to_string(of.config), ratio};
  }
  Choice ask(std::int64_t rows) {
    const Problem asked = problem(rows);
    Result<Choice> choice =
        choose({asked, facts_, winners_, pin_.empty() ? nullptr : &pin_, refuse_});
    EXPECT_TRUE(choice.ok()) << choice.status().to_string();
    return choice.ok() ? *choice : Choice();
  }

  DeviceFacts facts_ = testing::scripted_facts();
  std::vector<WinnerRecord> winners_;
  Config pin_;
  std::function<std::string(const Config&)> refuse_;
};

TEST_F(LadderTest, AnExactWinnerServesItsOwnRowsOnly) {
  store(100);
  const Choice choice = ask(100);
  EXPECT_EQ(choice.source, Source::kExact);
  EXPECT_EQ(choice.config, winners_[0].config);
  EXPECT_EQ(choice.lo, 100);
  EXPECT_EQ(choice.hi, 100);
  EXPECT_EQ(choice.median_ns, 1100);
}

TEST_F(LadderTest, TheNearestServesWithinAFactorOfTwo) {
  store(101);
  for (const std::int64_t rows : {51, 100, 102, 202}) {
    EXPECT_EQ(ask(rows).source, Source::kNearest) << rows;
  }
  EXPECT_EQ(ask(50).source, Source::kDefault);
  EXPECT_EQ(ask(203).source, Source::kDefault);
  EXPECT_EQ(ask(60).lo, 51);
  EXPECT_EQ(ask(60).hi, 100);
  EXPECT_EQ(ask(150).lo, 102);
  EXPECT_EQ(ask(150).hi, 202);
}

TEST_F(LadderTest, TwoNeighboursMeetAtTheirGeometricMiddle) {
  store(100, 1);
  store(144, 2);
  EXPECT_EQ(ask(120).config, winners_[0].config);
  EXPECT_EQ(ask(120).hi, 120);
  EXPECT_EQ(ask(121).config, winners_[1].config);
  EXPECT_EQ(ask(121).lo, 121);
  EXPECT_EQ(ask(121).hi, 143);
}

TEST_F(LadderTest, TheDefaultServesAPowerOfTwoWithoutWhatWinnersReach) {
  EXPECT_EQ(ask(40).lo, 32);
  EXPECT_EQ(ask(40).hi, 63);
  store(100);
  EXPECT_EQ(ask(40).hi, 49);
  EXPECT_EQ(ask(230).lo, 201);
  EXPECT_EQ(ask(230).hi, 255);
}

TEST_F(LadderTest, TheLargestRowsHaveABucketToo) {
  const Choice choice = ask(std::numeric_limits<std::int64_t>::max() / 4000);
  EXPECT_LE(choice.lo, std::numeric_limits<std::int64_t>::max() / 4000);
  EXPECT_GE(choice.hi, std::numeric_limits<std::int64_t>::max() / 4000);
  EXPECT_EQ(reach_of(std::numeric_limits<std::int64_t>::max()).hi,
            std::numeric_limits<std::int64_t>::max());
}

TEST_F(LadderTest, AWinnerOfAChangedFamilyIsNotUsedAndSaysSo) {
  store(100);
  winners_[0].family_digest = "0123";
  const Choice choice = ask(100);
  EXPECT_EQ(choice.source, Source::kDefault);
  EXPECT_THAT(choice.reasons, Contains(HasSubstr("digest 0123")));
}

TEST_F(LadderTest, C04_AWinnerThatIsIllegalHereIsNotUsed) {
  store(100);
  winners_[0].config.params.back().second = "no-such-value";
  const Choice choice = ask(100);
  EXPECT_EQ(choice.source, Source::kDefault);
  EXPECT_FALSE(choice.reasons.empty());
}

TEST_F(LadderTest, AWinnerOfAFamilyThatIsGoneIsNotUsed) {
  store(100);
  winners_[0].config.family = "bygone";
  EXPECT_THAT(ask(100).reasons, Contains(HasSubstr("no family 'bygone'")));
}

TEST_F(LadderTest, RefusalLeadsDownToGenericAndThenToNothing) {
  store(100);
  const Config fallback = default_config(problem(100), facts_);
  refuse_ = [&](const Config& config) { return config == winners_[0].config ? "broken" : ""; };
  EXPECT_EQ(ask(100).config, fallback);
  refuse_ = [&](const Config& config) { return config == generic_config() ? "" : "broken"; };
  EXPECT_EQ(ask(100).source, Source::kGeneric);
  EXPECT_THAT(ask(100).reasons, Contains(HasSubstr("default " + to_string(fallback))));
  refuse_ = [](const Config&) { return "broken"; };
  EXPECT_TRUE(ask(100).config.empty());
}

TEST_F(LadderTest, APinServesBeforeAnyWinner) {
  store(100, 1);
  pin_ = generic_config();
  EXPECT_EQ(ask(100).source, Source::kPinned);
  EXPECT_EQ(ask(100).config, generic_config());
}

TEST_F(LadderTest, AnIllegalPinIsAnErrorWithItsReason) {
  pin_ = *parse_config("generic:threads=257");
  const Problem asked = problem(4);
  const Result<Choice> choice = choose({asked, facts_, winners_, &pin_, {}});
  ASSERT_FALSE(choice.ok());
  EXPECT_EQ(choice.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(choice.status().message(), HasSubstr("generic:threads=257"));
}

TEST_F(LadderTest, WinnersTooFarAwayAreNamed) {
  store(10, 1);
  store(4000, 2);
  EXPECT_THAT(ask(200).reasons, Contains(HasSubstr("S=10 S=4000")));
}

// Winners of different configs at S = 16 and 4096, and what reuse between them costs.
struct ReuseCase {
  const char* what;
  double below_ratio;  // of the config of 16, at 4096; 0 = not measured
  double above_ratio;  // of the config of 4096, at 16
  RowRange below, above;
  const char* reason;
};
std::ostream& operator<<(std::ostream& out, const ReuseCase& reuse) {
  return out << reuse.what;
}

class LadderReuse : public LadderTest, public ::testing::WithParamInterface<ReuseCase> {
 protected:
  LadderReuse() {
    store(16, 1);
    store(4096, 2);
    measured(1, 0, GetParam().below_ratio);
    measured(0, 1, GetParam().above_ratio);
  }
  void expect_share(RowRange range, std::size_t winner) {
    for (const std::int64_t rows : {range.lo, range.hi}) {
      if (!range.holds(rows)) continue;
      const Choice choice = ask(rows);
      EXPECT_EQ(choice.source, Source::kNearest) << rows;
      EXPECT_EQ(choice.config, winners_[winner].config) << rows;
      EXPECT_EQ(choice.lo, range.lo);
      EXPECT_EQ(choice.hi, range.hi);
      EXPECT_THAT(choice.reasons, Contains(HasSubstr(GetParam().reason)));
    }
  }
};

TEST_P(LadderReuse, GivesTheSInBetweenToWhomTheyWereMeasuredFor) {
  const auto [what, below_ratio, above_ratio, below, above, reason] = GetParam();
  expect_share(below, 0);
  expect_share(above, 1);
  for (const std::int64_t rows : {17, 32, 33, 255, 256, 257, 2047, 2048, 4095}) {
    if (below.holds(rows) || above.holds(rows)) continue;
    const Choice choice = ask(rows);
    EXPECT_EQ(choice.source, Source::kDefault) << rows;
    EXPECT_THAT(choice.reasons, Contains(HasSubstr(reason))) << rows;
  }
}

constexpr RowRange kAll{17, 4095}, kNone{1, 0}, kTwice{17, 32}, kHalf{2048, 4095};
INSTANTIATE_TEST_SUITE_P(
    Measured, LadderReuse,
    ::testing::Values(
        ReuseCase{"nothing", 0, 0, kTwice, kHalf, "what reuse costs was not measured"},
        ReuseCase{
            "below is good above", 1.02, 0, kAll, kNone,
            "S=16 and S=4096 serve all between them (reuse may cost 1.05); that of S=16 takes "
            "1.020 of the other's time at S=4096"},
        ReuseCase{"above is good below", 0, 1.05, kNone, kAll,
                  "that of S=4096 takes 1.050 of the other's time at S=16"},
        ReuseCase{"both are good", 1.02, 0.99, {17, 256}, {257, 4095}, "1.020 of the other's"},
        ReuseCase{"below alone is good", 1.02, 3, kAll, kNone, "3.000 of the other's"},
        ReuseCase{"above alone is good", 1.06, 1.01, kNone, kAll, "1.060 of the other's"},
        ReuseCase{"neither is good", 1.31, 1.2, kTwice, kHalf, "serve a factor of two"},
        ReuseCase{"below is bad", 1.051, 0, kTwice, kHalf, "1.051 of the other's"}));

TEST_F(LadderTest, AMeasuredLossCountsOnlyForTheConfigThatItWasMeasuredOf) {
  store(16, 1);
  store(4096, 2);
  measured(1, 0, 1.02);
  EXPECT_EQ(ask(1000).source, Source::kNearest);
  winners_[0].config = winners_[1].config;  // tuned anew since: now there is nothing to lose
  EXPECT_EQ(ask(1000).source, Source::kNearest);
  EXPECT_THAT(ask(1000).reasons, Contains(HasSubstr("have one config")));
  winners_[0].config = legal_configs(problem(4), facts_).at(3);
  EXPECT_EQ(ask(1000).source, Source::kDefault);
}

TEST_F(LadderTest, OfThreeWinnersEachGapHasItsOwnBound) {
  store(16, 1);
  store(256, 2);
  store(4096, 3);
  measured(1, 0, 1.4);   // the lower gap: neither way
  measured(1, 2, 1.03);  // the upper: the config of 4096 is good at 256
  EXPECT_EQ(ask(64).source, Source::kDefault);
  EXPECT_EQ(ask(64).lo, 64);
  EXPECT_EQ(ask(64).hi, 127);
  EXPECT_EQ(ask(200).config, winners_[1].config);
  EXPECT_EQ(ask(257).config, winners_[2].config);
  EXPECT_EQ(ask(257).lo, 257);
  EXPECT_EQ(ask(257).hi, 4095);
  EXPECT_EQ(ask(256).source, Source::kExact);
}

TEST_F(LadderTest, BeyondTheOutermostWinnersAFactorOfTwoHolds) {
  store(16, 1);
  store(4096, 2);
  measured(1, 0, 1.02);
  EXPECT_EQ(ask(7).source, Source::kDefault);
  EXPECT_EQ(ask(8).config, winners_[0].config);
  EXPECT_EQ(ask(8192).config, winners_[1].config);
  EXPECT_EQ(ask(8193).source, Source::kDefault);
}

TEST_F(LadderTest, AWinnerThatMayNotServeNowLeavesItsSToTheOther) {
  store(16, 1);
  store(4096, 2);
  measured(1, 0, 1.02);
  refuse_ = [&](const Config& config) { return config == winners_[0].config ? "broken" : ""; };
  EXPECT_EQ(ask(1000).source, Source::kDefault);
  EXPECT_EQ(ask(3000).config, winners_[1].config);
  EXPECT_EQ(ask(3000).lo, 2048);
}

TEST(Sources, HaveDistinctNames) {
  EXPECT_STREQ(to_string(Source::kExact), "exact");
  EXPECT_STREQ(to_string(Source::kNearest), "nearest");
  EXPECT_STREQ(to_string(Source::kDefault), "default");
  EXPECT_STREQ(to_string(Source::kGeneric), "generic");
  EXPECT_STREQ(to_string(Source::kPinned), "pinned");
}

}  // namespace
}  // namespace rowsmith
