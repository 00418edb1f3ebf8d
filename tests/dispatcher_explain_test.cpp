// SPDX-License-Identifier: Apache-2.0
//
// What a runtime says of its choice, and of the winner that it chose.
#include "tests/support/dispatch_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

namespace rowsmith {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

class DispatcherExplainTest : public testing::DispatchFixture {};

TEST_F(DispatcherExplainTest, AWinnerOfADirtyRunServesAndIsExplainedAsOne) {
  ASSERT_TRUE(store_winner(100, 1, kCols, "thermal").ok());
  ASSERT_TRUE(store_winner(400, 1).ok());
  open();
  EXPECT_EQ(serve(100), entry(config(1)));
  const auto doubts = HasSubstr("in doubt (throttled: thermal)");
  for (const std::int64_t near_the_dirty_one : {100, 110}) {
    EXPECT_THAT(runtime_->explain(problem(near_the_dirty_one))->reasons, Contains(doubts));
  }
  for (const std::int64_t near_the_clean_one : {400, 500}) {
    EXPECT_THAT(runtime_->explain(problem(near_the_clean_one))->reasons, Each(Not(doubts)));
  }
}

TEST_F(DispatcherExplainTest, ExplainLoadsAndTunesNothing) {
  open(OnMiss::kTune, tune_to(1));
  const auto answer = runtime_->explain(problem(100));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer.value().source, Source::kDefault);
  EXPECT_EQ(answer.value().config, config(0));
  EXPECT_THAT(answer.value().reasons, Contains(HasSubstr("policy tune")));
  EXPECT_EQ(device_->compiles(), 0u);
  EXPECT_EQ(tunings_, 0);
  EXPECT_EQ(runtime_->explain(problem(0)).status().code(), Code::kInvalidArgument);
}

TEST_F(DispatcherExplainTest, ExplainNamesTheKeyPartsThatDiffer) {
  WinnerRecord record;
  record.device_class = "cuda-of-old";
  record.problem = problem(100);
  record.problem.layout.in_place = true;
  record.config = config(1);
  record.evidence.median_ns = 1;
  ASSERT_TRUE(session_.store->put(record).ok());
  open();
  const auto answer = runtime_->explain(problem(100));
  ASSERT_TRUE(answer.ok());
  EXPECT_THAT(answer.value().reasons, Contains(HasSubstr("device class cuda-of-old")));
  EXPECT_THAT(answer.value().reasons, Contains(HasSubstr("in-place")));
}

TEST_F(DispatcherExplainTest, C01_AWinnerOfAnotherDriverOrCompilerServesAndIsToldAsOne) {
  const auto told = HasSubstr("tuned with other tools");
  const int driver = device_->facts().driver_version;
  const std::string compiler = device_->facts().compiler;
  ASSERT_TRUE(store_winner(100, 1).ok());
  WinnerRecord record = session_.store->list().value().at(0);
  for (const auto& [driver_then, compiler_then, words] :
       {std::tuple(12080, compiler, "(driver 12080, now 13000)"),
        std::tuple(driver, std::string("script 0"), "(script 0, now script 1)"),
        std::tuple(12080, std::string("script 0"),
                   "(driver 12080, now 13000; script 0, now script 1)")}) {
    record.evidence.driver_version = driver_then;
    record.evidence.compiler = compiler_then;
    ASSERT_TRUE(session_.store->put(record).ok());
    open();
    EXPECT_EQ(serve(100), entry(config(1)));
    for (const std::int64_t rows : {100, 110}) {
      EXPECT_THAT(runtime_->explain(problem(rows))->reasons, Contains(HasSubstr(words)));
    }
    EXPECT_THAT(runtime_->explain(problem(5000))->reasons, Each(Not(told)));
  }
  record.evidence.driver_version = driver;
  record.evidence.compiler = compiler;
  ASSERT_TRUE(session_.store->put(record).ok());
  open();
  EXPECT_THAT(runtime_->explain(problem(100))->reasons, Each(Not(told)));
}

}  // namespace
}  // namespace rowsmith
