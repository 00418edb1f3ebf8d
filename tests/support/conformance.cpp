// SPDX-License-Identifier: Apache-2.0
#include "tests/support/conformance.h"

#include "runtime/softmax_launch.h"
#include "tuner/parallel.h"

#include <rowsmith/text.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <thread>

namespace rowsmith::testing {
namespace {

constexpr unsigned char kCanary = 0xA5;
constexpr std::size_t kBatch = 16;

enum Kind {
  kNormal,
  kWide,
  kEqual,
  kVeryNegative,
  kLargest,
  kSubnormalResults,
  kSomeMinusInf,
  kAllMinusInf,
  kPlusInf,
  kNanFirst,
  kNanMiddle,
  kNanLast,
  kOneHot,
  kLowest,
  kOneFinite,
  kKinds
};

// One matrix in memory, as bytes around a device buffer.
struct Matrix {
  std::int64_t offset, stride, rows, cols;
  std::size_t element;

  std::size_t bytes() const {
    return static_cast<std::size_t>(offset + (rows - 1) * stride + cols) * element;
  }
  std::size_t row_start(std::int64_t row) const {
    return static_cast<std::size_t>(offset + row * stride) * element;
  }
  std::size_t row_bytes() const { return static_cast<std::size_t>(cols) * element; }
};

}  // namespace

const std::vector<Placement>& placements() {
  static const std::vector<Placement> all{
      {},                   // on borders
      {1, 1, 0, 0, false},  // both one element off
      {3, 1, 0, 0, false},  // off by different amounts
      {0, 0, 5, 5, false},  // rows apart, alike
      {1, 2, 3, 8, false},  // rows apart, differently
      {0, 0, 0, 0, true},   // in place
      {5, 5, 3, 3, true},   // in place, off and apart
  };
  return all;
}

Problem problem_of(DType in, DType out, std::int64_t rows, std::int64_t cols,
                   const Placement& placement) {
  const std::uintptr_t src = 1 << 20, dst = placement.in_place ? src : src * 2;
  const auto src_stride = cols + placement.src_gap, dst_stride = cols + placement.dst_gap;
  return Problem{in, out, rows, cols,
                 layout_of(reinterpret_cast<void*>(src + placement.src_offset * size_of(in)),
                           reinterpret_cast<void*>(dst + placement.dst_offset * size_of(out)), cols,
                           src_stride, dst_stride, in, out)};
}

const std::vector<std::string>& value_kinds() {
  static const std::vector<std::string> names{"normal",     "wide",
                                              "equal",      "very negative",
                                              "largest",    "subnormal results",
                                              "some -inf",  "all -inf",
                                              "+inf",       "NaN first",
                                              "NaN middle", "NaN last",
                                              "one-hot",    "lowest and normal",
                                              "one finite"};
  return names;
}

std::vector<unsigned char> make_row(DType in, std::int64_t cols, std::size_t kind, unsigned seed) {
  kind %= kKinds;
  std::mt19937_64 engine(seed * 7919u + static_cast<unsigned>(kind) * 104729u +
                         static_cast<unsigned>(cols));
  std::normal_distribution<double> normal;
  constexpr long double kInf = std::numeric_limits<long double>::infinity();
  constexpr long double kNan = std::numeric_limits<long double>::quiet_NaN();
  const long double big = largest(in);
  const auto pick = static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(cols));
  std::vector<unsigned char> row(static_cast<std::size_t>(cols) * size_of(in));
  for (std::int64_t c = 0; c < cols; ++c) {
    long double x = normal(engine);
    switch (static_cast<Kind>(kind)) {
      case kNormal: break;
      case kWide: x *= 30; break;
      case kEqual: x = 0.7L; break;
      case kVeryNegative: x = -1000 + x; break;
      case kLargest: x = big; break;
      // Between 2^-24 and 2^-14 of the maximum's share: f16 subnormals.
      case kSubnormalResults: x = c == pick ? 12 : -1 - std::fabs(x); break;
      case kSomeMinusInf: x = c != pick && engine() % 2 ? -kInf : x; break;
      case kAllMinusInf: x = -kInf; break;
      case kPlusInf: x = c == pick ? kInf : x; break;
      case kNanFirst: x = c == 0 ? kNan : x; break;
      case kNanMiddle: x = c == cols / 2 ? kNan : x; break;
      case kNanLast: x = c == cols - 1 ? kNan : x; break;
      case kOneHot: x = c == pick ? 378 : -250 - 20 * std::fabs(x); break;
      case kLowest: x = c % 2 ? -big : x; break;
      // Whole slices and pieces of a row are -inf then.
      case kOneFinite: x = c == pick ? x : -kInf; break;
      case kKinds: break;
    }
    encode(in, x, row.data() + static_cast<std::size_t>(c) * size_of(in));
  }
  return row;
}

