// SPDX-License-Identifier: Apache-2.0
//
// Blocks that wait for each other on a GPU: replays, streams side by side, one dst from two of
// them, a grid that does not fit, and a context that is too small. Every test skips with the reason
// where there is no GPU.
#include "runtime/cuda_context.h"
#include "runtime/devices.h"
#include "runtime/dispatcher.h"
#include "runtime/module_table.h"
#include "runtime/softmax_launch.h"

#include <rowsmith/text.h>

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cmath>
#include <vector>

namespace rowsmith {
namespace {

constexpr std::int64_t kRows = 2, kCols = 200003, kOutputs = 40;

class GridRowCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<std::shared_ptr<Device>> device = open_device("");
    if (!device.ok()) GTEST_SKIP() << device.status().to_string();
    device_ = *device;
    api_ = *start_driver();
    ASSERT_EQ(api_->primary_ctx_retain(&primary_, device_->facts().ordinal), CUDA_SUCCESS);
    ASSERT_EQ(api_->ctx_set_current(primary_), CUDA_SUCCESS);
    for (CUstream& stream : streams_) {
      ASSERT_EQ(api_->stream_create(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    }
    x_ = *device_->allocate(kBytes);
    y_ = *device_->allocate(kOutputStride * kOutputs);
    fill_input();
    choose_plan("");
  }
  void TearDown() override {
    if (!device_) return;
    for (const CUstream stream : streams_) api_->stream_destroy(stream);
    api_->ctx_set_current(nullptr);
    api_->primary_ctx_release(device_->facts().ordinal);
  }

  void fill_input() {
    std::vector<float> x(kRows * kCols);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 1009) / 100;
    ASSERT_TRUE(device_->copy_in(x_.data(), x.data(), kBytes).ok());
    for (std::int64_t row = 0; row < kRows; ++row) {
      const auto begin = x.begin() + row * kCols;
      double sum = 0;
      for (auto value = begin; value != begin + kCols; ++value) sum += std::exp(double{*value});
      for (auto value = begin; value != begin + kCols; ++value) {
        expected_.push_back(std::exp(double{*value}) / sum);
      }
    }
    clear();
  }
  // The config of the family that is expected to be best, of those whose text holds `part`.
  void choose_plan(const std::string& part) {
    const Problem problem = contiguous_problem(DType::kF32, DType::kF32, kRows, kCols);
    for (const Config& config : legal_configs(problem, device_->facts())) {
      const bool wanted = to_string(config).find(part) != std::string::npos;
      if (config.family != "grid_row" || !wanted) continue;
      if (!modules_) modules_ = std::make_unique<ModuleTable>(device_, nullptr);
      const Result<const Kernel*> kernel = modules_->get(problem, config);
      ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
      plan_ = make_plan(problem, device_->facts(), config, *kernel);
      config_ = config;
      return;
    }
    FAIL() << "no config of grid_row with '" << part << "' is legal here";
  }

  void clear() { ASSERT_TRUE(device_->fill(y_.data(), 0xff, y_.bytes()).ok()); }
  SoftmaxCall call(std::int64_t output, CUstream stream = nullptr) const {
    SoftmaxCall call;
    call.src = x_.data();
    call.dst = static_cast<char*>(y_.data()) + output * kOutputStride;
    call.rows = kRows;
    call.cols = call.src_stride = call.dst_stride = kCols;
    call.stream = stream;
    return call;
  }
  void launch(std::int64_t output, CUstream stream) {
    const Status status = launch_softmax(*device_, plan_, call(output, stream));
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
  void wait() {
    for (const CUstream stream : streams_) {
      ASSERT_EQ(api_->stream_synchronize(stream), CUDA_SUCCESS);
    }
  }
  // The outputs are right, and the same in each bit.
  void expect_right(std::int64_t outputs) {
    std::vector<std::vector<float>> y(static_cast<std::size_t>(outputs));
    for (std::int64_t output = 0; output < outputs; ++output) {
      std::vector<float>& values = y[static_cast<std::size_t>(output)];
      values.resize(expected_.size());
      const void* begin = static_cast<const char*>(y_.data()) + output * kOutputStride;
      ASSERT_TRUE(device_->copy_out(values.data(), begin, kBytes).ok());
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(values[i], y[0][i]) << i << " of output " << output;
      }
    }
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      ASSERT_NEAR(y[0][i] / expected_[i], 1, 1e-5) << i;
    }
  }

  void serve_two_streams() {
    for (int round = 0; round < 10; ++round) {
      clear();
      for (std::int64_t output = 0; output < kOutputs; ++output) {
        launch(output, streams_[output % 2]);
      }
      wait();
      expect_right(kOutputs);
    }
  }

  static constexpr std::size_t kBytes = kRows * kCols * sizeof(float);
  // The plan is for buffers that are aligned as fresh ones are.
  static constexpr std::int64_t kOutputStride = (kBytes + 255) / 256 * 256;
  std::shared_ptr<Device> device_;
  const DriverApi* api_ = nullptr;
  CUcontext primary_ = nullptr;
  CUstream streams_[2] = {};
  Buffer x_, y_;
  std::unique_ptr<ModuleTable> modules_;
  LaunchPlan plan_;
  Config config_;  // the plan's
  std::vector<double> expected_;
};

TEST_F(GridRowCuda, LeavesItsPlacesFreeForTheNextReplay) {
  const RecordedCall recorded(plan_, call(0));
  const Result<std::unique_ptr<Sequence>> sequence = device_->record({recorded.launch()}, {});
  ASSERT_TRUE(sequence.ok()) << sequence.status().to_string();
  const Result<double> time = (*sequence)->time_ns(1000);
  ASSERT_TRUE(time.ok()) << time.status().to_string();
  expect_right(1);
}

