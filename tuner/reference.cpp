// SPDX-License-Identifier: Apache-2.0
//
// Element types by their format numbers alone, so that one text serves them all, and the error
// rule: a result is right if it is the nearest element to some q with |q - p| <= u (32 + 2 (m -
// x)) p, u = 2^-24 or, for f64, 2^-53.
#include "tuner/reference.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

namespace rowsmith {
namespace {

constexpr long double kInfinity = std::numeric_limits<long double>::infinity();
constexpr long double kNan = std::numeric_limits<long double>::quiet_NaN();
using Bits = std::uint64_t;

// A binary format in the manner of IEEE 754: sign, exponent, fraction.
struct Format {
  int fraction_bits;
  int exponent_bits;
  bool keeps_subnormals;     // else a result below the smallest normal may be 0
  bool saturates = false;    // beyond the largest finite value, that value
  bool has_infinity = true;  // else only the very last magnitude is no number: NaN

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int least_exponent() const { return 1 - bias(); }
  Bits sign_bit() const { return Bits{1} << (fraction_bits + exponent_bits); }
  Bits infinity_bits() const { return sign_bit() - (Bits{1} << fraction_bits); }
  Bits largest_bits() const { return has_infinity ? infinity_bits() - 1 : sign_bit() - 2; }
  bool is_nan(Bits positive) const {
    return positive > (has_infinity ? infinity_bits() : largest_bits());
  }
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::kF64: return {52, 11, false};
    case DType::kF16: return {10, 5, true};
    case DType::kBF16: return {7, 8, false};
    case DType::kF8E4M3: return {3, 4, true, true, false};
    case DType::kF8E5M2: return {2, 5, true, true};
    default: assert(dtype == DType::kF32); return {23, 8, false};
  }
}

Bits load_bits(DType dtype, const void* element) {
  Bits bits = 0;  // little-endian, as every machine that CUDA runs on
  std::memcpy(&bits, element, size_of(dtype));
  return bits;
}

// The value of non-negative bits; the bits of infinity count as the next power of two, so that the
// interval of the largest finite value ends where rounding to infinity begins.
long double magnitude(const Format& format, Bits bits) {
  const int exponent = static_cast<int>(bits >> format.fraction_bits);
  const Bits hidden = Bits{1} << format.fraction_bits, fraction = bits & (hidden - 1);
  const Bits significand = exponent == 0 ? fraction : fraction | hidden;
  return std::ldexp(static_cast<long double>(significand),
                    std::max(exponent, 1) - format.bias() - format.fraction_bits);
}

// The bound at column i.
long double bound_of(const ReferenceRow& reference, std::size_t i) {
  const long double p = reference.p[i];
  if (p == 0) return 0;
  return reference.unit * (32 + 2 * static_cast<long double>(reference.below_max[i])) * p;
}

// A value within the bound is one that may be lost.
bool may_be_zero(const ReferenceRow& reference, std::size_t i, DType out) {
  const long double least = reference.p[i] - bound_of(reference, i);
  return least < std::max(may_be_zero_below(out), reference.lost_below);
}

// The distance of the result in column i over the bound; infinity where no distance says it.
double ratio_over_bound(const ReferenceRow& reference, std::size_t i, DType out, long double result,
                        RoundingInterval interval) {
  if (std::isnan(result)) return INFINITY;
  const long double p = reference.p[i], bound = bound_of(reference, i);
  if (p == 0) return result == 0 ? 0 : INFINITY;
  if (result == 0 && may_be_zero(reference, i, out)) return 0;
  const long double distance = std::max({0.0L, interval.low - p, p - interval.high});
  return static_cast<double>(distance / bound);
}

// Adds up in long double as if it had twice the digits (Neumaier): f64 leaves it but 11 bits.
class LongSum {
 public:
  void add(long double value) {
    const long double next = total_ + value;
    rest_ += std::abs(total_) > std::abs(value) ? total_ - next + value : value - next + total_;
    total_ = next;
  }
  long double value() const { return total_ + rest_; }

 private:
  long double total_ = 0, rest_ = 0;
};

}  // namespace

long double may_be_zero_below(DType out) noexcept {
  const Format format = format_of(out);
  return format.keeps_subnormals ? 0 : std::ldexp(1.0L, format.least_exponent());
}

long double unit_roundoff(DType in) noexcept {
  return in == DType::kF64 ? 0x1p-53L : 0x1p-24L;
}

long double decode(DType dtype, const void* element) noexcept {
  const Format format = format_of(dtype);
  const Bits bits = load_bits(dtype, element);
  const Bits positive = bits & (format.sign_bit() - 1);
  long double value = magnitude(format, positive);
  if (positive > format.largest_bits()) value = format.is_nan(positive) ? kNan : kInfinity;
  return bits & format.sign_bit() ? -value : value;
}

long double unit_in_last_place(DType dtype, long double value) noexcept {
  const Format format = format_of(dtype);
  const int exponent = value == 0 ? format.least_exponent() : std::ilogb(value);
  return std::ldexp(1.0L, std::max(exponent, format.least_exponent()) - format.fraction_bits);
}

