// SPDX-License-Identifier: Apache-2.0
//
// The host device's half of simt.cuh: the same names with the same meaning, for a C++ compiler.
// Barriers, shuffles and faults go through the table that the device binds after loading; they
// carry the calling line, so that every report names the line of the device text. Vector accesses
// check their alignment, which the CPU would forgive and a GPU would not.
#pragma once

#include "host_abi.cuh"

#if ROWSMITH_HOST

#define ROWSMITH_EXPORT extern "C" __attribute__((visibility("default")))
#define ROWSMITH_DEVICE inline
// Unrolling buys nothing here and makes the compiler ten times slower.
#define ROWSMITH_UNROLL
#define ROWSMITH_NO_UNROLL
#define ROWSMITH_KERNEL(name, threads, min_blocks, Params)                                   \
  static_assert((min_blocks) >= 0, "for CUDA alone");                                        \
  static void name##_body(const Params p);                                                   \
  ROWSMITH_EXPORT void name(const void* raw) {                                               \
    name##_body(*static_cast<const Params*>(raw));                                           \
  }                                                                                          \
  extern "C" {                                                                               \
  extern __attribute__((visibility("default"))) const rowsmith_host::Bounds name##_bounds;   \
  const rowsmith_host::Bounds name##_bounds = {(threads), static_cast<int>(sizeof(Params))}; \
  }                                                                                          \
  static void name##_body([[maybe_unused]] const Params p)

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

namespace host {
static const rowsmith_host::Table* table = nullptr;
}  // namespace host

#define ROWSMITH_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

// ---- Threads ----

ROWSMITH_DEVICE int thread_index() {
  return host::table->self()->index;
}
ROWSMITH_DEVICE i64 block_index() {
  return host::table->self()->block;
}
ROWSMITH_DEVICE i64 block_count() {
  return host::table->self()->blocks;
}
ROWSMITH_DEVICE void sync(ROWSMITH_HERE) {
  host::table->sync({file, line});
}
ROWSMITH_DEVICE u32 shfl_xor(u32 value, int mask, ROWSMITH_HERE) {
  const u32* values = host::table->warp_values(value, mask, {file, line});
  return values[(thread_index() ^ mask) % 32];
}
ROWSMITH_DEVICE float shfl_xor(float value, int mask, ROWSMITH_HERE) {
  const u32 bits = __builtin_bit_cast(u32, value);
  return __builtin_bit_cast(float, shfl_xor(bits, mask, file, line));
}
ROWSMITH_DEVICE double shfl_xor(double value, int mask, ROWSMITH_HERE) {
  const u64 bits = __builtin_bit_cast(u64, value);
  const u64 lo = shfl_xor(static_cast<u32>(bits), mask, file, line);
  const u64 hi = shfl_xor(static_cast<u32>(bits >> 32), mask, file, line);
  return __builtin_bit_cast(double, hi << 32 | lo);
}
#define ROWSMITH_WARP_REDUCTIONS 1
ROWSMITH_DEVICE int warp_max(int value, ROWSMITH_HERE) {
  const u32* values = host::table->warp_values(static_cast<u32>(value), 0, {file, line});
  for (int i = 0; i < 32; ++i) {
    if (static_cast<int>(values[i]) > value) value = static_cast<int>(values[i]);
  }
  return value;
}
ROWSMITH_DEVICE char* shared_base() {
  return host::table->self()->shared;
}

// ---- Clusters and asynchronous copies ----

// Bulk copies are made as late as a GPU may make them: when a thread first waits.
struct Arrival {
  u32 word;  // kArrivalWord once initialised
  u32 phase, expected, come;
  u64 unused[2];
};

namespace host {
using rowsmith_host::Place;
constexpr u32 kArrivalWord = 0x4172726au;  // no poison: those repeat one byte
constexpr u32 kNotExpected = 0xffffffffu;

template <class... Numbers>
void misuse(const rowsmith_host::Thread* by, const char* call, Place place, const char* format,
            Numbers... numbers) {
  char what[96];
  __builtin_snprintf(what, sizeof(what), format, numbers...);
  table->misuse(by, call, place, what);
}
inline void check_initialised(const Arrival* arrival, const char* call, Place place) {
  if (arrival->word == kArrivalWord) return;
  misuse(nullptr, call, place, " with an arrival that has seen no arrival_init");
}
// To be called before a phase may end: on a GPU it would never end, or the next one too early.
inline void check_surplus(const Arrival* arrival, const rowsmith_host::Thread* by, const char* call,
                          Place place) {
  if (arrival->come <= arrival->expected) return;
  misuse(by, call, place, ": %u bytes come to an arrival that expects %u", arrival->come,
         arrival->expected);
}
inline void end_phase_if_all_came(Arrival* arrival) {
  if (arrival->come != arrival->expected) return;
  *arrival = Arrival{kArrivalWord, arrival->phase + 1, kNotExpected, 0, {}};
  table->announce();
}
// All of the arrival's; false: none was started.
inline bool finish_copies(Arrival* arrival) {
  rowsmith_host::Copy copy;
  bool any = false;
  while (table->finish_copy(arrival, &copy)) {
    any = true;
    arrival->come += copy.bytes;
    check_surplus(arrival, copy.by, "bulk_read", copy.place);
  }
  end_phase_if_all_came(arrival);
  return any;
}
}  // namespace host