TEST_F(GridRowCuda, ServesTwoStreamsAtOnceAtWhateverPlaces) {
  serve_two_streams();
}

// Blocks of which a multiprocessor holds one: the next launch must not begin with a part of its
// blocks, and hold a place, before the one that waits for that place has ended.
TEST_F(GridRowCuda, ServesTwoStreamsWhoseLaunchesDoNotFitTogether) {
  choose_plan("min_blocks=1,");
  plan_.geometry.shared_bytes = device_->facts().shared_bytes_per_sm * 3 / 5;
  serve_two_streams();
}

TEST_F(GridRowCuda, DoesNotHangWhereTwoStreamsWriteOneDst) {
  for (int i = 0; i < 200; ++i) launch(0, streams_[i % 2]);
  wait();
  launch(0, streams_[0]);
  wait();
  expect_right(1);
}

TEST_F(GridRowCuda, RunsWhileOrdinaryLaunchesFillTheOtherStream) {
  const Problem problem = contiguous_problem(DType::kF32, DType::kF32, kRows, kCols);
  const Config other = generic_config();
  const Result<const Kernel*> kernel = modules_->get(problem, other);
  ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
  const LaunchPlan plan = make_plan(problem, device_->facts(), other, *kernel);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(launch_softmax(*device_, plan, call(1, streams_[1])).ok());
    launch(0, streams_[0]);
  }
  wait();
  expect_right(1);
}

TEST_F(GridRowCuda, RefusesAGridThatDoesNotRunAtOnce) {
  const RecordedCall recorded(plan_, call(0));
  LaunchCall large = recorded.launch();
  large.shape.grid *= 10'000;
  const Status status = device_->run(large);
  EXPECT_EQ(status.code(), Code::kUnsupported) << status.to_string();
  const DeviceFacts& facts = device_->facts();
  EXPECT_NE(status.message().find("on each of " + std::to_string(facts.sm_count)),
            std::string::npos)
      << status.to_string();
  ASSERT_TRUE(device_->run(recorded.launch()).ok());
  expect_right(1);
}

// Of the fewest multiprocessors that the GPU parts with. Requires: the primary context is current.
class GreenContext {
 public:
  GreenContext(const DriverApi& api, CUcontext primary, CUdevice device) : api_(api) {
    CUdevResource all{}, few{}, rest{};
    unsigned groups = 1;
    CUdevResourceDesc about = nullptr;
    CUcontext context = nullptr;
    if (call("cuDeviceGetDevResource", device, &all, CU_DEV_RESOURCE_TYPE_SM) &&
        call("cuDevSmResourceSplitByCount", &few, &groups, &all, &rest, 0u, 1u) &&
        call("cuDevResourceGenerateDesc", &about, &few, 1u) &&
        call("cuGreenCtxCreate", &green_, about, device, CU_GREEN_CTX_DEFAULT_STREAM) &&
        call("cuCtxFromGreenCtx", &context, green_)) {
      const CurrentContext scope(api, primary, context);
      if (scope.result() == CUDA_SUCCESS) api.stream_create(&stream_, CU_STREAM_NON_BLOCKING);
    }
  }
  ~GreenContext() {
    if (stream_) api_.stream_destroy(stream_);
    if (green_) call("cuGreenCtxDestroy", green_);
  }
  CUstream stream() const { return stream_; }  // null where there is none to be had

 private:
  template <typename... Args>
  bool call(const char* name, Args... args) {
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    const auto function = reinterpret_cast<CUresult (*)(Args...)>(dlsym(driver, name));
    return function && function(args...) == CUDA_SUCCESS;
  }
  const DriverApi& api_;
  CUgreenCtx green_ = nullptr;
  CUstream stream_ = nullptr;
};

// The config serves where it fits and gives way in a green context, in turns.
class SmallContext : public GridRowCuda {
 protected:
  void expect_gives_way(const Config& config) {
    const GreenContext green(*api_, primary_, device_->facts().ordinal);
    if (!green.stream()) GTEST_SKIP() << "no green context is to be had here";
    WinnerRecord winner;
    winner.device_class = device_class(device_->facts());
    winner.problem = contiguous_problem(DType::kF32, DType::kF32, kRows, kCols);
    winner.config = config;
    winner.family_digest = std::string(find_family(config.family)->digest());
    winner.evidence.median_ns = 1000;
    const Session session = make_session(device_, {});
    ASSERT_TRUE(session.store->put(winner).ok());
    const auto runtime = make_dispatcher(session, {}, {});
    for (const bool fits : {false, true, false, true}) {
      const std::uint64_t before = runtime->stats().exact;
      const CUstream stream = fits ? streams_[0] : green.stream();
      clear();
      ASSERT_TRUE(runtime->softmax(call(0, stream)).ok());
      ASSERT_EQ(api_->stream_synchronize(stream), CUDA_SUCCESS);
      expect_right(1);
      EXPECT_EQ(runtime->stats().exact, before + fits);
    }
  }
};

TEST_F(SmallContext, RefusesAGridThatWouldNotRunAtOnceAndThereAlone) {
  expect_gives_way(config_);
}

TEST_F(SmallContext, RefusesAClusterThatItHasNoRoomForAndThereAlone) {
  const std::optional<Config> cluster = parse_config(
      "cluster_row:cluster=16,threads=256,min_blocks=1,pack=4,start=any,keep=f32,load=cs,store=cs");
  ASSERT_TRUE(cluster.has_value());
  expect_gives_way(*cluster);
}

}  // namespace
}  // namespace rowsmith
