// SPDX-License-Identifier: Apache-2.0
//
// How launches of blocks that must run at once are refused, and failed ones told, over a driver
// that the test scripts. Needs no GPU.
#include "runtime/cuda_module.h"

#include <gtest/gtest.h>

#include <string>

namespace rowsmith {
namespace {

// What the driver answers. Contexts are addresses of their ids.
struct Driver {
  unsigned long long primary = 1;
  unsigned long long* current = nullptr;
  unsigned multiprocessors = 4;  // of the current context
  int cooperative = 1;
  CUresult on_launch = CUDA_SUCCESS;
  int launches = 0, questions = 0;
} driver;

CUcontext context_at(unsigned long long* id) {
  return reinterpret_cast<CUcontext>(id);
}

CUresult get_attribute(int* value, CUdevice_attribute attribute, CUdevice) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH: *value = driver.cooperative; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 100; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = 100'000; break;
    default: *value = 0;
  }
  return CUDA_SUCCESS;
}

void script_contexts(DriverApi& api) {
  api.primary_ctx_retain = [](CUcontext* context, CUdevice) {
    *context = context_at(&driver.primary);
    return CUDA_SUCCESS;
  };
  api.primary_ctx_release = [](CUdevice) { return CUDA_SUCCESS; };
  api.ctx_get_current = [](CUcontext* context) {
    *context = context_at(driver.current);
    return CUDA_SUCCESS;
  };
  api.ctx_set_current = [](CUcontext) { return CUDA_SUCCESS; };
  api.ctx_get_id = [](CUcontext context, unsigned long long* id) {
    *id = *reinterpret_cast<unsigned long long*>(context);
    return CUDA_SUCCESS;
  };
  api.ctx_get_dev_resource = [](CUcontext, CUdevResource* resource, CUdevResourceType) {
    resource->sm.smCount = driver.multiprocessors;
    ++driver.questions;
    return CUDA_SUCCESS;
  };
  api.stream_create = [](CUstream*, unsigned) { return CUDA_SUCCESS; };
  api.stream_destroy = [](CUstream) { return CUDA_SUCCESS; };
  api.exchange_capture_mode = [](CUstreamCaptureMode*) { return CUDA_SUCCESS; };
}

DriverApi scripted_driver() {
  DriverApi api{};
  api.get_error_name = [](CUresult, const char**) { return CUDA_SUCCESS; };
  api.get_error_string = [](CUresult, const char**) { return CUDA_SUCCESS; };
  api.device_get_attribute = get_attribute;
  script_contexts(api);
  api.get_library_kernel = [](CUkernel*, CUlibrary, const char*) { return CUDA_SUCCESS; };
  api.kernel_get_function = [](CUfunction*, CUkernel) { return CUDA_SUCCESS; };
  api.kernel_get_attribute = [](int* value, CUfunction_attribute, CUkernel, CUdevice) {
    *value = 0;
    return CUDA_SUCCESS;
  };
  api.occupancy = [](int* blocks, CUfunction, int, std::size_t) {
    *blocks = 2;
    return CUDA_SUCCESS;
  };
  api.launch_kernel_ex = [](const CUlaunchConfig*, CUfunction, void**, void**) {
    ++driver.launches;
    return driver.on_launch;
  };
  return api;
}

class CudaKernelTest : public ::testing::Test {
 protected:
  CudaKernelTest() {
    driver = Driver();
    driver.current = &driver.primary;
  }

  // Over api_ as it is by then.
  void open() {
    context_ = std::make_shared<CudaContext>(api_, 0, 0);
    ASSERT_TRUE(context_->start().ok());
    Result<std::unique_ptr<CudaKernel>> kernel = CudaKernel::find(context_, nullptr, "k");
    ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
    kernel_ = std::move(*kernel);
  }
  // A launch of blocks that all wait for each other.
  Status launch(int grid) const {
    LaunchCall call;
    call.kernel = kernel_.get();
    call.shape.grid = call.shape.together = grid;
    call.shape.block = 32;
    return kernel_->enqueue(call, nullptr);
  }

  DriverApi api_ = scripted_driver();
  std::shared_ptr<CudaContext> context_;
  std::unique_ptr<CudaKernel> kernel_;
};

TEST_F(CudaKernelTest, RefusesWhatDoesNotRunAtOnceWithoutALaunch) {
  open();
  EXPECT_TRUE(launch(8).ok());
  const Status status = launch(9);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("2 on each of 4 multiprocessors"), std::string::npos)
      << status.message();
  EXPECT_EQ(driver.launches, 1);
  EXPECT_EQ(driver.questions, 1);
}

TEST_F(CudaKernelTest, RefusesEveryGridWhereTheDeviceHasNoCooperativeLaunches) {
  driver.cooperative = 0;
  open();
  EXPECT_EQ(launch(2).code(), Code::kUnsupported);
  EXPECT_EQ(driver.launches, 0);
}

// Else it would pass for a refusal, after which a capture goes on.
TEST_F(CudaKernelTest, CallsALaunchThatTheDriverDoesNotSupportFailed) {
  open();
  driver.on_launch = CUDA_ERROR_NOT_SUPPORTED;
  EXPECT_EQ(launch(2).code(), Code::kLaunchFailed);
}

TEST_F(CudaKernelTest, TellsContextsAtOneAddressApart) {
  open();
  unsigned long long other = 2;
  driver.current = &other;
  EXPECT_TRUE(launch(8).ok());
  EXPECT_TRUE(launch(8).ok());
  EXPECT_EQ(driver.questions, 1);
  other = 3;  // destroyed, and a smaller one is where it was
  driver.multiprocessors = 2;
  EXPECT_EQ(launch(8).code(), Code::kUnsupported);
  driver.current = &driver.primary;
  driver.multiprocessors = 4;
  EXPECT_TRUE(launch(8).ok());
}

TEST_F(CudaKernelTest, AsksEachTimeInContextsThatTheDriverCannotTellApart) {
  api_.ctx_get_id = nullptr;
  open();
  EXPECT_TRUE(launch(8).ok());
  EXPECT_TRUE(launch(8).ok());
  EXPECT_EQ(driver.questions, 1);
  unsigned long long other = 2;
  driver.current = &other;
  EXPECT_TRUE(launch(8).ok());
  driver.multiprocessors = 2;
  EXPECT_EQ(launch(8).code(), Code::kUnsupported);
}

}  // namespace
}  // namespace rowsmith
