// SPDX-License-Identifier: Apache-2.0
//
// Global and shared memory on CUDA, a pack of 1 to 32 bytes at a time, by policy. The host device's
// half is in simt_host.cuh.
#pragma once

#include "simt.cuh"

#if !ROWSMITH_HOST

namespace rs {

// 32 bytes as one access: sm_100 and later.
#define ROWSMITH_WIDE_LOAD(asm_, form, ...)                                                  \
  asm_(form " {%0,%1,%2,%3,%4,%5,%6,%7}, [%8];"                                              \
       : "=r"(r.w[0]), "=r"(r.w[1]), "=r"(r.w[2]), "=r"(r.w[3]), "=r"(r.w[4]), "=r"(r.w[5]), \
         "=r"(r.w[6]), "=r"(r.w[7])                                                          \
       : "l"(p)__VA_ARGS__)
template <int kPolicy>
ROWSMITH_DEVICE Raw<32> load_wide(const void* p) {
  Raw<32> r;
  if constexpr (kPolicy == 1) {
    ROWSMITH_WIDE_LOAD(asm, "ld.global.nc.L1::no_allocate.v8.b32");
  } else if constexpr (kPolicy == 2) {
    ROWSMITH_WIDE_LOAD(asm volatile, "ld.global.cs.v8.b32", : "memory");
  } else {
    ROWSMITH_WIDE_LOAD(asm volatile, "ld.global.v8.b32", : "memory");
  }
  return r;
}
#undef ROWSMITH_WIDE_LOAD

// Load policies: 0 default; 1 read-only and not kept in L1 (never for memory that the launch
// writes); 2 streaming.
template <int kPolicy, int kBytes>
ROWSMITH_DEVICE Raw<kBytes> load(const void* p) {
  Raw<kBytes> r;
  if constexpr (kBytes == 32) {
    r = load_wide<kPolicy>(p);
  } else if constexpr (kBytes == 16) {
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
    static_assert(kBytes == 1, "packs are 1 to 32 bytes");
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

#define ROWSMITH_WIDE_STORE(form)                                                           \
  asm volatile(form " [%0], {%1,%2,%3,%4,%5,%6,%7,%8};" ::"l"(p), "r"(r.w[0]), "r"(r.w[1]), \
               "r"(r.w[2]), "r"(r.w[3]), "r"(r.w[4]), "r"(r.w[5]), "r"(r.w[6]), "r"(r.w[7]) \
               : "memory")
template <int kPolicy>
ROWSMITH_DEVICE void store_wide(void* p, const Raw<32>& r) {
  if constexpr (kPolicy == 1) {
    ROWSMITH_WIDE_STORE("st.global.cs.v8.b32");
  } else {
    ROWSMITH_WIDE_STORE("st.global.v8.b32");
  }
}
#undef ROWSMITH_WIDE_STORE

// Store policies: 0 default; 1 streaming.
template <int kPolicy, int kBytes>
ROWSMITH_DEVICE void store(void* p, Raw<kBytes> r) {
  if constexpr (kBytes == 32) {
    store_wide<kPolicy>(p, r);
  } else if constexpr (kBytes == 16) {
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
    static_assert(kBytes == 1, "packs are 1 to 32 bytes");
    if constexpr (kPolicy == 1) {
      __stcs(static_cast<u8*>(p), r.b);
    } else {
      *static_cast<u8*>(p) = r.b;
    }
  }
}

}  // namespace rs

#endif  // !ROWSMITH_HOST
