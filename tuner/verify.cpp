// SPDX-License-Identifier: Apache-2.0
//
// Both buffers begin and end with a red zone. The source's is NaN, so that a read outside a row
// spoils its result; the output's is poison, negative in every dtype, which no softmax can write.
#include "tuner/verify.h"

#include "tuner/parallel.h"
#include "tuner/special_rows.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <sstream>

namespace rowsmith {
namespace {

constexpr std::size_t kRedZone = 4096;  // a multiple of the 256-byte border
constexpr std::int64_t kManyElements = 1 << 18;
constexpr char kNanByte = '\xff';  // NaN in every dtype
// Negative in every dtype; 0xff first where the output holds the input and so must bed it in NaN.
constexpr unsigned char kPoison[2] = {0xa5, 0xdb};
constexpr unsigned char kInPlacePoison[2] = {0xff, 0xa5};

// Every fourth random row is wide, so that some results are tiny.
long double scale_of(std::int64_t row) {
  return row % 4 == 3 ? 20 : 1;
}

std::string hex(const void* element, std::size_t bytes) {
  std::ostringstream text;
  text << "0x" << std::hex;
  for (std::size_t i = bytes; i-- > 0;) {
    const int byte = static_cast<const unsigned char*>(element)[i];
    text << (byte < 16 ? "0" : "") << byte;
  }
  return text.str();
}

}  // namespace

// Three quarters of a power of two, so that scaling is no mere shift.
double scale_to_check(DType out, std::int64_t cols) {
  if (size_of(out) > 1) return 1;
  double power = 1;
  while (power < static_cast<double>(cols)) power *= 2;
  return 0.75 * power;
}

Result<Verifier> Verifier::make(Device& device, const Problem& problem,
                                const VerifyLimits& limits) {
  Result<Placement> placement = place(problem);
  if (!placement.ok()) return placement.status();
  Verifier it;
  it.device_ = &device;
  it.problem_ = problem;
  it.limits_ = limits;
  it.placement_ = *placement;
  const std::int64_t random =
      std::min({limits.random_rows, problem.rows,
                std::max<std::int64_t>(2, limits.random_elements / problem.cols)});
  const std::int64_t special =
      std::min<std::int64_t>(static_cast<std::int64_t>(special_rows().size()),
                             std::max<std::int64_t>(3, limits.special_elements / problem.cols));
  it.rows_ = random + special;
  it.special_.assign(static_cast<std::size_t>(it.rows_), -1);
  for (std::int64_t k = 0; k < special; ++k) {
    it.special_[static_cast<std::size_t>((2 * k + 1) * it.rows_ / (2 * special))] =
        static_cast<int>(k);
  }
  it.write_input();
  it.accepted_.resize(static_cast<std::size_t>(it.rows_));
  parallel_for(it.accepted_.size(), limits.threads, [&](std::size_t row) {
    it.accepted_[row] =
        accepted_results(it.reference_of(static_cast<std::int64_t>(row)), problem.out);
  });
  it.output_.resize(2 * kRedZone + placement->dst_bytes(problem, it.rows_));
  Result<Buffer> dst = device.allocate(it.output_.size());
  if (!dst.ok()) return dst.status().with_context("buffers to verify in");
  it.dst_ = *dst;
  if (problem.layout.in_place) return it;
  Result<Buffer> src = device.allocate(it.input_.size());
  if (!src.ok()) return src.status().with_context("buffers to verify in");
  it.src_ = *src;
  Status status = device.copy_in(it.src_.data(), it.input_.data(), it.input_.size());
  if (!status.ok()) return status;
  return it;
}

void Verifier::write_input() {
  input_.assign(2 * kRedZone + placement_.src_bytes(problem_, rows_), kNanByte);
  parallel_for(special_.size(), limits_.threads, [&](std::size_t at) {
    const auto row = static_cast<std::int64_t>(at);
    std::mt19937_64 noise(20260102 + at);
    std::normal_distribution<double> normal;
    const int which = special_[at];
    char* to = const_cast<char*>(input_row(row));
    for (std::int64_t i = 0; i < problem_.cols; ++i, to += size_of(problem_.in)) {
      const long double value = which < 0 ? scale_of(row) * static_cast<long double>(normal(noise))
                                          : special_rows()[static_cast<std::size_t>(which)].value(
                                                i, problem_.cols, problem_.in, problem_.out);
      encode(problem_.in, value, to);
    }
  });
}

const char* Verifier::input_row(std::int64_t row) const {
  return input_.data() + kRedZone + placement_.src_offset_bytes +
         row * placement_.src_stride * static_cast<std::int64_t>(size_of(problem_.in));
}

const char* Verifier::output_row(std::int64_t row) const {
  return output_.data() + kRedZone + placement_.dst_offset_bytes +
         row * placement_.dst_stride * static_cast<std::int64_t>(size_of(problem_.out));
}

ReferenceRow Verifier::reference_of(std::int64_t row) const {
  return reference_row(problem_.in, input_row(row), problem_.cols,
                       scale_to_check(problem_.out, problem_.cols));
}

Status Verifier::check(const LaunchPlan& plan) {
  Status status = check_untidily(plan);
  if (status.ok() || problem_.layout.in_place) return status;
  // What is wrong may have been done to the input as well, and the next candidate reads it.
  const Status restored = device_->copy_in(src_.data(), input_.data(), input_.size());
  return restored.ok() ? status : restored;
}

// The results of the first run are compared with the reference, those of the others with the
// first's: every bit of both is judged all the same.
Status Verifier::check_untidily(const LaunchPlan& plan) {
  std::string first;
  for (int run = 0; run < limits_.runs; ++run) {
    const unsigned char poison =
        problem_.layout.in_place ? kInPlacePoison[run % 2] : kPoison[run % 2];
    if (Status status = run_once(plan, poison); !status.ok()) return status;
    if (Status status = find_stray_write(poison); !status.ok()) return status;
    Status status = run == 0 ? find_wrong_result(poison) : find_difference(first, poison);
    // A spoilt input explains wrong results, so it is named before them.
    if (run + 1 == limits_.runs || !status.ok()) {
      if (Status damage = find_input_damage(); !damage.ok()) return damage;
    }
    if (!status.ok()) return status;
    if (run == 0 && limits_.runs > 1) first = output_;
  }
  return {};
}

Status Verifier::run_once(const LaunchPlan& plan, unsigned char poison) {
  if (Status status = poison_output(poison); !status.ok()) return status;
  void* dst = static_cast<char*>(dst_.data()) + kRedZone;
  const void* src =
      problem_.layout.in_place ? dst : static_cast<const char*>(src_.data()) + kRedZone;
  SoftmaxCall call = placement_.call(problem_, rows_, src, dst);
  call.out_scale = scale_to_check(problem_.out, problem_.cols);
  if (Status status = run_softmax(*device_, plan, call); !status.ok()) return status;
  return device_->copy_out(output_.data(), dst_.data(), output_.size());
}

Status Verifier::poison_output(unsigned char poison) {
  if (!problem_.layout.in_place) return device_->fill(dst_.data(), poison, output_.size());
  std::fill(output_.begin(), output_.end(), static_cast<char>(poison));
  const std::size_t bytes = static_cast<std::size_t>(problem_.cols) * size_of(problem_.in);
  for (std::int64_t row = 0; row < rows_; ++row) {
    std::memcpy(const_cast<char*>(output_row(row)), input_row(row), bytes);
  }
  return device_->copy_in(dst_.data(), output_.data(), output_.size());
}

// Where a run differs from the first, whether it is wrong too says more.
Status Verifier::find_difference(const std::string& first, unsigned char poison) const {
  const std::size_t bytes = static_cast<std::size_t>(problem_.cols) * size_of(problem_.out);
  for (std::int64_t row = 0; row < rows_; ++row) {
    const auto at = static_cast<std::size_t>(output_row(row) - output_.data());
    if (output_.compare(at, bytes, first, at, bytes) == 0) continue;
    const Status wrong = find_wrong_result(poison);
    return !wrong.ok() ? wrong
                       : Status(Code::kAccuracyFailed,
                                "two runs on one input differ in row " + std::to_string(row));
  }
  return {};
}

// Everything between the rows, before the first and after the last.
Status Verifier::find_stray_write(unsigned char poison) const {
  const std::size_t row_bytes = static_cast<std::size_t>(problem_.cols) * size_of(problem_.out);
  std::size_t at = 0;
  for (std::int64_t row = 0; row <= rows_; ++row) {
    const std::size_t end =
        row == rows_ ? output_.size() : static_cast<std::size_t>(output_row(row) - output_.data());
    const std::size_t stray = output_.find_first_not_of(static_cast<char>(poison), at);
    if (stray < end) {
      const auto border = static_cast<std::int64_t>(row == 0 ? end : at);
      return Status(Code::kAccuracyFailed,
                    "wrote outside its rows: " +
                        std::to_string(std::abs(static_cast<std::int64_t>(stray) - border)) +
                        " bytes " + (row == 0 ? "before row 0" : "past the end of row ") +
                        (row == 0 ? "" : std::to_string(row - 1)));
    }
    at = end + row_bytes;
  }
  return {};
}

Status Verifier::find_input_damage() const {
  if (problem_.layout.in_place) return {};
  std::string now(input_.size(), '\0');
  Status status = device_->copy_out(now.data(), src_.data(), now.size());
  if (!status.ok()) return status;
  return now == input_ ? Status() : Status(Code::kAccuracyFailed, "wrote to its input");
}

Status Verifier::find_wrong_result(unsigned char poison) const {
  std::vector<std::int64_t> refused(static_cast<std::size_t>(rows_));
  // Threads cost more than they save on small outputs.
  const int threads = rows_ * problem_.cols < kManyElements ? 1 : limits_.threads;
  parallel_for(refused.size(), threads, [&](std::size_t row) {
    refused[row] = first_refused(accepted_[row], problem_.out,
                                 output_row(static_cast<std::int64_t>(row)), problem_.cols);
  });
  for (std::int64_t row = 0; row < rows_; ++row) {
    const std::int64_t col = refused[static_cast<std::size_t>(row)];
    if (col >= 0) return wrong_result(row, col, poison);
  }
  return {};
}

Status Verifier::wrong_result(std::int64_t row, std::int64_t col, unsigned char poison) const {
  const std::size_t bytes = size_of(problem_.out);
  const char* element = output_row(row) + static_cast<std::size_t>(col) * bytes;
  const int which = special_[static_cast<std::size_t>(row)];
  std::ostringstream text;
  text << "row " << row << " of " << rows_ << " ("
       << (which < 0 ? "random" : special_rows()[static_cast<std::size_t>(which)].name)
       << "), column " << col << ": ";
  if (std::string(element, bytes) == std::string(bytes, static_cast<char>(poison))) {
    text << "not written";
    return Status(Code::kAccuracyFailed, text.str());
  }
  const ReferenceRow reference = reference_of(row);
  text << "got " << static_cast<double>(decode(problem_.out, element)) << " ("
       << hex(element, bytes) << "), expected ";
  if (reference.all_nan) {
    text << "NaN";
  } else {
    text << static_cast<double>(reference.p[static_cast<std::size_t>(col)]) << ", error ratio "
         << judge_row(reference, problem_.out, output_row(row), problem_.cols).error_ratio;
  }
  return Status(Code::kAccuracyFailed, text.str());
}

Accuracy Verifier::accuracy() const {
  std::vector<Accuracy> rows(static_cast<std::size_t>(rows_));
  parallel_for(rows.size(), limits_.threads, [&](std::size_t at) {
    const auto row = static_cast<std::int64_t>(at);
    rows[at] = judge_row(reference_of(row), problem_.out, output_row(row), problem_.cols);
  });
  Accuracy worst;
  for (const Accuracy& row : rows) {
    worst.error_ratio = std::max(worst.error_ratio, row.error_ratio);
    worst.max_error_ulp = std::max(worst.max_error_ulp, row.max_error_ulp);
  }
  return worst;
}

}  // namespace rowsmith
