// SPDX-License-Identifier: Apache-2.0
//
// What runtime/device.h promises, of every Device: the host one, and CUDA where there is a GPU.
#include "kernel_templates/catalog.h"
#include "runtime/devices.h"
#include "runtime/softmax_launch.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace rowsmith {
namespace {

constexpr std::int64_t kRows = 3, kCols = 5;
constexpr std::size_t kBytes = kRows * kCols * sizeof(float);

class DeviceContract : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const bool host = GetParam() == "host";
    const Result<std::shared_ptr<Device>> opened = open_device(host ? "host" : "");
    if (!opened.ok()) GTEST_SKIP() << opened.status().to_string();
    device_ = *opened;
  }

  // The generic kernel for f32, loaded.
  const Kernel* softmax_kernel() {
    const Instance instance{contiguous_problem(DType::kF32, DType::kF32, kRows, kCols),
                            generic_config()};
    entry_ = entry_name(instance);
    const Result<Binary> binary =
        device_->compile({"contract", program_text({instance}), {entry_}});
    EXPECT_TRUE(binary.ok()) << binary.status().to_string();
    if (!binary.ok()) return nullptr;
    Result<std::unique_ptr<Module>> module = device_->load(*binary);
    EXPECT_TRUE(module.ok()) << module.status().to_string();
    if (!module.ok()) return nullptr;
    module_ = std::move(*module);
    const Result<const Kernel*> kernel = module_->kernel(entry_);
    EXPECT_TRUE(kernel.ok()) << kernel.status().to_string();
    return kernel.ok() ? *kernel : nullptr;
  }

  // Buffers of rows of equal values, and the call on them.
  SoftmaxCall equal_rows() {
    const std::vector<float> ones(kRows * kCols, 1.0f);
    src_ = *device_->allocate(kBytes);
    dst_ = *device_->allocate(kBytes);
    EXPECT_TRUE(device_->copy_in(src_.data(), ones.data(), kBytes).ok());
    EXPECT_TRUE(device_->fill(dst_.data(), 0x7f, kBytes).ok());
    SoftmaxCall call;
    call.src = src_.data();
    call.dst = dst_.data();
    call.rows = kRows;
    call.cols = call.src_stride = call.dst_stride = kCols;
    return call;
  }

  LaunchPlan plan_of(const Kernel* kernel) {
    return make_plan(contiguous_problem(DType::kF32, DType::kF32, kRows, kCols), DeviceFacts{},
                     generic_config(), kernel);
  }

  void expect_uniform() {
    std::vector<float> result(kRows * kCols);
    ASSERT_TRUE(device_->copy_out(result.data(), dst_.data(), kBytes).ok());
    for (const float value : result) EXPECT_FLOAT_EQ(value, 1.0f / kCols);
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Module> module_;
  std::string entry_;
  Buffer src_, dst_;
};

TEST_P(DeviceContract, FactsNameTheKindAndTheCompiler) {
  const DeviceFacts& facts = device_->facts();
  EXPECT_EQ(facts.kind, GetParam());
  EXPECT_FALSE(facts.name.empty());
  EXPECT_FALSE(facts.uuid.empty());
  EXPECT_FALSE(facts.compiler.empty());
  EXPECT_GT(facts.sm_count, 0);
  EXPECT_GT(facts.l2_bytes, 0);
  EXPECT_GT(facts.shared_bytes_per_block, 0);
}

TEST_P(DeviceContract, CopiesInFillsAndCopiesOut) {
  const std::string text = "0123456789";
  const Buffer buffer = *device_->allocate(text.size());
  ASSERT_TRUE(device_->copy_in(buffer.data(), text.data(), text.size()).ok());
  ASSERT_TRUE(device_->fill(static_cast<char*>(buffer.data()) + 3, 'x', 4).ok());
  std::string back(text.size(), ' ');
  ASSERT_TRUE(device_->copy_out(back.data(), buffer.data(), back.size()).ok());
  EXPECT_EQ(back, "012xxxx789");
}

TEST_P(DeviceContract, MemoryBeginsOnA256ByteBorder) {
  for (const std::size_t bytes : {1, 255, 4097}) {
    const Buffer buffer = *device_->allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256, 0u) << bytes;
    EXPECT_EQ(buffer.bytes(), bytes);
  }
}

TEST_P(DeviceContract, AllocatesNothingWithoutFailing) {
  const Result<Buffer> buffer = device_->allocate(0);
  EXPECT_TRUE(buffer.ok()) << buffer.status().to_string();
}

TEST_P(DeviceContract, TooMuchMemoryIsOutOfMemory) {
  const Result<Buffer> buffer = device_->allocate(std::size_t{1} << 50);
  ASSERT_FALSE(buffer.ok());
  EXPECT_EQ(buffer.status().code(), Code::kOutOfMemory) << buffer.status().to_string();
}

