// SPDX-License-Identifier: Apache-2.0
//
// The public API end to end on a GPU: streams, captures, wrong pointers, tuning inside a call.
// Every test skips with the reason where there is no GPU. Ids in the names are those of the field
// report that the case retells.
#include "runtime/cuda_driver.h"
#include "runtime/devices.h"

#include <rowsmith/rowsmith.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace rowsmith {
namespace {

constexpr std::int64_t kRows = 64, kCols = 1000;

class ApiCuda : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string name = (std::filesystem::temp_directory_path() / "rowsmith-XXXXXX").string();
    directory_ = mkdtemp(name.data());
    setenv("ROWSMITH_CACHE_DIR", directory_.c_str(), 1);
    setenv("ROWSMITH_ON_MISS", "default", 1);
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(directory_); }

  void SetUp() override {
    Result<std::shared_ptr<Device>> device = open_device("");
    if (!device.ok()) GTEST_SKIP() << device.status().to_string();
    device_ = *device;
    api_ = *start_driver();
    ASSERT_EQ(api_->primary_ctx_retain(&primary_, device_->facts().ordinal), CUDA_SUCCESS);
    ASSERT_EQ(api_->ctx_set_current(primary_), CUDA_SUCCESS);
    ASSERT_EQ(api_->stream_create(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    x_ = *device_->allocate(bytes());
    y_ = *device_->allocate(bytes());
    input_.resize(kRows * kCols);
    for (std::size_t i = 0; i < input_.size(); ++i) {
      input_[i] = static_cast<float>(i * 7919 % 1009) / 100;
    }
    ASSERT_TRUE(device_->copy_in(x_.data(), input_.data(), bytes()).ok());
    ASSERT_TRUE(device_->fill(y_.data(), 0xA5, bytes()).ok());
  }
  void TearDown() override {
    if (!device_) return;
    api_->stream_destroy(stream_);
    api_->ctx_set_current(nullptr);
    api_->primary_ctx_release(device_->facts().ordinal);
  }

  static std::size_t bytes() { return kRows * kCols * sizeof(float); }
  const float* x() const { return static_cast<const float*>(x_.data()); }
  float* y() const { return static_cast<float*>(y_.data()); }

  // Waits for the stream alone, then compares `result` with the softmax of the input.
  void expect_softmax(const void* result) {
    ASSERT_EQ(api_->stream_synchronize(stream_), CUDA_SUCCESS);
    std::vector<float> got(input_.size());
    ASSERT_TRUE(device_->copy_out(got.data(), result, bytes()).ok());
    for (std::size_t row = 0; row < kRows; ++row) {
      const float* in = &input_[row * kCols];
      double sum = 0;
      for (std::size_t c = 0; c < kCols; ++c) sum += std::exp(in[c] - 11.0);
      for (std::size_t c = 0; c < kCols; ++c) {
        const double exact = std::exp(in[c] - 11.0) / sum;
        ASSERT_NEAR(got[row * kCols + c] / exact, 1.0, 1e-5) << row << ", " << c;
      }
    }
  }

  inline static std::string directory_;
  std::shared_ptr<Device> device_;
  const DriverApi* api_ = nullptr;
  CUcontext primary_ = nullptr;
  CUstream stream_ = nullptr;
  Buffer x_, y_;
  std::vector<float> input_;
};

TEST_F(ApiCuda, A37_WorkIsOrderedOnTheGivenStream) {
  Status status = softmax(x(), y(), kRows, kCols, stream_);
  ASSERT_TRUE(status.ok()) << status.to_string();
  expect_softmax(y());
}

TEST_F(ApiCuda, A40_HeapMemoryIsNamedAndTheContextStaysUsable) {
  if (device_->check_access(input_.data(), "x").ok()) GTEST_SKIP() << "this GPU reads heap memory";
  const Status status = softmax(input_.data(), y(), kRows, kCols, stream_);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("not accessible"), std::string::npos) << status.to_string();
  ASSERT_TRUE(softmax(x(), y(), kRows, kCols, stream_).ok());
  expect_softmax(y());
}

TEST_F(ApiCuda, A46_InPlaceGivesTheSameResult) {
  auto* const xy = static_cast<float*>(x_.data());
  const Status status = softmax(xy, xy, kRows, kCols, stream_);
  ASSERT_TRUE(status.ok()) << status.to_string();
  expect_softmax(xy);
}

TEST_F(ApiCuda, A26_EmptyCallsLaunchNothing) {
  EXPECT_TRUE(softmax(x(), y(), 0, 2, stream_).ok());
  EXPECT_TRUE(softmax(x(), y(), 10, 0, stream_).ok());
}

TEST_F(ApiCuda, A41_ACaptureOfAnUnpreparedShapeAnswersNotPreparedAndStaysValid) {
  RuntimeOptions options;
  options.on_miss = OnMiss::kTune;
  auto runtime = Runtime::open(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status().to_string();
  CUgraph graph = nullptr;
  ASSERT_EQ(api_->stream_begin_capture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ((*runtime)->softmax(x(), y(), kRows, kCols, stream_).code(), Code::kNotPrepared);
  ASSERT_EQ(api_->stream_end_capture(stream_, &graph), CUDA_SUCCESS);
  api_->graph_destroy(graph);
}

TEST_F(ApiCuda, APreparedShapeIsCapturedAndReplayed) {
  RuntimeOptions options;
  options.on_miss = OnMiss::kDefault;
  auto runtime = Runtime::open(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status().to_string();
  const Status prepared =
      (*runtime)->prepare({contiguous_problem(DType::kF32, DType::kF32, kRows, kCols)});
  ASSERT_TRUE(prepared.ok()) << prepared.to_string();
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_EQ(api_->stream_begin_capture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  const Status status = (*runtime)->softmax(x(), y(), kRows, kCols, stream_);
  EXPECT_TRUE(status.ok()) << status.to_string();
  ASSERT_EQ(api_->stream_end_capture(stream_, &graph), CUDA_SUCCESS);
  ASSERT_EQ(api_->graph_instantiate(&exec, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(api_->graph_launch(exec, stream_), CUDA_SUCCESS);
  expect_softmax(y());
  api_->graph_exec_destroy(exec);
  api_->graph_destroy(graph);
}

TEST_F(ApiCuda, C28_TuningInACallLeavesTheCallersBuffersAlone) {
  RuntimeOptions options;
  options.on_miss = OnMiss::kTune;
  options.tune_budget_ms = 500;
  auto runtime = Runtime::open(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status().to_string();
  auto* const xy = static_cast<float*>(x_.data());
  const Status status = (*runtime)->softmax(xy, xy, kRows, kCols, stream_);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ((*runtime)->stats().tuned, 1u);
  expect_softmax(xy);  // applied once
}

}  // namespace
}  // namespace rowsmith
