// SPDX-License-Identifier: Apache-2.0
#include "tuner/budget.h"

#include <gtest/gtest.h>

#include <vector>

namespace rowsmith {
namespace {

DeviceFacts h200() {
  DeviceFacts facts;
  facts.memory_bus_bits = 6144;
  facts.memory_clock_khz = 3201000;
  return facts;
}

double floor_of(std::int64_t rows, std::int64_t cols, DType in = DType::kF16) {
  return expected_floor_ns(contiguous_problem(in, in, rows, cols), h200());
}

TEST(ExpectedFloor, IsALaunchForSmallProblemsAndBytesAtTheMemorysRateForLargeOnes) {
  EXPECT_NEAR(floor_of(1, 32), 1000, 1);
  const double bytes = 2.0 * 4 * 65536 * 4096;
  EXPECT_NEAR(floor_of(65536, 4096, DType::kF32), bytes / 4917, 0.01 * bytes / 4917);
}

TEST(ExpectedFloor, NeedsNoFactsAndCannotOverflow) {
  const Problem vast = contiguous_problem(DType::kF64, DType::kF64, std::int64_t{1} << 40, 1 << 20);
  EXPECT_GT(expected_floor_ns(vast, DeviceFacts()), 1e12);
}

TEST(BudgetPart, IsEqualForEqualStakes) {
  EXPECT_DOUBLE_EQ(budget_part({7, 7, 7, 7}, 0), 0.25);
  EXPECT_DOUBLE_EQ(budget_part({7, 7, 7, 7}, 3), 1);
}

TEST(BudgetPart, GrowsWithTheStakeAndStarvesNobody) {
  EXPECT_DOUBLE_EQ(budget_part({90, 10}, 0), (0.5 + 0.9) / 2);
  EXPECT_DOUBLE_EQ(budget_part({10, 90}, 0), (0.5 + 0.1) / 2);
  EXPECT_GT(budget_part({1e-3, 1e9, 1e9}, 0), 0.16);
}

TEST(BudgetPart, LeavesOutThoseThatNeedNoTuning) {
  EXPECT_DOUBLE_EQ(budget_part({10, 0, 0, 10}, 0), 0.5);
  EXPECT_DOUBLE_EQ(budget_part({10, 0, 0}, 0), 1);
  EXPECT_GT(budget_part({0, 10}, 0), 0);
  EXPECT_DOUBLE_EQ(budget_part({0}, 0), 1);
}

TEST(BudgetPart, AddsUpToTheWholeWhereEachUsesItsPart) {
  const std::vector<double> stakes{5, 0, 80, 1, 1, 13};
  double left = 60;
  for (const std::size_t at : {0, 2, 3, 4, 5}) {
    const double used = left * budget_part(stakes, at);
    EXPECT_GT(used, 0);
    left -= used;
  }
  EXPECT_NEAR(left, 0, 1e-9);
}

}  // namespace
}  // namespace rowsmith
