// SPDX-License-Identifier: Apache-2.0
//
// The rows that bite: inputs on which softmax kernels are known to go wrong.
#pragma once

#include <rowsmith/types.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace rowsmith {

struct SpecialRow {
  std::string_view name;
  // The value at column i of `cols` for input type `in` and output type `out`.
  long double (*value)(std::int64_t i, std::int64_t cols, DType in, DType out);
};

// The most telling first: those that are kept where rows are too long for all.
const std::vector<SpecialRow>& special_rows();

}  // namespace rowsmith
