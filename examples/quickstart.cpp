// SPDX-License-Identifier: Apache-2.0
//
// softmax at the row lengths given, each called twice: which rung of the ladder serves it, what a
// first and a later call take, and how far the result is from a double-precision reference.
//   quickstart ROWS COLS..       e.g. ROWSMITH_DEVICE=host quickstart 4 257 1000

#include "device_memory.h"

#include <rowsmith/runtime.h>
#include <rowsmith/text.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace {

// The largest error relative to the exact quotient, over all elements.
double max_relative_error(const std::vector<float>& x, const std::vector<float>& y,
                          std::size_t cols) {
  double worst = 0;
  for (std::size_t row = 0; row < x.size(); row += cols) {
    const double top = *std::max_element(&x[row], &x[row] + cols);
    double sum = 0;
    for (std::size_t i = row; i < row + cols; ++i) sum += std::exp(x[i] - top);
    for (std::size_t i = row; i < row + cols; ++i) {
      const double exact = std::exp(x[i] - top) / sum;
      const double error = std::abs(y[i] - exact) / exact;
      worst = error <= worst ? worst : error;  // a NaN stays
    }
  }
  return worst;
}

bool failed(const rowsmith::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "quickstart: %s\n", status.to_string().c_str());
  return !status.ok();
}

// Microseconds of one call with its wait; below zero if it failed.
double time_call_us(rowsmith::Runtime& runtime, DeviceMemory& memory, const float* x, float* y,
                    std::int64_t rows, std::int64_t cols) {
  const auto start = std::chrono::steady_clock::now();
  if (failed(runtime.softmax(x, y, rows, cols)) || !memory.synchronize()) return -1;
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

bool show(rowsmith::Runtime& runtime, DeviceMemory& memory, std::int64_t rows, std::int64_t cols) {
  std::vector<float> input(static_cast<std::size_t>(rows * cols)), output(input.size());
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2);
  for (float& value : input) value = normal(random);

  float* x = memory.allocate(input.size());
  float* y = memory.allocate(input.size());
  if (x == nullptr || y == nullptr || !memory.upload(x, input)) return false;

  const double first_us = time_call_us(runtime, memory, x, y, rows, cols);
  const double later_us = time_call_us(runtime, memory, x, y, rows, cols);
  if (first_us < 0 || later_us < 0 || !memory.download(output, y)) return false;
  const auto explanation = runtime.explain(
      rowsmith::contiguous_problem(rowsmith::DType::kF32, rowsmith::DType::kF32, rows, cols));
  if (failed(explanation.status())) return false;

  const double error = max_relative_error(input, output, static_cast<std::size_t>(cols));
  std::printf("%6lld x %-6lld %-8s first %9.1f us  later %9.1f us  error %.1e  %s\n",
              static_cast<long long>(rows), static_cast<long long>(cols),
              to_string(explanation->source), first_us, later_us, error,
              to_string(explanation->config).c_str());
  return error < 1e-5;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: quickstart ROWS COLS..\n");
    return 2;
  }
  const auto options = rowsmith::RuntimeOptions::from_environment();
  if (failed(options.status())) return 3;
  const auto runtime = rowsmith::Runtime::open(*options);
  if (failed(runtime.status())) return 3;
  const rowsmith::DeviceFacts& device = (*runtime)->device();
  std::printf("on %s\n", device.name.c_str());

  const auto memory =
      device.kind == "cuda" ? DeviceMemory::open_cuda(device.ordinal) : DeviceMemory::open_host();
  if (memory == nullptr) {
    std::fprintf(stderr, "quickstart: no memory on %s\n", device.name.c_str());
    return 3;
  }
  bool right = true;
  for (int i = 2; i < argc; ++i) {
    right = show(**runtime, *memory, std::atoll(argv[1]), std::atoll(argv[i])) && right;
  }
  const rowsmith::Stats stats = (*runtime)->stats();
  std::printf("%llu calls, %llu by exact winners; %llu problems tuned in a call\n",
              static_cast<unsigned long long>(stats.calls),
              static_cast<unsigned long long>(stats.exact),
              static_cast<unsigned long long>(stats.tuned));
  return right ? 0 : 1;
}
