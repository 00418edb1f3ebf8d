// SPDX-License-Identifier: Apache-2.0
//
// The host device's arithmetic and conversions, against ones that share nothing with them. The
// 8-bit conversions are those of GPUs before sm_89, too.
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

// An 8-bit float as its definition puts it; NaN where it is none.
struct Fp8 {
  const char* name;
  int fraction_bits, bias, largest;

  double value(int code) const {
    const int exponent = (code & 0x7f) >> fraction_bits, hidden = 1 << fraction_bits;
    const int fraction = code & (hidden - 1);
    if ((code & 0x7f) > largest) {
      const bool infinite = fraction_bits == 2 && (code & 0x7f) == 0x7c;
      return infinite ? (code & 0x80 ? -INFINITY : INFINITY) : NAN;
    }
    const double magnitude = exponent == 0
                                 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                                 : std::ldexp(hidden + fraction, exponent - bias - fraction_bits);
    return code & 0x80 ? -magnitude : magnitude;
  }
  // The nearest code, by search over all of them: a tie goes to the even one.
  int nearest(float x) const {
    if (std::isnan(x)) return 0x7f;
    const int sign = std::signbit(x) ? 0x80 : 0;
    if (std::fabs(x) > value(largest)) return sign | largest;
    int best = 0;
    for (int code = 1; code <= largest; ++code) {
      const double before = std::fabs(value(best) - std::fabs(x));
      const double now = std::fabs(value(code) - std::fabs(x));
      if (now < before || (now == before && code % 2 == 0)) best = code;
    }
    return sign | best;
  }
  std::string convert(const std::string& body) const {
    std::string text = body;
    for (std::size_t at; (at = text.find("F8")) != std::string::npos;) text.replace(at, 2, name);
    return text;
  }
};
constexpr Fp8 kFp8[] = {{"f8e4m3", 3, 7, 0x7e}, {"f8e5m2", 2, 15, 0x7b}};

TEST(HostNumbers, EveryFp8CodeIsReadAsItsValueAloneAndInPairs) {
  std::vector<std::uint8_t> codes(256);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i);
  for (const Fp8& type : kFp8) {
    const auto alone = map<float>(
        type.convert(
            "reinterpret_cast<float*>(p.dst)[i] = to_f32(reinterpret_cast<F8*>(p.src)[i]);"),
        codes);
    const auto paired = map<float>(type.convert(R"(
  const u16 pair = reinterpret_cast<u16*>(p.src)[i / 2];
  reinterpret_cast<float*>(p.dst)[i] = i % 2 ? unpack_f8<F8>(pair).hi : unpack_f8<F8>(pair).lo;)"),
                                   codes);
    for (int code = 0; code < 256; ++code) {
      const auto at = static_cast<std::size_t>(code);
      if (std::isnan(type.value(code))) {
        EXPECT_TRUE(std::isnan(alone[at]) && std::isnan(paired[at])) << type.name << " " << code;
      } else {
        EXPECT_EQ(alone[at], type.value(code)) << type.name << " " << code;
        EXPECT_EQ(paired[at], type.value(code)) << type.name << " " << code;
      }
    }
  }
}

TEST(HostNumbers, RoundsToTheNearestFp8AndSaturates) {
  for (const Fp8& type : kFp8) {
    std::vector<float> values = {INFINITY, -INFINITY, NAN, -NAN, 3e38f, -1e-30f, 1e-45f, -0.0f};
    for (int code = 0; code <= type.largest; ++code) {  // each value, each tie, their neighbours
      const auto value = static_cast<float>(type.value(code));
      const auto step = static_cast<float>(type.value(code == type.largest ? code - 1 : code + 1));
      const float tie = value + std::fabs(step - value) / 2;
      for (const float x : {value, tie}) {
        values.insert(values.end(),
                      {x, -x, std::nextafterf(x, -1.0f), -std::nextafterf(x, INFINITY)});
      }
    }
    values.resize((values.size() + 63) / 64 * 64);
    const auto alone = map<std::uint8_t>(
        type.convert(
            "reinterpret_cast<F8*>(p.dst)[i] = from_f32<F8>(reinterpret_cast<float*>(p.src)[i]);"),
        values);
    const auto paired = map<std::uint16_t>(type.convert(R"(
  const float* at = reinterpret_cast<float*>(p.src) + i / 2 * 2;
  reinterpret_cast<u16*>(p.dst)[i] = pack_f8<F8>(at[0], at[1]);)"),
                                           values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const int expected = type.nearest(values[i]);
      EXPECT_EQ(alone[i], expected) << type.name << " " << values[i];
      EXPECT_EQ(paired[i] >> i % 2 * 8 & 0xff, expected) << type.name << " " << values[i];
    }
  }
}

TEST(HostNumbers, DoublesComeThroughShufflesWordsAndArithmeticWhole) {
  std::vector<double> values(64);
  for (std::size_t i = 0; i < 64; ++i) values[i] = 1.0 / static_cast<double>(i + 3);
  const auto got = map<double>(R"(
  const double v = reinterpret_cast<double*>(p.src)[i];
  const double there = shfl_xor(v, 5);
  const double back = as_f64(lo_word(there), hi_word(there));
  reinterpret_cast<double*>(p.dst)[i] = add(mul(v, back), div_rn(v, back));)",
                               values);
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(got[i], values[i] * values[i ^ 5] + values[i] / values[i ^ 5]);
  }
}

TEST(HostNumbers, ExponentialOfDoublesFlushesBelowTheSmallestNormal) {
  std::vector<double> values = {0.0, -1.0, -708.39, -708.4, -745.0, -INFINITY, NAN};
  values.resize(64);
  const auto got = map<double>(
      "reinterpret_cast<double*>(p.dst)[i] =\n"
      "  exp_difference(reinterpret_cast<double*>(p.src)[i], 0.0);",
      values);
  EXPECT_EQ(got[0], 1.0);
  EXPECT_NEAR(got[1], std::exp(-1.0), 0x1p-53);
  EXPECT_GE(got[2], 0x1p-1022);
  EXPECT_EQ(std::vector<double>(got.begin() + 3, got.begin() + 6), std::vector<double>(3, 0.0));
  EXPECT_TRUE(std::isnan(got[6]));
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
