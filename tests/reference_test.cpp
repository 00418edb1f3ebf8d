// SPDX-License-Identifier: Apache-2.0
#include "tuner/reference.h"

#include "tests/support/print.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>

namespace rowsmith {
namespace {

constexpr DType kTypes[] = {DType::kF64,  DType::kF32,    DType::kF16,
                            DType::kBF16, DType::kF8E4M3, DType::kF8E5M2};

std::uint64_t bits_of(DType dtype, long double value) {
  std::uint64_t bits = 0;
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

TEST(Encode, AgreesWithTheCompilersDouble) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t raw = random();
    double value = 0;
    std::memcpy(&value, &raw, sizeof value);
    if (std::isnan(value)) continue;
    EXPECT_EQ(bits_of(DType::kF64, value), raw);
    EXPECT_EQ(decode(DType::kF64, &raw), value);
    const long double between = value * (1 + std::ldexp(static_cast<long double>(random()), -117));
    const auto rounded = static_cast<double>(between);
    std::uint64_t expected = 0;
    std::memcpy(&expected, &rounded, sizeof rounded);
    EXPECT_EQ(bits_of(DType::kF64, between), expected);
  }
}

TEST(Encode, IsTheInverseOfDecodeForEveryNarrowPattern) {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2}) {
    for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 8 * size_of(dtype); ++bits) {
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

TEST(Encode, KnowsTheLandmarksOfFp8) {
  const DType e4m3 = DType::kF8E4M3, e5m2 = DType::kF8E5M2;
  const std::uint8_t nan_e4m3 = 0x7f, nan_e5m2 = 0x7d, infinity = 0x7c;
  EXPECT_TRUE(std::isnan(decode(e4m3, &nan_e4m3)));
  EXPECT_TRUE(std::isnan(decode(e5m2, &nan_e5m2)));
  EXPECT_TRUE(std::isinf(decode(e5m2, &infinity)));
  EXPECT_EQ(largest(e4m3), 448);
  EXPECT_EQ(largest(e5m2), 57344);
  EXPECT_EQ(bits_of(e4m3, 1), 0x38u);
  EXPECT_EQ(bits_of(e5m2, 1), 0x3cu);
  EXPECT_EQ(bits_of(e4m3, 0x1p-9L), 1u);
  EXPECT_EQ(bits_of(e5m2, 0x1p-16L), 1u);
  EXPECT_EQ(bits_of(e4m3, 0x1p-10L), 0u);  // a tie
  EXPECT_EQ(bits_of(e4m3, 17), bits_of(e4m3, 16));
  EXPECT_EQ(bits_of(e4m3, 19), bits_of(e4m3, 20));
}

TEST(Encode, SaturatesFp8) {
  for (const long double large : {449.0L, 480.0L, 1e6L, 0x1p16000L}) {
    EXPECT_EQ(bits_of(DType::kF8E4M3, large), 0x7eu);
    EXPECT_EQ(bits_of(DType::kF8E4M3, -large), 0xfeu);
    EXPECT_EQ(bits_of(DType::kF8E5M2, large * 1000), 0x7bu);
  }
  const long double infinity = std::numeric_limits<long double>::infinity();
  EXPECT_EQ(bits_of(DType::kF8E4M3, infinity), 0x7eu);
  EXPECT_EQ(bits_of(DType::kF8E5M2, infinity), 0x7cu);
  EXPECT_EQ(bits_of(DType::kF64, 0x1p16000L), 0x7ffull << 52);
}

TEST(RoundingInterval, OfTheLargestFp8ValueIsOpenAbove) {
  const std::uint8_t e4m3 = 0x7e, e5m2 = 0x7b;
  EXPECT_TRUE(std::isinf(rounding_interval(DType::kF8E4M3, &e4m3).high));
  EXPECT_TRUE(std::isinf(rounding_interval(DType::kF8E5M2, &e5m2).high));
  EXPECT_EQ(rounding_interval(DType::kF8E4M3, &e4m3).low, 432);
}

TEST(RoundingInterval, EndsWhereNeighboursBegin) {
  for (const DType dtype : kTypes) {
    for (const long double value : {0.0L, 1.0L, 0x1p-14L, 0.3L, 0x1p-24L}) {
      const std::uint64_t bits = bits_of(dtype, value);
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

TEST(ReferenceRow, IsScaled) {
  const float row[] = {3, 3, 3, 3};
  EXPECT_EQ(row_of(reference_row(DType::kF32, row, 4, 12)), std::vector<float>(4, 3.0f));
}

TEST(ReferenceRow, OfManyDoublesIsFarFinerThanTheBound) {
  constexpr std::int64_t kCols = 300'000;
  const std::vector<double> row(kCols, -0.3);
  const ReferenceRow reference = reference_row(DType::kF64, row.data(), kCols);
  EXPECT_LT(std::abs(reference.p[7] * kCols - 1), 0x1p-60L);
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

// A row of random input, f32 but for f64, with results of type `out`.
class JudgeRow : public ::testing::TestWithParam<DType> {
 protected:
  JudgeRow() {
    std::mt19937 random(5);
    std::normal_distribution<float> normal(0, 4);
    const DType in = out() == DType::kF64 ? DType::kF64 : DType::kF32;
    std::vector<char> input(kCols * size_of(in));
    for (std::size_t i = 0; i < kCols; ++i) encode(in, normal(random), &input[i * size_of(in)]);
    reference_ = reference_row(in, input.data(), kCols, size_of(out()) == 1 ? kCols : 1);
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
  std::vector<char> output_ = std::vector<char>(kCols * 8);
  ReferenceRow reference_;
};

TEST_P(JudgeRow, FindsNoErrorInTheNearestResults) {
  EXPECT_EQ(judge().error_ratio, 0);
  EXPECT_EQ(judge().worst_col, -1);
  EXPECT_LE(judge().max_error_ulp, 0.5);
  EXPECT_EQ(refused(), -1);
}

TEST_P(JudgeRow, DrawsTheLineAtTheBound) {
  const long double unit = out() == DType::kF64 ? 0x1p-53L : 0x1p-24L;
  const long double bound = unit * (32 + 2 * reference_.below_max[9]) * reference_.p[9];
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
  // The largest, lest its negative round to -0.
  const auto at = static_cast<std::size_t>(
      std::max_element(reference_.p.begin(), reference_.p.end()) - reference_.p.begin());
  for (const long double wrong :
       {std::numeric_limits<long double>::quiet_NaN(), std::numeric_limits<long double>::infinity(),
        -reference_.p[at]}) {
    put(at, wrong);
    EXPECT_GT(judge().error_ratio, 1);
    EXPECT_EQ(refused(), static_cast<std::int64_t>(at));
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

TEST_P(JudgeRow, LetsSubnormalResultsBeZeroExceptInF16AndFp8) {
  const auto smallest_normal = [&]() -> long double {
    switch (out()) {
      case DType::kF64: return 0x1p-1022L;
      case DType::kF8E4M3: return 0x1p-6L;
      case DType::kF8E5M2:
      case DType::kF16: return 0x1p-14L;
      default: return 0x1p-126L;
    }
  };
  const bool kept = smallest_normal() > 0x1p-100L;
  // Half of it, and what lies below the smallest normal of bf16, but rounds up to it.
  for (const long double factor : {0.5L, 1 - 0x1p-10L}) {
    const long double tiny = smallest_normal() * factor;
    reference_.p[5] = tiny;
    reference_.below_max[5] = static_cast<float>(-std::log(tiny));
    put(5, 0);
    EXPECT_EQ(judge().error_ratio <= 1, !kept);
    EXPECT_EQ(refused(), kept ? 5 : -1);
  }
}

// exp(-88) is not normal in f32, and no scale brings it back.
TEST_P(JudgeRow, LetsBeZeroWhatTheExponentialLosesWhateverTheScale) {
  reference_.lost_below = 0x1p-106L;
  reference_.p[5] = 0x1p-107L;
  reference_.below_max[5] = 88;
  put(5, 0);
  EXPECT_EQ(judge().error_ratio, 0);
  EXPECT_EQ(refused(), -1);
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
