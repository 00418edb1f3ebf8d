// SPDX-License-Identifier: Apache-2.0
//
// The process-wide runtimes behind the free functions and the C API: one a device, opened on first
// use from the environment. They are never destroyed, since kernels and other threads may outlive
// main; at exit their miss counts are written and their stores closed.
#pragma once

#include <rowsmith/runtime.h>

namespace rowsmith {

// The runtime of the stream's, else the current context's, else the first device; the host device's
// where ROWSMITH_DEVICE says so. A failure is not remembered. Codes: no device, invalid argument.
Result<Runtime*> process_runtime(CUstream_st* stream);

}  // namespace rowsmith
