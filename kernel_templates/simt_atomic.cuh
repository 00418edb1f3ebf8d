// SPDX-License-Identifier: Apache-2.0
//
// Words in global memory through which blocks, and launches, speak to each other while they run:
// the CUDA form and the host device's. Without a name for an order, an access is relaxed.
#pragma once

#include "simt.cuh"

// Before a variable at namespace scope: global memory of the loaded program, zero at first, that
// keeps its values from launch to launch. Every CUDA context has its own.
#if ROWSMITH_HOST
#define ROWSMITH_PERSISTENT static
#else
#define ROWSMITH_PERSISTENT __device__
#endif

namespace rs {

#if ROWSMITH_HOST

// The word before; acquires and releases, as atomic_add does.
ROWSMITH_DEVICE u64 atomic_cas(u64* p, u64 expected, u64 desired) {
  __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return expected;
}
ROWSMITH_DEVICE u64 atomic_add(u64* p, u64 value) {
  return __atomic_fetch_add(p, value, __ATOMIC_ACQ_REL);
}
ROWSMITH_DEVICE u64 load_word(const u64* p) {
  return __atomic_load_n(p, __ATOMIC_RELAXED);
}
ROWSMITH_DEVICE void store_word(u64* p, u64 value) {
  __atomic_store_n(p, value, __ATOMIC_RELAXED);
}
// Orders what the calling thread did before it, as all blocks see it, before what it does after.
ROWSMITH_DEVICE void fence() {
  __atomic_thread_fence(__ATOMIC_ACQ_REL);
}
// In a loop that waits for another thread's word.
ROWSMITH_DEVICE void spin_pause(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  host::table->pause({file, line});
}

#else

ROWSMITH_DEVICE u64 atomic_cas(u64* p, u64 expected, u64 desired) {
  u64 found;
  asm volatile("atom.acq_rel.gpu.global.cas.b64 %0, [%1], %2, %3;"
               : "=l"(found)
               : "l"(p), "l"(expected), "l"(desired)
               : "memory");
  return found;
}
ROWSMITH_DEVICE u64 atomic_add(u64* p, u64 value) {
  u64 found;
  asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], %2;"
               : "=l"(found)
               : "l"(p), "l"(value)
               : "memory");
  return found;
}
ROWSMITH_DEVICE u64 load_word(const u64* p) {
  u64 value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(p) : "memory");
  return value;
}
ROWSMITH_DEVICE void store_word(u64* p, u64 value) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(value) : "memory");
}
ROWSMITH_DEVICE void fence() {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
}
ROWSMITH_DEVICE void spin_pause() {
  __nanosleep(20);
}

#endif

}  // namespace rs
