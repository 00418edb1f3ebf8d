// SPDX-License-Identifier: Apache-2.0
#include "tuner/placement.h"

#include <rowsmith/text.h>

#include <gtest/gtest.h>

#include <random>

namespace rowsmith {
namespace {

// Whatever a caller's pointers and strides are, there is a place with the same layout to tune at.
TEST(Placement, ReproducesTheLayoutOfAnyCall) {
  std::mt19937 random(7);
  const auto pick = [&](int below) { return static_cast<std::int64_t>(random() % below); };
  for (const auto& [in, out] : {std::pair(DType::kF32, DType::kF32),
                                {DType::kF16, DType::kF16},
                                {DType::kF16, DType::kF32},
                                {DType::kF32, DType::kBF16}}) {
    for (int i = 0; i < 100; ++i) {
      const std::int64_t cols = 1 + pick(300);
      const std::int64_t src_stride = cols + pick(2) * pick(40),
                         dst_stride = cols + pick(2) * pick(40);
      const auto x = static_cast<std::uintptr_t>(4096 + pick(64) * static_cast<int>(size_of(in)));
      const auto y = static_cast<std::uintptr_t>(1 << 20) + pick(64) * size_of(out);
      const Problem problem{in, out, 3, cols,
                            layout_of(reinterpret_cast<void*>(x), reinterpret_cast<void*>(y), cols,
                                      src_stride, dst_stride, in, out)};
      const Result<Placement> placement = place(problem);
      ASSERT_TRUE(placement.ok()) << placement.status().to_string();
      const SoftmaxCall call = placement->call(problem, 3, reinterpret_cast<void*>(256 * 64),
                                               reinterpret_cast<void*>(256 * 128));
      EXPECT_EQ(
          to_string(layout_of(call.src, call.dst, cols, call.src_stride, call.dst_stride, in, out)),
          to_string(problem.layout));
    }
  }
}

TEST(Placement, TakesPlainAllocationsOfAnyAlignment) {
  const Problem problem{DType::kF32, DType::kF32, 4, 257, {4, 4, 8, false, false, false}};
  EXPECT_TRUE(place(problem).ok());
}

}  // namespace
}  // namespace rowsmith
