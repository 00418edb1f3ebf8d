// SPDX-License-Identifier: Apache-2.0
//
// Fibers: stacks and the jump between them. Boost's raw contexts switch in 7 ns where ucontext
// takes 300 (it saves the signal mask by a system call). Tells the sanitizers of every switch.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define ROWSMITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ROWSMITH_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define ROWSMITH_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ROWSMITH_TSAN 1
#endif
#endif

#if ROWSMITH_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if ROWSMITH_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace rowsmith {

// A suspended flow of control: a fiber, or the thread that entered the first one.
struct FiberContext {
  boost::context::detail::fcontext_t resume = nullptr;
  const void* stack = nullptr;  // its lowest byte
  std::size_t stack_bytes = 0;
  void* fake_stack = nullptr;  // AddressSanitizer's
  void* tsan_fiber = nullptr;  // ThreadSanitizer's
};

// To be called first on the far side of a switch: keeps where `from` stopped.
inline void finish_switch(boost::context::detail::transfer_t arrived,
                          [[maybe_unused]] FiberContext& now) {
  auto& from = *static_cast<FiberContext*>(arrived.data);
  from.resume = arrived.fctx;
#if ROWSMITH_ASAN
  __sanitizer_finish_switch_fiber(now.fake_stack, &from.stack, &from.stack_bytes);
#endif
}

// Suspends `from`, the running one, and resumes `to`. Returns when something resumes `from`.
inline void switch_fiber(FiberContext& from, FiberContext& to) {
#if ROWSMITH_ASAN
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.stack_bytes);
#endif
#if ROWSMITH_TSAN
  __tsan_switch_to_fiber(to.tsan_fiber, 0);
#endif
  finish_switch(boost::context::detail::jump_fcontext(to.resume, &from), from);
}

// Stacks with a guard page below each. A process may have some 65,000 mappings and a fiber takes
// two, so keep few of these. Not thread-safe.
class FiberStacks {
 public:
  FiberStacks();
  FiberStacks(const FiberStacks&) = delete;
  ~FiberStacks();

  // Makes it `count` stacks at least. False where the system has no more memory.
  bool grow_to(int count);
  int count() const { return static_cast<int>(stacks_.size()); }
  // Lets the fiber start anew in `entry` on stack `index`, whatever it was doing.
  void start(FiberContext& fiber, int index, void (*entry)(boost::context::detail::transfer_t));
  // The address lies in the guard page of a stack.
  bool overflowed(const void* address) const;

 private:
  struct Chunk {
    void* memory;
    std::size_t bytes;
  };
  const std::size_t guard_bytes_, stack_bytes_;
  std::vector<Chunk> chunks_;
  std::vector<char*> stacks_;  // lowest usable bytes
  std::vector<void*> tsan_fibers_;
};

}  // namespace rowsmith
