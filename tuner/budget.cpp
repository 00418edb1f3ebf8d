// SPDX-License-Identifier: Apache-2.0
#include "tuner/budget.h"

namespace rowsmith {
namespace {

// A copy of 16 KB as a node of a graph takes 1.1 us on an H200.
constexpr double kLaunchNs = 1000;
// Where the device does not say, as the host device: a memory channel of a CPU.
constexpr double kUnknownBytesPerNs = 20;

double memory_bytes_per_ns(const DeviceFacts& facts) {
  constexpr double kTransfersAClock = 2;
  const double known = kTransfersAClock * facts.memory_clock_khz * 1e-6 * facts.memory_bus_bits / 8;
  return known > 0 ? known : kUnknownBytesPerNs;
}

}  // namespace

double expected_floor_ns(const Problem& problem, const DeviceFacts& facts) {
  const auto bytes = static_cast<double>(size_of(problem.in) + size_of(problem.out));
  return kLaunchNs + bytes * static_cast<double>(problem.rows) * static_cast<double>(problem.cols) /
                         memory_bytes_per_ns(facts);
}

double budget_part(const std::vector<double>& stakes_ns, std::size_t at) {
  const double own = stakes_ns[at];
  double all = own, waiting = 1;
  for (std::size_t i = at + 1; i < stakes_ns.size(); ++i) {
    all += stakes_ns[i];
    waiting += stakes_ns[i] > 0 ? 1 : 0;
  }
  return all > 0 ? (1 / waiting + own / all) / 2 : 1;
}

}  // namespace rowsmith
