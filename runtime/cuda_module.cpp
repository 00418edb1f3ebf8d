// SPDX-License-Identifier: Apache-2.0
//
// Loading cubins, reading what kernels cost, and launching them.
#include "runtime/cuda_module.h"

#include <limits>
#include <new>
#include <utility>

namespace rowsmith {
namespace {

constexpr int kPortableCluster = 8;

}  // namespace

Result<std::unique_ptr<Module>> CudaModule::load(std::shared_ptr<CudaContext> context,
                                                 const Binary& binary,
                                                 const std::string& compiler) {
  // The driver takes any bytes and finds out at the first kernel.
  const bool is_cubin = binary.bytes.rfind(
                            "\x7f"
                            "ELF",
                            0) == 0;
  if (!is_cubin && binary.bytes.find(".version") == std::string::npos) {
    return Status(Code::kLaunchFailed, "a binary of " + std::to_string(binary.bytes.size()) +
                                           " bytes is neither a cubin nor PTX");
  }
  const CudaScope scope(*context);
  if (!scope.status().ok()) return scope.status();
  CUlibrary library = nullptr;
  const CUresult result = context->api.load_library(&library, binary.bytes.data(), nullptr, nullptr,
                                                    0, nullptr, nullptr, 0);
  if (result != CUDA_SUCCESS) {
    return context->status(result, "cuLibraryLoadData")
        .with_context("loading a binary of " + compiler + " on device " +
                      std::to_string(context->ordinal) + " (driver for CUDA " +
                      version_text(context->api.version) + ")");
  }
  return std::unique_ptr<Module>(new CudaModule(std::move(context), library));
}

CudaModule::~CudaModule() {
  if (forked_after_start) return;
  const CudaScope scope(*context_);
  if (scope.status().ok()) {
    context_->report(context_->api.unload_library(library_), "cuLibraryUnload");
  }
}

Result<const Kernel*> CudaModule::kernel(const std::string& entry) {
  const std::lock_guard lock(mutex_);
  if (const auto known = kernels_.find(entry); known != kernels_.end()) return known->second.get();
  const CudaScope scope(*context_);
  if (!scope.status().ok()) return scope.status();
  Result<std::unique_ptr<CudaKernel>> found = CudaKernel::find(context_, library_, entry);
  if (!found.ok()) return found.status().with_context("kernel " + entry);
  return kernels_.emplace(entry, std::move(*found)).first->second.get();
}

Result<std::unique_ptr<CudaKernel>> CudaKernel::find(std::shared_ptr<CudaContext> context,
                                                     CUlibrary library, const std::string& entry) {
  const DriverApi& api = context->api;
  CUkernel handle = nullptr;
  CUresult result = api.get_library_kernel(&handle, library, entry.c_str());
  if (result != CUDA_SUCCESS) return context->status(result, "cuLibraryGetKernel");
  CUfunction loaded = nullptr;
  result = api.kernel_get_function(&loaded, handle);
  if (result != CUDA_SUCCESS) return context->status(result, "cuKernelGetFunction");
  std::unique_ptr<CudaKernel> kernel(new CudaKernel(std::move(context), handle));
  kernel->entry_ = entry;
  const Status read = kernel->read_attributes();
  if (!read.ok()) return read;
  return kernel;
}

Status CudaKernel::read_attributes() {
  const DriverApi& api = context_->api;
  int fixed_shared = 0, shared_limit = 0, block_ceiling = 0;
  CUresult result = CUDA_SUCCESS;
  const auto read = [&](CUfunction_attribute attribute, int& value) {
    if (result != CUDA_SUCCESS) return;
    result = api.kernel_get_attribute(&value, attribute, kernel_, context_->device);
  };
  read(CU_FUNC_ATTRIBUTE_NUM_REGS, resources_.registers);
  read(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, resources_.spill_bytes);
  read(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, resources_.max_threads);
  read(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, fixed_shared);
  read(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_limit);
  if (result != CUDA_SUCCESS) return context_->status(result, "cuKernelGetAttribute");
  result = api.device_get_attribute(
      &block_ceiling, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, context_->device);
  if (result != CUDA_SUCCESS) return context_->status(result, "cuDeviceGetAttribute");
  shared_ceiling_ = block_ceiling - fixed_shared;
  shared_limit_ = shared_limit;
  std::size_t offset = 0;
  if (api.kernel_get_param_info &&
      api.kernel_get_param_info(kernel_, 0, &offset, &param_bytes_) != CUDA_SUCCESS) {
    param_bytes_ = 0;
  }
  return Status();
}

Status CudaKernel::load_into_current(CUcontext context) const {
  if (loaded_elsewhere_.load(std::memory_order_relaxed) == context) return Status();
  const RelaxedCapture relaxed(context_->api);
  CUfunction loaded = nullptr;
  const CUresult result = context_->api.kernel_get_function(&loaded, kernel_);
  if (result == CUDA_SUCCESS) loaded_elsewhere_.store(context, std::memory_order_relaxed);
  return context_->status(result, "cuKernelGetFunction");
}

// Raised only when a launch needs it, and then to the most that the device allows: the driver sizes
// the split of L1 and shared memory by the launch, not by this ceiling.
Status CudaKernel::raise_shared_limit(std::int64_t shared_bytes) const {
  if (shared_bytes > shared_ceiling_) {
    return Status(Code::kLaunchFailed, "kernel " + entry_ + " was asked for " +
                                           std::to_string(shared_bytes) +
                                           " bytes of dynamic shared memory a block; device " +
                                           std::to_string(context_->ordinal) + " allows " +
                                           std::to_string(shared_ceiling_));
  }
  const RelaxedCapture relaxed(context_->api);
  const CUresult result = context_->api.kernel_set_attribute(
      CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_ceiling_, kernel_, context_->device);
  if (result == CUDA_SUCCESS) shared_limit_.store(shared_ceiling_, std::memory_order_relaxed);
  return context_->status(result, "cuKernelSetAttribute");
}

// A kernel is held to clusters that every GPU with clusters runs, until it asks for more.
Status CudaKernel::allow_large_clusters() const {
  const RelaxedCapture relaxed(context_->api);
  const CUresult result = context_->api.kernel_set_attribute(
      CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, kernel_, context_->device);
  if (result == CUDA_SUCCESS) large_clusters_.store(true, std::memory_order_relaxed);
  return context_->status(result, "cuKernelSetAttribute");
}

CudaKernel::~CudaKernel() {
  for (const Residency* link = residencies_.load(); link != nullptr;) {
    delete std::exchange(link, link->next);
  }
}

// A context may have fewer multiprocessors than its device: green contexts, MPS.
Status CudaKernel::ask_residency(const LaunchShape& shape, CUcontext context,
                                 Residency& found) const {
  const DriverApi& api = context_->api;
  const RelaxedCapture relaxed(api);
  int cooperative = 0;
  CUresult result = api.device_get_attribute(&cooperative, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH,
                                             context_->device);
  if (result != CUDA_SUCCESS) return context_->status(result, "cuDeviceGetAttribute");
  result = api.occupancy(&found.per_multiprocessor, reinterpret_cast<CUfunction>(kernel_),
                         shape.block, static_cast<std::size_t>(shape.shared_bytes));
  if (result != CUDA_SUCCESS) {
    return context_->status(result, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  }
  if (cooperative == 0) found.per_multiprocessor = 0;
  CUdevResource resource{};
  if (api.ctx_get_dev_resource &&
      api.ctx_get_dev_resource(context, &resource, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS) {
    found.multiprocessors = static_cast<int>(resource.sm.smCount);
    return Status();
  }
  result = api.device_get_attribute(&found.multiprocessors,
                                    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, context_->device);
  return context_->status(result, "cuDeviceGetAttribute");
}

const CudaKernel::Residency* CudaKernel::find_residency(const LaunchShape& shape,
                                                        unsigned long long context) const {
  const Residency* link = residencies_.load(std::memory_order_acquire);
  while (link != nullptr && (link->context != context || link->block != shape.block ||
                             link->shared_bytes != shape.shared_bytes)) {
    link = link->next;
  }
  return link;
}

// Without memory for it, the next launch asks again.
void CudaKernel::keep(const Residency& found) const {
  auto* link = new (std::nothrow) Residency(found);
  if (link == nullptr) return;
  link->next = residencies_.load();
  while (!residencies_.compare_exchange_weak(link->next, link)) {
  }
}

// Blocks that wait for each other hang unless all of them run. The driver would refuse as well, but
// as a failed launch, without saying what would fit.
Status CudaKernel::check_runs_at_once(const LaunchShape& shape) const {
  const DriverApi& api = context_->api;
  CUcontext context = nullptr;
  const CUresult result = api.ctx_get_current(&context);
  if (result != CUDA_SUCCESS) return context_->status(result, "cuCtxGetCurrent");
  unsigned long long id = 0;
  const bool known = context == context_->primary() ||
                     (api.ctx_get_id && api.ctx_get_id(context, &id) == CUDA_SUCCESS && id != 0);
  Residency asked{id, shape.block, shape.shared_bytes, 0, 0, nullptr};
  const Residency* found = known ? find_residency(shape, id) : nullptr;
  if (found == nullptr) {
    Status status = ask_residency(shape, context, asked);
    if (!status.ok()) return status;
    if (known) keep(asked);
    found = &asked;
  }
  if (shape.grid <= std::int64_t{found->per_multiprocessor} * found->multiprocessors) {
    return Status();
  }
  return Status(Code::kUnsupported,
                "kernel " + entry_ + " needs its grid of " + std::to_string(shape.grid) +
                    " blocks to run at once; this context runs " +
                    std::to_string(found->per_multiprocessor) + " on each of " +
                    std::to_string(found->multiprocessors) + " multiprocessors");
}

// Why a shape or parameter struct cannot be handed to the driver.
Status CudaKernel::refuse(const LaunchCall& call) const {
  if (call.param_bytes < param_bytes_) {
    return Status(Code::kLaunchFailed,
                  "kernel " + entry_ + " takes " + std::to_string(param_bytes_) +
                      " bytes of parameters, not " + std::to_string(call.param_bytes));
  }
  return Status(Code::kLaunchFailed, "kernel " + entry_ + " cannot have a grid of " +
                                         std::to_string(call.shape.grid) + " blocks");
}

Status CudaKernel::enqueue(const LaunchCall& call, CUstream stream) const {
  const LaunchShape& shape = call.shape;
  if (call.param_bytes < param_bytes_ || shape.grid < 1 ||
      shape.grid > std::numeric_limits<std::int32_t>::max()) {
    return refuse(call);
  }
  if (shape.shared_bytes > shared_limit_.load(std::memory_order_relaxed)) {
    Status raised = raise_shared_limit(shape.shared_bytes);
    if (!raised.ok()) return raised;
  }
  if (shape.cluster > kPortableCluster && !large_clusters_.load(std::memory_order_relaxed)) {
    Status allowed = allow_large_clusters();
    if (!allowed.ok()) return allowed;
  }
  // A CUkernel stands for a CUfunction in launches; the stream, else the current context, tells
  // which context is meant.
  const auto function = reinterpret_cast<CUfunction>(kernel_);
  const auto grid = static_cast<unsigned>(shape.grid);
  const auto block = static_cast<unsigned>(shape.block);
  const auto shared_bytes = static_cast<unsigned>(shape.shared_bytes);
  void* params[] = {const_cast<void*>(call.params)};
  CUlaunchAttribute attributes[3]{};
  unsigned count = 0;
  if (shape.cluster > 1) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attributes[count].value.clusterDim.x = static_cast<unsigned>(shape.cluster);
    attributes[count].value.clusterDim.y = 1;
    attributes[count].value.clusterDim.z = 1;
    ++count;
  }
  if (shape.together > 1) {
    Status fits = check_runs_at_once(shape);
    if (!fits.ok()) return fits;
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attributes[count].value.cooperative = 1;
    ++count;
  }
  if (shape.early && context_->starts_early()) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[count].value.programmaticStreamSerializationAllowed = 1;
    ++count;
  }
  CUresult result;
  if (count > 0) {
    CUlaunchConfig config{grid, 1, 1, block, 1, 1, shared_bytes, stream, attributes, count};
    result = context_->api.launch_kernel_ex(&config, function, params, nullptr);
  } else {
    result = context_->api.launch_kernel(function, grid, 1, 1, block, 1, 1, shared_bytes, stream,
                                         params, nullptr);
  }
  return result == CUDA_SUCCESS ? Status() : launch_status(result, shape);
}

// Another may have fewer multiprocessors, and no room for a cluster of 16.
bool CudaKernel::in_primary_context() const {
  CUcontext context = nullptr;
  return context_->api.ctx_get_current(&context) == CUDA_SUCCESS && context == context_->primary();
}

Status CudaKernel::launch_status(CUresult result, const LaunchShape& shape) const {
  const Status failure = context_->status(result, "launching kernel");
  // Pointers and stream are good here, so an invalid value is the config's own, as is what the
  // driver does not support: launch failed. Unsupported is what this context alone refuses.
  const bool own = result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_SUPPORTED;
  const bool no_room = result == CUDA_ERROR_INVALID_CLUSTER_SIZE && !in_primary_context();
  const Code code = own ? Code::kLaunchFailed : no_room ? Code::kUnsupported : failure.code();
  return Status(code, failure.message() + " (" + entry_ + ", grid " + std::to_string(shape.grid) +
                          ", block " + std::to_string(shape.block) + ", cluster " +
                          std::to_string(shape.cluster) + ", shared " +
                          std::to_string(shape.shared_bytes) + ")");
}

}  // namespace rowsmith
