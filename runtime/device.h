// SPDX-License-Identifier: Apache-2.0
//
// Device: what rowsmith needs of a machine that runs kernels. Implementations: CUDA (driver API and
// NVRTC), host (C++ compiler and fibers), and a scripted one in tests. Knows nothing of softmax.
#pragma once

#include "runtime/device_state.h"

#include <rowsmith/status.h>
#include <rowsmith/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

struct CUstream_st;

namespace rowsmith {

// Device text and the entries to be found in it.
struct Program {
  std::string name;  // for messages and #line
  std::string source;
  std::vector<std::string> entries;  // extern "C" names
};

// A compiled program: a cubin (or PTX) or a shared object, as bytes that may be kept on disk.
struct Binary {
  std::string bytes;
  std::string log;   // the compiler's, with resource use where it gives it
  std::string note;  // e.g. "PTX for sm_121: this NVRTC knows up to sm_120"; empty when exact
};

// What a loaded kernel costs. Zero where the device cannot say.
struct KernelResources {
  int registers = 0;
  int spill_bytes = 0;  // local memory a thread
  int max_threads = 0;  // a block may have
};

// A loaded entry. Owned by its Module; valid while that lives.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual KernelResources resources() const = 0;
};

// A loaded binary. Destroying it unloads it: its launches must be done.
class Module {
 public:
  virtual ~Module() = default;
  // Launch failed if there is no such entry. Repeated calls return the same object.
  virtual Result<const Kernel*> kernel(const std::string& entry) = 0;
};

struct LaunchShape {
  std::int64_t grid = 1;          // blocks, <= 2^31 - 1
  int block = 1;                  // threads
  int cluster = 1;                // blocks a cluster; divides grid; one that a context smaller than
                                  // the device has no room for is refused as unsupported
  std::int64_t shared_bytes = 0;  // dynamic
  // The kernel waits by itself for the work before it, as those of ROWSMITH_KERNEL do, so that a
  // device which can may start it while that work ends.
  bool early = false;
  // Consecutive blocks that wait for each other; divides grid. Above 1 all of the grid runs at
  // once, or the launch is refused as unsupported before anything is enqueued.
  int together = 1;
};

// One launch with its by-value parameter struct (copied at the call).
struct LaunchCall {
  const Kernel* kernel = nullptr;
  LaunchShape shape;
  const void* params = nullptr;
  std::size_t param_bytes = 0;
};

// Launches recorded once and replayed in order (a CUDA graph; a list on the host device).
class Sequence {
 public:
  virtual ~Sequence() = default;
  // Runs the sequence `times` times back to back on the device's own stream and returns the
  // nanoseconds from first start to last end by the device's clock. Waits for the end.
  virtual Result<double> time_ns(int times) = 0;
};

// Device memory that frees itself.
class Buffer {
 public:
  Buffer() = default;
  Buffer(void* data, std::size_t bytes, std::function<void(void*)> free)
      : data_(data, std::move(free)), bytes_(bytes) {}
  void* data() const noexcept { return data_.get(); }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::shared_ptr<void> data_;
  std::size_t bytes_ = 0;
};

// Thread-safe. Methods that touch CUDA set their context and restore the caller's.
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceFacts& facts() const = 0;

  // What, beside the source, decides a binary: architecture, compiler version, options. Part of the
  // binary store's key.
  virtual std::string binary_key() const = 0;
  // Compile failed (message: options and log), unsupported. May be called from many threads.
  virtual Result<Binary> compile(const Program& program) = 0;
  // Launch failed, out of memory, device lost.
  virtual Result<std::unique_ptr<Module>> load(const Binary& binary) = 0;

  // Memory on a 256-byte border. Out of memory.
  virtual Result<Buffer> allocate(std::size_t bytes) = 0;
  // Synchronous, on the device's own stream.
  virtual Status copy_in(void* dst, const void* src, std::size_t bytes) = 0;
  virtual Status copy_out(void* dst, const void* src, std::size_t bytes) = 0;
  virtual Status fill(void* dst, unsigned char byte, std::size_t bytes) = 0;

  // Asynchronous on `stream` (the caller's), in the stream's context. The kernel's own failure
  // (launch failed; unsupported: this context cannot run the grid at once) is told from a lost
  // context (device lost).
  virtual Status launch(const LaunchCall& call, CUstream_st* stream) = 0;
  // Launches on the device's own stream and waits. A fault of the kernel is reported here.
  virtual Status run(const LaunchCall& call) = 0;
  // `sweep`, unless it is empty, is overwritten before each replay, outside the time: one larger
  // than the caches leaves nothing in them of the replay before.
  virtual Result<std::unique_ptr<Sequence>> record(const std::vector<LaunchCall>& calls,
                                                   const Buffer& sweep) = 0;

  // The stream is being captured into a graph: nothing may compile, wait or allocate.
  virtual Result<bool> is_capturing(CUstream_st* stream) = 0;
  // Invalid argument, naming `what`, unless this device can access the memory at `pointer`.
  virtual Status check_access(const void* pointer, const char* what) = 0;

  // Clocks and what holds them down, now. Touches no stream and no context. The first call may be
  // slow: it starts a library. Unsupported: why nothing is known.
  virtual Result<DeviceState> state() = 0;
};

}  // namespace rowsmith
