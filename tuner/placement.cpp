// SPDX-License-Identifier: Apache-2.0
//
// A search over the few strides and offsets that a layout can tell apart: 32 elements of each.
#include "tuner/placement.h"

#include <rowsmith/text.h>

namespace rowsmith {
namespace {

constexpr std::uintptr_t kSrcBase = 256, kDstBase = 512;

struct Side {
  std::int64_t offset_bytes = 0;
  std::int64_t stride = 0;
};

// Calls visit(side) for each stride and offset of one side that give its alignment; stops when it
// answers true.
template <typename Visit>
bool any_side(std::int64_t cols, std::size_t element, bool pitched, int align, Visit&& visit) {
  const auto bytes = static_cast<std::int64_t>(element);
  for (std::int64_t stride = pitched ? cols + 1 : cols; stride <= cols + (pitched ? 32 : 0);
       ++stride) {
    for (std::int64_t offset = 0; offset < 32 * bytes; offset += bytes) {
      const auto bits = static_cast<std::uint64_t>(offset | stride * bytes);
      if (detail::common_power_of_two(bits) != align) continue;
      if (visit(Side{offset, stride})) return true;
    }
  }
  return false;
}

std::size_t end_of(std::int64_t offset, std::int64_t stride, std::int64_t rows, std::int64_t cols,
                   std::size_t element) {
  return static_cast<std::size_t>(offset) +
         static_cast<std::size_t>((rows - 1) * stride + cols) * element;
}

}  // namespace

std::size_t Placement::src_bytes(const Problem& problem, std::int64_t rows) const {
  return end_of(src_offset_bytes, src_stride, rows, problem.cols, size_of(problem.in));
}

std::size_t Placement::dst_bytes(const Problem& problem, std::int64_t rows) const {
  return end_of(dst_offset_bytes, dst_stride, rows, problem.cols, size_of(problem.out));
}

SoftmaxCall Placement::call(const Problem& problem, std::int64_t rows, const void* src,
                            void* dst) const {
  void* y = static_cast<char*>(dst) + dst_offset_bytes;
  const void* x = problem.layout.in_place ? y : static_cast<const char*>(src) + src_offset_bytes;
  return {x, y, rows, problem.cols, src_stride, dst_stride, problem.in, problem.out, nullptr};
}

Result<Placement> place(const Problem& problem) {
  const Layout& want = problem.layout;
  const std::size_t in = size_of(problem.in), out = size_of(problem.out);
  Placement found;
  const bool placed = any_side(problem.cols, in, want.src_pitched, want.src_align, [&](Side src) {
    const auto matches = [&](Side dst) {
      const auto* x = reinterpret_cast<const char*>(kSrcBase) + src.offset_bytes;
      const auto* y = reinterpret_cast<const char*>(want.in_place ? kSrcBase : kDstBase);
      y += dst.offset_bytes;
      if (layout_of(x, y, problem.cols, src.stride, dst.stride, problem.in, problem.out) != want) {
        return false;
      }
      found = {src.offset_bytes, dst.offset_bytes, src.stride, dst.stride};
      return true;
    };
    return any_side(problem.cols, out, want.dst_pitched, want.dst_align, matches);
  });
  if (placed) return found;
  return Status(Code::kUnsupported,
                to_string(problem) + ": no base address and pitch have this layout");
}

}  // namespace rowsmith