ROWSMITH_DEVICE void arrival_init(Arrival* arrival, ROWSMITH_HERE) {
  if (reinterpret_cast<u64>(arrival) % 8 != 0) {
    host::table->misaligned(arrival, 8, true, {file, line});
  }
  if (arrival->word == host::kArrivalWord) {
    host::misuse(nullptr, "arrival_init", {file, line}, " of an arrival that has seen one");
  }
  *arrival = Arrival{host::kArrivalWord, 0, host::kNotExpected, 0, {}};
}
ROWSMITH_DEVICE void arrivals_ready() {}
ROWSMITH_DEVICE void arrival_expect(Arrival* arrival, u32 bytes, ROWSMITH_HERE) {
  host::check_initialised(arrival, "arrival_expect", {file, line});
  if (arrival->expected != host::kNotExpected) {
    host::misuse(nullptr, "arrival_expect", {file, line}, " a second time in one phase");
  }
  arrival->expected = bytes;
  host::check_surplus(arrival, nullptr, "arrival_expect", {file, line});
  host::end_phase_if_all_came(arrival);
}
ROWSMITH_DEVICE void arrival_wait(Arrival* arrival, u32 parity, ROWSMITH_HERE) {
  host::check_initialised(arrival, "arrival_wait", {file, line});
  if (parity > 1 || (parity == 1 && arrival->phase == 0)) {
    host::misuse(nullptr, "arrival_wait", {file, line},
                 " for parity %u, which no phase up to this one has", parity);
  }
  while (arrival->phase % 2 == parity) {
    if (!host::finish_copies(arrival)) host::table->await({file, line});
  }
}
ROWSMITH_DEVICE void bulk_read(Arrival* arrival, void* dst, const void* src, u32 bytes,
                               ROWSMITH_HERE) {
  host::check_initialised(arrival, "bulk_read", {file, line});
  if (bytes == 0 || bytes % 16 != 0) {
    host::misuse(nullptr, "bulk_read", {file, line}, " of %u bytes, no positive multiple of 16",
                 bytes);
  }
  if (reinterpret_cast<u64>(src) % 16 != 0) host::table->misaligned(src, 16, false, {file, line});
  if (reinterpret_cast<u64>(dst) % 16 != 0) host::table->misaligned(dst, 16, true, {file, line});
  host::table->start_copy({arrival, dst, src, bytes, {file, line}, nullptr});
}

ROWSMITH_DEVICE void cluster_arrive(ROWSMITH_HERE) {
  host::table->cluster_arrive({file, line});
}
ROWSMITH_DEVICE void cluster_wait(ROWSMITH_HERE) {
  host::table->cluster_wait({file, line});
}
template <class T>
ROWSMITH_DEVICE void peer_store(T* place, const T& value, Arrival* arrival, int rank,
                                ROWSMITH_HERE) {
  static_assert(sizeof(T) == 8 || sizeof(T) == 16, "one store");
  if (reinterpret_cast<u64>(place) % sizeof(T) != 0) {
    host::table->misaligned(place, sizeof(T), true, {file, line});
  }
  void* there = host::table->peer(place, sizeof(T), rank, {file, line});
  auto* tell =
      static_cast<Arrival*>(host::table->peer(arrival, sizeof(Arrival), rank, {file, line}));
  host::check_initialised(tell, "peer_store", {file, line});
  __builtin_memcpy(there, &value, sizeof(T));
  tell->come += sizeof(T);
  host::check_surplus(tell, nullptr, "peer_store", {file, line});
  host::end_phase_if_all_came(tell);
}
ROWSMITH_DEVICE Raw<16> load_shared(const void* p, ROWSMITH_HERE) {
  if (reinterpret_cast<u64>(p) % 16 != 0) host::table->misaligned(p, 16, false, {file, line});
  Raw<16> r;
  __builtin_memcpy(&r, p, 16);
  return r;
}

// ---- Global memory ----

template <int kPolicy, int kBytes>
ROWSMITH_DEVICE Raw<kBytes> load(const void* p, ROWSMITH_HERE) {
  static_assert(kPolicy >= 0 && kPolicy <= 2, "default, read-only or streaming");
  if (reinterpret_cast<u64>(p) % kBytes != 0) {
    host::table->misaligned(p, kBytes, false, {file, line});
  }
  Raw<kBytes> r;
  __builtin_memcpy(&r, p, kBytes);
  return r;
}

template <int kPolicy, int kBytes>
ROWSMITH_DEVICE void store(void* p, Raw<kBytes> r, ROWSMITH_HERE) {
  static_assert(kPolicy >= 0 && kPolicy <= 1, "default or streaming");
  if (reinterpret_cast<u64>(p) % kBytes != 0) {
    host::table->misaligned(p, kBytes, true, {file, line});
  }
  __builtin_memcpy(p, &r, kBytes);
}

#undef ROWSMITH_HERE

}  // namespace rs

// Called by the device once after loading. False: this object was made for another device version.
ROWSMITH_EXPORT bool rowsmith_host_bind(const rowsmith_host::Table* table) {
  rs::host::table = table;
  return table->version == rowsmith_host::kAbiVersion &&
         table->size == sizeof(rowsmith_host::Table);
}

#endif  // ROWSMITH_HOST
