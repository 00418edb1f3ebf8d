// SPDX-License-Identifier: Apache-2.0
//
// The conformance suite's language: problems with awkward placements and values, the kernels that
// must serve them, and the judgement of every element. One suite for both devices.
#pragma once

#include "kernel_templates/catalog.h"
#include "runtime/device.h"
#include "tests/support/print.h"
#include "tuner/reference.h"
#include "tuner/verify.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace rowsmith::testing {

// Where the rows lie, in elements from a 256-byte border; strides beyond H by `*_gap`.
struct Placement {
  std::int64_t src_offset = 0, dst_offset = 0;
  std::int64_t src_gap = 0, dst_gap = 0;
  bool in_place = false;
};
// Aligned; both shifted alike; shifted apart; pitched alike; pitched apart; in place; in place and
// shifted.
const std::vector<Placement>& placements();

Problem problem_of(DType in, DType out, std::int64_t rows, std::int64_t cols,
                   const Placement& placement);

// The kinds of row: ordinary and awkward values. `value_kinds()` names them for messages.
const std::vector<std::string>& value_kinds();
// One row of `cols` elements of dtype `in`, of the kind at `kind` (modulo their number).
std::vector<unsigned char> make_row(DType in, std::int64_t cols, std::size_t kind, unsigned seed);

// H that bite: 1..130, powers of two and their neighbours to 4097, 1000, 1023.
std::vector<std::int64_t> awkward_cols();

// Chooses configs so that over a run every value of every axis is met: greedy by unseen values,
// ties by a seeded shuffle; what the choices miss is told in the end.
class Sampler {
 public:
  explicit Sampler(unsigned seed) : state_(seed) {}
  // One of `configs`, which are all of one family. Requires some.
  Config choose(const std::vector<Config>& configs);

  // A config that was on offer in the call-th choice, counted from 0.
  struct Offer {
    std::size_t call = 0;
    Config config;
  };
  // For each axis value that was never chosen, an offer that has it.
  std::vector<Offer> missed() const;

 private:
  struct Value {
    int chosen = 0;  // times
    Offer first;
  };
  std::uint64_t state_;
  std::size_t calls_ = 0;
  std::map<std::string, Value> values_;  // by "family.axis=value"
};

// Runs kernels and judges them. Devices: all get the same binaries; results must be bit-identical
// over them (the host device under several thread orders).
class Conformance {
 public:
  explicit Conformance(std::vector<std::shared_ptr<Device>> devices)
      : devices_(std::move(devices)) {}

  struct Case {
    Instance instance;
    Placement placement;
  };
  // Compiles the cases' kernels (by family, in batches) and runs each on S = 1, 2 and 7 rows of
  // every kind of value. Failures are reported to GoogleTest. Returns the launches made.
  std::int64_t check(const std::vector<Case>& cases);
  // The largest error_ratio seen.
  double worst() const { return worst_; }

  // One kernel on one matrix: rows are `first_kind`, `first_kind + 1`, ...
  void check_one(const std::vector<const Kernel*>& kernels, const Case& c, std::int64_t rows,
                 std::size_t first_kind, double out_scale);
  // Thread-safe.
  Result<Binary> compile(const std::vector<Case>& cases) const;
  // [case][device]; empty, and reported to GoogleTest, where that failed.
  std::vector<const Kernel*> load(const std::vector<Case>& cases, const Result<Binary>& binary,
                                  std::vector<std::unique_ptr<Module>>& modules);

 private:
  const ReferenceRow& reference(DType in, std::int64_t cols, std::size_t kind, double out_scale,
                                const std::vector<unsigned char>& row);

  std::vector<std::shared_ptr<Device>> devices_;
  std::map<std::string, ReferenceRow> references_;
  double worst_ = 0;
  std::int64_t launches_ = 0;
};

}  // namespace rowsmith::testing
