// SPDX-License-Identifier: Apache-2.0
//
// Family: a kernel template with its space of legal configs. A family is one .cuh, one .cpp with
// the space, and one line in catalog.cpp. Pure functions of problem and device facts; no CUDA.
#pragma once

#include <rowsmith/status.h>
#include <rowsmith/types.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace rowsmith {

// Geometry of one launch. `blocks` may exceed what one launch takes; the launcher splits it.
struct Geometry {
  std::int64_t rows_per_block = 1;
  int threads = 1;
  int cluster = 1;
  int blocks_per_row = 1;  // beside a cluster's
  std::int64_t shared_bytes = 0;
  // Blocks, or clusters, that walk all rows with a stride, at most.
  std::int64_t walkers = std::numeric_limits<std::int64_t>::max();
  // Launches in turn, of the same shape, that differ by RowsParams::pass.
  int passes = 1;
  // Consecutive blocks that wait for each other: all of the launch's are to run at once.
  int together = 1;
};

class Family {
 public:
  virtual ~Family() = default;

  // "block_row": the config's first word.
  virtual std::string_view name() const = 0;
  // One sentence for people.
  virtual std::string_view summary() const = 0;
  // The flattened device text.
  virtual std::string_view text() const = 0;
  // Over text and space: changes when either does.
  virtual std::string_view digest() const = 0;
  // H is a compile-time constant and the parameters are RowsParams; else GenericParams.
  virtual bool exact() const = 0;

  // All legal configs, in a fixed order. Empty where the family cannot serve the problem.
  virtual std::vector<Config> space(const Problem& problem, const DeviceFacts& facts) const = 0;
  // Empty if the config is legal for the problem on the device, else why not.
  virtual std::string why_illegal(const Problem& problem, const DeviceFacts& facts,
                                  const Config& config) const = 0;
  // The body of the traits struct for this config: "static constexpr int kCols = 257; ...".
  // Depends on dtypes, cols and config only, so that one kernel serves every S.
  virtual std::string traits(const Problem& problem, const Config& config) const = 0;
  virtual Geometry geometry(const Problem& problem, const DeviceFacts& facts,
                            const Config& config) const = 0;
  // Whether the context of a call may refuse what the device's facts allow, as one with few
  // multiprocessors does blocks that wait for each other. What is so is served where it has been
  // measured, and never by default.
  virtual bool context_may_refuse() const { return false; }
  // Smaller is expected to be faster: the order of the search, and the default is the least of
  // those that no context refuses.
  virtual double rank(const Problem& problem, const DeviceFacts& facts,
                      const Config& config) const = 0;
};

}  // namespace rowsmith
