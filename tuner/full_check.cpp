// SPDX-License-Identifier: Apache-2.0
//
// Both kernels write to the same slot, one after the other, so that no further memory is needed.
#include "tuner/full_check.h"

#include "tuner/parallel.h"
#include "tuner/reference.h"
#include "tuner/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <sstream>
#include <vector>

namespace rowsmith {
namespace {

constexpr std::int64_t kBands = 16;
constexpr unsigned char kPoison = 0xa5;
constexpr std::int64_t kTurnElements = 1 << 16;  // that a thread compares at a time

// Rows [begin, end) that are compared.
struct Band {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// All rows, or equal bands from the first row to the last.
std::vector<Band> bands_of(const SoftmaxCall& call, std::int64_t cap_bytes) {
  const auto row_bytes = call.dst_stride * static_cast<std::int64_t>(size_of(call.out));
  if (call.rows * row_bytes <= cap_bytes) return {{0, call.rows}};
  const std::int64_t length = std::max<std::int64_t>(1, cap_bytes / kBands / row_bytes);
  std::vector<Band> bands;
  for (std::int64_t i = 0; i < kBands; ++i) {
    const std::int64_t begin = (call.rows - length) * i / (kBands - 1);
    const std::int64_t from = bands.empty() ? begin : std::max(begin, bands.back().end);
    if (from < begin + length) bands.push_back({from, begin + length});
  }
  return bands;
}

std::size_t band_bytes(const SoftmaxCall& call, const Band& band) {
  const std::int64_t elements = (band.end - band.begin - 1) * call.dst_stride + call.cols;
  return static_cast<std::size_t>(elements) * size_of(call.out);
}

// Results of the bands, as they lie in memory.
Result<std::vector<std::string>> results_of(Device& device, const LaunchPlan& plan,
                                            const Arena& arena, const SoftmaxCall& call,
                                            const std::vector<Band>& bands) {
  Status status = call.src == call.dst
                      ? arena.refill(device, 0)
                      : device.fill(call.dst, kPoison, band_bytes(call, {0, call.rows}));
  if (status.ok()) status = run_softmax(device, plan, call);
  std::vector<std::string> results;
  for (const Band& band : bands) {
    if (!status.ok()) return status;
    const std::string& bytes = results.emplace_back(band_bytes(call, band), '\0');
    const char* from = static_cast<const char*>(call.dst) +
                       band.begin * call.dst_stride * static_cast<std::int64_t>(size_of(call.out));
    status = device.copy_out(const_cast<char*>(bytes.data()), from, bytes.size());
  }
  if (!status.ok()) return status;
  return results;
}

std::uint64_t bits_at(const char* row, std::int64_t col, std::size_t bytes) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, row + static_cast<std::size_t>(col) * bytes, bytes);
  return bits;
}

// Neighbours as integers are neighbours as values; 32 steps of f32 or f64 are less than twice the
// bound.
bool clearly_equal(std::uint64_t a, std::uint64_t b, DType out) {
  const std::uint64_t steps = a > b ? a - b : b - a;
  return steps <= (size_of(out) >= 4 ? 32u : 1u);
}

bool within_twice_the_bound(const char* a, const char* b, long double row_max, DType out) {
  const long double x = decode(out, a), y = decode(out, b);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  const long double larger = std::max(x, y), smaller = std::min(x, y);
  if (smaller < 0) return false;
  // Where a result may be flushed to zero, one of the two may have been.
  if (smaller == 0 && larger < 1.0625L * may_be_zero_below(out)) return true;
  const long double below_max = std::log(row_max / larger);
  // Of the dtypes that f64 may go to there is f64 alone.
  const long double bound = unit_roundoff(out) * (32 + 2.2L * below_max) * larger;
  return larger - smaller <= 2 * bound + unit_in_last_place(out, larger);
}

long double largest_of(const char* row, std::int64_t cols, DType out) {
  long double largest = 0;
  for (std::int64_t i = 0; i < cols; ++i) {
    largest = std::max(largest, decode(out, row + static_cast<std::size_t>(i) * size_of(out)));
  }
  return largest;
}

// The first column in which the rows differ by more than both kernels may be off, or -1.
std::int64_t first_difference(const char* a, const char* b, std::int64_t cols, DType out) {
  const std::size_t bytes = size_of(out);
  long double row_max = -1;  // found when first needed
  for (std::int64_t i = 0; i < cols; ++i) {
    if (clearly_equal(bits_at(a, i, bytes), bits_at(b, i, bytes), out)) continue;
    if (row_max < 0) row_max = largest_of(b, cols, out);
    const std::size_t at = static_cast<std::size_t>(i) * bytes;
    if (!within_twice_the_bound(a + at, b + at, row_max, out)) return i;
  }
  return -1;
}

std::string extent(const SoftmaxCall& call, const std::vector<Band>& bands) {
  if (bands.size() == 1) return "all rows";
  std::int64_t rows = 0;
  for (const Band& band : bands) rows += band.end - band.begin;
  return std::to_string(rows) + " of " + std::to_string(call.rows) + " rows in " +
         std::to_string(bands.size()) + " bands";
}

// Where the results differ: the row of the call, its column.
struct Difference {
  std::int64_t row = 0, col = 0;
  const char *mine = nullptr, *theirs = nullptr;  // the row's results
};

std::optional<Difference> find_difference(const SoftmaxCall& call, const std::vector<Band>& bands,
                                          const std::vector<std::string>& mine,
                                          const std::vector<std::string>& theirs, int threads) {
  const auto stride = static_cast<std::size_t>(call.dst_stride) * size_of(call.out);
  const auto turn = static_cast<std::size_t>(std::max<std::int64_t>(1, kTurnElements / call.cols));
  for (std::size_t i = 0; i < bands.size(); ++i) {
    const auto rows = static_cast<std::size_t>(bands[i].end - bands[i].begin);
    const char* const a = mine[i].data();
    const char* const b = theirs[i].data();
    std::vector<std::int64_t> differs(rows);  // by row: where
    parallel_for((rows + turn - 1) / turn, threads, [&](std::size_t at) {
      for (std::size_t row = at * turn; row < std::min(rows, (at + 1) * turn); ++row) {
        differs[row] = first_difference(a + row * stride, b + row * stride, call.cols, call.out);
      }
    });
    const auto wrong =
        std::find_if(differs.begin(), differs.end(), [](std::int64_t col) { return col >= 0; });
    if (wrong == differs.end()) continue;
    const auto row = static_cast<std::size_t>(wrong - differs.begin());
    return Difference{bands[i].begin + static_cast<std::int64_t>(row), *wrong, a + row * stride,
                      b + row * stride};
  }
  return {};
}

std::string words(const SoftmaxCall& call, const Difference& it, const char* got,
                  const char* other_name, const char* other) {
  const std::size_t at = static_cast<std::size_t>(it.col) * size_of(call.out);
  std::ostringstream text;
  text << "at its own S, row " << it.row << ", column " << it.col << ": got "
       << static_cast<double>(decode(call.out, got + at)) << ", " << other_name << " "
       << static_cast<double>(decode(call.out, other + at));
  return text.str();
}

// Who is wrong in that row; the candidate where the reference does not tell.
void judge(Device& device, const Arena& arena, const SoftmaxCall& call, const Difference& it,
           FullCheck& check) {
  Status read = call.src == call.dst ? arena.refill(device, 0) : Status();
  std::string input(static_cast<std::size_t>(call.cols) * size_of(call.in), '\0');
  if (read.ok()) {
    const char* from = static_cast<const char*>(call.src) +
                       it.row * call.src_stride * static_cast<std::int64_t>(size_of(call.in));
    read = device.copy_out(input.data(), from, input.size());
  }
  bool mine_is_right = false, theirs_is_right = true;
  if (read.ok()) {
    const ReferenceRow reference = reference_row(call.in, input.data(), call.cols, call.out_scale);
    const auto is_right = [&](const char* row) {
      return judge_row(reference, call.out, row, call.cols).error_ratio <= 1;
    };
    mine_is_right = is_right(it.mine);
    theirs_is_right = is_right(it.theirs);
  }
  const auto wrong = [&](const char* got, const char* other_name, const char* other) {
    return Status(Code::kAccuracyFailed, words(call, it, got, other_name, other));
  };
  if (!theirs_is_right) check.generic = wrong(it.theirs, "the winner", it.mine);
  if (!mine_is_right || theirs_is_right) check.candidate = wrong(it.mine, "generic", it.theirs);
}

}  // namespace

FullCheck compare_with_generic(Device& device, const LaunchPlan& plan, const LaunchPlan& generic,
                               const Arena& arena, std::int64_t cap_bytes, int threads,
                               const std::function<void()>& before_generic) {
  SoftmaxCall call = arena.call(0);
  call.out_scale = scale_to_check(call.out, call.cols);
  const std::vector<Band> bands = bands_of(call, cap_bytes);
  FullCheck check;
  check.checked = extent(call, bands);
  const auto mine = results_of(device, plan, arena, call, bands);
  if (!mine.ok()) {
    check.candidate = mine.status();
    return check;
  }
  before_generic();
  const auto theirs = results_of(device, generic, arena, call, bands);
  if (!theirs.ok()) {
    check.generic = theirs.status();
    return check;
  }
  const auto difference = find_difference(call, bands, *mine, *theirs, threads);
  if (difference) judge(device, arena, call, *difference, check);
  return check;
}

}  // namespace rowsmith
