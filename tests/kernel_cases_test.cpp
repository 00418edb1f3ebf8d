// SPDX-License-Identifier: Apache-2.0
//
// Faults that people met in other softmax kernels, each with the right answer written out, through
// the default, generic and a spread of other configs. Ids in the names are those of the field
// report that the case retells.
#include "runtime/devices.h"
#include "runtime/host_device.h"
#include "tests/support/softmax_runner.h"

#include <rowsmith/text.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace rowsmith::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class KernelCases : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    Result<std::shared_ptr<Device>> device = open_device(GetParam());
    if (!device.ok()) GTEST_SKIP() << device.status().to_string();
    runner_ = std::make_unique<SoftmaxRunner>(*device);
  }

  // Calls check(y, config) for the result of every config tried.
  template <typename Check>
  void for_configs(DType dtype, std::int64_t rows, std::int64_t cols, const std::vector<float>& x,
                   Check&& check, std::size_t more = 4) {
    const Problem problem = contiguous_problem(dtype, dtype, rows, cols);
    for (const Config& config : runner_->configs(problem, more)) {
      const std::vector<float> y = runner_->run(dtype, rows, cols, config, x);
      ASSERT_EQ(y.size(), static_cast<std::size_t>(rows * cols)) << to_string(config);
      check(y, config);
    }
  }
  void expect_all_nan(DType dtype, const std::vector<float>& row) {
    for_configs(dtype, 1, static_cast<std::int64_t>(row.size()), row,
                [](const std::vector<float>& y, const Config& config) {
                  for (float v : y) ASSERT_TRUE(std::isnan(v)) << to_string(config);
                });
  }
  void expect_uniform(DType dtype, std::int64_t cols, float value, float expected) {
    for_configs(dtype, 2, cols, std::vector<float>(static_cast<std::size_t>(cols), value),
                [&](const std::vector<float>& y, const Config& config) {
                  for (float v : y) ASSERT_EQ(v, expected) << to_string(config);
                });
  }

  std::unique_ptr<SoftmaxRunner> runner_;
};

TEST_P(KernelCases, A01_RowOfOnlyMinusInfinityIsNanAndSparesItsNeighbour) {
  std::vector<float> x(128, -kInf);
  std::fill(x.begin() + 64, x.end(), 2.0f);
  for_configs(DType::kF32, 2, 64, x, [](const std::vector<float>& y, const Config& config) {
    for (int c = 0; c < 64; ++c) ASSERT_TRUE(std::isnan(y[c])) << to_string(config);
    for (int c = 64; c < 128; ++c) ASSERT_EQ(y[c], 1.0f / 64) << to_string(config);
  });
}

TEST_P(KernelCases, A03_A04_PlusInfinityMakesTheWholeRowNan) {
  expect_all_nan(DType::kF32, {0, kInf, 0});
  expect_all_nan(DType::kF32, {-kInf, 0, kInf});
  expect_all_nan(DType::kF32, {kInf, 0, kInf, 1});
  expect_all_nan(DType::kF16, {1e5f, 0, 1, 2});  // +inf once converted
}

TEST_P(KernelCases, A07_NanSpreadsOverTheRowWhereverItSits) {
  for (const std::size_t at : {0u, 31u, 32u}) {
    std::vector<float> x(33, 0.5f);
    x[at] = kNan;
    expect_all_nan(DType::kF32, x);
    expect_all_nan(DType::kF16, x);
    expect_all_nan(DType::kF64, x);
    expect_all_nan(DType::kF8E4M3, x);
    expect_all_nan(DType::kF8E5M2, x);
  }
}

TEST_P(KernelCases, A08_VeryNegativeRowsAreUniform) {
  expect_uniform(DType::kF32, 512, -1000.0f, 1.0f / 512);
  expect_uniform(DType::kF16, 512, -1000.0f, 1.0f / 512);
  expect_uniform(DType::kF64, 512, -1e30f, 1.0f / 512);
  expect_uniform(DType::kF8E5M2, 512, -57344.0f, 1.0f / 512);
}

TEST_P(KernelCases, A09_LargeLogitsAreOneHot) {
  for_configs(DType::kF32, 1, 5, {-250, -424, -460, 378, -292},
              [](const std::vector<float>& y, const Config& config) {
                EXPECT_EQ(y, (std::vector<float>{0, 0, 0, 1, 0})) << to_string(config);
              });
}

TEST_P(KernelCases, A11_LongHalfRowsSumToOne) {
  for (const std::int64_t cols : {2048, 4096, 8192}) {
    expect_uniform(DType::kF16, cols, 3.0f, 1.0f / static_cast<float>(cols));
  }
}

