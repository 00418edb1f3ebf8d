// SPDX-License-Identifier: Apache-2.0
//
// What only a GPU can show: contexts, streams, captures, forks and faults. Every test skips with
// the reason where there is no GPU.
#include "runtime/cuda_device.h"
#include "runtime/cuda_driver.h"
#include "runtime/devices.h"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace rowsmith {
namespace {

constexpr int kCount = 1024;

struct AddParams {
  const int* x;
  int* y;
  long long spin;  // clock ticks to wait before reading x
};

// y = x + 1 after a wait; a write outside all memory; dynamic shared memory; the cluster's size.
constexpr const char* kText = R"(
struct AddParams { const int* x; int* y; long long spin; };
extern "C" __global__ void add_one(AddParams p) {
  const long long start = clock64();
  while (clock64() - start < p.spin) {}
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  p.y[i] = p.x[i] + 1;
}
extern "C" __global__ void stray(AddParams) { *reinterpret_cast<volatile int*>(16) = 1; }
extern "C" __global__ void through_shared(AddParams p) {
  extern __shared__ int cells[];
  cells[threadIdx.x * 64] = p.x[threadIdx.x];
  __syncthreads();
  p.y[threadIdx.x] = cells[(blockDim.x - 1 - threadIdx.x) * 64];
}
extern "C" __global__ void cluster_size(AddParams p) {
  unsigned size = 1;
#if __CUDA_ARCH__ >= 900
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(size));
#endif
  if (threadIdx.x == 0) p.y[blockIdx.x] = static_cast<int>(size);
}
)";

// A function that the library itself has no use for.
template <typename Function>
Function driver_function(const char* symbol) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return library ? reinterpret_cast<Function>(dlsym(library, symbol)) : nullptr;
}

// A device with the kernels of kText and two buffers of kCount integers: x = 0, 1, 2, ...
class Gpu {
 public:
  static std::unique_ptr<Gpu> open(std::string& why_not) {
    Result<std::shared_ptr<Device>> device = open_device("");
    if (!device.ok()) {
      why_not = device.status().to_string();
      return nullptr;
    }
    auto gpu = std::make_unique<Gpu>();
    gpu->device = *device;
    const Result<Binary> binary = gpu->device->compile(
        {"cuda_device_test", kText, {"add_one", "stray", "through_shared", "cluster_size"}});
    if (!binary.ok()) {
      why_not = binary.status().to_string();
      return nullptr;
    }
    gpu->module = gpu->device->load(*binary).value();
    gpu->x = *gpu->device->allocate(kCount * sizeof(int));
    gpu->y = *gpu->device->allocate(kCount * sizeof(int));
    std::vector<int> values(kCount);
    for (int i = 0; i < kCount; ++i) values[static_cast<std::size_t>(i)] = i;
    EXPECT_TRUE(gpu->device->copy_in(gpu->x.data(), values.data(), kCount * sizeof(int)).ok());
    EXPECT_TRUE(gpu->device->fill(gpu->y.data(), 0xff, kCount * sizeof(int)).ok());
    return gpu;
  }

  // The launch of an entry from x to y; its parameters live here until the next call.
  LaunchCall call(const char* entry, long long spin = 0) {
    params = {static_cast<const int*>(x.data()), static_cast<int*>(y.data()), spin};
    LaunchCall launch;
    launch.kernel = *module->kernel(entry);
    launch.shape = {kCount / 256, 256, 1, 0};
    launch.params = &params;
    launch.param_bytes = sizeof(params);
    return launch;
  }

  std::vector<int> read(const Buffer& buffer) const {
    std::vector<int> values(kCount);
    const Status status = device->copy_out(values.data(), buffer.data(), kCount * sizeof(int));
    EXPECT_TRUE(status.ok()) << status.to_string();
    return values;
  }

  void expect_plus(int added) const {
    const std::vector<int> values = read(y);
    for (int i = 0; i < kCount; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], i + added);
  }

  std::shared_ptr<Device> device;
  std::unique_ptr<Module> module;
  Buffer x, y;
  AddParams params{};
};

class CudaDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    gpu_ = Gpu::open(why_not);
    if (!gpu_) GTEST_SKIP() << why_not;
    api_ = *start_driver();
    ASSERT_EQ(api_->primary_ctx_retain(&primary_, gpu_->device->facts().ordinal), CUDA_SUCCESS);
  }
  void TearDown() override {
    if (!gpu_) return;
    api_->ctx_set_current(nullptr);
    api_->primary_ctx_release(gpu_->device->facts().ordinal);
  }

  CUcontext current() const {
    CUcontext context = nullptr;
    EXPECT_EQ(api_->ctx_get_current(&context), CUDA_SUCCESS);
    return context;
  }
  // A stream of the primary context, which stays current.
  CUstream make_stream(unsigned flags) const {
    CUstream stream = nullptr;
    EXPECT_EQ(api_->ctx_set_current(primary_), CUDA_SUCCESS);
    EXPECT_EQ(api_->stream_create(&stream, flags), CUDA_SUCCESS);
    return stream;
  }
  // Every method that touches CUDA, once, but launch().
  void use_everything() {
    Device& device = *gpu_->device;
    int word = 0;
    const Buffer buffer = *device.allocate(64);
    EXPECT_TRUE(device.copy_in(buffer.data(), &word, sizeof(word)).ok());
    EXPECT_TRUE(device.fill(buffer.data(), 0, 64).ok());
    EXPECT_TRUE(device.copy_out(&word, buffer.data(), sizeof(word)).ok());
    EXPECT_TRUE(device.run(gpu_->call("add_one")).ok());
    EXPECT_TRUE(device.record({gpu_->call("add_one")}, {}).ok());
    EXPECT_TRUE(device.is_capturing(nullptr).ok());
    EXPECT_TRUE(device.check_access(buffer.data(), "x").ok());
  }

  std::unique_ptr<Gpu> gpu_;
  const DriverApi* api_ = nullptr;
  CUcontext primary_ = nullptr;
};

TEST_F(CudaDeviceTest, FactsComeFromTheDriver) {
  const DeviceFacts& facts = gpu_->device->facts();
  EXPECT_GE(facts.capability, 75);
  EXPECT_EQ(facts.uuid.size(), 40u) << facts.uuid;
  EXPECT_FALSE(facts.bus_id.empty());
  EXPECT_GT(facts.memory_bytes, std::int64_t{1} << 30);
  EXPECT_GE(facts.driver_version, kOldestDriver);
  EXPECT_GE(facts.shared_bytes_per_block, 48 * 1024);
}

TEST_F(CudaDeviceTest, OpensByUuidAndByItsPrefix) {
  const std::string uuid = gpu_->device->facts().uuid;
  EXPECT_EQ((*open_device(uuid))->facts().uuid, uuid);
  EXPECT_EQ((*open_device(uuid.substr(0, 12)))->facts().uuid, uuid);
  EXPECT_EQ(open_device("GPU-nothing").status().code(), Code::kNoDevice);
  EXPECT_EQ(open_device("4096").status().code(), Code::kNoDevice);
}

TEST_F(CudaDeviceTest, LeavesAThreadWithoutAContextWithout) {
  ASSERT_EQ(api_->ctx_set_current(nullptr), CUDA_SUCCESS);
  use_everything();
  EXPECT_EQ(current(), nullptr);
  const Status status = gpu_->device->launch(gpu_->call("add_one"), nullptr);
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(current(), nullptr);
}

