// SPDX-License-Identifier: Apache-2.0
#include "tests/support/softmax_runner.h"

#include "runtime/softmax_launch.h"
#include "tuner/reference.h"

#include <rowsmith/text.h>

#include <gtest/gtest.h>

#include <algorithm>

namespace rowsmith::testing {

std::vector<Config> SoftmaxRunner::configs(const Problem& problem, std::size_t more) const {
  const std::vector<Config> legal = legal_configs(problem, device_->facts());
  std::vector<Config> chosen{legal.front(), generic_config()};
  for (std::size_t i = 1; i <= more && legal.size() > 2; ++i) {
    const Config& config = legal[i * (legal.size() - 2) / more];
    if (std::find(chosen.begin(), chosen.end(), config) == chosen.end()) chosen.push_back(config);
  }
  return chosen;
}

std::vector<float> SoftmaxRunner::run(DType dtype, std::int64_t rows, std::int64_t cols,
                                      const Config& config, const std::vector<float>& x) {
  const std::size_t size = size_of(dtype), count = static_cast<std::size_t>(rows * cols);
  std::vector<unsigned char> bytes(count * size);
  for (std::size_t i = 0; i < count; ++i) encode(dtype, x[i % x.size()], bytes.data() + i * size);
  const Problem problem = contiguous_problem(dtype, dtype, rows, cols);
  Result<const Kernel*> kernel = modules_.get(problem, config);
  Result<Buffer> src = device_->allocate(bytes.size()), dst = device_->allocate(bytes.size());
  EXPECT_TRUE(kernel.ok()) << kernel.status().to_string();
  EXPECT_TRUE(src.ok() && dst.ok());
  if (!kernel.ok() || !src.ok() || !dst.ok()) return {};
  const SoftmaxCall call{src->data(), dst->data(), rows, cols, cols, cols, dtype, dtype, nullptr};
  Status status = device_->copy_in(src->data(), bytes.data(), bytes.size());
  if (status.ok())
    status = run_softmax(*device_, make_plan(problem, device_->facts(), config, *kernel), call);
  if (status.ok()) status = device_->copy_out(bytes.data(), dst->data(), bytes.size());
  EXPECT_TRUE(status.ok()) << to_string(config) << ": " << status.to_string();
  if (!status.ok()) return {};
  std::vector<float> y(count);
  for (std::size_t i = 0; i < count; ++i) {
    y[i] = static_cast<float>(decode(dtype, bytes.data() + i * size));
  }
  return y;
}

}  // namespace rowsmith::testing
