// SPDX-License-Identifier: Apache-2.0
//
// Plain copies: the bytes that softmax must move, and nothing else. Every thread moves kPacks packs
// of 16 bytes; the last block's first threads move what is left under 16 bytes. An early copy is
// for a launch that may start while the call before it ends, as rowsmith's kernels may: it waits
// first, then lets the next launch come early too.

struct Pack {
  unsigned a, b, c, d;
};

__device__ Pack load_once(const char* p) {
  Pack v;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
      : "=r"(v.a), "=r"(v.b), "=r"(v.c), "=r"(v.d)
      : "l"(p));
  return v;
}

template <bool kStreaming>
__device__ void store(char* p, Pack v) {
  if constexpr (kStreaming) {
    asm volatile("st.global.cs.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.a), "r"(v.b), "r"(v.c),
                 "r"(v.d)
                 : "memory");
  } else {
    asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.a), "r"(v.b), "r"(v.c),
                 "r"(v.d)
                 : "memory");
  }
}

template <bool kEarly>
__device__ void follow_earlier_work() {
#if __CUDA_ARCH__ >= 900
  if constexpr (kEarly) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  }
#endif
}

template <int kThreads, int kPacks, bool kStreaming>
__device__ void copy(const char* src, char* dst, long long bytes) {
  const long long packs = bytes / 16;
  const long long first = blockIdx.x * (long long)(kThreads * kPacks) + threadIdx.x;
  Pack held[kPacks];
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const long long at = first + k * kThreads;
    if (at < packs) held[k] = load_once(src + at * 16);
  }
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const long long at = first + k * kThreads;
    if (at < packs) store<kStreaming>(dst + at * 16, held[k]);
  }
  const long long rest = packs * 16 + threadIdx.x;
  if (blockIdx.x == gridDim.x - 1 && rest < bytes) dst[rest] = src[rest];
}

#define COPY(name, threads, packs, streaming, early)                                \
  extern "C" __global__ void __launch_bounds__(threads)                             \
      name(const char* __restrict__ src, char* __restrict__ dst, long long bytes) { \
    follow_earlier_work<early>();                                                   \
    copy<threads, packs, streaming>(src, dst, bytes);                               \
  }
