// SPDX-License-Identifier: Apache-2.0
//
// Order statistics over small sample sets; the interval comes from the binomial distribution of the
// number of samples below the median.
#include "tuner/statistics.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace rowsmith {
namespace {

double median_of_sorted(const std::vector<double>& sorted) {
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

}  // namespace

double median(std::vector<double> samples) {
  assert(!samples.empty());
  std::sort(samples.begin(), samples.end());
  return median_of_sorted(samples);
}

double median_absolute_deviation(const std::vector<double>& samples) {
  const double center = median(samples);
  std::vector<double> distances;
  distances.reserve(samples.size());
  for (const double sample : samples) distances.push_back(std::abs(sample - center));
  return median(std::move(distances));
}

Interval median_interval(std::vector<double> samples, double confidence) {
  assert(!samples.empty());
  std::sort(samples.begin(), samples.end());
  const std::size_t count = samples.size();
  // P(fewer than k + 1 of n samples lie below the median) is the binomial tail at k. Both tails cut
  // at k leave [k-th, k-th from the end] (counted from 0) with coverage 1 - 2 * tail.
  double term = std::pow(0.5, static_cast<double>(count));  // of exactly k samples
  double tail = term;
  std::size_t cut = 0;
  double coverage = 1 - 2 * tail;
  while (cut + 1 < count - cut - 1) {
    const double next = term * static_cast<double>(count - cut) / static_cast<double>(cut + 1);
    if (1 - 2 * (tail + next) < confidence) break;
    term = next;
    tail += next;
    coverage = 1 - 2 * tail;
    ++cut;
  }
  return {samples[cut], samples[count - 1 - cut], std::max(coverage, 0.0)};
}

PairedComparison compare_paired(const std::vector<double>& a, const std::vector<double>& b) {
  PairedComparison comparison;
  comparison.pairs = std::min(a.size(), b.size());
  if (comparison.pairs == 0) return comparison;
  std::vector<double> ratios(comparison.pairs);
  for (std::size_t i = 0; i < comparison.pairs; ++i) ratios[i] = a[i] / b[i];
  comparison.ratio = median(ratios);
  comparison.interval = median_interval(std::move(ratios));
  return comparison;
}

}  // namespace rowsmith
