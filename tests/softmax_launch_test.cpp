// SPDX-License-Identifier: Apache-2.0
#include "runtime/softmax_launch.h"
#include "tests/support/scripted_device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace rowsmith {
namespace {

using rowsmith_params::GenericParams;

class SoftmaxLaunchTest : public ::testing::Test {
 protected:
  SoftmaxLaunchTest() {
    call_.src = reinterpret_cast<const void*>(std::uintptr_t{4096});
    call_.dst = reinterpret_cast<void*>(std::uintptr_t{1} << 60);
    call_.rows = 10;
    call_.cols = call_.src_stride = 3;
    call_.dst_stride = 4;
    const auto module = device_.load({"scripted\nk", "", ""});
    kernel_ = *module.value()->kernel("k");
    module_ = std::move(const_cast<std::unique_ptr<Module>&>(module.value()));
  }
  LaunchPlan plan(std::int64_t rows_per_block, int cluster, bool exact) const {
    return {kernel_,
            exact,
            {rows_per_block, 128, cluster, 1, 64, std::numeric_limits<std::int64_t>::max(), 1},
            4,
            2};
  }
  GenericParams params(std::size_t launch) const {
    GenericParams value{};
    const std::string bytes = device_.launches().at(launch).params;
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }

  testing::ScriptedDevice device_;
  std::unique_ptr<Module> module_;
  const Kernel* kernel_ = nullptr;
  SoftmaxCall call_;
};

TEST_F(SoftmaxLaunchTest, TheGridCoversTheRows) {
  call_.stream = reinterpret_cast<CUstream_st*>(std::uintptr_t{8});
  ASSERT_TRUE(launch_softmax(device_, plan(4, 1, true), call_).ok());
  const auto launch = device_.launches().at(0);
  EXPECT_EQ(launch.shape.grid, 3);
  EXPECT_EQ(launch.shape.block, 128);
  EXPECT_EQ(launch.shape.shared_bytes, 64);
  EXPECT_EQ(launch.stream, call_.stream);
  EXPECT_FALSE(launch.own_stream);
}

TEST_F(SoftmaxLaunchTest, AClusterTakesItsRowsTogether) {
  ASSERT_TRUE(launch_softmax(device_, plan(1, 4, true), call_).ok());
  EXPECT_EQ(device_.launches().at(0).shape.grid, 40);
  EXPECT_EQ(device_.launches().at(0).shape.cluster, 4);
}

TEST_F(SoftmaxLaunchTest, BlocksThatWaitForEachOtherRunAtOnceAndDoNotComeEarly) {
  LaunchPlan together = plan(1, 1, true);
  ASSERT_TRUE(launch_softmax(device_, together, call_).ok());
  EXPECT_EQ(device_.launches().at(0).shape.together, 1);
  EXPECT_TRUE(device_.launches().at(0).shape.early);
  together.geometry.blocks_per_row = together.geometry.together = 8;
  together.geometry.walkers = 5;
  ASSERT_TRUE(launch_softmax(device_, together, call_).ok());
  EXPECT_EQ(device_.launches().at(1).shape.together, 8);
  EXPECT_EQ(device_.launches().at(1).shape.grid, 40);  // 5 groups walk the 10 rows
  EXPECT_FALSE(device_.launches().at(1).shape.early);
}

TEST_F(SoftmaxLaunchTest, OnlyTheGenericKernelIsToldTheColumns) {
  ASSERT_TRUE(launch_softmax(device_, plan(1, 1, true), call_).ok());
  ASSERT_TRUE(launch_softmax(device_, plan(1, 1, false), call_).ok());
  EXPECT_EQ(device_.launches().at(0).params.size(), sizeof(rowsmith_params::RowsParams));
  EXPECT_EQ(device_.launches().at(1).params.size(), sizeof(GenericParams));
  EXPECT_EQ(params(1).cols, 3);
  EXPECT_EQ(params(1).dst_stride, 4);
}

TEST_F(SoftmaxLaunchTest, EveryKernelIsToldTheScaleInBothWidths) {
  call_.out_scale = 0.1;
  for (const bool exact : {true, false}) {
    ASSERT_TRUE(launch_softmax(device_, plan(1, 1, exact), call_).ok());
    EXPECT_EQ(params(exact ? 0 : 1).out_scale, 0.1);
    EXPECT_EQ(params(exact ? 0 : 1).out_scale_f32, 0.1f);
  }
}

TEST_F(SoftmaxLaunchTest, RowsBeyondOneGridAreSplitWithoutLossOrOverlap) {
  constexpr std::int64_t kOneGrid = (std::int64_t{1} << 31) - 1;
  call_.rows = 2 * kOneGrid + 5;
  ASSERT_TRUE(launch_softmax(device_, plan(1, 1, true), call_).ok());
  ASSERT_EQ(device_.launches().size(), 3u);
  std::int64_t done = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(params(i).src, static_cast<const char*>(call_.src) + done * 3 * 4);
    EXPECT_EQ(params(i).dst, static_cast<char*>(call_.dst) + done * 4 * 2);
    EXPECT_LE(device_.launches().at(i).shape.grid, kOneGrid);
    done += params(i).rows;
  }
  EXPECT_EQ(done, call_.rows);
}

