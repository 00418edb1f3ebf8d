// SPDX-License-Identifier: Apache-2.0
//
// What compiled host kernels and the host device that runs them share: one definition for both
// sides, checked by version and size when a shared object is loaded.
#pragma once

#ifndef __CUDACC__

namespace rowsmith_host {

// Raised whenever a meaning changes that the sizes do not show. Part of the binary key.
constexpr unsigned kAbiVersion = 5;

// A line of device text.
struct Place {
  const char* file;
  int line;
};

// What a running device thread knows of itself.
struct Thread {
  int index;
  long long block, blocks;
  char* shared;
};

// A bulk copy under way.
struct Copy {
  const void* arrival;
  void* dst;
  const void* src;
  unsigned bytes;
  Place place;       // that started it
  const Thread* by;  // set by the device
};

// The device's services to a kernel. Those that take a Place may leave the kernel for good.
struct Table {
  unsigned version, size;
  const Thread* (*self)();
  void (*sync)(Place place);
  // What the warp's lanes give, until the caller's next such call. All must give one mask and
  // place.
  const unsigned* (*warp_values)(unsigned value, int mask, Place place);
  void (*misaligned)(const void* address, int bytes, bool store, Place place);
  void (*cluster_arrive)(Place place);
  void (*cluster_wait)(Place place);
  // Where `bytes` at the address, in the calling block's shared memory, lie in block `rank`'s.
  void* (*peer)(const void* address, int bytes, int rank, Place place);
  void (*start_copy)(Copy copy);
  // Makes the first of the copies started for the arrival; false: there is none.
  bool (*finish_copy)(const void* arrival, Copy* made);
  // Until another thread starts a copy or announces that a phase has ended.
  void (*await)(Place place);
  void (*announce)();
  // Lets other threads run: the calling one waits for what none of these calls tells.
  void (*pause)(Place place);
  // Gives up: "block 0, thread 5: <call> at <place><what>". By null: the calling thread.
  void (*misuse)(const Thread* by, const char* call, Place place, const char* what);
};

// Beside each entry `name` a shared object exports its `name_bounds`.
struct Bounds {
  int threads;  // a block may have
  int param_bytes;
};

}  // namespace rowsmith_host

#endif  // __CUDACC__
