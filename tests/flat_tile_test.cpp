// SPDX-License-Identifier: Apache-2.0
//
// What is flat_tile's own: src and dst at every offset past a 16-byte border, each for itself, in
// buffers that end (or start and end) at guard pages; short last tiles; in place. On the host
// device under two thread orders, whose results must be the same bits.
#include "kernel_templates/catalog.h"
#include "runtime/host_device.h"
#include "runtime/softmax_launch.h"
#include "tests/support/conformance.h"

#include <rowsmith/text.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace rowsmith::testing {
namespace {

const Family& flat_tile() {
  return *find_family("flat_tile");
}

// Where a buffer lies: `offset` modulo `align` bytes, its end within `align` of the guard page.
struct Place {
  std::size_t align, offset;
};

class FlatTileTest : public ::testing::Test {
 protected:
  FlatTileTest() {
    HostOptions forward, shuffled;
    forward.poison = 0xFF;
    shuffled.schedule = HostSchedule::kRandom;
    shuffled.seed = 7;
    shuffled.poison = 0x00;
    devices_ = {make_host_device(forward), make_host_device(shuffled)};
  }

  std::vector<Config> space(const Problem& problem) {
    return flat_tile().space(problem, devices_.front()->facts());
  }

  // Compiles the instances as one program, on each device.
  void compile(const std::vector<Instance>& instances) {
    Program program{"flat_tile", program_text(instances), {}};
    for (const Instance& instance : instances) program.entries.push_back(entry_name(instance));
    const Result<Binary> binary = devices_.front()->compile(program);
    ASSERT_TRUE(binary.ok()) << binary.status().to_string();
    for (const auto& device : devices_) {
      Result<std::unique_ptr<Module>> module = device->load(*binary);
      ASSERT_TRUE(module.ok()) << module.status().to_string();
      modules_.push_back(std::move(*module));
    }
  }

  // Runs the last compiled program's kernel on contiguous rows at these places and judges each row.
  // `dst` nullptr: in place.
  void check(const Instance& instance, std::int64_t rows, Place src, const Place* dst);

  std::vector<std::shared_ptr<HostDevice>> devices_;
  std::vector<std::unique_ptr<Module>> modules_;
};

void FlatTileTest::check(const Instance& instance, std::int64_t rows, Place src, const Place* dst) {
  const Problem& p = instance.problem;
  const std::size_t row_bytes = static_cast<std::size_t>(p.cols) * size_of(p.in);
  const std::size_t out_row_bytes = static_cast<std::size_t>(p.cols) * size_of(p.out);
  const std::size_t kinds = value_kinds().size();
  std::vector<std::vector<unsigned char>> values;
  std::vector<unsigned char> input;
  for (std::size_t kind = 0; kind < kinds; ++kind)
    values.push_back(make_row(p.in, p.cols, kind, 3));
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto& row = values[static_cast<std::size_t>(r) % kinds];
    input.insert(input.end(), row.begin(), row.end());
  }
  std::vector<unsigned char> first_result, result(static_cast<std::size_t>(rows) * out_row_bytes);
  std::string what;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    HostDevice& device = *devices_[d];
    Result<Buffer> x = device.allocate_tight(input.size(), src.align, src.offset);
    Result<Buffer> y =
        dst == nullptr ? x : device.allocate_tight(result.size(), dst->align, dst->offset);
    ASSERT_TRUE(x.ok() && y.ok());
    Problem called = p;
    called.rows = rows;
    called.layout = layout_of(x->data(), y->data(), p.cols, p.cols, p.cols, p.in, p.out);
    what = to_string(instance.config) + " on " + to_string(called);
    ASSERT_EQ(flat_tile().why_illegal(called, device.facts(), instance.config), "") << what;
    ASSERT_TRUE(device.copy_in(x->data(), input.data(), input.size()).ok());
    const Result<const Kernel*> kernel =
        modules_[modules_.size() - devices_.size() + d]->kernel(entry_name(instance));
    ASSERT_TRUE(kernel.ok()) << what;
    const Status ran =
        run_softmax(device, make_plan(called, device.facts(), instance.config, *kernel),
                    {x->data(), y->data(), rows, p.cols, p.cols, p.cols, p.in, p.out, nullptr});
    ASSERT_TRUE(ran.ok()) << what << ": " << ran.to_string();
    ASSERT_TRUE(device.copy_out(result.data(), y->data(), result.size()).ok());
    if (d == 0) first_result = result;
    ASSERT_TRUE(result == first_result) << what << ": differs between thread orders";
  }
  std::vector<ReferenceRow> expected;
  for (const auto& row : values) expected.push_back(reference_row(p.in, row.data(), p.cols));
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::size_t kind = static_cast<std::size_t>(r) % kinds;
    const Accuracy accuracy = judge_row(
        expected[kind], p.out, result.data() + static_cast<std::size_t>(r) * out_row_bytes, p.cols);
    ASSERT_LE(accuracy.error_ratio, 1.0) << what << ", row " << r << " (" << value_kinds()[kind]
                                         << "), column " << accuracy.worst_col;
  }
  EXPECT_EQ(input.size(), static_cast<std::size_t>(rows) * row_bytes);
}

