// SPDX-License-Identifier: Apache-2.0
//
// The last gate before a victory: the winner's results at the problem's own S, on the arena's own
// memory, beside those of the generic kernel. It sees what a small verification cannot: offsets
// past 32 bits, rows that no block took, a last tile of another size.
#pragma once

#include "runtime/device.h"
#include "runtime/softmax_launch.h"
#include "tuner/measure.h"

#include <cstdint>
#include <string>

namespace rowsmith {

// Compares within twice the bound, since both may be off by it. `checked` tells how much of the
// output was compared, by so many threads: all rows, or bands of them up to `cap_bytes`. Accuracy
// failed, with row, column and both values; else the codes of Device::run.
Status compare_with_generic(Device& device, const LaunchPlan& plan, const LaunchPlan& generic,
                            const Arena& arena, std::int64_t cap_bytes, int threads,
                            std::string* checked);

}  // namespace rowsmith