TEST_P(DeviceContract, RunsAKernel) {
  const Kernel* kernel = softmax_kernel();
  ASSERT_NE(kernel, nullptr);
  const SoftmaxCall call = equal_rows();
  const Status status = run_softmax(*device_, plan_of(kernel), call);
  ASSERT_TRUE(status.ok()) << status.to_string();
  expect_uniform();
}

TEST_P(DeviceContract, ReplaysARecordedSequenceOnItsOwn) {
  const Kernel* kernel = softmax_kernel();
  ASSERT_NE(kernel, nullptr);
  Result<std::unique_ptr<Sequence>> sequence = Status(Code::kInternal, "not recorded");
  {
    const RecordedCall recorded(plan_of(kernel), equal_rows());
    sequence = device_->record({recorded.launch(), recorded.launch()}, {});
  }
  ASSERT_TRUE(sequence.ok()) << sequence.status().to_string();
  const Result<double> time = (*sequence)->time_ns(3);
  ASSERT_TRUE(time.ok()) << time.status().to_string();
  EXPECT_GT(*time, 0);
  expect_uniform();
}

TEST_P(DeviceContract, FindsTheSameKernelAgainAndNoOther) {
  const Kernel* kernel = softmax_kernel();
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(*module_->kernel(entry_), kernel);
  EXPECT_EQ(module_->kernel("no_such_entry").status().code(), Code::kLaunchFailed);
}

TEST_P(DeviceContract, CompileErrorsCarryTheCompilersWords) {
  const Status status = device_->compile({"broken", "no such thing;\n", {}}).status();
  EXPECT_EQ(status.code(), Code::kCompileFailed);
  EXPECT_NE(status.message().find("error"), std::string::npos) << status.to_string();
}

TEST_P(DeviceContract, RefusesBytesThatAreNoBinary) {
  for (const char* bytes : {"", "neither a cubin nor a shared object"}) {
    Binary binary;
    binary.bytes = bytes;
    EXPECT_EQ(device_->load(binary).status().code(), Code::kLaunchFailed) << bytes;
  }
}

TEST_P(DeviceContract, RefusesTooFewParameters) {
  const Kernel* kernel = softmax_kernel();
  ASSERT_NE(kernel, nullptr);
  const RecordedCall recorded(plan_of(kernel), equal_rows());
  LaunchCall call = recorded.launch();
  call.param_bytes -= 8;
  EXPECT_EQ(device_->run(call).code(), Code::kLaunchFailed);
}

TEST_P(DeviceContract, RefusesAShapeItCannotHaveAndGoesOn) {
  const Kernel* kernel = softmax_kernel();
  ASSERT_NE(kernel, nullptr);
  const RecordedCall recorded(plan_of(kernel), equal_rows());
  LaunchCall wide = recorded.launch(), empty = recorded.launch();
  wide.shape.block = 1 << 20;
  empty.shape.grid = 0;
  EXPECT_EQ(device_->run(wide).code(), Code::kLaunchFailed);
  EXPECT_EQ(device_->run(empty).code(), Code::kLaunchFailed);
  ASSERT_TRUE(device_->run(recorded.launch()).ok());
  expect_uniform();
}

TEST_P(DeviceContract, BinaryKeyIsStable) {
  const Result<std::shared_ptr<Device>> again = open_device(GetParam() == "host" ? "host" : "");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(device_->binary_key(), (*again)->binary_key());
  EXPECT_FALSE(device_->binary_key().empty());
}

TEST_P(DeviceContract, DefaultStreamIsNotCapturing) {
  const Result<bool> capturing = device_->is_capturing(nullptr);
  ASSERT_TRUE(capturing.ok()) << capturing.status().to_string();
  EXPECT_FALSE(*capturing);
}

TEST_P(DeviceContract, ChecksItsOwnMemoryAndNull) {
  const Buffer buffer = *device_->allocate(16);
  EXPECT_TRUE(device_->check_access(buffer.data(), "x").ok());
  const Status status = device_->check_access(nullptr, "x");
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.message().rfind("x ", 0), 0u) << status.to_string();
}

TEST_P(DeviceContract, TellsItsClocksOrWhyTheyAreNotKnown) {
  const Result<DeviceState> state = device_->state();
  if (!state.ok()) {
    EXPECT_EQ(state.status().code(), Code::kUnsupported);
    EXPECT_NE(state.status().message(), "");
    return;
  }
  EXPECT_GE(state->sm_clock_mhz, 0);
  EXPECT_LT(state->sm_clock_mhz, 10'000);
  EXPECT_LT(state->memory_clock_mhz, 50'000);
  EXPECT_LT(state->temperature_c, 150);
}

TEST_P(DeviceContract, BuffersOutliveTheDevice) {
  Buffer buffer = *device_->allocate(64);
  device_.reset();
  buffer = Buffer();
  EXPECT_TRUE(open_device(GetParam() == "host" ? "host" : "").ok());
}

INSTANTIATE_TEST_SUITE_P(Host, DeviceContract, ::testing::Values("host"));
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceContract, ::testing::Values("cuda"));

}  // namespace
}  // namespace rowsmith
