// SPDX-License-Identifier: Apache-2.0
//
// What softmax kernels would do on a scripted device: right results from the reference, or one of
// the faults that verification must find. An `effect` for DeviceScript.
#pragma once

#include "runtime/device.h"

#include <rowsmith/types.h>

#include <functional>
#include <string>

namespace rowsmith::testing {

enum class Fault {
  kNone,
  kLastColumnUnwritten,
  kLastRowUnwritten,
  kLargeOnly,  // kLastRowUnwritten, but only where there are more than 100 rows
  kOffByOneColumn,
  kDropsNan,      // NaN counts as -inf
  kWritesPast,    // one element beyond the last row
  kWritesBefore,  // one element before the first row
  kWritesInput,
  kRaces,        // the last bit of a result differs from run to run
  kSlightlyOff,  // by 3 %, in one element of each row
};

// Serves both RowsParams and GenericParams of the problem's dtypes and columns, and CopyParams.
// `fault_of` answers by entry name.
std::function<void(const LaunchCall&)> emulated_softmax(
    const Problem& problem, std::function<Fault(const std::string& entry)> fault_of);

}  // namespace rowsmith::testing