std::vector<std::int64_t> awkward_cols() {
  std::set<std::int64_t> cols{1000, 1023};
  for (std::int64_t h = 1; h <= 130; ++h) cols.insert(h);
  for (std::int64_t power = 256; power <= 4096; power *= 2) {
    cols.insert({power - 1, power, power + 1});
  }
  return {cols.begin(), cols.end()};
}

Config Sampler::choose(const std::vector<Config>& configs) {
  const auto values_of = [&](const Config& config) {
    std::vector<Value*> values;
    for (const auto& [name, text] : config.params) {
      const auto [at, is_new] = values_.try_emplace(config.family + "." + name + "=" + text);
      if (is_new) at->second.first = {calls_, config};
      values.push_back(&at->second);
    }
    return values;
  };
  std::size_t best = 0;
  double best_score = -1;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    double score = 0;
    for (const Value* value : values_of(configs[i])) score += 1.0 / (1 + 20 * value->chosen);
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    score += static_cast<double>(state_ >> 40) / (1 << 24) * 0.02;
    if (score > best_score) best_score = score, best = i;
  }
  for (Value* value : values_of(configs[best])) ++value->chosen;
  ++calls_;
  return configs[best];
}

std::vector<Sampler::Offer> Sampler::missed() const {
  std::vector<Offer> missed;
  for (const auto& [name, value] : values_) {
    if (value.chosen == 0) missed.push_back(value.first);
  }
  return missed;
}

const ReferenceRow& Conformance::reference(DType in, std::int64_t cols, std::size_t kind,
                                           double out_scale,
                                           const std::vector<unsigned char>& row) {
  const std::string key = std::string(to_string(in)) + "/" + std::to_string(cols) + "/" +
                          std::to_string(kind % kKinds) + "/" + std::to_string(out_scale);
  auto found = references_.find(key);
  if (found == references_.end()) {
    found = references_.emplace(key, reference_row(in, row.data(), cols, out_scale)).first;
  }
  return found->second;
}

void Conformance::check_one(const std::vector<const Kernel*>& kernels, const Case& c,
                            std::int64_t rows, std::size_t first_kind, double out_scale) {
  const Problem& p = c.instance.problem;
  const Matrix src{c.placement.src_offset, p.cols + c.placement.src_gap, rows, p.cols,
                   size_of(p.in)};
  const Matrix dst{c.placement.dst_offset, p.cols + c.placement.dst_gap, rows, p.cols,
                   size_of(p.out)};
  const std::string what = to_string(c.instance.config) + " on " +
                           to_string(problem_of(p.in, p.out, rows, p.cols, c.placement)) +
                           ", values from '" + value_kinds()[first_kind % kKinds] +
                           "', scaled by " + std::to_string(out_scale);

  // Gaps and surroundings of src are NaN: whoever reads them spoils a row.
  std::vector<unsigned char> input(src.bytes(), 0xFF);
  std::vector<std::vector<unsigned char>> row_values;
  for (std::int64_t r = 0; r < rows; ++r) {
    row_values.push_back(make_row(p.in, p.cols, first_kind + static_cast<std::size_t>(r), 1));
    std::memcpy(input.data() + src.row_start(r), row_values.back().data(), src.row_bytes());
  }
  std::vector<unsigned char> blank(dst.bytes(), kCanary), first_result;
  if (c.placement.in_place) blank = input;

  for (std::size_t d = 0; d < devices_.size(); ++d) {
    Device& device = *devices_[d];
    Result<Buffer> x = device.allocate(src.bytes());
    Result<Buffer> y = c.placement.in_place ? x : device.allocate(dst.bytes());
    ASSERT_TRUE(x.ok() && y.ok()) << what;
    ASSERT_TRUE(device.copy_in(x->data(), input.data(), input.size()).ok());
    ASSERT_TRUE(device.copy_in(y->data(), blank.data(), blank.size()).ok());
    SoftmaxCall call;
    call.src = static_cast<char*>(x->data()) + src.row_start(0);
    call.dst = static_cast<char*>(y->data()) + dst.row_start(0);
    call.rows = rows;
    call.cols = p.cols;
    call.src_stride = src.stride;
    call.dst_stride = dst.stride;
    call.in = p.in;
    call.out = p.out;
    call.out_scale = out_scale;
    const LaunchPlan plan = make_plan(p, device.facts(), c.instance.config, kernels[d]);
    const Status ran = run_softmax(device, plan, call);
    ++launches_;
    ASSERT_TRUE(ran.ok()) << what << ": " << ran.to_string();
    std::vector<unsigned char> result(dst.bytes());
    ASSERT_TRUE(device.copy_out(result.data(), y->data(), result.size()).ok());
    if (d > 0) {
      ASSERT_TRUE(result == first_result) << what << ": differs between thread orders";
      continue;
    }
    first_result = result;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::size_t kind = first_kind + static_cast<std::size_t>(r);
      const Accuracy accuracy = judge_row(
          reference(p.in, p.cols, kind, out_scale, row_values[static_cast<std::size_t>(r)]), p.out,
          result.data() + dst.row_start(r), p.cols);
      worst_ = std::max(worst_, accuracy.error_ratio);
      EXPECT_LE(accuracy.error_ratio, 1.0)
          << what << ", row " << r << " (" << value_kinds()[kind % kKinds] << "), column "
          << accuracy.worst_col;
      std::memcpy(result.data() + dst.row_start(r), blank.data() + dst.row_start(r),
                  dst.row_bytes());
    }
    EXPECT_TRUE(result == blank) << what << ": wrote outside of the rows";
  }
}

