// SPDX-License-Identifier: Apache-2.0
//
// The host device's arithmetic and conversions, against ones that share nothing with them.
#include "tests/support/host_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace rowsmith::testing {
namespace {

// An independent converter: the half nearest to a value, by search over all of them.
double half_value(std::uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const int fraction = static_cast<int>(bits & 1023);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

std::uint16_t nearest_half(float value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  std::uint32_t low = 0, high = 0x7c00;  // bit patterns are ordered as their values are
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (half_value(middle) <= magnitude ? low : high) = middle;
  }
  // Infinity stands where 2^16, the next power, would.
  const double above = high == 0x7c00 ? 65536.0 : half_value(high);
  const double down = magnitude - half_value(low), up = above - magnitude;
  const bool take_high = up < down || (up == down && low % 2 == 1);
  return static_cast<std::uint16_t>(sign | (take_high ? high : low));
}

// Runs a body over 64 threads a block, with `count` elements in and out.
template <class Out, class In>
std::vector<Out> map(const std::string& body, const std::vector<In>& in) {
  const Loaded loaded =
      load("{\n  const i64 i = block_index() * 64 + thread_index();\n" + body + "\n}");
  const Buffer src = loaded.device->allocate(in.size() * sizeof(In)).value();
  const Buffer dst = loaded.device->allocate(in.size() * sizeof(Out)).value();
  std::memcpy(src.data(), in.data(), src.bytes());
  const auto blocks = static_cast<std::int64_t>(in.size() / 64);
  const Status status = loaded.run({src.data(), dst.data(), blocks * 64}, shape_of(blocks, 64));
  EXPECT_TRUE(status.ok()) << status.to_string();
  return values_of<Out>(dst);
}

// Case A15: subnormal halves, against a converter that shares nothing with ours.
TEST(HostNumbers, EveryHalfSurvivesTheWayThroughF32) {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  const auto wide = map<float>(
      "reinterpret_cast<float*>(p.dst)[i] = to_f32(reinterpret_cast<f16*>(p.src)[i]);", halves);
  const auto back = map<std::uint16_t>(
      "reinterpret_cast<f16*>(p.dst)[i] = from_f32<f16>(reinterpret_cast<float*>(p.src)[i]);",
      wide);
  for (std::uint32_t i = 0; i < 65536; ++i) {
    if ((i & 0x7fff) > 0x7c00) {
      ASSERT_TRUE(std::isnan(wide[i])) << i;
      ASSERT_EQ(back[i], 0x7fff) << i;
    } else {
      ASSERT_EQ(wide[i],
                (i & 0x7fff) == 0x7c00 ? (i & 0x8000 ? -INFINITY : INFINITY) : half_value(i))
          << i;
      ASSERT_EQ(back[i], i);
    }
  }
}

TEST(HostNumbers, RoundsToTheNearestHalfSubnormalsIncluded) {
  std::vector<float> values;
  for (std::uint32_t half = 0; half < 0x7c00;
       ++half) {  // each half, each tie, and their neighbours
    const auto value = static_cast<float>(half_value(half));
    const double above = half == 0x7bff ? 65536.0 : half_value(half + 1);
    const auto tie = static_cast<float>((half_value(half) + above) / 2);
    values.insert(values.end(),
                  {value, -tie, std::nextafterf(tie, 0.0f), std::nextafterf(tie, 1e9f)});
  }
  for (int i = 0; i < 4096; ++i)
    values.push_back(std::ldexp(1.0f + static_cast<float>(i) / 4096, i % 26 - 40));
  values.resize(values.size() / 64 * 64);
  const auto got = map<std::uint16_t>(
      "reinterpret_cast<f16*>(p.dst)[i] = from_f32<f16>(reinterpret_cast<float*>(p.src)[i]);",
      values);
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(got[i], nearest_half(values[i])) << values[i];
}

TEST(HostNumbers, PacksTwoElementsAsOneByOne) {
  std::vector<float> values;
  for (int i = 0; i < 1024; ++i)
    values.push_back(std::ldexp(1.0f + static_cast<float>(i) / 977, i % 60 - 30));
  const auto words = map<std::uint32_t>(R"(
  const float v = reinterpret_cast<float*>(p.src)[i];
  const u32 half = pack2<f16>(v, -v), brain = pack2<bf16>(v, -v);
  const bool good = (half & 0xffff) == from_f32<f16>(v).bits && half >> 16 == from_f32<f16>(-v).bits &&
                    (brain & 0xffff) == from_f32<bf16>(v).bits && brain >> 16 == from_f32<bf16>(-v).bits &&
                    hi_f32<bf16>(brain) == -lo_f32<bf16>(brain) && hi_f32<f16>(half) == -lo_f32<f16>(half);
  reinterpret_cast<u32*>(p.dst)[i] = good;)",
                                        values);
  EXPECT_THAT(words, ::testing::Each(1u));
}

