// SPDX-License-Identifier: Apache-2.0
#include "tuner/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace rowsmith {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

std::uint32_t bits_of(DType dtype, long double value) {
  std::uint32_t bits = 0;
  encode(dtype, value, &bits);
  return bits;
}

std::vector<float> row_of(const ReferenceRow& reference) {
  return {reference.p.begin(), reference.p.end()};
}

TEST(Encode, AgreesWithTheCompilersFloat) {
  std::mt19937 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const std::uint32_t raw = random();
    float value = 0;
    std::memcpy(&value, &raw, sizeof value);
    if (std::isnan(value)) continue;
    EXPECT_EQ(bits_of(DType::kF32, value), raw);
    EXPECT_EQ(decode(DType::kF32, &raw), value);
    const double between = value * (1 + std::ldexp(static_cast<double>(random()), -56));
    const float rounded = static_cast<float>(between);
    std::uint32_t expected = 0;
    std::memcpy(&expected, &rounded, sizeof rounded);
    EXPECT_EQ(bits_of(DType::kF32, between), expected);
  }
}

TEST(Encode, IsTheInverseOfDecodeForEverySixteenBitPattern) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const long double value = decode(dtype, &bits);
      if (std::isnan(value)) continue;
      EXPECT_EQ(bits_of(dtype, value), bits);
    }
  }
}

TEST(Encode, RoundsTiesToEvenAndOverflowsToInfinity) {
  EXPECT_EQ(bits_of(DType::kF16, 1 + 0x1p-11L), 0x3c00u);
  EXPECT_EQ(bits_of(DType::kF16, 1 + 0x3p-11L), 0x3c02u);
  EXPECT_EQ(bits_of(DType::kF16, 65519), 0x7bffu);
  EXPECT_EQ(bits_of(DType::kF16, 65520), 0x7c00u);
  EXPECT_EQ(bits_of(DType::kF16, 0x1p-25L), 0u);
  EXPECT_EQ(bits_of(DType::kF16, 0x1.8p-25L), 1u);
  EXPECT_EQ(bits_of(DType::kBF16, -1), 0xbf80u);
  EXPECT_EQ(bits_of(DType::kBF16, largest(DType::kBF16)), 0x7f7fu);
}

TEST(RoundingInterval, EndsWhereNeighboursBegin) {
  for (const DType dtype : kTypes) {
    for (const long double value : {0.0L, 1.0L, 0x1p-14L, 0.3L, 0x1p-24L}) {
      const std::uint32_t bits = bits_of(dtype, value);
      const RoundingInterval interval = rounding_interval(dtype, &bits);
      const long double width = interval.high - interval.low;
      EXPECT_EQ(bits_of(dtype, interval.high - width / 1024), bits);
      EXPECT_EQ(bits_of(dtype, interval.high + width / 1024), bits + 1);
    }
  }
}

TEST(ReferenceRow, OfEqualValuesIsUniform) {
  const float row[] = {3, 3, 3, 3};
  EXPECT_EQ(row_of(reference_row(DType::kF32, row, 4)), std::vector<float>(4, 0.25f));
}

TEST(ReferenceRow, FollowsTheRulesForInfinityAndNan) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const float all_minus[] = {-inf, -inf}, plus[] = {0, inf}, with_nan[] = {0, nan, -inf};
  EXPECT_TRUE(reference_row(DType::kF32, all_minus, 2).all_nan);
  EXPECT_TRUE(reference_row(DType::kF32, plus, 2).all_nan);
  EXPECT_TRUE(reference_row(DType::kF32, with_nan, 3).all_nan);
  const float mixed[] = {-inf, 7, -inf};
  EXPECT_EQ(row_of(reference_row(DType::kF32, mixed, 3)), (std::vector<float>{0, 1, 0}));
}

