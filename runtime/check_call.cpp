// SPDX-License-Identifier: Apache-2.0
//
// The judgement of a call's values, before anything looks at a device. On the hot path: the good
// case is a few comparisons and allocates nothing. (One comparison a row where the extents of x and
// y meet and their pitches differ.)
#include "kernel_templates/catalog.h"
#include "runtime/dispatcher.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>

namespace rowsmith {
namespace {

constexpr int kDTypes = 6;
constexpr std::int64_t kMaxCols = std::numeric_limits<std::int32_t>::max();
// Leaves room for a sum a little below 1 in f32.
constexpr double kMaxScale = 0x1p126;
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 63;

Status invalid(std::string message) {
  return {Code::kInvalidArgument, "softmax: " + std::move(message)};
}

Status wrong_value(const char* name, std::int64_t value, const std::string& allowed) {
  return invalid(std::string(name) + " is " + std::to_string(value) + "; " + allowed);
}

bool is_dtype(DType dtype) {
  return static_cast<int>(dtype) < kDTypes;
}

// The dtype pairs that the catalog serves, bit in * kDTypes + out; 0 until asked for.
std::atomic<std::uint64_t> supported_pairs{0};

[[gnu::noinline]] std::uint64_t ask_catalog() {
  std::uint64_t pairs = 0;
  for (int i = 0; i < kDTypes * kDTypes; ++i) {
    const Status status =
        check_supported(static_cast<DType>(i / kDTypes), static_cast<DType>(i % kDTypes));
    if (status.ok()) pairs |= std::uint64_t{1} << i;
  }
  supported_pairs.store(pairs, std::memory_order_relaxed);
  return pairs;
}

bool supported(DType in, DType out) {
  std::uint64_t pairs = supported_pairs.load(std::memory_order_relaxed);
  if (pairs == 0) pairs = ask_catalog();
  return (pairs >> (static_cast<int>(in) * kDTypes + static_cast<int>(out)) & 1) != 0;
}

Status check_sizes(DType in, DType out, std::int64_t rows, std::int64_t cols) {
  if (!is_dtype(in)) return wrong_value("in", static_cast<int>(in), "that is no dtype");
  if (!is_dtype(out)) return wrong_value("out", static_cast<int>(out), "that is no dtype");
  if (rows < 0) return wrong_value("rows", rows, "it must not be negative");
  if (cols < 0 || cols > kMaxCols) {
    return wrong_value("cols", cols, "it must be from 0 to 2^31 - 1");
  }
  return supported(in, out) ? Status() : check_supported(in, out);
}

// False for NaN, too.
bool is_scale(double scale) {
  return scale > 0 && scale <= kMaxScale;
}

Status wrong_scale(double scale) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, scale);
  return invalid("out_scale is " + std::string(text, error == std::errc() ? end : text) +
                 "; it must be finite, greater than 0 and at most 2^126");
}

// One side of the call in bytes.
struct Side {
  std::uint64_t base, width, pitch, end;  // end = one past the last row's last byte
};

Status check_side(const char* name, const void* pointer, DType dtype, std::int64_t stride,
                  const SoftmaxCall& call, Side& side) {
  if (pointer == nullptr) return invalid(std::string(name) + " is null");
  const std::uint64_t bytes = size_of(dtype);
  side.base = reinterpret_cast<std::uintptr_t>(pointer);
  if (side.base % bytes != 0) {
    return invalid(std::string(name) + " is not aligned to an element of " + to_string(dtype) +
                   " (" + std::to_string(bytes) + " bytes)");
  }
  if (stride < call.cols) {
    return wrong_value((std::string(name) + "_stride").c_str(), stride,
                       "it must be 0 or at least cols = " + std::to_string(call.cols));
  }
  std::uint64_t extent = 0;
  side.width = static_cast<std::uint64_t>(call.cols) * bytes;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(stride), bytes, &side.pitch) ||
      __builtin_mul_overflow(static_cast<std::uint64_t>(call.rows - 1), side.pitch, &extent) ||
      __builtin_add_overflow(extent, side.width, &extent) || extent >= kMaxBytes ||
      __builtin_add_overflow(side.base, extent, &side.end)) {
    return invalid(std::string(name) + " of " + std::to_string(call.rows) + " rows, " +
                   std::to_string(call.cols) + " cols and stride " + std::to_string(stride) +
                   " has 2^63 bytes or more, or passes the end of the address space");
  }
  return {};
}

