// SPDX-License-Identifier: Apache-2.0
//
// Clusters and asynchronous copies on CUDA (sm_90 and later): bulk copies into shared memory,
// stores into peers' shared memory, and the arrivals that count them. Blocks of a cluster have
// consecutive indices. The host device's half is in simt_host.cuh.
#pragma once

#include "simt.cuh"

#if !ROWSMITH_HOST

namespace rs {

#if __CUDA_ARCH__ >= 900
ROWSMITH_DEVICE u32 shared_address(const void* p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}

// In shared memory: tells when what was announced for it has arrived. Its phases 0, 1, 2 .. each
// begin with arrival_expect and end when so many bytes have come. As large as the host's.
struct Arrival {
  u64 word, unused[3];
};
// By one thread; then arrivals_ready() by the same, and a barrier over those that will use them.
ROWSMITH_DEVICE void arrival_init(Arrival* arrival) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(arrival)) : "memory");
}
ROWSMITH_DEVICE void arrivals_ready() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// By one thread of the block, once a phase: so many bytes will come. They may come before.
ROWSMITH_DEVICE void arrival_expect(Arrival* arrival, u32 bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(arrival)),
      "r"(bytes)
      : "memory");
}
// Until the phase of this parity has ended: what came may then be read.
ROWSMITH_DEVICE void arrival_wait(Arrival* arrival, u32 parity) {
  u32 done = 0;
  while (done == 0) {
    asm volatile(
        "{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        " selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(shared_address(arrival)), "r"(parity)
        : "memory");
  }
}
// Starts a copy of `bytes` (a multiple of 16, not 0) to dst in this block's shared memory, both on
// 16-byte borders. By one thread, once every thread's reads of dst are behind a barrier.
ROWSMITH_DEVICE void bulk_read(Arrival* arrival, void* dst, const void* src, u32 bytes) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(dst)),
      "l"(src), "r"(bytes), "r"(shared_address(arrival))
      : "memory");
}

// A barrier in two halves over all threads of the cluster. It orders no memory but what
// arrivals_ready() did: its use is that past the wait every block of the cluster runs, so that
// peer_store may reach it. Every thread arrives and waits in turn.
ROWSMITH_DEVICE void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
ROWSMITH_DEVICE void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Sends `value` (8 or 16 bytes) to where `place`, in this block's shared memory, lies in that of
// the cluster's block `rank`, and counts its bytes to the arrival there. That block must not end
// before it has come.
template <class T>
ROWSMITH_DEVICE void peer_store(T* place, const T& value, Arrival* arrival, int rank) {
  static_assert(sizeof(T) == 8 || sizeof(T) == 16, "one store");
  u32 there, tell;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(place)), "r"(rank));
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(tell)
      : "r"(shared_address(arrival)), "r"(rank));
  const u64* words = reinterpret_cast<const u64*>(&value);
  if constexpr (sizeof(T) == 8) {
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(
            there),
        "l"(words[0]), "r"(tell)
        : "memory");
  } else {
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 [%0], {%1, %2}, "
        "[%3];" ::"r"(there),
        "l"(words[0]), "l"(words[1]), "r"(tell)
        : "memory");
  }
}
#endif

}  // namespace rs

#endif  // !ROWSMITH_HOST
