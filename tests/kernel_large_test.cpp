// SPDX-License-Identifier: Apache-2.0
//
// Sizes that only a GPU can be asked: more than 2^31 and 2^32 elements, more rows than 65535 and
// than one grid's second dimension, and every H to 4096. Skipped, with the reason, without one.
#include "runtime/devices.h"
#include "runtime/softmax_launch.h"
#include "tests/support/softmax_runner.h"

#include <rowsmith/text.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace rowsmith::testing {
namespace {

class KernelLarge : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<std::shared_ptr<Device>> device = open_device("");
    if (!device.ok()) GTEST_SKIP() << device.status().to_string();
    device_ = *device;
    modules_ = std::make_unique<ModuleTable>(device_, nullptr);
  }

  // Zeros in; the last `tail_rows` rows out must be 1/H in every element. `shift` elements off the
  // border on both sides.
  void expect_uniform_tail(DType dtype, std::int64_t rows, std::int64_t cols, const Config* pinned,
                           std::int64_t shift = 0) {
    const std::size_t size = size_of(dtype);
    const std::size_t bytes = static_cast<std::size_t>(rows * cols + shift) * size;
    Result<Buffer> x = device_->allocate(bytes), y = device_->allocate(bytes);
    if (!x.ok() || !y.ok()) GTEST_SKIP() << "needs " << 2 * bytes << " bytes of device memory";
    ASSERT_TRUE(device_->fill(x->data(), 0, bytes).ok());
    ASSERT_TRUE(device_->fill(y->data(), 0xA5, bytes).ok());
    SoftmaxCall call{static_cast<char*>(x->data()) + shift * static_cast<std::int64_t>(size),
                     static_cast<char*>(y->data()) + shift * static_cast<std::int64_t>(size),
                     rows,
                     cols,
                     cols,
                     cols,
                     dtype,
                     dtype,
                     nullptr};
    const Problem problem{dtype, dtype, rows, cols,
                          layout_of(call.src, call.dst, cols, cols, cols, dtype, dtype)};
    const Config config = pinned ? *pinned : default_config(problem, device_->facts());
    Result<const Kernel*> kernel = modules_->get(problem, config);
    ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
    const Status ran =
        run_softmax(*device_, make_plan(problem, device_->facts(), config, *kernel), call);
    ASSERT_TRUE(ran.ok()) << to_string(config) << ": " << ran.to_string();
    const std::int64_t tail = std::min<std::int64_t>(rows, 5) * cols;
    std::vector<_Float16> got(static_cast<std::size_t>(tail));
    ASSERT_EQ(dtype, DType::kF16);
    ASSERT_TRUE(device_
                    ->copy_out(got.data(), static_cast<_Float16*>(call.dst) + rows * cols - tail,
                               static_cast<std::size_t>(tail) * size)
                    .ok());
    const auto expected = static_cast<_Float16>(1.0f / static_cast<float>(cols));
    for (const _Float16 v : got) {
      ASSERT_EQ(static_cast<float>(v), static_cast<float>(expected))
          << to_string(problem) << " by " << to_string(config);
    }
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<ModuleTable> modules_;
};

TEST_F(KernelLarge, A21_MoreThanTwoToThe31And32Elements) {
  const Config generic = generic_config();
  for (const std::int64_t rows : {std::int64_t{1} << 21, (std::int64_t{1} << 22) + 7}) {
    expect_uniform_tail(DType::kF16, rows, 1025, nullptr);
    expect_uniform_tail(DType::kF16, rows, 1024, nullptr, 3);
    expect_uniform_tail(DType::kF16, rows, 1025, &generic);
  }
}

TEST_F(KernelLarge, A23_TwoToThe28RowsOfNine) {
  expect_uniform_tail(DType::kF16, std::int64_t{1} << 28, 9, nullptr);
}

TEST_F(KernelLarge, A24_MoreRowsThanAGridIsTall) {
  const Config generic = generic_config();
  for (const std::int64_t rows : {65535, 65536, 70000}) {
    expect_uniform_tail(DType::kF16, rows, 8, nullptr);
    expect_uniform_tail(DType::kF16, rows, 8, &generic);
  }
}

TEST_F(KernelLarge, RowsBeyondOneBlockByTheDefault) {
  for (const std::int64_t cols : {131072, 151937, 262144, 524289}) {
    expect_uniform_tail(DType::kF16, 1, cols, nullptr);
    expect_uniform_tail(DType::kF16, 17, cols, nullptr, 1);
  }
}

TEST_F(KernelLarge, OneRowOfManyMillions) {
  const Config generic = generic_config();
  expect_uniform_tail(DType::kF16, 1, 20'000'003, &generic);
}

TEST_F(KernelLarge, A18_EveryWidthTo4096OnOneAndTwoRows) {
  // The default of each H, compiled in batches on all cores.
  constexpr std::int64_t kMax = 4096, kBatch = 32;
  struct Batch {
    std::vector<Instance> instances;
    Result<Binary> binary = Status(Code::kInternal, "not compiled");
  };
  std::vector<Batch> batches;
  for (std::int64_t cols = 1; cols <= kMax; ++cols) {
    const Problem problem = contiguous_problem(DType::kF16, DType::kF16, 2, cols);
    const Config config = default_config(problem, device_->facts());
    const bool starts_new = batches.empty() || batches.back().instances.size() == kBatch ||
                            batches.back().instances.front().config.family != config.family;
    if (starts_new) batches.emplace_back();
    batches.back().instances.push_back({problem, config});
  }
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) {
    threads.emplace_back([&] {
      for (std::size_t i = next++; i < batches.size(); i = next++) {
        Program program{"every_width", program_text(batches[i].instances), {}};
        batches[i].binary = device_->compile(program);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  Result<Buffer> x = device_->allocate(2 * kMax * 2), y = device_->allocate(2 * kMax * 2);
  ASSERT_TRUE(x.ok() && y.ok());
  ASSERT_TRUE(device_->fill(x->data(), 0, x->bytes()).ok());
  for (const Batch& batch : batches) {
    ASSERT_TRUE(batch.binary.ok()) << batch.binary.status().to_string();
    Result<std::unique_ptr<Module>> module = device_->load(*batch.binary);
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    for (const Instance& instance : batch.instances) {
      Result<const Kernel*> kernel = (*module)->kernel(entry_name(instance));
      ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
      const std::int64_t cols = instance.problem.cols;
      for (const std::int64_t rows : {1, 2}) {
        const SoftmaxCall call{x->data(), y->data(),   rows,        cols,   cols,
                               cols,      DType::kF16, DType::kF16, nullptr};
        ASSERT_TRUE(device_->fill(y->data(), 0xA5, y->bytes()).ok());
        ASSERT_TRUE(
            run_softmax(*device_,
                        make_plan(instance.problem, device_->facts(), instance.config, *kernel),
                        call)
                .ok());
        std::vector<_Float16> got(static_cast<std::size_t>(rows * cols));
        ASSERT_TRUE(device_->copy_out(got.data(), y->data(), got.size() * 2).ok());
        const float expected = static_cast<_Float16>(1.0f / static_cast<float>(cols));
        for (const _Float16 v : got) {
          ASSERT_EQ(static_cast<float>(v), expected)
              << rows << " x " << cols << " by " << to_string(instance.config);
        }
      }
    }
  }
}

}  // namespace
}  // namespace rowsmith::testing
