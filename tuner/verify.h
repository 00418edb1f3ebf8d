// SPDX-License-Identifier: Apache-2.0
//
// Verification: no candidate wins unless its results are right and it wrote nothing else. A
// candidate runs on a small problem of the same H, dtypes and layout, whose rows are random ones
// among which the special rows are spread, from a source bedded in NaN into a poisoned output;
// every byte of the output buffer is then looked at, and every result is compared with a reference
// that is made once a problem. full_check.h compares the winner at the problem's own S.
#pragma once

#include "runtime/device.h"
#include "runtime/softmax_launch.h"
#include "tuner/placement.h"
#include "tuner/reference.h"

#include <cstdint>
#include <string>
#include <vector>

namespace rowsmith {

struct VerifyLimits {
  std::int64_t random_rows = 64;            // at most; no more than S
  std::int64_t random_elements = 1 << 20;   // in them, but two rows all the same
  std::int64_t special_elements = 8 << 20;  // in special rows, but three rows all the same
  int runs = 2;     // with different poison; results must be identical to the bit
  int threads = 1;  // that make the reference and compare with it
};

// The output scale that results are checked with: 1, but for fp8 about H, since most of a row's
// probabilities would else round to 0.
double scale_to_check(DType out, std::int64_t cols);

class Verifier {
 public:
  // Makes inputs, reference and buffers.
  static Result<Verifier> make(Device& device, const Problem& problem, const VerifyLimits& limits);

  // Runs the plan and looks at everything it did. Accuracy failed: what is wrong first, with row,
  // column and values. Else the codes of Device::run.
  Status check(const LaunchPlan& plan);
  // How far the results of the last check that passed are from the reference.
  Accuracy accuracy() const;

  std::int64_t rows() const { return rows_; }

 private:
  void write_input();
  Status check_untidily(const LaunchPlan& plan);
  Status run_once(const LaunchPlan& plan, unsigned char poison);
  Status poison_output(unsigned char poison);
  Status find_difference(const std::string& first, unsigned char poison) const;
  Status find_stray_write(unsigned char poison) const;
  Status find_input_damage() const;
  Status find_wrong_result(unsigned char poison) const;
  Status wrong_result(std::int64_t row, std::int64_t col, unsigned char poison) const;
  const char* input_row(std::int64_t row) const;
  const char* output_row(std::int64_t row) const;
  ReferenceRow reference_of(std::int64_t row) const;

  Device* device_ = nullptr;
  Problem problem_;
  VerifyLimits limits_;
  Placement placement_;
  std::int64_t rows_ = 0;
  std::vector<int> special_;  // by row: which special row, or -1
  std::vector<std::vector<AcceptedBits>> accepted_;
  std::string input_;   // the source buffer as it must stay
  std::string output_;  // the output buffer as it came back
  Buffer src_, dst_;
};

}  // namespace rowsmith