TEST(HostNumbers, RoundsBrainFloatsToNearestEven) {
  const std::vector<float> values = [] {
    std::vector<float> all = {1.0f,        0x1.01p0f, 0x1.03p0f, 0x1.010002p0f, 3.4e38f,
                              0x1.ffp127f, 0.0f,      -0.0f,     INFINITY,      NAN};
    all.resize(64);
    return all;
  }();
  const auto got = map<std::uint16_t>(
      "reinterpret_cast<bf16*>(p.dst)[i] = from_f32<bf16>(reinterpret_cast<float*>(p.src)[i]);",
      values);
  const std::vector<std::uint16_t> want = {0x3f80, 0x3f80, 0x3f82, 0x3f81, 0x7f80,
                                           0x7f80, 0,      0x8000, 0x7f80, 0x7fff};
  EXPECT_EQ(std::vector<std::uint16_t>(got.begin(), got.begin() + 10), want);
}

TEST(HostNumbers, ExponentialFlushesBelowTheSmallestNormal) {
  std::vector<float> values = {0.0f,      1.0f,     -126.0f, -126.5f, -149.0f,
                               -INFINITY, INFINITY, NAN,     0.5f,    200.0f};
  values.resize(64);
  const auto got = map<float>(
      "reinterpret_cast<float*>(p.dst)[i] = ex2(reinterpret_cast<float*>(p.src)[i]);", values);
  EXPECT_EQ(std::vector<float>(got.begin(), got.begin() + 7),
            (std::vector<float>{1.0f, 2.0f, 0x1p-126f, 0.0f, 0.0f, 0.0f, INFINITY}));
  EXPECT_TRUE(std::isnan(got[7]));
  EXPECT_NEAR(got[8], std::sqrt(2.0f), 2e-7f);
  EXPECT_EQ(got[9], INFINITY);
}

TEST(HostNumbers, MaximumDropsNanAndArithmeticIsNotFused) {
  std::vector<float> values = {NAN, 3.0f, -INFINITY, 0x1.000002p0f};
  values.resize(64);
  const auto got = map<float>(R"(
  const float v = reinterpret_cast<float*>(p.src)[i];
  float out = max_num(v, 2.0f);
  if (i == 2) out = max_num(2.0f, as_f32(0x7fc00000u));
  if (i == 3) out = add(mul(v, v), -0x1.000004p0f);
  if (i == 4) out = fma_rn(0x1.000002p0f, 0x1.000002p0f, -0x1.000004p0f);
  if (i == 5) out = max_num(as_f32(0x7fc00000u), as_f32(0x7fc00000u));
  reinterpret_cast<float*>(p.dst)[i] = out;)",
                              values);
  EXPECT_EQ(std::vector<float>(got.begin(), got.begin() + 5),
            (std::vector<float>{2.0f, 3.0f, 2.0f, 0.0f, 0x1p-46f}));
  EXPECT_TRUE(std::isnan(got[5]));
}

}  // namespace
}  // namespace rowsmith::testing
