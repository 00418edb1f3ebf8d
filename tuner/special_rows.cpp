// SPDX-License-Identifier: Apache-2.0
#include "tuner/special_rows.h"

#include "tuner/reference.h"

#include <cmath>
#include <limits>

namespace rowsmith {
namespace {

using Index = std::int64_t;
constexpr long double kInfinity = std::numeric_limits<long double>::infinity();
constexpr long double kNan = std::numeric_limits<long double>::quiet_NaN();

// Repeats within 31 columns and is never flat: -1.5 to 1.5.
long double ripple(Index i) {
  return static_cast<long double>(i * 7 % 31) / 10 - 1.5L;
}

long double mixed_minus_infinity(Index i, Index, DType, DType) {
  return i % 3 == 1 ? -kInfinity : ripple(i);
}
long double nan_in_the_middle(Index i, Index cols, DType, DType) {
  return i == cols / 2 ? kNan : ripple(i);
}
long double ramp(Index i, Index cols, DType, DType) {
  return 24 * static_cast<long double>(i + 1) / static_cast<long double>(cols) - 12;
}
long double all_minus_infinity(Index, Index, DType, DType) {
  return -kInfinity;
}
long double plus_infinity(Index i, Index cols, DType, DType) {
  return i == cols / 3 ? kInfinity : ripple(i);
}
long double nan_first(Index i, Index, DType, DType) {
  return i == 0 ? kNan : ripple(i);
}
long double nan_last(Index i, Index cols, DType, DType) {
  return i == cols - 1 ? kNan : ripple(i);
}
long double all_equal(Index, Index, DType, DType) {
  return 3;
}
long double very_negative(Index i, Index, DType, DType) {
  return -30000 - 16 * static_cast<long double>(i % 5);
}
long double largest_finite(Index, Index, DType in, DType) {
  return largest(in);
}
long double one_hot(Index i, Index cols, DType in, DType) {
  return i == cols / 2 ? 0 : -largest(in);
}
long double both_ends_of_the_range(Index i, Index, DType in, DType) {
  return i % 2 == 0 ? largest(in) : -largest(in);
}
// A 1 beside results just below the smallest normal of the output: e^-9.7 = 2^-14, e^-87.3 =
// 2^-126, e^-708.4 = 2^-1022; of fp8, e^-4.2 = 2^-6 and e^-9.7, once scaled by about H.
long double subnormal_results(Index i, Index cols, DType, DType out) {
  if (i == 0) return 0;
  long double start = -87.5L;
  if (out == DType::kF64) start = -708.5L;
  if (out == DType::kF16) start = -9.75L;
  if (out == DType::kF8E4M3) start = -4.25L - std::log(static_cast<long double>(cols));
  if (out == DType::kF8E5M2) start = -9.75L - std::log(static_cast<long double>(cols));
  return start - static_cast<long double>(i % 6) / 2;
}
// One-sided rounding in long sums shows here: all addends but one alike.
long double one_above_the_rest(Index i, Index, DType, DType) {
  return i == 0 ? 0 : -0.3L;
}

}  // namespace

const std::vector<SpecialRow>& special_rows() {
  static const std::vector<SpecialRow> rows{
      {"mixed -inf", mixed_minus_infinity},
      {"NaN in the middle", nan_in_the_middle},
      {"ramp", ramp},
      {"one above the rest", one_above_the_rest},
      {"all -inf", all_minus_infinity},
      {"one +inf", plus_infinity},
      {"NaN first", nan_first},
      {"NaN last", nan_last},
      {"all equal", all_equal},
      {"very negative", very_negative},
      {"largest finite", largest_finite},
      {"one-hot", one_hot},
      {"both ends of the range", both_ends_of_the_range},
      {"subnormal results", subnormal_results},
  };
  return rows;
}

}  // namespace rowsmith
