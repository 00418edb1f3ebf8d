// SPDX-License-Identifier: Apache-2.0
//
// The machine beneath the device text: thread indices, barriers, shuffles, global loads and stores,
// single-rounding arithmetic and conversions. The only text that differs between CUDA (here) and
// the host device (simt_host.cuh); every family is written against these names. No header is used,
// so that NVRTC needs no include path.
#pragma once

#include "simt_host.cuh"

#if !ROWSMITH_HOST

// On functions and members alike: the host form is a plain `inline`.
#define ROWSMITH_DEVICE __device__ __forceinline__
#define ROWSMITH_UNROLL _Pragma("unroll")
#define ROWSMITH_NO_UNROLL _Pragma("unroll 1")
// A kernel entry; the braces that follow are its body and see the parameters as `p`. The body runs
// once the stream's earlier work is done and its writes are seen, so that the launch itself may
// come early (programmatic dependent launch), and in turn lets the next such launch come early.
#define ROWSMITH_KERNEL(name, threads, min_blocks, Params)              \
  __device__ __forceinline__ void name##_body(const Params& p);         \
  extern "C" __global__ void __launch_bounds__((threads), (min_blocks)) \
      name(const __grid_constant__ Params p) {                          \
    rs::follow_earlier_work();                                          \
    name##_body(p);                                                     \
  }                                                                     \
  __device__ __forceinline__ void name##_body(const Params& p)

namespace rs {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};

// kBytes moved as one access.
template <int kBytes>
struct alignas(kBytes) Raw {
  u32 w[kBytes / 4];
};
template <>
struct alignas(2) Raw<2> {
  u16 h;
};
template <>
struct Raw<1> {
  u8 b;
};

// Waits for the stream's earlier work where this launch came early, and allows the next to.
ROWSMITH_DEVICE void follow_earlier_work() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// ---- Threads ----

