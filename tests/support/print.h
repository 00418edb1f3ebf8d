// SPDX-License-Identifier: Apache-2.0
//
// How GoogleTest names rowsmith's values where they are parameters of tests.
#pragma once

#include <rowsmith/text.h>

#include <ostream>

namespace rowsmith {

inline void PrintTo(DType dtype, std::ostream* out) {
  *out << to_string(dtype);
}

}  // namespace rowsmith
