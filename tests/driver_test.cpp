// SPDX-License-Identifier: Apache-2.0
//
// What is said of drivers that cannot serve, and how the driver's codes are read. Needs no GPU.
#include "runtime/cuda_driver.h"
#include "runtime/devices.h"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

namespace rowsmith {
namespace {

// The fake driver beside this program, with a fault.
Result<DriverApi> load_fake(const char* fault) {
  setenv("FAKE_DRIVER", fault, 1);
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return load_driver((folder / "libfake_driver.so").string());
}

bool says(const Status& status, const std::string& text) {
  return status.message().find(text) != std::string::npos;
}

TEST(DeviceOfStream, DoesNotLoadTheDriverForAProcessThatHasNot) {
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) GTEST_SKIP() << "the driver is loaded";
  const Result<std::string> device = device_of_stream(nullptr);
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  EXPECT_EQ(*device, "");
  EXPECT_EQ(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), nullptr);
}

TEST(Driver, ThatIsWholeLoads) {
  const Result<DriverApi> api = load_fake("");
  ASSERT_TRUE(api.ok()) << api.status().to_string();
  EXPECT_EQ(api->version, 13000);
}

TEST(Driver, ThatIsTheToolkitsStubIsCalledOne) {
  const Status status = load_fake("stub").status();
  EXPECT_EQ(status.code(), Code::kNoDevice);
  EXPECT_TRUE(says(status, "stub library in loader path")) << status.to_string();
}

TEST(Driver, ThatIsTooOldIsToldByBothVersions) {
  const Status status = load_fake("old").status();
  EXPECT_EQ(status.code(), Code::kNoDevice);
  EXPECT_TRUE(says(status, "11.8")) << status.to_string();
  EXPECT_TRUE(says(status, "12.0")) << status.to_string();
}

TEST(Driver, ThatLacksAFunctionIsToldByItsName) {
  const Status status = load_fake("cuLibraryLoadData").status();
  EXPECT_EQ(status.code(), Code::kNoDevice);
  EXPECT_TRUE(says(status, "cuLibraryLoadData")) << status.to_string();
}

TEST(Driver, ThatLacksAnOptionalFunctionLoadsWithoutIt) {
  const Result<DriverApi> no_info = load_fake("cuKernelGetParamInfo");
  ASSERT_TRUE(no_info.ok()) << no_info.status().to_string();
  EXPECT_EQ(no_info->kernel_get_param_info, nullptr);
  EXPECT_NE(no_info->ctx_get_dev_resource, nullptr);
  const Result<DriverApi> no_resource = load_fake("cuCtxGetDevResource");
  ASSERT_TRUE(no_resource.ok()) << no_resource.status().to_string();
  EXPECT_EQ(no_resource->ctx_get_dev_resource, nullptr);
  const Result<DriverApi> no_id = load_fake("cuCtxGetId");
  ASSERT_TRUE(no_id.ok()) << no_id.status().to_string();
  EXPECT_EQ(no_id->ctx_get_id, nullptr);
}

TEST(Driver, ThatIsAbsentIsSaidToBe) {
  const Status status = load_driver("/nonexistent/libcuda.so.1").status();
  EXPECT_EQ(status.code(), Code::kNoDevice);
  EXPECT_TRUE(says(status, "no NVIDIA driver")) << status.to_string();
}

// A driver that knows the name of every code.
DriverApi named_codes() {
  DriverApi api{};
  api.get_error_name = [](CUresult, const char** name) {
    *name = "CUDA_ERROR_X";
    return CUDA_SUCCESS;
  };
  api.get_error_string = [](CUresult, const char** text) {
    *text = "what it means";
    return CUDA_SUCCESS;
  };
  return api;
}

TEST(DriverCodes, TellAKernelsOwnFailureFromALostDevice) {
  const DriverApi api = named_codes();
  const std::pair<CUresult, Code> expected[] = {
      {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, Code::kLaunchFailed},
      {CUDA_ERROR_NO_BINARY_FOR_GPU, Code::kLaunchFailed},
      {CUDA_ERROR_INVALID_CLUSTER_SIZE, Code::kLaunchFailed},
      {CUDA_ERROR_ILLEGAL_ADDRESS, Code::kDeviceLost},
      {CUDA_ERROR_MISALIGNED_ADDRESS, Code::kDeviceLost},
      {CUDA_ERROR_LAUNCH_FAILED, Code::kDeviceLost},
      {CUDA_ERROR_OUT_OF_MEMORY, Code::kOutOfMemory},
      {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, Code::kInvalidArgument},
      {CUDA_ERROR_NOT_INITIALIZED, Code::kNoDevice},
  };
  for (const auto& [result, code] : expected) {
    EXPECT_EQ(to_status(api, result, "call").code(), code) << result;
  }
}

TEST(DriverCodes, AreNamedWithTheirCallNumberAndText) {
  const Status status = to_status(named_codes(), CUDA_ERROR_ILLEGAL_ADDRESS, "cuStreamSynchronize");
  EXPECT_EQ(status.message(), "cuStreamSynchronize: CUDA_ERROR_X (700): what it means");
  EXPECT_TRUE(to_status(named_codes(), CUDA_SUCCESS, "call").ok());
}

}  // namespace
}  // namespace rowsmith
