// SPDX-License-Identifier: Apache-2.0
//
// HostDevice: the Device on the CPU. Functional, not quick: it runs the kernel text that a GPU
// would, in a chosen order, and reports what a GPU hides. Chosen by name only.
#pragma once

#include "runtime/device.h"
#include "runtime/host_scheduler.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace rowsmith {

struct HostOptions {
  HostSchedule schedule = HostSchedule::kAscending;
  std::uint64_t seed = 0;  // of HostSchedule::kRandom
  // What fresh buffers and each block's shared memory hold. A right kernel gives the same bits for
  // every poison and schedule.
  unsigned char poison = 0xff;
  // The C++ compiler; "" = the first of c++, g++, clang++ on PATH. One that does not run is told
  // by compile(), so that stored binaries still load.
  std::string cxx;
  std::vector<std::string> cxx_options;  // after our own, one an element
};

class HostDevice : public Device {
 public:
  // As allocate(), but with the end at the guard page or at most `align` - 1 bytes before it, and
  // the address `offset` modulo `align` (a power of two up to 256): for finding accesses outside.
  virtual Result<Buffer> allocate_tight(std::size_t bytes, std::size_t align,
                                        std::size_t offset) = 0;
};

// Never fails: what the machine lacks is told by the call that needs it. Thread-safe, as Device.
std::shared_ptr<HostDevice> make_host_device(const HostOptions& options = {});

}  // namespace rowsmith
