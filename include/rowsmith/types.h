// SPDX-License-Identifier: Apache-2.0
//
// The plain values that every part of rowsmith speaks in: dtype, layout, problem, config, device
// facts. All compare equal by content; text.h prints and parses them.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace rowsmith {

// Element types. The numbers are frozen: caches and the C API hold them.
enum class DType : std::uint8_t {
  kF64 = 0,
  kF32 = 1,
  kF16 = 2,
  kBF16 = 3,
  kF8E4M3 = 4,
  kF8E5M2 = 5
};

// Bytes of one element.
constexpr std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kF64: return 8;
    case DType::kF32: return 4;
    case DType::kF16:
    case DType::kBF16: return 2;
    case DType::kF8E4M3:
    case DType::kF8E5M2: return 1;
  }
  return 0;
}

// "f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2": the command line's and the cache's spelling.
constexpr const char* to_string(DType dtype) noexcept {
  switch (dtype) {
    case DType::kF64: return "f64";
    case DType::kF32: return "f32";
    case DType::kF16: return "f16";
    case DType::kBF16: return "bf16";
    case DType::kF8E4M3: return "f8e4m3";
    case DType::kF8E5M2: return "f8e5m2";
  }
  return "?";
}

// What the placement of src and dst allows. A kernel is legal or not by this, never by the
// pointers themselves, so it is part of every key.
struct Layout {
  // The largest power of two <= 32 that divides the base address and the row pitch in bytes.
  std::uint8_t src_align = 32;
  std::uint8_t dst_align = 32;
  // The largest power of two n <= 32 such that src and dst element indices agree modulo n at the
  // start of every row (a row's elements then cross n-element borders at the same columns in both).
  std::uint8_t co_align = 32;
  // Row pitch differs from the row length.
  bool src_pitched = false;
  bool dst_pitched = false;
  // src and dst are the same memory.
  bool in_place = false;

  friend bool operator==(const Layout& a, const Layout& b) noexcept {
    return a.src_align == b.src_align && a.dst_align == b.dst_align && a.co_align == b.co_align &&
           a.src_pitched == b.src_pitched && a.dst_pitched == b.dst_pitched &&
           a.in_place == b.in_place;
  }
  friend bool operator!=(const Layout& a, const Layout& b) noexcept { return !(a == b); }
};

// One softmax over the columns of a [rows, cols] matrix.
struct Problem {
  DType in = DType::kF32;
  DType out = DType::kF32;
  std::int64_t rows = 0;  // S
  std::int64_t cols = 0;  // H
  Layout layout;

  friend bool operator==(const Problem& a, const Problem& b) noexcept {
    return a.in == b.in && a.out == b.out && a.rows == b.rows && a.cols == b.cols &&
           a.layout == b.layout;
  }
  friend bool operator!=(const Problem& a, const Problem& b) noexcept { return !(a == b); }
};

namespace detail {
// The largest power of two <= 32 that divides every number whose bits are or-ed into `bits`.
constexpr std::uint8_t common_power_of_two(std::uint64_t bits) noexcept {
  return static_cast<std::uint8_t>((bits | 32) & (~(bits | 32) + 1));
}
}  // namespace detail

// The layout of a call: strides in elements. Requires non-null, element-aligned pointers.
inline Layout layout_of(const void* src, const void* dst, std::int64_t cols,
                        std::int64_t src_stride, std::int64_t dst_stride, DType in,
                        DType out) noexcept {
  const auto src_address = reinterpret_cast<std::uintptr_t>(src);
  const auto dst_address = reinterpret_cast<std::uintptr_t>(dst);
  const std::uint64_t in_bytes = size_of(in), out_bytes = size_of(out);
  const auto src_pitch = static_cast<std::uint64_t>(src_stride);
  const auto dst_pitch = static_cast<std::uint64_t>(dst_stride);
  Layout layout;
  layout.src_align = detail::common_power_of_two(src_address | src_pitch * in_bytes);
  layout.dst_align = detail::common_power_of_two(dst_address | dst_pitch * out_bytes);
  layout.co_align = detail::common_power_of_two((src_address / in_bytes - dst_address / out_bytes) |
                                                (src_pitch - dst_pitch));
  layout.src_pitched = src_stride != cols;
  layout.dst_pitched = dst_stride != cols;
  layout.in_place = src == dst;
  return layout;
}

// The problem of freshly allocated, contiguous, separate buffers (bases on 256 bytes).
inline Problem contiguous_problem(DType in, DType out, std::int64_t rows,
                                  std::int64_t cols) noexcept {
  const auto src = reinterpret_cast<const void*>(std::uintptr_t{256});
  const auto dst = reinterpret_cast<const void*>(std::uintptr_t{512});
  return Problem{in, out, rows, cols, layout_of(src, dst, cols, cols, cols, in, out)};
}

// A kernel family and its parameters, as self-describing text:
// "block_row:threads=256,pack=8,min_blocks=1,start=any,keep=packed,load=nc,store=cs".
struct Config {
  std::string family;
  std::vector<std::pair<std::string, std::string>> params;  // in the family's axis order

  bool empty() const noexcept { return family.empty(); }
  // The named parameter's text, or empty.
  std::string_view get(std::string_view name) const noexcept {
    for (const auto& [key, value] : params) {
      if (key == name) return value;
    }
    return {};
  }
  // The named parameter as a number, or `fallback` where it is absent or not a number.
  int number(std::string_view name, int fallback = 0) const noexcept {
    const std::string_view text = get(name);
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? value : fallback;
  }

  friend bool operator==(const Config& a, const Config& b) {
    return a.family == b.family && a.params == b.params;
  }
  friend bool operator!=(const Config& a, const Config& b) { return !(a == b); }
};

// What selection may depend on. Everything but the name and uuid comes from device attributes.
struct DeviceFacts {
  std::string kind;    // "cuda" or "host"
  std::string name;    // for people; never part of a key
  std::string uuid;    // which physical device, for locks and evidence
  std::string bus_id;  // PCI address, for people
  int ordinal = 0;     // the driver's index in this process
  int capability = 0;  // 90 for compute capability 9.0; 0 on the host device
  int sm_count = 1;
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;
  int memory_bus_bits = 0;
  int memory_clock_khz = 0;
  int max_threads_per_block = 1024;
  int max_threads_per_sm = 2048;
  int max_blocks_per_sm = 32;
  int registers_per_sm = 65536;
  std::int64_t shared_bytes_per_sm = 0;
  std::int64_t shared_bytes_per_block = 0;  // opt-in limit
  int max_cluster = 1;                      // largest cluster a kernel may ask for
  int driver_version = 0;                   // 13000 for 13.0; 0 on the host device
  std::string compiler;                     // "nvrtc 13.0", "g++ 12.2.0": evidence and binary key
};

}  // namespace rowsmith
