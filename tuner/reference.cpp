// SPDX-License-Identifier: Apache-2.0
//
// Element types by their format numbers alone, so that one text serves them all, and the error
// rule: a result is right if it is the nearest element to some q with |q - p| <= u (32 + 2 (m -
// x)) p, u = 2^-24.
#include "tuner/reference.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

namespace rowsmith {
namespace {

constexpr long double kInfinity = std::numeric_limits<long double>::infinity();
constexpr long double kUnit = 0x1p-24L;

// An IEEE-like binary format: sign, exponent, fraction.
struct Format {
  int fraction_bits;
  int exponent_bits;
  bool keeps_subnormals;  // else a result below the smallest normal may be 0

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int least_exponent() const { return 1 - bias(); }
  std::uint32_t exponent_mask() const { return (1u << exponent_bits) - 1; }
  std::uint32_t infinity_bits() const { return exponent_mask() << fraction_bits; }
  std::uint32_t sign_bit() const { return 1u << (fraction_bits + exponent_bits); }
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::kF16: return {10, 5, true};
    case DType::kBF16: return {7, 8, false};
    default: assert(dtype == DType::kF32); return {23, 8, false};
  }
}

std::uint32_t load_bits(DType dtype, const void* element) {
  std::uint32_t bits = 0;  // little-endian, as every machine that CUDA runs on
  std::memcpy(&bits, element, size_of(dtype));
  return bits;
}

// The value of non-negative bits; the bits of infinity count as the next power of two, so that the
// interval of the largest finite value ends where rounding to infinity begins.
long double magnitude(const Format& format, std::uint32_t bits) {
  const int exponent = static_cast<int>(bits >> format.fraction_bits);
  const std::uint32_t fraction = bits & ((1u << format.fraction_bits) - 1);
  const std::uint32_t significand =
      exponent == 0 ? fraction : fraction | 1u << format.fraction_bits;
  return std::ldexp(static_cast<long double>(significand),
                    std::max(exponent, 1) - format.bias() - format.fraction_bits);
}

long double bound_of(long double p, float below_max) {
  return kUnit * (32 + 2 * static_cast<long double>(below_max)) * p;
}

// A value within the bound is below the smallest normal, of a dtype whose subnormals may be lost.
bool may_be_zero(const Format& format, long double p, long double bound) {
  return !format.keeps_subnormals && p - bound < std::ldexp(1.0L, format.least_exponent());
}

// The distance of result from p over the bound; infinity where the bound is 0 or means nothing.
double ratio_over_bound(const Format& format, long double result, RoundingInterval interval,
                        long double p, float below_max) {
  if (std::isnan(result)) return INFINITY;
  if (p == 0) return result == 0 ? 0 : INFINITY;
  const long double bound = bound_of(p, below_max);
  if (result == 0 && may_be_zero(format, p, bound)) return 0;
  const long double distance = std::max({0.0L, interval.low - p, p - interval.high});
  return static_cast<double>(distance / bound);
}

}  // namespace

