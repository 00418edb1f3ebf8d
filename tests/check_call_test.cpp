// SPDX-License-Identifier: Apache-2.0
#include "runtime/dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace rowsmith {
namespace {

using ::testing::HasSubstr;

void* at(std::uint64_t address) {
  return reinterpret_cast<void*>(address);
}

// rows x cols of f32 from 4096 to 2^40, contiguous.
SoftmaxCall call(std::int64_t rows = 4, std::int64_t cols = 8) {
  SoftmaxCall value;
  value.src = at(4096);
  value.dst = at(std::uint64_t{1} << 40);
  value.rows = rows;
  value.cols = cols;
  return value;
}

void expect_refused(SoftmaxCall value, const char* what) {
  EXPECT_FALSE(is_plain_call(value)) << what;
  const Status status = check_call(value);
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << what;
  EXPECT_THAT(status.message(), HasSubstr(what));
}

TEST(CheckCall, FillsStridesOfZero) {
  SoftmaxCall value = call();
  ASSERT_TRUE(check_call(value).ok());
  EXPECT_EQ(value.src_stride, 8);
  EXPECT_EQ(value.dst_stride, 8);
}

TEST(CheckCall, PlainCallsAreSoundCallsThatAreNotEmpty) {
  SoftmaxCall plain = call();
  EXPECT_TRUE(is_plain_call(plain));
  EXPECT_EQ(plain.src_stride, 8);
  SoftmaxCall in_place = call();
  in_place.dst = const_cast<void*>(in_place.src);
  EXPECT_TRUE(is_plain_call(in_place));
  SoftmaxCall empty = call(0, 8);
  EXPECT_FALSE(is_plain_call(empty));
}

TEST(CheckCall, IgnoresTheStrideOfASingleRow) {
  SoftmaxCall value = call(1, 8);
  value.src_stride = 1;
  ASSERT_TRUE(check_call(value).ok());
  EXPECT_EQ(value.src_stride, 8);
}

TEST(CheckCall, AcceptsEmptyCallsWhateverTheirPointers) {
  for (const auto& [rows, cols] : {std::pair{0, 8}, std::pair{8, 0}, std::pair{0, 0}}) {
    SoftmaxCall value = call(rows, cols);
    value.src = nullptr;
    value.dst = at(3);
    EXPECT_TRUE(check_call(value).ok()) << rows << " x " << cols;
  }
}

TEST(CheckCall, NamesTheArgumentAndItsValue) {
  expect_refused(call(-3, 8), "rows is -3");
  expect_refused(call(4, -1), "cols is -1");
  expect_refused(call(1, std::int64_t{1} << 31), "cols is 2147483648");
  SoftmaxCall value = call();
  value.src = nullptr;
  expect_refused(value, "src is null");
  value = call();
  value.dst = nullptr;
  expect_refused(value, "dst is null");
  value = call();
  value.dst = at(4098);
  expect_refused(value, "dst is not aligned");
  value = call();
  value.src_stride = 7;
  expect_refused(value, "src_stride is 7");
  value = call();
  value.dst_stride = -8;
  expect_refused(value, "dst_stride is -8");
  value = call();
  value.out = static_cast<DType>(17);
  expect_refused(value, "out is 17");
}

TEST(CheckCall, RefusesExtentsOf2To63Bytes) {
  expect_refused(call(std::numeric_limits<std::int64_t>::max(), 8), "2^63");
  SoftmaxCall value = call(2, 8);
  value.dst_stride = std::int64_t{1} << 61;
  expect_refused(value, "dst of 2 rows");
}

TEST(CheckCall, AcceptsF64ToItselfAndAllOtherDtypesToEachOther) {
  for (int in = 0; in < 6; ++in) {
    for (int out = 0; out < 6; ++out) {
      SoftmaxCall value = call();
      value.in = static_cast<DType>(in);
      value.out = static_cast<DType>(out);
      const bool served = (value.in == DType::kF64) == (value.out == DType::kF64);
      EXPECT_EQ(is_plain_call(value), served) << in << " to " << out;
      EXPECT_EQ(check_call(value).code(), served ? Code::kOk : Code::kUnsupported);
    }
  }
}

TEST(CheckCall, AnswersUnsupportedForDtypesThatNoFamilyServes) {
  SoftmaxCall value = call();
  value.in = DType::kF64;
  const Status status = check_call(value);
  EXPECT_THAT(status.message(), HasSubstr("no kernel for f64:f32; f64 is served to f64 alone"));
}

TEST(CheckCall, RefusesScalesThatAreNotFiniteAndPositive) {
  const double infinity = std::numeric_limits<double>::infinity();
  SoftmaxCall value = call();
  for (const auto& [scale, text] :
       {std::pair(0.0, "out_scale is 0;"), std::pair(-1.0, "out_scale is -1;"),
        std::pair(std::nan(""), "out_scale is nan;"), std::pair(infinity, "out_scale is inf;"),
        std::pair(1e39, "out_scale is 1e+39; it must be finite, greater than 0")}) {
    value.out_scale = scale;
    expect_refused(value, text);
  }
  for (const double scale : {1e-300, 0.1, 448.0, 0x1p126}) {
    value.out_scale = scale;
    EXPECT_TRUE(is_plain_call(value)) << scale;
    EXPECT_TRUE(check_call(value).ok()) << scale;
  }
}

TEST(CheckCall, AcceptsTheSameMatrixInPlaceOnly) {
  SoftmaxCall value = call();
  value.dst = const_cast<void*>(value.src);
  EXPECT_TRUE(check_call(value).ok());
  value.dst_stride = 16;
  expect_refused(value, "share memory");
  value = call();
  value.dst = at(4096 + 4);
  expect_refused(value, "share memory");
  value = call();
  value.dst = at(4096);
  value.in = DType::kF16;
  value.out = DType::kBF16;
  expect_refused(value, "share memory");
}

TEST(CheckCall, AcceptsInterleavedViewsThatShareNoByte) {
  SoftmaxCall value = call(4, 8);
  value.src_stride = value.dst_stride = 16;
  value.dst = at(4096 + 8 * 4);
  EXPECT_TRUE(check_call(value).ok());
  value.src = at(4096 + 8 * 4);
  value.dst = at(4096);
  EXPECT_TRUE(check_call(value).ok());
  value.dst = at(4096 + 8 * 4 + 4);
  value.src = at(4096);
  expect_refused(value, "share memory");
}

// Bytes from the base: src rows at 0, 128, 256; dst rows at 32, 80, 128; all of 32 bytes.
TEST(CheckCall, ComparesRowByRowWhereThePitchesDiffer) {
  SoftmaxCall value = call(2, 8);
  value.src_stride = 32;
  value.dst_stride = 12;
  value.dst = at(4096 + 32);
  EXPECT_TRUE(check_call(value).ok());
  value.rows = 3;
  expect_refused(value, "share memory");
}

}  // namespace
}  // namespace rowsmith