TEST_P(KernelCases, A12_NarrowSumsDoNotStick) {
  expect_uniform(DType::kBF16, 512, 0.0f, 1.0f / 512);
  expect_uniform(DType::kF8E4M3, 512, 0.0f, 1.0f / 512);
  expect_uniform(DType::kF8E5M2, 8192, 0.0f, 1.0f / 8192);
}

TEST_P(KernelCases, F8e4m3RowsOfTheLeastValueAreUniformWhateverTheirLength) {
  for (const std::int64_t cols : {1, 4, 64, 128}) {
    expect_uniform(DType::kF8E4M3, cols, -448.0f, 1.0f / static_cast<float>(cols));
  }
}

TEST_P(KernelCases, A15_HalfResultsKeepTheirSubnormals) {
  // exp(-12) = 6.144e-06 is the half subnormal 103 * 2^-24; its neighbour in the row takes the
  // rest.
  for_configs(DType::kF16, 1, 2, {0, -12}, [](const std::vector<float>& y, const Config& config) {
    EXPECT_EQ(y[1], 103 * 0x1p-24f) << to_string(config);
  });
}

TEST_P(KernelCases, A17_ShortRowsSumToOneAtEveryLength) {
  for (std::int64_t cols = 1; cols <= 40; ++cols) {
    std::vector<float> x(static_cast<std::size_t>(cols));
    std::iota(x.begin(), x.end(), -3.0f);
    for (float& v : x) v = std::sin(v);
    for_configs(
        DType::kF32, 1, cols, x,
        [&](const std::vector<float>& y, const Config& config) {
          EXPECT_NEAR(std::accumulate(y.begin(), y.end(), 0.0), 1.0, 2e-6)
              << cols << " " << to_string(config);
        },
        1);
  }
}

TEST_P(KernelCases, A18_A30_OddWidthsAreRightFromTheSecondRowOn) {
  for (const std::int64_t cols : {385, 513, 781, 1023}) {
    expect_uniform(DType::kF32, cols, 0.0f, 1.0f / static_cast<float>(cols));
  }
}

TEST_P(KernelCases, A19_OneColumnIsExactlyOne) {
  for (const DType dtype :
       {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2}) {
    expect_uniform(dtype, 1, -7.5f, 1.0f);
  }
  expect_uniform(DType::kF32, 32, 1.0f, 1.0f / 32);
}

TEST_P(KernelCases, LongRowsKeepTheirSumFromDrifting) {
  constexpr std::int64_t kCols = 65536;
  std::vector<float> x(kCols, -0.3f);
  x[0] = 0;
  // bf16(-0.3) and f16(-0.3) differ from -0.3, so the right value is made from what is stored.
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for_configs(
        dtype, 1, kCols, x,
        [&](const std::vector<float>& y, const Config& config) {
          const double stored = dtype == DType::kF32   ? -0.3f
                                : dtype == DType::kF16 ? -0.300048828125
                                                       : -0.30078125;
          const double sum = 1 + (kCols - 1) * std::exp(stored);
          const double unit = dtype == DType::kF32   ? 32 * 0x1p-24
                              : dtype == DType::kF16 ? 0x1p-9
                                                     : 0x1p-8;
          EXPECT_NEAR(y[0] * sum, 1.0, unit) << to_string(config);
          EXPECT_NEAR(y[1] * sum / std::exp(stored), 1.0, unit) << to_string(config);
        },
        1);
  }
}

TEST_P(KernelCases, A24_A34_RowCountsThatFillNoBlock) {
  const std::vector<std::int64_t> counts = std::string(GetParam()) == "host"
                                               ? std::vector<std::int64_t>{1, 7, 1001}
                                               : std::vector<std::int64_t>{65535, 65536, 70000};
  for (const std::int64_t rows : counts) {
    for_configs(DType::kF16, rows, 8, {0, 0, 0, 0, 0, 0, 0, 0},
                [](const std::vector<float>& y, const Config& config) {
                  for (float v : y) ASSERT_EQ(v, 0.125f) << to_string(config);
                });
  }
}

TEST_P(KernelCases, A29_A32_OddWidthsNeedNoNarrowPack) {
  for (const std::int64_t cols : {5, 6, 7, 1027}) {
    expect_uniform(DType::kF16, cols, 1.0f,
                   static_cast<float>(static_cast<_Float16>(1.0f / static_cast<float>(cols))));
  }
}

INSTANTIATE_TEST_SUITE_P(Host, KernelCases, ::testing::Values("host"));
INSTANTIATE_TEST_SUITE_P(Cuda, KernelCases, ::testing::Values(""));

}  // namespace
}  // namespace rowsmith::testing
