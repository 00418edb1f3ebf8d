// SPDX-License-Identifier: Apache-2.0
//
// Turns a memory fault of a host kernel into a call of the scheduler. Process-wide, as signals are:
// faults that are not a kernel's go on to the handler that was there before. Not under
// ThreadSanitizer, whose own handler cannot be left by a jump.
#pragma once

#include <signal.h>

#include <memory>

namespace rowsmith {

enum class FaultAccess { kUnknown, kRead, kWrite };

// Called in the signal handler, on the alternate stack. Returns if the fault is not its own.
using FaultHook = void (*)(const void* address, FaultAccess access);

// Installs the handler once a process; the hook never changes.
void install_fault_handler(FaultHook hook);

// While it lives, this OS thread's signals run on a stack of their own, since a fiber's is too
// small, or is what overflowed. A stack that the thread already has is left alone.
class AlternateStack {
 public:
  AlternateStack();
  AlternateStack(const AlternateStack&) = delete;
  ~AlternateStack();

 private:
  std::unique_ptr<char[]> memory_;
};

}  // namespace rowsmith