bool has_reference(DType dtype) noexcept {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

long double decode(DType dtype, const void* element) noexcept {
  const Format format = format_of(dtype);
  const std::uint32_t bits = load_bits(dtype, element);
  const std::uint32_t positive = bits & (format.sign_bit() - 1);
  long double value = magnitude(format, positive);
  if (positive == format.infinity_bits()) value = kInfinity;
  if (positive > format.infinity_bits()) value = std::numeric_limits<long double>::quiet_NaN();
  return bits & format.sign_bit() ? -value : value;
}

long double unit_in_last_place(DType dtype, long double value) noexcept {
  const Format format = format_of(dtype);
  const int exponent = value == 0 ? format.least_exponent() : std::ilogb(value);
  return std::ldexp(1.0L, std::max(exponent, format.least_exponent()) - format.fraction_bits);
}

void encode(DType dtype, long double value, void* element) noexcept {
  const Format format = format_of(dtype);
  std::uint32_t bits = std::signbit(value) ? format.sign_bit() : 0;
  const long double positive = std::abs(value);
  if (std::isnan(value)) {
    bits |= format.infinity_bits() | 1u << (format.fraction_bits - 1);
  } else if (std::isinf(value)) {
    bits |= format.infinity_bits();
  } else if (positive > 0) {
    const int exponent = std::max(std::ilogb(positive), format.least_exponent());
    const long double steps = std::nearbyint(std::ldexp(positive, format.fraction_bits - exponent));
    // Steps count from the binade's start, whose bits hold the implicit one already: a carry into
    // the next binade, or into infinity, comes out right by itself.
    const auto binade = static_cast<std::int64_t>(exponent - format.least_exponent());
    const std::int64_t rounded =
        (binade << format.fraction_bits) + static_cast<std::int64_t>(steps);
    bits |= static_cast<std::uint32_t>(
        std::min<std::int64_t>(rounded, std::int64_t{format.infinity_bits()}));
  }
  std::memcpy(element, &bits, size_of(dtype));
}

long double largest(DType dtype) noexcept {
  const Format format = format_of(dtype);
  return magnitude(format, format.infinity_bits() - 1);
}

RoundingInterval rounding_interval(DType dtype, const void* element) noexcept {
  const Format format = format_of(dtype);
  const std::uint32_t bits = load_bits(dtype, element);
  const std::uint32_t positive = bits & (format.sign_bit() - 1);
  const long double value = magnitude(format, positive);
  if (positive > format.infinity_bits()) {
    const long double nan = std::numeric_limits<long double>::quiet_NaN();
    return {nan, nan};
  }
  const long double below = positive == 0 ? -magnitude(format, 1) : magnitude(format, positive - 1);
  RoundingInterval interval{(below + value) / 2, kInfinity};
  if (positive < format.infinity_bits())
    interval.high = (value + magnitude(format, positive + 1)) / 2;
  if (bits & format.sign_bit()) return {-interval.high, -interval.low};
  return interval;
}

ReferenceRow reference_row(DType in, const void* row, std::int64_t cols) {
  const auto* bytes = static_cast<const unsigned char*>(row);
  std::vector<long double> x(static_cast<std::size_t>(cols));
  ReferenceRow reference;
  long double max = -kInfinity;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = decode(in, bytes + i * size_of(in));
    if (std::isnan(x[i])) reference.all_nan = true;
    max = std::max(max, x[i]);
  }
  reference.all_nan = reference.all_nan || std::isinf(max);
  if (reference.all_nan) return reference;
  long double sum = 0;
  reference.below_max.resize(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    reference.below_max[i] = static_cast<float>(max - x[i]);
    x[i] = std::exp(x[i] - max);
    sum += x[i];
  }
  for (long double& p : x) p /= sum;
  reference.p = std::move(x);
  return reference;
}

std::vector<AcceptedBits> accepted_results(const ReferenceRow& reference, DType out) {
  std::vector<AcceptedBits> accepted(reference.p.size());
  for (std::size_t i = 0; i < accepted.size(); ++i) {
    const long double p = reference.p[i];
    const long double bound = p == 0 ? 0 : bound_of(p, reference.below_max[i]);
    std::uint32_t low = 0, high = 0;
    encode(out, std::max(p - bound, 0.0L), &low);
    encode(out, p + bound, &high);
    accepted[i] = {low, high, may_be_zero(format_of(out), p, bound)};
  }
  return accepted;
}

std::int64_t first_refused(const std::vector<AcceptedBits>& accepted, DType out, const void* row,
                           std::int64_t cols) {
  const auto* bytes = static_cast<const unsigned char*>(row);
  const Format format = format_of(out);
  const std::uint32_t magnitude_bits = format.sign_bit() - 1;
  for (std::int64_t i = 0; i < cols; ++i) {
    const std::uint32_t bits = load_bits(out, bytes + static_cast<std::size_t>(i) * size_of(out));
    if (accepted.empty()) {
      if ((bits & magnitude_bits) <= format.infinity_bits()) return i;
      continue;
    }
    const AcceptedBits& at = accepted[static_cast<std::size_t>(i)];
    if ((bits < at.low || bits > at.high) && !(at.or_zero && bits == 0)) return i;
  }
  return -1;
}

Accuracy judge_row(const ReferenceRow& reference, DType out, const void* row, std::int64_t cols) {
  const auto* bytes = static_cast<const unsigned char*>(row);
  const Format format = format_of(out);
  Accuracy accuracy;
  for (std::int64_t i = 0; i < cols; ++i) {
    const unsigned char* element = bytes + static_cast<std::size_t>(i) * size_of(out);
    const long double result = decode(out, element);
    double ratio = 0, ulp = 0;
    if (reference.all_nan) {
      ratio = std::isnan(result) ? 0 : INFINITY;
    } else {
      const auto at = static_cast<std::size_t>(i);
      const long double p = reference.p[at];
      ratio = ratio_over_bound(format, result, rounding_interval(out, element), p,
                               reference.below_max[at]);
      const bool flushed = result == 0 && !format.keeps_subnormals;
      if (!flushed) ulp = static_cast<double>(std::abs(result - p) / unit_in_last_place(out, p));
    }
    if (ratio > accuracy.error_ratio) {
      accuracy.error_ratio = ratio;
      accuracy.worst_col = i;
    }
    if (ulp > accuracy.max_error_ulp) accuracy.max_error_ulp = ulp;
  }
  return accuracy;
}

}  // namespace rowsmith