// Whether any byte belongs to a row of both. Only called where the extents meet. With one pitch the
// rows meet if they do modulo the pitch; else each row of src is held against dst's last row that
// starts before its end.
bool share_a_byte(const Side& src, const Side& dst, std::int64_t rows) {
  if (src.pitch == dst.pitch) {
    const bool src_first = src.base <= dst.base;
    const Side& first = src_first ? src : dst;
    const Side& second = src_first ? dst : src;
    const std::uint64_t offset = (second.base - first.base) % first.pitch;
    return offset < first.width || offset + second.width > first.pitch;
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::uint64_t begin = src.base + static_cast<std::uint64_t>(row) * src.pitch;
    const std::uint64_t end = begin + src.width;
    if (end <= dst.base || begin >= dst.end) continue;
    const std::uint64_t last = std::min<std::uint64_t>((end - 1 - dst.base) / dst.pitch,
                                                       static_cast<std::uint64_t>(rows - 1));
    if (dst.base + last * dst.pitch + dst.width > begin) return true;
  }
  return false;
}

// The stride of a single row is never used: callers pass anything.
void fill_strides(SoftmaxCall& call) {
  if (call.src_stride == 0 || call.rows <= 1) call.src_stride = call.cols;
  if (call.dst_stride == 0 || call.rows <= 1) call.dst_stride = call.cols;
}

// The verdict on a call with its strides filled in.
Status judge(const SoftmaxCall& call) {
  Status status = check_sizes(call.in, call.out, call.rows, call.cols);
  if (status.ok() && !is_scale(call.out_scale)) status = wrong_scale(call.out_scale);
  if (!status.ok() || call.rows == 0 || call.cols == 0) return status;
  Side src{}, dst{};
  status = check_side("src", call.src, call.in, call.src_stride, call, src);
  if (status.ok()) status = check_side("dst", call.dst, call.out, call.dst_stride, call, dst);
  if (!status.ok()) return status;
  if (src.end <= dst.base || dst.end <= src.base) return {};
  const bool in_place =
      src.base == dst.base && call.src_stride == call.dst_stride && call.in == call.out;
  if (in_place || !share_a_byte(src, dst, call.rows)) return {};
  return invalid(
      "src and dst share memory; only the same matrix (equal base, stride and dtype) may be both");
}

}  // namespace

Status check_values(const Problem& problem) {
  return check_sizes(problem.in, problem.out, problem.rows, problem.cols);
}

// Extents are rounded up to whole pitches, so that a few sound calls fail this, too; those, and the
// wrong ones, are judged at length.
bool is_plain_call(SoftmaxCall& call) {
  fill_strides(call);
  if (!is_dtype(call.in) || !is_dtype(call.out) || !supported(call.in, call.out)) return false;
  if (call.rows <= 0 || call.cols <= 0 || call.cols > kMaxCols) return false;
  if (!is_scale(call.out_scale)) return false;
  const auto src = reinterpret_cast<std::uintptr_t>(call.src);
  const auto dst = reinterpret_cast<std::uintptr_t>(call.dst);
  const std::uint64_t in_bytes = size_of(call.in), out_bytes = size_of(call.out);
  if (src == 0 || dst == 0 || (src & (in_bytes - 1)) != 0 || (dst & (out_bytes - 1)) != 0) {
    return false;
  }
  if (call.src_stride < call.cols || call.dst_stride < call.cols) return false;
  if (((call.rows | call.src_stride | call.dst_stride) >> 60) != 0) return false;
  const auto rows = static_cast<std::uint64_t>(call.rows);
  std::uint64_t src_end = 0, dst_end = 0;
  if (__builtin_mul_overflow(rows, static_cast<std::uint64_t>(call.src_stride) * in_bytes,
                             &src_end) ||
      __builtin_mul_overflow(rows, static_cast<std::uint64_t>(call.dst_stride) * out_bytes,
                             &dst_end) ||
      ((src_end | dst_end) >> 63) != 0 || __builtin_add_overflow(src_end, src, &src_end) ||
      __builtin_add_overflow(dst_end, dst, &dst_end)) {
    return false;
  }
  return src_end <= dst || dst_end <= src ||
         (src == dst && call.src_stride == call.dst_stride && call.in == call.out);
}

Status check_call(SoftmaxCall& call) {
  fill_strides(call);
  return judge(call);
}

}  // namespace rowsmith
