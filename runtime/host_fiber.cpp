// SPDX-License-Identifier: Apache-2.0
#include "runtime/host_fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace rowsmith {
namespace {

// Kernels use 0.4 to 1.3 KB of stack at -O1, up to 4.7 KB beside AddressSanitizer.
#if ROWSMITH_ASAN || ROWSMITH_TSAN
constexpr std::size_t kStackBytes = 64 * 1024;
#else
constexpr std::size_t kStackBytes = 32 * 1024;
#endif
// Tops that all lie at the same place of their page would share a few cache sets.
constexpr int kColors = 32;
constexpr std::size_t kColorBytes = 128;

}  // namespace

FiberStacks::FiberStacks()
    : guard_bytes_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))),
      stack_bytes_((kStackBytes + guard_bytes_ - 1) / guard_bytes_ * guard_bytes_) {}

FiberStacks::~FiberStacks() {
#if ROWSMITH_TSAN
  for (void* fiber : tsan_fibers_) {
    if (fiber != nullptr) __tsan_destroy_fiber(fiber);
  }
#endif
  for (const Chunk& chunk : chunks_) {
#if ROWSMITH_ASAN
    // Frames that nothing returned from are marked, and the address range will be used again.
    __asan_unpoison_memory_region(chunk.memory, chunk.bytes);
#endif
    munmap(chunk.memory, chunk.bytes);
  }
}

bool FiberStacks::grow_to(int count) {
  if (count <= this->count()) return true;
  const auto more = static_cast<std::size_t>(count - this->count());
  const std::size_t bytes = more * (guard_bytes_ + stack_bytes_);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return false;
  chunks_.push_back({memory, bytes});
  for (std::size_t i = 0; i < more; ++i) {
    char* guard = static_cast<char*>(memory) + i * (guard_bytes_ + stack_bytes_);
    if (mprotect(guard, guard_bytes_, PROT_NONE) != 0) return false;
    stacks_.push_back(guard + guard_bytes_);
    tsan_fibers_.push_back(nullptr);
  }
  return true;
}

void FiberStacks::start(FiberContext& fiber, int index,
                        void (*entry)(boost::context::detail::transfer_t)) {
  const auto at = static_cast<std::size_t>(index);
  fiber = FiberContext();
  fiber.stack = stacks_[at];
  fiber.stack_bytes = stack_bytes_;
#if ROWSMITH_ASAN
  __asan_unpoison_memory_region(stacks_[at], stack_bytes_);
#endif
#if ROWSMITH_TSAN
  if (tsan_fibers_[at] != nullptr) __tsan_destroy_fiber(tsan_fibers_[at]);
  fiber.tsan_fiber = tsan_fibers_[at] = __tsan_create_fiber(0);
#endif
  const std::size_t usable = stack_bytes_ - at % kColors * kColorBytes;
  fiber.resume = boost::context::detail::make_fcontext(stacks_[at] + usable, usable, entry);
}

bool FiberStacks::overflowed(const void* address) const {
  const auto* at = static_cast<const char*>(address);
  return std::any_of(stacks_.begin(), stacks_.end(), [this, at](const char* stack) {
    return at < stack && at >= stack - guard_bytes_;
  });
}

}  // namespace rowsmith
