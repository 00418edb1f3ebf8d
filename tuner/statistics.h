// SPDX-License-Identifier: Apache-2.0
//
// Statistics of timing samples: median, spread, an interval of the median that assumes no
// distribution, and a paired comparison. Pure functions of their arguments.
//
// Times are skewed, have rare outliers on either side, and drift together with the clock. So: order
// statistics instead of means, and rivals compared as ratios of samples taken side by side.
#pragma once

#include <cstddef>
#include <vector>

namespace rowsmith {

// The middle sample, or the mean of the two middle ones. Requires a sample.
double median(std::vector<double> samples);

// The median of the distances from the median. Requires a sample.
double median_absolute_deviation(const std::vector<double>& samples);

// An interval that holds the median of the population.
struct Interval {
  double low = 0;
  double high = 0;
  // The probability that it does, whatever the distribution.
  double coverage = 0;
};

// The narrowest interval between order statistics that covers the median with at least
// `confidence`; the full range, with the coverage that it has, where the samples are too few (fewer
// than 6 for 0.95). Requires a sample and 0 < confidence < 1.
Interval median_interval(std::vector<double> samples, double confidence = 0.95);

// How `a` compares with `b`: the ratios a[i] / b[i] of samples taken in the same round.
struct PairedComparison {
  double ratio = 1;   // median of the ratios; below 1 where a is faster
  Interval interval;  // of that median
  std::size_t pairs = 0;

  // a is faster than b by more than `margin` (0.01 = 1 %), noise excluded. Never of fewer than 3
  // pairs, whose interval says next to nothing.
  bool faster_by(double margin) const { return pairs >= 3 && interval.high < 1 - margin; }
  // a is slower than b by more than `margin`, noise excluded. Never of fewer than 3 pairs.
  bool slower_by(double margin) const { return pairs >= 3 && interval.low > 1 + margin; }
};

// Compares the rounds that both have. Requires positive samples.
PairedComparison compare_paired(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace rowsmith