// The problem of rows whose sides lie this many elements past a 16-byte border.
Problem at_offsets(DType in, DType out, std::int64_t cols, std::int64_t src, std::int64_t dst,
                   bool in_place = false) {
  return problem_of(in, out, 7, cols, {src, dst, 0, 0, in_place});
}

TEST_F(FlatTileTest, A29_A30_A32_A34_EveryShortWidthAtIndependentOffsets) {
  for (const auto& [in, out] : {std::pair(DType::kF16, DType::kF16),
                                {DType::kBF16, DType::kF32},
                                {DType::kF32, DType::kF16}}) {
    Sampler sampler(1);
    std::vector<Instance> instances;
    for (std::int64_t cols = 1; cols <= 70; ++cols) {
      const Problem problem = at_offsets(in, out, cols, 1, 2);
      instances.push_back({problem, sampler.choose(space(problem))});
    }
    compile(instances);
    if (HasFatalFailure()) return;
    for (const Instance& instance : instances) {
      const std::int64_t tile =
          flat_tile().geometry(instance.problem, DeviceFacts{}, instance.config).rows_per_block;
      const auto cols = static_cast<std::size_t>(instance.problem.cols);
      const Place src{16, cols * size_of(in) % 16}, dst{16, 3 * cols * size_of(out) % 16};
      check(instance, 1, src, &dst);
      check(instance, tile + 3, src, &dst);
      // Both end at the guard page itself.
      const Place src_end{size_of(in), 0}, dst_end{size_of(out), 0};
      check(instance, tile - 1, src_end, &dst_end);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(FlatTileTest, A29_EveryPairOfOffsets) {
  for (const std::int64_t cols : {1, 6, 7, 33}) {
    const Problem problem = at_offsets(DType::kF16, DType::kF16, cols, 1, 2);
    const std::vector<Config> configs = space(problem);
    const Instance instance{problem, configs[configs.size() / 3]};
    compile({instance});
    for (std::size_t src = 0; src < 16; src += 2) {
      for (std::size_t dst = 0; dst < 16; dst += 2) {
        const Place dst_place{16, dst};
        check(instance, 11, {16, src}, &dst_place);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(FlatTileTest, InPlaceInOneStageAndInTwo) {
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    std::vector<Instance> instances;
    for (const std::int64_t cols : {1, 2, 5, 8, 13, 31, 70, 257}) {
      Sampler sampler(static_cast<unsigned>(cols));
      const Problem problem = at_offsets(dtype, dtype, cols, 1, 1, true);
      for (int n = 0; n < 2; ++n) {
        std::vector<Config> configs = space(problem);
        configs.erase(
            std::remove_if(configs.begin(), configs.end(),
                           [n](const Config& config) { return config.number("stages") != n + 1; }),
            configs.end());
        ASSERT_FALSE(configs.empty()) << cols;
        instances.push_back({problem, sampler.choose(configs)});
      }
    }
    compile(instances);
    for (const Instance& instance : instances) {
      const std::int64_t tile =
          flat_tile().geometry(instance.problem, DeviceFacts{}, instance.config).rows_per_block;
      for (const std::size_t past : {std::size_t{0}, size_of(dtype), 16 - size_of(dtype)}) {
        check(instance, 2 * tile + 1, {16, past}, nullptr);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// 7 pages of 2048 rows: the byte before the first and the byte after the last both fault.
TEST_F(FlatTileTest, NeverLeavesBuffersOfWholePages) {
  const Problem problem = contiguous_problem(DType::kF16, DType::kF16, 2048, 7);
  Sampler sampler(5);
  std::vector<Instance> instances;
  for (int n = 0; n < 6; ++n) instances.push_back({problem, sampler.choose(space(problem))});
  std::sort(instances.begin(), instances.end(), [](const Instance& a, const Instance& b) {
    return to_string(a.config) < to_string(b.config);
  });
  instances.erase(
      std::unique(instances.begin(), instances.end(),
                  [](const Instance& a, const Instance& b) { return a.config == b.config; }),
      instances.end());
  compile(instances);
  for (const Instance& instance : instances) {
    const Place whole{2, 0};
    check(instance, 2048, whole, &whole);
  }
}

TEST_F(FlatTileTest, RefusesWhatItCannotServeWithTheReason) {
  const DeviceFacts facts = devices_.front()->facts();
  const Problem served = at_offsets(DType::kF16, DType::kF16, 7, 0, 0);
  Config config = space(served).front();
  const auto why = [&](const Problem& problem) {
    return flat_tile().why_illegal(problem, facts, config);
  };
  EXPECT_EQ(why(served), "");
  EXPECT_EQ(why(problem_of(DType::kF16, DType::kF16, 7, 7, {0, 0, 1, 0, false})),
            "flat_tile: rows lie apart");
  EXPECT_EQ(why(problem_of(DType::kF16, DType::kF16, 7, 7, {0, 0, 0, 1, false})),
            "flat_tile: rows lie apart");
  EXPECT_EQ(why(contiguous_problem(DType::kF16, DType::kF16, 7, 1025)),
            "flat_tile: the row does not fit a warp");
  EXPECT_EQ(config.get("stages"), "1");
  EXPECT_EQ(why(at_offsets(DType::kF16, DType::kF16, 7, 1, 2)),
            "flat_tile: src and dst lie differently: stages=2 serves them");
  EXPECT_EQ(why(at_offsets(DType::kF16, DType::kF32, 7, 0, 0)),
            "flat_tile: src and dst lie differently: stages=2 serves them");
  for (auto& [name, value] : config.params) {
    if (name == "load") value = "nc";
  }
  EXPECT_EQ(why(at_offsets(DType::kF16, DType::kF16, 7, 0, 0, true)),
            "flat_tile: load=nc reads what y overwrites");
}

TEST_F(FlatTileTest, TilesFitSharedMemoryAndKeepTheirOffset) {
  for (const std::int64_t limit : {std::int64_t{0}, std::int64_t{64} * 1024}) {
    DeviceFacts facts = devices_.front()->facts();
    facts.shared_bytes_per_block = limit;
    for (const std::int64_t cols : {1, 7, 64, 257, 1024}) {
      const Problem problem = contiguous_problem(DType::kF32, DType::kF32, 1 << 20, cols);
      const std::vector<Config> configs = flat_tile().space(problem, facts);
      EXPECT_FALSE(configs.empty()) << cols;
      for (const Config& config : configs) {
        const Geometry geometry = flat_tile().geometry(problem, facts, config);
        EXPECT_LE(geometry.shared_bytes, limit == 0 ? 48 * 1024 : limit) << to_string(config);
        EXPECT_EQ(geometry.rows_per_block * cols * 4 % 16, 0) << to_string(config);
      }
    }
  }
}

TEST_F(FlatTileTest, IsTheDefaultForTinyRowsOffBordersAlone) {
  DeviceFacts h200 = devices_.front()->facts();
  h200.sm_count = 132;
  const auto family = [&](DType dtype, std::int64_t rows, std::int64_t cols) {
    return default_config(contiguous_problem(dtype, dtype, rows, cols), h200).family;
  };
  EXPECT_EQ(family(DType::kF16, 1 << 20, 1), "flat_tile");
  EXPECT_EQ(family(DType::kF16, 1 << 20, 7), "flat_tile");
  EXPECT_EQ(family(DType::kF32, 1 << 20, 5), "flat_tile");
  EXPECT_NE(family(DType::kF32, 1 << 20, 16), "flat_tile");
  EXPECT_NE(family(DType::kF16, 1 << 16, 64), "flat_tile");
  EXPECT_NE(family(DType::kF16, 4096, 257), "flat_tile");
  EXPECT_NE(family(DType::kF16, 8, 1023), "flat_tile");
}

}  // namespace
}  // namespace rowsmith::testing
