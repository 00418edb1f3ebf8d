// SPDX-License-Identifier: Apache-2.0
//
// What cuda_device.h and nvrtc.h answer in a build without CUDA: that it is one.
#include "runtime/cuda_device.h"
#include "runtime/nvrtc.h"

namespace rowsmith {
namespace {

Status built_without_cuda(Code code) {
  return Status(code,
                "rowsmith was built without CUDA (ROWSMITH_CUDA=OFF, or no CUDA headers were "
                "found)");
}

}  // namespace

Result<std::vector<DeviceFacts>> cuda_devices() {
  return built_without_cuda(Code::kNoDevice);
}
Result<std::shared_ptr<Device>> make_cuda_device(int) {
  return built_without_cuda(Code::kNoDevice);
}
Result<std::string> cuda_device_of_stream(CUstream_st*) {
  return std::string();
}

std::string nvrtc_version() {
  return "nvrtc not built in";
}
std::string nvrtc_key(int) {
  return nvrtc_version();
}
Result<std::vector<int>> nvrtc_archs() {
  return built_without_cuda(Code::kUnsupported);
}
Result<CompileTarget> choose_target(int, const std::vector<int>&, const std::string&) {
  return built_without_cuda(Code::kUnsupported);
}
Result<Binary> nvrtc_compile(const Program&, int) {
  return built_without_cuda(Code::kUnsupported);
}

}  // namespace rowsmith