void encode(DType dtype, long double value, void* element) noexcept {
  const Format format = format_of(dtype);
  Bits bits = std::signbit(value) ? format.sign_bit() : 0;
  const long double positive = std::abs(value);
  if (std::isnan(value)) {
    bits |= format.has_infinity ? format.infinity_bits() | Bits{1} << (format.fraction_bits - 1)
                                : format.sign_bit() - 1;
  } else if (std::isinf(value)) {
    bits |= format.has_infinity ? format.infinity_bits() : format.largest_bits();
  } else if (positive > 0) {
    const int exponent = std::max(std::ilogb(positive), format.least_exponent());
    const long double steps = std::nearbyint(std::ldexp(positive, format.fraction_bits - exponent));
    // Steps count from the binade's start, whose bits hold the implicit one already: a carry into
    // the next binade, or into infinity, comes out right by itself.
    const auto binade = static_cast<Bits>(exponent - format.least_exponent());
    const Bits most = format.saturates ? format.largest_bits() : format.infinity_bits();
    // Far beyond the range the binade would run into the sign.
    const bool beyond = exponent > format.bias() + 1;
    bits |=
        beyond ? most : std::min((binade << format.fraction_bits) + static_cast<Bits>(steps), most);
  }
  std::memcpy(element, &bits, size_of(dtype));
}

long double largest(DType dtype) noexcept {
  const Format format = format_of(dtype);
  return magnitude(format, format.largest_bits());
}

RoundingInterval rounding_interval(DType dtype, const void* element) noexcept {
  const Format format = format_of(dtype);
  const Bits bits = load_bits(dtype, element);
  const Bits positive = bits & (format.sign_bit() - 1);
  const long double value = magnitude(format, positive);
  if (format.is_nan(positive)) return {kNan, kNan};
  const long double below = positive == 0 ? -magnitude(format, 1) : magnitude(format, positive - 1);
  RoundingInterval interval{(below + value) / 2, kInfinity};
  const Bits open = format.saturates ? format.largest_bits() : format.infinity_bits();
  if (positive < open) interval.high = (value + magnitude(format, positive + 1)) / 2;
  if (positive > open) interval.low = kInfinity;  // nothing finite rounds to it
  if (bits & format.sign_bit()) return {-interval.high, -interval.low};
  return interval;
}

ReferenceRow reference_row(DType in, const void* row, std::int64_t cols, double out_scale) {
  const auto* bytes = static_cast<const unsigned char*>(row);
  std::vector<long double> x(static_cast<std::size_t>(cols));
  ReferenceRow reference;
  reference.unit = unit_roundoff(in);
  reference.lost_below = out_scale * may_be_zero_below(in == DType::kF64 ? in : DType::kF32);
  long double max = -kInfinity;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = decode(in, bytes + i * size_of(in));
    if (std::isnan(x[i])) reference.all_nan = true;
    max = std::max(max, x[i]);
  }
  reference.all_nan = reference.all_nan || std::isinf(max);
  if (reference.all_nan) return reference;
  LongSum sum;
  reference.below_max.resize(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    reference.below_max[i] = static_cast<float>(max - x[i]);
    x[i] = std::exp(x[i] - max);
    sum.add(x[i]);
  }
  const long double total = sum.value();
  for (long double& p : x) p = p / total * out_scale;
  reference.p = std::move(x);
  return reference;
}

std::vector<AcceptedBits> accepted_results(const ReferenceRow& reference, DType out) {
  std::vector<AcceptedBits> accepted(reference.p.size());
  for (std::size_t i = 0; i < accepted.size(); ++i) {
    const long double p = reference.p[i], bound = bound_of(reference, i);
    Bits low = 0, high = 0;
    encode(out, std::max(p - bound, 0.0L), &low);
    encode(out, p + bound, &high);
    accepted[i] = {low, static_cast<std::uint32_t>(high - low), may_be_zero(reference, i, out)};
  }
  return accepted;
}

std::int64_t first_refused(const std::vector<AcceptedBits>& accepted, DType out, const void* row,
                           std::int64_t cols) {
  const auto* bytes = static_cast<const unsigned char*>(row);
  const Format format = format_of(out);
  const Bits magnitude_bits = format.sign_bit() - 1;
  for (std::int64_t i = 0; i < cols; ++i) {
    const Bits bits = load_bits(out, bytes + static_cast<std::size_t>(i) * size_of(out));
    if (accepted.empty()) {
      if (!format.is_nan(bits & magnitude_bits)) return i;
      continue;
    }
    const AcceptedBits& at = accepted[static_cast<std::size_t>(i)];
    if ((bits < at.low || bits - at.low > at.steps) && !(at.or_zero && bits == 0)) return i;
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
      ratio = ratio_over_bound(reference, at, out, result, rounding_interval(out, element));
      long double p = reference.p[at];
      if (format.saturates) p = std::min(p, largest(out));
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
