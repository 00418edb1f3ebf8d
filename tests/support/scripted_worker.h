// SPDX-License-Identifier: Apache-2.0
//
// A worker process on a scripted device: the real worker's loop, with planted faults. A test
// program whose arguments begin with kWorkerFlag hands its main to it.
#pragma once

#include <string>
#include <vector>

namespace rowsmith::testing {

inline constexpr const char* kWorkerFlag = "--worker";

// What happens, once over all workers of one directory, where `at` is launched: a config, also on
// so many rows ("generic:threads=256@11"), "floor" (the plain copies) or "start" (before the device
// is open).
struct PlantedFault {
  std::string at;
  // segv, kill, term: the signal; exit: with status 3; hang: after making the file `hung`; garbage:
  // a line that is no message; lost: the device; refuse: WorkerCannotStart
  std::string what;
};

// The command line of such a worker. `fast` is a config that takes 10 us where all others take
// 1000, and on up to 12 rows `fast_below`; "" = none. It writes each request's budget as a line of
// the file `budgets`.
std::vector<std::string> worker_arguments(const std::string& directory, const std::string& fast,
                                          const std::vector<PlantedFault>& faults,
                                          const std::string& fast_below = "");
int scripted_worker_main(const std::vector<std::string>& arguments);

}  // namespace rowsmith::testing
