// SPDX-License-Identifier: Apache-2.0
//
// The host device's memory: buffers between guard pages, so that an access outside faults at once,
// with marked slack where alignment keeps the buffer's end off the guard.
#pragma once

#include "runtime/device.h"

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace rowsmith {

// Whole pages between two that nothing may touch. Movable; unmaps itself.
class GuardedPages {
 public:
  GuardedPages() = default;
  // At least `bytes`, zeroed. Empty where the system has no more.
  static GuardedPages map(std::size_t bytes);
  GuardedPages(GuardedPages&& other) noexcept;
  GuardedPages& operator=(GuardedPages&& other) noexcept;
  ~GuardedPages();

  bool empty() const { return begin_ == nullptr; }
  unsigned char* begin() const { return begin_; }
  unsigned char* end() const { return begin_ + bytes_; }
  // The address lies in one of the two guard pages.
  bool guards(const void* address) const;

 private:
  unsigned char* begin_ = nullptr;
  std::size_t bytes_ = 0;
};

// The live buffers of one device. Thread-safe.
class HostMemory {
 public:
  explicit HostMemory(unsigned char poison) : poison_(poison) {}

  // Memory whose address is `offset` modulo `align` (a power of two up to 256) and whose end is as
  // near to the guard page as that allows; filled with the poison. Returns null if there is none.
  void* allocate(std::size_t bytes, std::size_t align, std::size_t offset);
  void free(void* data);

  // Empty while the slack around every buffer is as it was made; else which buffer was written
  // outside of and where. Repairs the slack, so that a fault is told once.
  std::string check();
  // "4 bytes past the end of a buffer of 1028 bytes", "outside of every buffer", ...
  std::string describe(const void* address) const;

 private:
  struct Block {
    GuardedPages pages;
    std::size_t bytes = 0;
  };
  const unsigned char poison_;
  mutable std::mutex mutex_;
  std::map<const unsigned char*, Block> blocks_;  // by the buffer's first byte
};

}  // namespace rowsmith
