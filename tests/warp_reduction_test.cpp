// SPDX-License-Identifier: Apache-2.0
//
// A warp's maximum by an integer reduction, on the host device, and on a GPU where there is
// one that has them.
#include "runtime/devices.h"

#include "reduce_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace rowsmith {
namespace {

constexpr int kWarp = 32;
constexpr float kInf = std::numeric_limits<float>::infinity();

class WarpReduction : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const Result<std::shared_ptr<Device>> opened = open_device(GetParam());
    if (!opened.ok()) GTEST_SKIP() << opened.status().to_string();
    device_ = *opened;
    const DeviceFacts& facts = device_->facts();
    if (facts.kind == "cuda" && facts.capability < 80) {
      GTEST_SKIP() << facts.name << " has no integer reductions of warps";
    }
  }

  // What each lane gets of each warp's values by the expression of `v`, on blocks of two warps.
  std::vector<float> reduce(const std::string& expression, const std::vector<float>& values) {
    const std::string text =
        std::string(detail::kReduceText) +
        "using namespace rs;\nstruct Params { float* src; float* dst; };\n"
        "ROWSMITH_KERNEL(reduce, 64, 1, Params) {\n"
        "  const i64 i = block_index() * 64 + thread_index();\n  const float v = p.src[i];\n"
        "  p.dst[i] = " +
        expression + ";\n}\n";
    const Result<Binary> binary = device_->compile({"warp_reduction", text, {"reduce"}});
    EXPECT_TRUE(binary.ok()) << binary.status().to_string();
    if (!binary.ok()) return {};
    const std::unique_ptr<Module> module = device_->load(*binary).value();
    const std::size_t bytes = values.size() * sizeof(float);
    const Buffer src = *device_->allocate(bytes), dst = *device_->allocate(bytes);
    EXPECT_TRUE(device_->copy_in(src.data(), values.data(), bytes).ok());
    const void* params[] = {src.data(), dst.data()};
    LaunchCall call;
    call.kernel = *module->kernel("reduce");
    call.shape = {static_cast<std::int64_t>(values.size() / 64), 64, 1, 0};
    call.params = params;
    call.param_bytes = sizeof(params);
    const Status ran = device_->run(call);
    EXPECT_TRUE(ran.ok()) << ran.to_string();
    std::vector<float> results(values.size());
    EXPECT_TRUE(device_->copy_out(results.data(), dst.data(), bytes).ok());
    return results;
  }

  std::shared_ptr<Device> device_;
};

TEST_P(WarpReduction, FindsTheGreatestOfAnySigns) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(-1, 2);
  std::vector<float> values(64 * kWarp);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = i < 32 * kWarp ? normal(random) : -std::exp2(10 * normal(random));
  }
  std::fill(values.begin(), values.begin() + kWarp, -kInf);
  values[kWarp] = kInf;
  std::fill(values.begin() + 2 * kWarp, values.begin() + 3 * kWarp, -0.0f);
  const std::vector<float> greatest = reduce("warp_max(v)", values);
  ASSERT_EQ(greatest.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto warp = values.begin() + static_cast<std::ptrdiff_t>(i / kWarp * kWarp);
    ASSERT_EQ(greatest[i], *std::max_element(warp, warp + kWarp)) << "lane " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Host, WarpReduction, ::testing::Values("host"));
INSTANTIATE_TEST_SUITE_P(Cuda, WarpReduction, ::testing::Values(""));

}  // namespace
}  // namespace rowsmith
