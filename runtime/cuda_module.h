// SPDX-License-Identifier: Apache-2.0
//
// Loaded binaries and kernels on CUDA, and the launch itself. Kernels are context-independent
// (CUkernel): one serves the primary context and any other context of its device.
#pragma once

#include "runtime/cuda_context.h"
#include "runtime/device.h"

#include <atomic>
#include <map>
#include <memory>
#include <string>

namespace rowsmith {

class CudaKernel final : public Kernel {
 public:
  // Launch failed if the library has no such entry; the codes of loading it into the primary
  // context. Requires a CudaScope.
  static Result<std::unique_ptr<CudaKernel>> find(std::shared_ptr<CudaContext> context,
                                                  CUlibrary library, const std::string& entry);
  ~CudaKernel() override;
  KernelResources resources() const override { return resources_; }

  // Enqueues on `stream`, whose context is current. No lock; no heap but for the first grid of a
  // shape and context whose blocks must run at once. Unsupported: this context has no room for such
  // blocks, or for a cluster, where another may.
  Status enqueue(const LaunchCall& call, CUstream stream) const;
  // Loads into a context other than the primary one, now current: the driver would do so inside
  // the launch, where a capture in progress could forbid it.
  Status load_into_current(CUcontext context) const;

 private:
  CudaKernel(std::shared_ptr<CudaContext> context, CUkernel kernel)
      : context_(std::move(context)), kernel_(kernel) {}
  Status read_attributes();
  Status raise_shared_limit(std::int64_t shared_bytes) const;
  Status allow_large_clusters() const;
  Status refuse(const LaunchCall& call) const;
  bool in_primary_context() const;
  Status launch_status(CUresult result, const LaunchShape& shape) const;
  // Blocks of a shape that a context runs at once. Links are added and stay.
  struct Residency {
    unsigned long long context;  // 0: the primary one; others by id, since addresses come again
    int block;
    std::int64_t shared_bytes;
    int per_multiprocessor, multiprocessors;
    const Residency* next;
  };
  Status check_runs_at_once(const LaunchShape& shape) const;
  const Residency* find_residency(const LaunchShape& shape, unsigned long long context) const;
  Status ask_residency(const LaunchShape& shape, CUcontext context, Residency& found) const;
  void keep(const Residency& found) const;

  std::shared_ptr<CudaContext> context_;
  CUkernel kernel_;
  std::string entry_;
  KernelResources resources_;
  std::size_t param_bytes_ = 0;                      // 0 where the driver cannot say
  int shared_ceiling_ = 0;                           // dynamic bytes a block may ever have
  mutable std::atomic<int> shared_limit_{0};         // dynamic bytes allowed so far
  mutable std::atomic<bool> large_clusters_{false};  // allowed already
  mutable std::atomic<CUcontext> loaded_elsewhere_{nullptr};
  mutable std::atomic<const Residency*> residencies_{nullptr};
};

class CudaModule final : public Module {
 public:
  static Result<std::unique_ptr<Module>> load(std::shared_ptr<CudaContext> context,
                                              const Binary& binary, const std::string& compiler);
  ~CudaModule() override;
  Result<const Kernel*> kernel(const std::string& entry) override;

 private:
  CudaModule(std::shared_ptr<CudaContext> context, CUlibrary library)
      : context_(std::move(context)), library_(library) {}

  std::shared_ptr<CudaContext> context_;
  CUlibrary library_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<CudaKernel>> kernels_;
};

// Captures the calls into a graph. Requires kernels of this context's device.
Result<std::unique_ptr<Sequence>> record_graph(std::shared_ptr<CudaContext> context,
                                               const std::vector<LaunchCall>& calls,
                                               const Buffer& sweep);

}  // namespace rowsmith