ROWSMITH_DEVICE int thread_index() {
  return static_cast<int>(threadIdx.x);
}
ROWSMITH_DEVICE i64 block_index() {
  return blockIdx.x;
}
ROWSMITH_DEVICE i64 block_count() {
  return gridDim.x;
}
ROWSMITH_DEVICE void sync() {
  __syncthreads();
}
// All 32 lanes of the warp take part, always.
ROWSMITH_DEVICE float shfl_xor(float value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
ROWSMITH_DEVICE double shfl_xor(double value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
ROWSMITH_DEVICE u32 shfl_xor(u32 value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
// The launch's dynamic shared memory, 16-byte aligned.
ROWSMITH_DEVICE char* shared_base() {
  extern __shared__ uint4 rowsmith_shared[];
  return reinterpret_cast<char*>(rowsmith_shared);
}

// ---- Clusters and asynchronous copies (sm_90 and later) ----
// Blocks of a cluster have consecutive indices.

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

// ---- Global memory ----

// Load policies: 0 default; 1 read-only and not kept in L1 (never for memory that the launch
// writes); 2 streaming.
template <int kPolicy, int kBytes>
ROWSMITH_DEVICE Raw<kBytes> load(const void* p) {
  Raw<kBytes> r;
  if constexpr (kBytes == 16) {
    uint4 v;
    if constexpr (kPolicy == 1) {
      asm("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
          : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
          : "l"(p));
    } else if constexpr (kPolicy == 2) {
      v = __ldcs(static_cast<const uint4*>(p));
    } else {
      v = *static_cast<const uint4*>(p);
    }
    r.w[0] = v.x, r.w[1] = v.y, r.w[2] = v.z, r.w[3] = v.w;
  } else if constexpr (kBytes == 8) {
    uint2 v;
    if constexpr (kPolicy == 1) {
      asm("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
    } else if constexpr (kPolicy == 2) {
      v = __ldcs(static_cast<const uint2*>(p));
    } else {
      v = *static_cast<const uint2*>(p);
    }
    r.w[0] = v.x, r.w[1] = v.y;
  } else if constexpr (kBytes == 4) {
    if constexpr (kPolicy == 1) {
      asm("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(r.w[0]) : "l"(p));
    } else if constexpr (kPolicy == 2) {
      r.w[0] = __ldcs(static_cast<const u32*>(p));
    } else {
      r.w[0] = *static_cast<const u32*>(p);
    }
  } else if constexpr (kBytes == 2) {
    if constexpr (kPolicy == 1) {
      asm("ld.global.nc.L1::no_allocate.u16 %0, [%1];" : "=h"(r.h) : "l"(p));
    } else if constexpr (kPolicy == 2) {
      r.h = __ldcs(static_cast<const u16*>(p));
    } else {
      r.h = *static_cast<const u16*>(p);
    }
  } else {
    static_assert(kBytes == 1, "packs are 1 to 16 bytes");
    if constexpr (kPolicy == 1) {
      u32 v;
      asm("ld.global.nc.L1::no_allocate.u8 %0, [%1];" : "=r"(v) : "l"(p));
      r.b = static_cast<u8>(v);
    } else if constexpr (kPolicy == 2) {
      r.b = __ldcs(static_cast<const u8*>(p));
    } else {
      r.b = *static_cast<const u8*>(p);
    }
  }
  return r;
}

// A pack of 16 bytes in shared memory.
ROWSMITH_DEVICE Raw<16> load_shared(const void* p) {
  const uint4 v = *static_cast<const uint4*>(p);
  Raw<16> r;
  r.w[0] = v.x, r.w[1] = v.y, r.w[2] = v.z, r.w[3] = v.w;
  return r;
}

// Store policies: 0 default; 1 streaming.
template <int kPolicy, int kBytes>
ROWSMITH_DEVICE void store(void* p, Raw<kBytes> r) {
  if constexpr (kBytes == 16) {
    const uint4 v = make_uint4(r.w[0], r.w[1], r.w[2], r.w[3]);
    if constexpr (kPolicy == 1) {
      __stcs(static_cast<uint4*>(p), v);
    } else {
      *static_cast<uint4*>(p) = v;
    }
  } else if constexpr (kBytes == 8) {
    const uint2 v = make_uint2(r.w[0], r.w[1]);
    if constexpr (kPolicy == 1) {
      __stcs(static_cast<uint2*>(p), v);
    } else {
      *static_cast<uint2*>(p) = v;
    }
  } else if constexpr (kBytes == 4) {
    if constexpr (kPolicy == 1) {
      __stcs(static_cast<u32*>(p), r.w[0]);
    } else {
      *static_cast<u32*>(p) = r.w[0];
    }
  } else if constexpr (kBytes == 2) {
    if constexpr (kPolicy == 1) {
      __stcs(static_cast<u16*>(p), r.h);
    } else {
      *static_cast<u16*>(p) = r.h;
    }
  } else {
    static_assert(kBytes == 1, "packs are 1 to 16 bytes");
    if constexpr (kPolicy == 1) {
      __stcs(static_cast<u8*>(p), r.b);
    } else {
      *static_cast<u8*>(p) = r.b;
    }
  }
}

// ---- Arithmetic: one rounding each, never contracted ----

ROWSMITH_DEVICE float as_f32(u32 bits) {
  return __uint_as_float(bits);
}
ROWSMITH_DEVICE u32 as_u32(float value) {
  return __float_as_uint(value);
}
ROWSMITH_DEVICE float add(float a, float b) {
  return __fadd_rn(a, b);
}
ROWSMITH_DEVICE float sub(float a, float b) {
  return __fsub_rn(a, b);
}
ROWSMITH_DEVICE float mul(float a, float b) {
  return __fmul_rn(a, b);
}
ROWSMITH_DEVICE float fma_rn(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}
ROWSMITH_DEVICE float div_rn(float a, float b) {
  return __fdiv_rn(a, b);
}
// The greater; of a number and a NaN, the number.
ROWSMITH_DEVICE float max_num(float a, float b) {
  return fmaxf(a, b);
}
// 2^x within 2^-22 relative; results below 2^-126 are 0; 2^-inf = 0; NaN stays.
ROWSMITH_DEVICE float ex2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// 0, of which no compiler knows: adding it to a word makes another value of the same bits, so that
// what was made of the word before is not kept in registers to be used again. (An empty asm on the
// word keeps NVVM from that, but ptxas, which never sees it, does it all the same.)
ROWSMITH_DEVICE u32 hidden_zero() {
  u32 multiprocessor;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
  return multiprocessor >> 28;
}

// The same for f64, which no compiler option flushes.
ROWSMITH_DEVICE double as_f64(u32 lo, u32 hi) {
  return __hiloint2double(static_cast<int>(hi), static_cast<int>(lo));
}
ROWSMITH_DEVICE u32 lo_word(double value) {
  return static_cast<u32>(__double2loint(value));
}
ROWSMITH_DEVICE u32 hi_word(double value) {
  return static_cast<u32>(__double2hiint(value));
}
ROWSMITH_DEVICE double add(double a, double b) {
  return __dadd_rn(a, b);
}
ROWSMITH_DEVICE double sub(double a, double b) {
  return __dsub_rn(a, b);
}
ROWSMITH_DEVICE double mul(double a, double b) {
  return __dmul_rn(a, b);
}
ROWSMITH_DEVICE double div_rn(double a, double b) {
  return __ddiv_rn(a, b);
}
ROWSMITH_DEVICE double max_num(double a, double b) {
  return fmax(a, b);
}
// e^x within 2^-52 relative where that is a normal number; e^-inf = 0; NaN stays.
ROWSMITH_DEVICE double exp_f64(double x) {
  return exp(x);
}

// ---- Conversions: to nearest even; f16 keeps subnormals ----

ROWSMITH_DEVICE float to_f32(float value) {
  return value;
}
ROWSMITH_DEVICE float to_f32(f16 value) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(value.bits));
  return f;
}
ROWSMITH_DEVICE float to_f32(bf16 value) {
  return as_f32(static_cast<u32>(value.bits) << 16);
}

template <class T>
ROWSMITH_DEVICE T from_f32(float value);
template <>
ROWSMITH_DEVICE float from_f32<float>(float value) {
  return value;
}
template <>
ROWSMITH_DEVICE f16 from_f32<f16>(float value) {
  f16 r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(value));
  return r;
}
template <>
ROWSMITH_DEVICE bf16 from_f32<bf16>(float value) {
  bf16 r;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.bits) : "f"(value));
#else
  const u32 w = as_u32(value);
  const bool nan = (w & 0x7fffffffu) > 0x7f800000u;
  r.bits = static_cast<u16>(nan ? 0x7fffu : (w + 0x7fffu + ((w >> 16) & 1u)) >> 16);
#endif
  return r;
}

