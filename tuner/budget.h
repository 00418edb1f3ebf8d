// SPDX-License-Identifier: Apache-2.0
//
// How a budget is shared over the problems of a list. Pure functions of sizes and device facts.
//
// Rule. Of the time that is left, the problem whose turn it is may use the mean of two shares among
// those that still wait: an equal one, since a search costs about the same at any size, and one in
// proportion to what is at stake, since a gain of 10 % is worth more where a call takes longer.
// What a problem leaves over goes to those after it; those that need no tuning take nothing.
#pragma once

#include <rowsmith/types.h>

#include <cstddef>
#include <vector>

namespace rowsmith {

// What a call cannot be faster than, before anything is measured: its bytes at the device's memory
// rate, and a launch.
double expected_floor_ns(const Problem& problem, const DeviceFacts& facts);

// The part of what is left that problem `at` may use: 0 < part <= 1, and 1 for the last that waits.
// A stake of 0 marks a problem that needs no tuning.
double budget_part(const std::vector<double>& stakes_ns, std::size_t at);

}  // namespace rowsmith
