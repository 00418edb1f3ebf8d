// SPDX-License-Identifier: Apache-2.0
//
// The copy kernels that the floor is measured with. Not a family: nothing dispatches to them.
#pragma once

#include <rowsmith/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rowsmith {

struct CopyVariant {
  int threads = 256;
  int packs = 1;  // 16-byte packs a thread
  std::string_view load, store;

  std::string entry() const;  // "copy_t256_p4_nc_cs"
  std::int64_t blocks(std::int64_t bytes) const;
};

// The shapes to be tried, all in one program. Parameters: CopyParams; src and dst 16-byte aligned.
const std::vector<CopyVariant>& copy_variants();
std::string copy_program_text();

}  // namespace rowsmith
