// SPDX-License-Identifier: Apache-2.0

#include "device_memory.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

namespace {

class HostMemory : public DeviceMemory {
 public:
  // On a 256-byte border as cudaMalloc gives, since alignment is part of what a winner was tuned
  // for.
  float* allocate(std::size_t count) override {
    const std::size_t bytes = (count * sizeof(float) + 255) / 256 * 256;
    arrays_.emplace_back(static_cast<float*>(std::aligned_alloc(256, bytes)), std::free);
    return arrays_.back().get();
  }
  bool upload(float* to, const std::vector<float>& from) override {
    std::copy(from.begin(), from.end(), to);
    return true;
  }
  bool download(std::vector<float>& to, const float* from) override {
    std::copy(from, from + to.size(), to.begin());
    return true;
  }
  bool synchronize() override { return true; }

 private:
  std::vector<std::unique_ptr<float, void (*)(void*)>> arrays_;
};

using Address = unsigned long long;  // CUdeviceptr

// The seven driver calls that it takes, on the primary context that the CUDA runtime shares.
class CudaMemory : public DeviceMemory {
 public:
  bool open(int ordinal) {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = nullptr;
    int (*get)(int*, int) = nullptr;
    int (*retain)(void**, int) = nullptr;
    int (*set_current)(void*) = nullptr;
    int device = 0;
    void* context = nullptr;
    return driver != nullptr && find(driver, "cuInit", init) && find(driver, "cuDeviceGet", get) &&
           find(driver, "cuDevicePrimaryCtxRetain", retain) &&
           find(driver, "cuCtxSetCurrent", set_current) &&
           find(driver, "cuCtxSynchronize", synchronize_) &&
           find(driver, "cuMemAlloc_v2", allocate_) && find(driver, "cuMemFree_v2", free_) &&
           find(driver, "cuMemcpyHtoD_v2", upload_) && find(driver, "cuMemcpyDtoH_v2", download_) &&
           init(0) == 0 && get(&device, ordinal) == 0 && retain(&context, device) == 0 &&
           set_current(context) == 0;
  }
  ~CudaMemory() override {
    for (const Address address : arrays_) free_(address);
  }
  float* allocate(std::size_t count) override {
    Address address = 0;
    if (allocate_(&address, count * sizeof(float)) != 0) return nullptr;
    arrays_.push_back(address);
    return reinterpret_cast<float*>(address);
  }
  bool upload(float* to, const std::vector<float>& from) override {
    return upload_(reinterpret_cast<Address>(to), from.data(), from.size() * sizeof(float)) == 0;
  }
  bool download(std::vector<float>& to, const float* from) override {
    return download_(to.data(), reinterpret_cast<Address>(from), to.size() * sizeof(float)) == 0;
  }
  bool synchronize() override { return synchronize_() == 0; }

 private:
  template <typename Function>
  static bool find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
  }

  int (*synchronize_)() = nullptr;
  int (*allocate_)(Address*, std::size_t) = nullptr;
  int (*free_)(Address) = nullptr;
  int (*upload_)(Address, const void*, std::size_t) = nullptr;
  int (*download_)(void*, Address, std::size_t) = nullptr;
  std::vector<Address> arrays_;
};

}  // namespace

std::unique_ptr<DeviceMemory> DeviceMemory::open_host() {
  return std::make_unique<HostMemory>();
}

std::unique_ptr<DeviceMemory> DeviceMemory::open_cuda(int ordinal) {
  auto memory = std::make_unique<CudaMemory>();
  if (!memory->open(ordinal)) return nullptr;
  return memory;
}