TEST_F(CudaDeviceTest, WorksInAnotherContextOfItsDeviceAndRestoresIt) {
  using Create = CUresult (*)(CUcontext*, unsigned, CUdevice);
  CUcontext other = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;  // contexts do not share theirs
  ASSERT_EQ(driver_function<Create>("cuCtxCreate_v2")(&other, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(api_->stream_create(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(api_->mem_alloc(&memory, kCount * sizeof(int)), CUDA_SUCCESS);
  ASSERT_EQ(api_->memset_d8_async(memory, 0, kCount * sizeof(int), stream), CUDA_SUCCESS);
  use_everything();
  EXPECT_EQ(current(), other);

  const LaunchCall call = gpu_->call("add_one");
  gpu_->params.x = gpu_->params.y = reinterpret_cast<int*>(memory);
  Status status = gpu_->device->launch(call, stream);
  EXPECT_TRUE(status.ok()) << status.to_string();
  ASSERT_EQ(api_->ctx_set_current(nullptr), CUDA_SUCCESS);
  status = gpu_->device->launch(call, stream);
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(current(), nullptr);

  int first = -1;
  ASSERT_EQ(api_->ctx_set_current(other), CUDA_SUCCESS);
  EXPECT_EQ(api_->memcpy_dtoh_async(&first, memory, sizeof(first), stream), CUDA_SUCCESS);
  EXPECT_EQ(api_->stream_synchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(first, 2);
  ASSERT_EQ(driver_function<CUresult (*)(CUcontext)>("cuCtxDestroy_v2")(other), CUDA_SUCCESS);
}

TEST_F(CudaDeviceTest, OrdersItsWorkOnTheGivenStream) {
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  // A slow kernel writes y; the second, on the same stream, reads it into x.
  ASSERT_TRUE(gpu_->device->launch(gpu_->call("add_one", 50'000'000), stream).ok());
  LaunchCall second = gpu_->call("add_one");
  std::swap(gpu_->x, gpu_->y);
  gpu_->params = {static_cast<const int*>(gpu_->x.data()), static_cast<int*>(gpu_->y.data()), 0};
  ASSERT_TRUE(gpu_->device->launch(second, stream).ok());
  ASSERT_EQ(api_->stream_synchronize(stream), CUDA_SUCCESS);
  gpu_->expect_plus(2);
  api_->stream_destroy(stream);
}

TEST_F(CudaDeviceTest, TellsTheDeviceOfAStream) {
  const CUstream stream = make_stream(CU_STREAM_DEFAULT);
  EXPECT_EQ(*device_of_stream(nullptr), "0");
  ASSERT_EQ(api_->ctx_set_current(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(*device_of_stream(stream), "0");
  EXPECT_EQ(*device_of_stream(nullptr), "");
  api_->stream_destroy(stream);
}

TEST_F(CudaDeviceTest, RefusesHeapMemoryByNameAndGoesOn) {
  const std::unique_ptr<int[]> heap = std::make_unique<int[]>(kCount);
  const Status status = gpu_->device->check_access(heap.get(), "x");
  if (status.ok()) GTEST_SKIP() << "this device reads ordinary host memory";
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.message(), "x is not accessible from device 0: ordinary host memory");
  ASSERT_TRUE(gpu_->device->run(gpu_->call("add_one")).ok());
  gpu_->expect_plus(1);
}

TEST_F(CudaDeviceTest, AcceptsPinnedAndManagedMemory) {
  ASSERT_EQ(api_->ctx_set_current(primary_), CUDA_SUCCESS);
  void* pinned = nullptr;
  CUdeviceptr managed = 0;
  using HostAlloc = CUresult (*)(void**, std::size_t, unsigned);
  using ManagedAlloc = CUresult (*)(CUdeviceptr*, std::size_t, unsigned);
  ASSERT_EQ(driver_function<HostAlloc>("cuMemHostAlloc")(&pinned, 64, 0), CUDA_SUCCESS);
  ASSERT_EQ(driver_function<ManagedAlloc>("cuMemAllocManaged")(&managed, 64, CU_MEM_ATTACH_GLOBAL),
            CUDA_SUCCESS);
  Status status = gpu_->device->check_access(pinned, "x");
  EXPECT_TRUE(status.ok()) << status.to_string();
  status = gpu_->device->check_access(reinterpret_cast<void*>(managed), "x");
  EXPECT_TRUE(status.ok()) << status.to_string();
  driver_function<CUresult (*)(void*)>("cuMemFreeHost")(pinned);
  api_->mem_free(managed);
}

TEST_F(CudaDeviceTest, WorksDuringACaptureAndLeavesItValid) {
  const CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
  ASSERT_EQ(api_->stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_TRUE(*gpu_->device->is_capturing(stream));
  ASSERT_TRUE(gpu_->device->launch(gpu_->call("add_one"), stream).ok());
  const auto work = [&] {
    const Buffer buffer = *gpu_->device->allocate(1 << 20);
    EXPECT_TRUE(gpu_->device->fill(buffer.data(), 1, buffer.bytes()).ok());
    EXPECT_TRUE(gpu_->device->record({gpu_->call("add_one")}, {}).ok());
  };
  work();
  std::thread(work).join();
  CUgraph graph = nullptr;
  ASSERT_EQ(api_->stream_end_capture(stream, &graph), CUDA_SUCCESS);
  EXPECT_FALSE(*gpu_->device->is_capturing(stream));
  CUgraphExec exec = nullptr;
  ASSERT_EQ(api_->graph_instantiate(&exec, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(api_->graph_launch(exec, stream), CUDA_SUCCESS);
  ASSERT_EQ(api_->stream_synchronize(stream), CUDA_SUCCESS);
  gpu_->expect_plus(1);
  api_->graph_exec_destroy(exec);
  api_->graph_destroy(graph);
  api_->stream_destroy(stream);
}

TEST_F(CudaDeviceTest, RefusesTheDefaultStreamBesideACapturedBlockingOne) {
  const CUstream stream = make_stream(CU_STREAM_DEFAULT);
  ASSERT_EQ(api_->stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(gpu_->device->is_capturing(nullptr).status().code(), Code::kInvalidArgument);
  ASSERT_TRUE(gpu_->device->launch(gpu_->call("add_one"), stream).ok());
  CUgraph graph = nullptr;
  EXPECT_EQ(api_->stream_end_capture(stream, &graph), CUDA_SUCCESS);
  if (graph) api_->graph_destroy(graph);
  api_->stream_destroy(stream);
}

TEST_F(CudaDeviceTest, TellsAForkedChildAndSparesTheParent) {
  const LaunchCall call = gpu_->call("add_one");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const Status launched = gpu_->device->launch(call, nullptr);
    const Status opened = open_device("").status();
    const Status listed = device_of_stream(nullptr).status();
    const bool told = launched.code() == Code::kNoDevice && opened.code() == Code::kNoDevice &&
                      listed.code() == Code::kNoDevice &&
                      opened.message().find("forked after CUDA started") != std::string::npos;
    gpu_.reset();
    _exit(told ? 0 : 1);
  }
  int state = -1;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0) << state;
  ASSERT_TRUE(gpu_->device->run(gpu_->call("add_one")).ok());
  gpu_->expect_plus(1);
}

TEST_F(CudaDeviceTest, GivesAKernelAllTheSharedMemoryThereIs) {
  const std::int64_t most = gpu_->device->facts().shared_bytes_per_block;
  LaunchCall call = gpu_->call("through_shared");
  call.shape = {1, 256, 1, most};
  Status status = gpu_->device->run(call);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(gpu_->read(gpu_->y)[0], 255);
  call.shape.shared_bytes = most + 1;
  status = gpu_->device->run(call);
  EXPECT_EQ(status.code(), Code::kLaunchFailed);
  EXPECT_NE(status.message().find("through_shared"), std::string::npos) << status.to_string();
}

TEST_F(CudaDeviceTest, LaunchesClusters) {
  if (gpu_->device->facts().max_cluster == 1) GTEST_SKIP() << "this device has no clusters";
  LaunchCall call = gpu_->call("cluster_size");
  call.shape = {8, 32, 4, 0};
  const Status status = gpu_->device->run(call);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(gpu_->read(gpu_->y)[7], 4);
  call.shape.cluster = 3;  // does not divide the grid
  EXPECT_EQ(gpu_->device->run(call).code(), Code::kLaunchFailed);
}

TEST_F(CudaDeviceTest, KernelsTellWhatTheyCost) {
  const KernelResources cost = (*gpu_->module->kernel("add_one"))->resources();
  EXPECT_GT(cost.registers, 0);
  EXPECT_EQ(cost.spill_bytes, 0);
  EXPECT_GE(cost.max_threads, 256);
}

// In processes of their own, which start afresh: the fault of one must not reach the others.
class CudaProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    std::string why_not;
    if (!Gpu::open(why_not)) GTEST_SKIP() << why_not;
  }
};

// The exit status: 0 where a stray write was told as device lost, now and at the next call.
int lose_the_device() {
  std::string why_not;
  const std::unique_ptr<Gpu> gpu = Gpu::open(why_not);
  if (!gpu) return 2;
  const LaunchCall harmless = gpu->call("add_one");  // a lost context loads nothing more
  if (gpu->device->run(gpu->call("stray")).code() != Code::kDeviceLost) return 3;
  if (gpu->device->run(harmless).code() != Code::kDeviceLost) return 4;
  if (gpu->module->kernel("through_shared").status().code() != Code::kDeviceLost) return 5;
  return 0;
}

TEST_F(CudaProcessTest, AFaultOfTheKernelIsALostDevice) {
  EXPECT_EXIT(std::exit(lose_the_device()), ::testing::ExitedWithCode(0), "");
}

TEST_F(CudaProcessTest, AGlobalDeviceEndsQuietlyWithTheProcess) {
  const auto leave = [] {
    static std::unique_ptr<Gpu> global;
    std::string why_not;
    global = Gpu::open(why_not);
    std::exit(global ? 0 : 2);
  };
  EXPECT_EXIT(leave(), ::testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace rowsmith
