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
#include <functional>
#include <string>

namespace rowsmith {

// Whose fault is whose: a fault of one leaves the other ok and uncompared. Accuracy failed, with
// row, column and both values; else the codes of Device::run.
struct FullCheck {
  Status candidate, generic;
  std::string checked;  // how much of the output was compared: "all rows"
};

// Compares within twice the bound, since both may be off by it; where they differ by more, the
// row's reference tells who is wrong. Compared are all rows, or bands of them up to `cap_bytes`, by
// so many threads. `before_generic` is called when generic is about to be on the device.
FullCheck compare_with_generic(
    Device& device, const LaunchPlan& plan, const LaunchPlan& generic, const Arena& arena,
    std::int64_t cap_bytes, int threads, const std::function<void()>& before_generic = [] {});

}  // namespace rowsmith
