// SPDX-License-Identifier: Apache-2.0
//
// What a result is judged by: one softmax row in long double, the exact values of all element
// types, and the distance of a result over the accuracy bound (docs/architecture.md, "Numbers").
// Host code without a device; shares nothing with the kernels that it judges.
#pragma once

#include <rowsmith/types.h>

#include <cstdint>
#include <vector>

namespace rowsmith {

// The exact value of an element.
long double decode(DType dtype, const void* element) noexcept;
// Writes the nearest element, ties to even; beyond the largest finite value, infinity, but of fp8
// that value. Infinity stays infinity where the type has it.
void encode(DType dtype, long double value, void* element) noexcept;
// The largest finite value.
long double largest(DType dtype) noexcept;

// Below it a result may be 0: the smallest normal number, or 0 where subnormals are kept.
long double may_be_zero_below(DType out) noexcept;
// u of the error rule for inputs of type `in`: 2^-24, for f64 2^-53.
long double unit_roundoff(DType in) noexcept;

// The values that an element stands for: all that round to it (closed at the ties).
struct RoundingInterval {
  long double low = 0;
  long double high = 0;
};
RoundingInterval rounding_interval(DType dtype, const void* element) noexcept;
// The distance to the next value of the dtype at `value`, subnormals included.
long double unit_in_last_place(DType dtype, long double value) noexcept;

// The exact results of one row, as far as long double gives them.
struct ReferenceRow {
  bool all_nan = false;          // NaN or +inf somewhere, or only -inf: the whole row is NaN
  std::vector<long double> p;    // [cols], times the output scale; empty where all_nan
  std::vector<float> below_max;  // m - x_i; infinity beside -inf. Empty where all_nan
  long double unit = 0x1p-24L;
  // A p below it, unscaled below the accumulator's smallest normal, may be lost in the exponential.
  long double lost_below = 0;
};
// Reads `cols` elements of type `in`.
ReferenceRow reference_row(DType in, const void* row, std::int64_t cols, double out_scale = 1);

// The same rule made cheap for many results of one row: an element is right if its bits are in
// [low, low + steps], since rounding keeps order, or where a result may be 0.
struct AcceptedBits {
  std::uint64_t low = 0;
  std::uint32_t steps = 0;
  bool or_zero = false;
};
// [cols]; empty where the reference is all_nan.
std::vector<AcceptedBits> accepted_results(const ReferenceRow& reference, DType out);
// The first column whose result is not accepted, or -1. `accepted` empty: every result must be NaN.
std::int64_t first_refused(const std::vector<AcceptedBits>& accepted, DType out, const void* row,
                           std::int64_t cols);

// How far results are from the reference.
struct Accuracy {
  double error_ratio = 0;    // largest distance over the bound; infinity where no distance says it
  double max_error_ulp = 0;  // of the output dtype
  std::int64_t worst_col = -1;  // of error_ratio; -1 where every result is the nearest one
};
// The accuracy of `cols` results of type `out`.
Accuracy judge_row(const ReferenceRow& reference, DType out, const void* row, std::int64_t cols);

}  // namespace rowsmith
