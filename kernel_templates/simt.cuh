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
// A kernel entry; the braces that follow are its body and see the parameters as `p`.
#define ROWSMITH_KERNEL(name, threads, min_blocks, Params)              \
  extern "C" __global__ void __launch_bounds__((threads), (min_blocks)) \
      name(const __grid_constant__ Params p)

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

// ---- Clusters (sm_90 and later; blocks of a cluster have consecutive indices) ----

#if __CUDA_ARCH__ >= 900
// A barrier in two halves over all threads of the cluster: what was written to any block's shared
// memory before arrival is seen after the wait. Every thread arrives and waits in turn.
ROWSMITH_DEVICE void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
ROWSMITH_DEVICE void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Where `p`, in this block's shared memory, lies in that of the cluster's block `rank`. Not before
// every block of the cluster is known to run, nor once any may have ended.
template <class T>
ROWSMITH_DEVICE T* peer(T* p, int rank) {
  u64 there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(p), "r"(rank));
  return reinterpret_cast<T*>(there);
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

// Hides where a value came from, so that the compiler keeps it rather than what it was made into.
ROWSMITH_DEVICE void opaque(u32& word) {
  asm volatile("" : "+r"(word));
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

}  // namespace rs

#endif  // !ROWSMITH_HOST