// Two elements in one word, the first in the low half.
template <class T>
ROWSMITH_DEVICE u32 pack2(float lo, float hi) {
  return static_cast<u32>(from_f32<T>(lo).bits) | static_cast<u32>(from_f32<T>(hi).bits) << 16;
}
#if __CUDA_ARCH__ >= 800
template <>
ROWSMITH_DEVICE u32 pack2<f16>(float lo, float hi) {
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}
template <>
ROWSMITH_DEVICE u32 pack2<bf16>(float lo, float hi) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}
#endif
template <class T>
ROWSMITH_DEVICE float lo_f32(u32 word) {
  return to_f32(T{static_cast<u16>(word & 0xffffu)});
}
template <class T>
ROWSMITH_DEVICE float hi_f32(u32 word) {
  return to_f32(T{static_cast<u16>(word >> 16)});
}
template <>
ROWSMITH_DEVICE float hi_f32<bf16>(u32 word) {
  return as_f32(word & 0xffff0000u);
}

// The greater of the low and of the high elements; of a number and a NaN, the number.
template <class T>
ROWSMITH_DEVICE u32 max2(u32 a, u32 b);
template <>
ROWSMITH_DEVICE u32 max2<f16>(u32 a, u32 b) {
#if __CUDA_ARCH__ >= 800
  u32 r;
  asm("max.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
#else
  return pack2<f16>(max_num(lo_f32<f16>(a), lo_f32<f16>(b)),
                    max_num(hi_f32<f16>(a), hi_f32<f16>(b)));
#endif
}
template <>
ROWSMITH_DEVICE u32 max2<bf16>(u32 a, u32 b) {
#if __CUDA_ARCH__ >= 800
  u32 r;
  asm("max.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
#else
  return pack2<bf16>(max_num(lo_f32<bf16>(a), lo_f32<bf16>(b)),
                     max_num(hi_f32<bf16>(a), hi_f32<bf16>(b)));
#endif
}

}  // namespace rs

#endif  // !ROWSMITH_HOST
