// SPDX-License-Identifier: Apache-2.0
//
// Child processes that compile with NVRTC, whose front end takes one program at a time in each
// process, whatever the threads: several processes have several. Each runs `tune compiler`.
#pragma once

#include "runtime/device.h"
#include "tuner/worker_process.h"

#include <mutex>
#include <string>
#include <vector>

namespace rowsmith {

// Thread-safe. Destroying it kills the children; no compile() runs then.
class CompilerProcesses {
 public:
  // Starts so many of `program` with `arguments`, or as many as can be started. They end with the
  // calling thread, if not before.
  CompilerProcesses(const std::string& program, const std::vector<std::string>& arguments,
                    std::size_t count);
  ~CompilerProcesses();
  CompilerProcesses(const CompilerProcesses&) = delete;
  CompilerProcesses& operator=(const CompilerProcesses&) = delete;

  // As nvrtc_compile: by a child that is idle, else in this process, as also after one that was
  // killed from outside. Compile failed where the child died of the program or babbled, how in the
  // message. The pool goes on without it.
  Result<Binary> compile(const Program& program, int capability);

  std::size_t started() const { return started_; }

 private:
  std::mutex mutex_;
  std::vector<WorkerProcess> idle_;
  std::size_t started_ = 0;
};

// How many serve so many threads, the one that starts them counted, which compiles itself: no more
// than the machine has cores, and than fit into half of its memory.
std::size_t compiler_count(int threads);

}  // namespace rowsmith