Result<Binary> Conformance::compile(const std::vector<Case>& cases) const {
  std::vector<Instance> instances;
  std::set<std::string> names;
  Program program{cases.front().instance.config.family, "", {}};
  for (const Case& c : cases) {
    const std::string name = entry_name(c.instance);
    if (!names.insert(name).second) continue;
    instances.push_back(c.instance);
    program.entries.push_back(name);
  }
  program.source = program_text(instances);
  return devices_.front()->compile(program);
}

std::vector<const Kernel*> Conformance::load(const std::vector<Case>& cases,
                                             const Result<Binary>& binary,
                                             std::vector<std::unique_ptr<Module>>& modules) {
  EXPECT_TRUE(binary.ok()) << binary.status().to_string();
  std::vector<const Kernel*> kernels;  // [case][device]
  if (!binary.ok()) return kernels;
  const std::size_t first = modules.size();
  for (const auto& device : devices_) {
    Result<std::unique_ptr<Module>> module = device->load(*binary);
    EXPECT_TRUE(module.ok()) << module.status().to_string();
    if (!module.ok()) return {};
    modules.push_back(std::move(*module));
  }
  for (const Case& c : cases) {
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      Result<const Kernel*> kernel = modules[first + d]->kernel(entry_name(c.instance));
      EXPECT_TRUE(kernel.ok()) << kernel.status().to_string();
      if (!kernel.ok()) return {};
      kernels.push_back(*kernel);
    }
  }
  return kernels;
}

std::int64_t Conformance::check(const std::vector<Case>& cases) {
  std::map<std::string, std::vector<Case>> by_family;
  for (const Case& c : cases) by_family[c.instance.config.family].push_back(c);
  std::vector<std::vector<Case>> batches;
  for (const auto& [family, all] : by_family) {
    for (std::size_t begin = 0; begin < all.size(); begin += kBatch) {
      const std::size_t end = std::min(begin + kBatch, all.size());
      batches.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(begin),
                           all.begin() + static_cast<std::ptrdiff_t>(end));
    }
  }
  std::vector<std::optional<Result<Binary>>> binaries(batches.size());
  parallel_for(batches.size(), static_cast<int>(std::thread::hardware_concurrency()),
               [&](std::size_t i) { binaries[i] = compile(batches[i]); });
  for (std::size_t b = 0; b < batches.size(); ++b) {
    const std::vector<Case>& batch = batches[b];
    std::vector<std::unique_ptr<Module>> modules;
    const std::vector<const Kernel*> kernels = load(batch, *binaries[b], modules);
    if (kernels.empty()) return launches_;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const auto at = kernels.begin() + static_cast<std::ptrdiff_t>(i * devices_.size());
      const std::vector<const Kernel*> mine(at, at + static_cast<std::ptrdiff_t>(devices_.size()));
      const Problem& problem = batch[i].instance.problem;
      const double scale = scale_to_check(problem.out, problem.cols);
      check_one(mine, batch[i], 8, 0, scale);
      check_one(mine, batch[i], 7, 8, scale);
      check_one(mine, batch[i], 1, i % kKinds, scale);
      check_one(mine, batch[i], 2, (i + 5) % kKinds, 0.3 * scale);
      if (::testing::Test::HasFatalFailure()) return launches_;
    }
  }
  return launches_;
}

}  // namespace rowsmith::testing