TEST_F(SoftmaxLaunchTest, ASplitGridHoldsWholeClusters) {
  call_.rows = std::int64_t{1} << 31;
  ASSERT_TRUE(launch_softmax(device_, plan(1, 4, true), call_).ok());
  for (const auto& launch : device_.launches()) EXPECT_EQ(launch.shape.grid % 4, 0);
}

TEST_F(SoftmaxLaunchTest, AFailedLaunchStopsTheRest) {
  call_.rows = std::int64_t{1} << 33;
  device_.script.on_launch = [](const LaunchCall&) { return Status(Code::kLaunchFailed, "no"); };
  EXPECT_EQ(launch_softmax(device_, plan(1, 1, true), call_).code(), Code::kLaunchFailed);
  EXPECT_EQ(device_.launches().size(), 1u);
}

TEST_F(SoftmaxLaunchTest, RunUsesTheDevicesOwnStream) {
  ASSERT_TRUE(run_softmax(device_, plan(4, 1, false), call_).ok());
  EXPECT_TRUE(device_.launches().at(0).own_stream);
}

TEST_F(SoftmaxLaunchTest, ARecordedCallKeepsItsParametersWhenCopied) {
  std::vector<RecordedCall> calls;
  for (int i = 0; i < 9; ++i) {
    call_.rows = i + 1;
    calls.emplace_back(plan(1, 1, false), call_);
  }
  std::vector<LaunchCall> launches;
  for (const RecordedCall& call : calls) launches.push_back(call.launch());
  const auto sequence = device_.record(launches, {});
  ASSERT_TRUE(sequence.ok());
  ASSERT_TRUE(const_cast<Sequence&>(*sequence.value()).time_ns(1).ok());
  for (int i = 0; i < 9; ++i) EXPECT_EQ(params(i).rows, i + 1);
}

TEST_F(SoftmaxLaunchTest, APlanFollowsItsFamilysGeometry) {
  const Problem problem = contiguous_problem(DType::kF16, DType::kF16, 8, 1000);
  const LaunchPlan generic = make_plan(problem, DeviceFacts{}, generic_config(), kernel_);
  EXPECT_FALSE(generic.exact);
  EXPECT_EQ(generic.in_bytes, 2u);
  const Config config = default_config(problem, device_.facts());
  const LaunchPlan chosen = make_plan(problem, DeviceFacts{}, config, kernel_);
  EXPECT_TRUE(chosen.exact);
  EXPECT_EQ(chosen.geometry.threads,
            find_family(config.family)->geometry(problem, DeviceFacts{}, config).threads);
}

}  // namespace
}  // namespace rowsmith
