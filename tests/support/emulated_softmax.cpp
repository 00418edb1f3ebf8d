// SPDX-License-Identifier: Apache-2.0
#include "tests/support/emulated_softmax.h"

#include "kernel_templates/params.cuh"
#include "tests/support/scripted_device.h"
#include "tuner/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <unordered_map>
#include <utility>

namespace rowsmith::testing {
namespace {

using Memo = std::unordered_map<std::string, std::string>;

struct Rows {
  const Problem& problem;
  rowsmith_params::RowsParams params;
  Memo& memo;  // results by scale and input row: sequences repeat the same rows over and over

  char* src(std::int64_t row) const {
    return static_cast<char*>(const_cast<void*>(params.src)) +
           row * params.src_stride * static_cast<std::int64_t>(size_of(problem.in));
  }
  char* dst(std::int64_t row, std::int64_t col) const {
    return static_cast<char*>(params.dst) +
           (row * params.dst_stride + col) * static_cast<std::int64_t>(size_of(problem.out));
  }
};

std::string right_results(const Problem& problem, const std::string& input, double out_scale) {
  const std::size_t bytes = size_of(problem.out), cols = static_cast<std::size_t>(problem.cols);
  const ReferenceRow reference = reference_row(problem.in, input.data(), problem.cols, out_scale);
  std::string results(cols * bytes, '\0');
  for (std::size_t col = 0; col < cols; ++col) {
    const long double nan = std::numeric_limits<long double>::quiet_NaN();
    encode(problem.out, reference.all_nan ? nan : reference.p[col], &results[col * bytes]);
  }
  return results;
}

void write_row(const Rows& rows, std::int64_t row, Fault fault) {
  const Problem& problem = rows.problem;
  const std::size_t in_bytes = size_of(problem.in), bytes = size_of(problem.out);
  std::string input(rows.src(row), static_cast<std::size_t>(problem.cols) * in_bytes);
  for (std::size_t at = 0; fault == Fault::kDropsNan && at < input.size(); at += in_bytes) {
    if (std::isnan(decode(problem.in, &input[at]))) encode(problem.in, -INFINITY, &input[at]);
  }
  const double out_scale = rows.params.out_scale;
  std::string& known = rows.memo[std::to_string(out_scale) + input];
  if (known.empty()) known = right_results(problem, input, out_scale);
  std::string results = known;
  if (fault == Fault::kLastColumnUnwritten) results.resize(results.size() - bytes);
  if (fault == Fault::kOffByOneColumn) {
    std::rotate(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(bytes),
                results.end());
  }
  if (fault == Fault::kSlightlyOff) {
    char* middle = &results[static_cast<std::size_t>(problem.cols / 2) * bytes];
    // Three or more steps of 16-bit dtypes, one or two of fp8.
    encode(problem.out, decode(problem.out, middle) * (bytes == 1 ? 1.3L : 1.03L), middle);
  }
  std::memcpy(rows.dst(row, 0), results.data(), results.size());
}

void run_rows(const Rows& rows, Fault fault, int run) {
  const std::int64_t count = rows.params.rows, cols = rows.problem.cols;
  const bool skips_last =
      fault == Fault::kLastRowUnwritten || (fault == Fault::kLargeOnly && count > 100);
  for (std::int64_t row = 0; row < count - (skips_last ? 1 : 0); ++row) {
    write_row(rows, row, fault);
  }
  if (fault == Fault::kWritesPast) encode(rows.problem.out, 0, rows.dst(count - 1, cols));
  if (fault == Fault::kWritesBefore) encode(rows.problem.out, 0, rows.dst(0, -1));
  if (fault == Fault::kWritesInput) encode(rows.problem.in, 42, rows.src(count - 1));
  if (fault == Fault::kRaces && run % 2 == 1) *rows.dst(0, 0) ^= 1;
}

}  // namespace

std::function<void(const LaunchCall&)> emulated_softmax(
    const Problem& problem, std::function<Fault(const std::string& entry)> fault_of) {
  auto runs = std::make_shared<int>(0);
  auto memo = std::make_shared<Memo>();
  return [=](const LaunchCall& call) {
    if (call.param_bytes == sizeof(rowsmith_params::CopyParams)) {
      rowsmith_params::CopyParams copy;
      std::memcpy(&copy, call.params, sizeof copy);
      std::memcpy(copy.dst, copy.src, static_cast<std::size_t>(copy.bytes));
      return;
    }
    Rows rows{problem, {}, *memo};
    std::memcpy(&rows.params, call.params, sizeof rows.params);
    run_rows(rows, fault_of ? fault_of(ScriptedDevice::entry_of(call)) : Fault::kNone, (*runs)++);
  };
}

}  // namespace rowsmith::testing