// A row of random f32 input with results of type `out`.
class JudgeRow : public ::testing::TestWithParam<DType> {
 protected:
  JudgeRow() {
    std::mt19937 random(5);
    std::normal_distribution<float> normal(0, 4);
    for (float& x : input_) x = normal(random);
    reference_ = reference_row(DType::kF32, input_.data(), kCols);
    for (std::size_t i = 0; i < kCols; ++i) put(i, reference_.p[i]);
  }
  DType out() const { return GetParam(); }
  char* at(std::size_t i) { return output_.data() + i * size_of(out()); }
  void put(std::size_t i, long double value) { encode(out(), value, at(i)); }
  Accuracy judge() { return judge_row(reference_, out(), output_.data(), kCols); }
  std::int64_t refused() {
    return first_refused(accepted_results(reference_, out()), out(), output_.data(), kCols);
  }

  static constexpr std::size_t kCols = 257;
  std::vector<float> input_ = std::vector<float>(kCols);
  std::vector<char> output_ = std::vector<char>(kCols * 4);
  ReferenceRow reference_;
};

TEST_P(JudgeRow, FindsNoErrorInTheNearestResults) {
  EXPECT_EQ(judge().error_ratio, 0);
  EXPECT_EQ(judge().worst_col, -1);
  EXPECT_LE(judge().max_error_ulp, 0.5);
  EXPECT_EQ(refused(), -1);
}

TEST_P(JudgeRow, DrawsTheLineAtTheBound) {
  const long double bound = 0x1p-24L * (32 + 2 * reference_.below_max[9]) * reference_.p[9];
  put(9, reference_.p[9] + 0.9L * bound);
  EXPECT_LE(judge().error_ratio, 1);
  EXPECT_EQ(refused(), -1);
  const long double ulp = unit_in_last_place(out(), reference_.p[9]);
  put(9, reference_.p[9] + 1.1L * bound + ulp);
  EXPECT_GT(judge().error_ratio, 1);
  EXPECT_EQ(judge().worst_col, 9);
  EXPECT_EQ(refused(), 9);
}

TEST_P(JudgeRow, AllowsNoNanInfinityOrNegativeResult) {
  for (const long double wrong : {std::numeric_limits<long double>::quiet_NaN(),
                                  std::numeric_limits<long double>::infinity(), -reference_.p[3]}) {
    put(3, wrong);
    EXPECT_GT(judge().error_ratio, 1);
    EXPECT_EQ(refused(), 3);
  }
}

TEST_P(JudgeRow, WantsNanAllOverWhereTheReferenceHasIt) {
  reference_ = {true, {}, {}};
  EXPECT_EQ(refused(), 0);
  EXPECT_EQ(judge().error_ratio, INFINITY);
  for (std::size_t i = 0; i < kCols; ++i) put(i, std::numeric_limits<long double>::quiet_NaN());
  EXPECT_EQ(refused(), -1);
  EXPECT_EQ(judge().error_ratio, 0);
}

TEST_P(JudgeRow, LetsSubnormalResultsBeZeroExceptInF16) {
  // The second lies below the smallest normal of bf16, but rounds up to it.
  for (const long double factor : {0x1p-4L, 1 - 0x1p-10L}) {
    const long double tiny = (out() == DType::kF16 ? 0x1p-14L : 0x1p-126L) * factor;
    reference_.p[5] = tiny;
    reference_.below_max[5] = -std::log(static_cast<float>(tiny));
    put(5, 0);
    EXPECT_EQ(judge().error_ratio <= 1, out() != DType::kF16);
    EXPECT_EQ(refused(), out() == DType::kF16 ? 5 : -1);
  }
}

TEST_P(JudgeRow, WantsExactZeroBesideMinusInfinity) {
  reference_.p[5] = 0;
  reference_.below_max[5] = INFINITY;
  put(5, 0);
  EXPECT_EQ(refused(), -1);
  EXPECT_EQ(judge().error_ratio, 0);
  put(5, unit_in_last_place(out(), 0));
  EXPECT_EQ(refused(), 5);
  EXPECT_EQ(judge().error_ratio, INFINITY);
}

INSTANTIATE_TEST_SUITE_P(Types, JudgeRow, ::testing::ValuesIn(kTypes),
                         [](const auto& test) { return to_string(test.param); });

}  // namespace
}  // namespace rowsmith
