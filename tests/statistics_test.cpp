// SPDX-License-Identifier: Apache-2.0
#include "tuner/statistics.h"

#include <gtest/gtest.h>

#include <random>

namespace rowsmith {
namespace {

std::vector<double> normal_samples(std::size_t count, double mean, double sigma,
                                   std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(mean, sigma);
  std::vector<double> samples(count);
  for (double& sample : samples) sample = normal(random);
  return samples;
}

TEST(Median, IsTheMiddleOrTheMeanOfTheTwoMiddleOnes) {
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
}

TEST(MedianAbsoluteDeviation, IgnoresOutliersOfEitherSide) {
  EXPECT_EQ(median_absolute_deviation({10, 11, 9, 10, 10}), 0);
  EXPECT_EQ(median_absolute_deviation({10, 12, 8, 1e9, 0.001}), 2);
}

TEST(MedianInterval, OfFewSamplesIsTheirRangeWithItsTrueCoverage) {
  const Interval five = median_interval({5, 1, 4, 2, 3});
  EXPECT_EQ(five.low, 1);
  EXPECT_EQ(five.high, 5);
  EXPECT_DOUBLE_EQ(five.coverage, 1 - 2 / 32.0);
  EXPECT_EQ(median_interval({5}).coverage, 0);
}

// k of n from the tables of the sign test at 5 %: 6 -> 0, 9 -> 1, 11 -> 1, 12 -> 2, 15 -> 3.
TEST(MedianInterval, DropsAsManyExtremesAsTheSignTestAllows) {
  const std::pair<int, int> cuts[] = {{6, 0}, {9, 1}, {11, 1}, {12, 2}, {15, 3}, {31, 9}};
  for (const auto& [count, cut] : cuts) {
    std::vector<double> samples;
    for (int i = 0; i < count; ++i) samples.push_back(i);
    const Interval interval = median_interval(samples);
    EXPECT_EQ(interval.low, cut) << count;
    EXPECT_EQ(interval.high, count - 1 - cut) << count;
    EXPECT_GE(interval.coverage, 0.95) << count;
  }
}

TEST(MedianInterval, HoldsTheMedianAsOftenAsItSays) {
  int held = 0;
  for (std::uint32_t seed = 0; seed < 1000; ++seed) {
    const Interval interval = median_interval(normal_samples(15, 100, 5, seed));
    held += interval.low <= 100 && 100 <= interval.high ? 1 : 0;
  }
  EXPECT_GE(held, 940);  // 964.8 expected, standard deviation 5.8
}

TEST(ComparePaired, CancelsDriftThatHitsBothAlike) {
  const std::vector<double> noise = normal_samples(15, 0, 0.001, 3);
  std::vector<double> a, b;
  for (std::size_t i = 0; i < 15; ++i) {
    const double clock = 1 + 0.2 * static_cast<double>(i);  // tripled by the end
    a.push_back(97 * clock * (1 + noise[i]));
    b.push_back(100 * clock);
  }
  EXPECT_TRUE(compare_paired(a, b).faster_by(0.01));
  EXPECT_TRUE(compare_paired(b, a).slower_by(0.01));
  EXPECT_FALSE(median_interval(a).high < median_interval(b).low);  // unpaired, nothing is sure
}

TEST(ComparePaired, IsNotMisledByOneOutlier) {
  std::vector<double> a(15, 100), b(15, 100);
  a[4] = 1;
  b[9] = 1e6;
  const PairedComparison comparison = compare_paired(a, b);
  EXPECT_EQ(comparison.ratio, 1);
  EXPECT_FALSE(comparison.faster_by(0));
  EXPECT_FALSE(comparison.slower_by(0));
}

TEST(ComparePaired, FindsEqualsEqualInNearlyAllRuns) {
  int decided = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    const auto comparison = compare_paired(normal_samples(15, 100, 3, 2 * seed),
                                           normal_samples(15, 100, 3, 2 * seed + 1));
    decided += comparison.faster_by(0.01) || comparison.slower_by(0.01) ? 1 : 0;
  }
  EXPECT_LE(decided, 12);  // at most 3.5 % of 300 by the interval's coverage, less by the margin
}

TEST(ComparePaired, DecidesNothingOfFewerThanThreePairs) {
  EXPECT_FALSE(compare_paired({1, 1}, {2, 2}).faster_by(0));
  EXPECT_FALSE(compare_paired({}, {1}).slower_by(0));
  EXPECT_TRUE(compare_paired({1, 1, 1}, {2, 2, 2}).faster_by(0));
}

}  // namespace
}  // namespace rowsmith
