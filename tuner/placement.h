// SPDX-License-Identifier: Apache-2.0
//
// Placement: where src and dst lie inside buffers of ours so that layout_of gives exactly the
// layout of the problem; kernels are then timed and verified as the problem's calls will run them.
#pragma once

#include <rowsmith/runtime.h>
#include <rowsmith/status.h>
#include <rowsmith/types.h>

#include <cstddef>
#include <cstdint>

namespace rowsmith {

struct Placement {
  std::int64_t src_offset_bytes = 0, dst_offset_bytes = 0;  // from a 256-byte border
  std::int64_t src_stride = 0, dst_stride = 0;              // elements

  // Bytes from the border to the end of the last of `rows` rows.
  std::size_t src_bytes(const Problem& problem, std::int64_t rows) const;
  std::size_t dst_bytes(const Problem& problem, std::int64_t rows) const;
  // The call of `rows` rows on buffers at 256-byte borders; where the problem is in place both are
  // `dst`.
  SoftmaxCall call(const Problem& problem, std::int64_t rows, const void* src, void* dst) const;
};

// The first placement in order of stride and offset. Unsupported where no base and pitch give the
// layout ("src=32" with an odd contiguous row, say).
Result<Placement> place(const Problem& problem);

}  // namespace rowsmith
