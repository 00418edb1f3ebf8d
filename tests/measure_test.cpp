// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure.h"

#include "kernel_templates/params.cuh"
#include "tests/support/scripted_device.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

namespace rowsmith {
namespace {

using testing::ScriptedDevice;

DeviceFacts facts_with_l2(std::int64_t bytes) {
  DeviceFacts facts = testing::scripted_facts();
  facts.l2_bytes = bytes;
  return facts;
}

const Problem kProblem = contiguous_problem(DType::kF16, DType::kF16, 4, 257);

// A device with one loaded kernel and an arena.
class MeasureTest : public ::testing::Test {
 protected:
  void open(std::int64_t l2_bytes, const Problem& problem = kProblem, ArenaLimits limits = {}) {
    device_ = std::make_unique<ScriptedDevice>(facts_with_l2(l2_bytes));
    device_->script.cost = [this](const LaunchCall&) { return Result<double>(cost_); };
    module_ = device_->load({"scripted\nkernel", "", ""}).value();
    plan_ = make_plan(problem, DeviceFacts{}, generic_config(), *module_->kernel("kernel"));
    Result<Arena> arena = Arena::make(*device_, problem, limits);
    ASSERT_TRUE(arena.ok()) << arena.status().to_string();
    arena_ = std::make_unique<Arena>(std::move(*arena));
  }
  Result<double> sample(const StopwatchOptions& options = {}) {
    Result<Stopwatch> watch = Stopwatch::make(*device_, plan_, *arena_, options);
    if (!watch.ok()) return watch.status();
    return watch->sample();
  }
  std::set<const void*> sources() const {
    std::set<const void*> seen;
    for (const auto& launched : device_->launches()) {
      rowsmith_params::RowsParams params;
      std::memcpy(&params, launched.params.data(), sizeof params);
      seen.insert(params.src);
    }
    return seen;
  }

  double cost_ = 1000;
  std::unique_ptr<ScriptedDevice> device_;
  std::unique_ptr<Module> module_;
  std::unique_ptr<Arena> arena_;
  LaunchPlan plan_;
};

TEST_F(MeasureTest, C45_RotatesOverMoreThanTwiceTheL2) {
  open(1 << 16);
  EXPECT_TRUE(arena_->cold());
  ASSERT_TRUE(sample().ok());
  EXPECT_EQ(sources().size(), static_cast<std::size_t>(arena_->slots()));
  EXPECT_GE(arena_->slots() * (arena_->in_bytes() + arena_->out_bytes()), 2 << 16);
}

TEST_F(MeasureTest, SweepsTheCacheBeforeEachReplayWhereTheArenaIsSmaller) {
  for (const ArenaLimits limits : {ArenaLimits{1 << 16, 4096}, ArenaLimits{1 << 30, 7}}) {
    open(1 << 20, kProblem, limits);
    EXPECT_TRUE(arena_->cold());
    EXPECT_LT(arena_->slots() * (arena_->in_bytes() + arena_->out_bytes()), 1 << 20);
    cost_ = 10'000;
    Result<Stopwatch> watch = Stopwatch::make(*device_, plan_, *arena_, {1e6, 3});
    ASSERT_EQ(device_->sweeps(), std::vector<std::size_t>(1, 2 << 20));
    EXPECT_EQ(*watch->sample(), 10'000);
    const auto replays = static_cast<std::size_t>(std::ceil(100.0 / arena_->slots()));
    EXPECT_EQ(device_->sweeps().size(), 1 + replays);
  }
}

// Refuses what is larger than it has.
class SmallDevice : public ScriptedDevice {
 public:
  SmallDevice(std::size_t has_bytes, DeviceFacts facts)
      : ScriptedDevice(std::move(facts)), has_bytes_(has_bytes) {}
  Result<Buffer> allocate(std::size_t bytes) override {
    if (bytes <= has_bytes_) return ScriptedDevice::allocate(bytes);
    return Status(Code::kOutOfMemory, "scripted: " + std::to_string(bytes) + " bytes");
  }

 private:
  std::size_t has_bytes_;
};

TEST(Arena, TakesFewerBuffersWhereMemoryIsShort) {
  SmallDevice device(5 * 2304, facts_with_l2(1 << 16));  // 2304 bytes a slot and side
  const Result<Arena> arena = Arena::make(device, kProblem, {});
  ASSERT_TRUE(arena.ok()) << arena.status().to_string();
  EXPECT_GT(arena->slots(), 1);
  EXPECT_LE(arena->slots(), 5);
  EXPECT_FALSE(arena->cold());  // for a sweep there is no memory either
}

TEST(Arena, FailsWhereMemoryIsTooShortForOneCall) {
  SmallDevice device(2000, facts_with_l2(1 << 16));
  EXPECT_EQ(Arena::make(device, kProblem, {}).status().code(), Code::kOutOfMemory);
}

TEST_F(MeasureTest, DividesBySlotsAndReplays) {
  open(1 << 16);
  for (const double cost : {10.0, 1000.0, 5e6}) {
    cost_ = cost;
    EXPECT_NEAR(*sample(), cost, cost * 1e-9);
  }
}

TEST_F(MeasureTest, C47_ReplaysUntilASampleIsLongEnoughForTheTimer) {
  open(0);
  cost_ = 100;
  Result<Stopwatch> watch = Stopwatch::make(*device_, plan_, *arena_, {200'000, 3});
  const std::size_t before = device_->launches().size();
  ASSERT_TRUE(watch->sample().ok());
  EXPECT_EQ(device_->launches().size() - before, 2000u);
}

// A replay's end drains the device: short calls are recorded in turns over the arena.
TEST_F(MeasureTest, EndsNoReplayBeforeASampleIsLongUnlessAGraphHasManyNodes) {
  open(1 << 16);
  const auto slots = static_cast<std::size_t>(arena_->slots());
  cost_ = 1000;
  ASSERT_TRUE(Stopwatch::make(*device_, plan_, *arena_, {1000.0 * 3 * arena_->slots(), 3}).ok());
  EXPECT_EQ(device_->recorded(), (std::vector<std::size_t>{slots, 3 * slots}));
  open(1 << 16);
  Result<Stopwatch> watch =
      Stopwatch::make(*device_, plan_, *arena_, {1000.0 * 100 * arena_->slots(), 3});
  EXPECT_EQ(device_->recorded().size(), 2u);
  EXPECT_LE(device_->recorded().back(), 256u);
  EXPECT_GT(device_->recorded().back(), 256u - 2 * slots);
  EXPECT_EQ(*watch->sample(), cost_);
  open(1 << 20, kProblem, {1 << 16, 4096});  // swept, so that a second turn would not be cold
  cost_ = 1000;
  ASSERT_TRUE(Stopwatch::make(*device_, plan_, *arena_, {1e6, 3}).ok());
  EXPECT_EQ(device_->recorded().size(), 1u);
}

TEST_F(MeasureTest, C49_RefusesZeroNegativeNanInfiniteAndImpossibleTimes) {
  open(0);
  const double inf = std::numeric_limits<double>::infinity();
  for (const double wrong : {0.0, -5.0, std::nan(""), inf, -inf, 1e-9}) {
    cost_ = wrong;
    const Result<double> time = sample();
    EXPECT_EQ(time.status().code(), Code::kInternal) << wrong;
    EXPECT_NE(time.status().message().find("no plausible time"), std::string::npos);
  }
}

TEST_F(MeasureTest, DiscardsOneWrongTimeAndMeasuresAgain) {
  open(0);
  Result<Stopwatch> watch = Stopwatch::make(*device_, plan_, *arena_, {1, 3});
  int calls = 0;
  device_->script.cost = [&](const LaunchCall&) {
    return Result<double>(calls++ < 2 * arena_->slots() ? -7.0 : 500.0);
  };
  EXPECT_DOUBLE_EQ(*watch->sample(), 500);
}

TEST_F(MeasureTest, PassesTheDevicesFailureOn) {
  open(0);
  device_->script.on_launch = [](const LaunchCall&) {
    return Status(Code::kDeviceLost, "illegal address");
  };
  EXPECT_EQ(sample().status().code(), Code::kDeviceLost);
}

TEST_F(MeasureTest, FillsEverySlotWithNormalNoise) {
  open(1 << 14);
  for (int slot = 0; slot < arena_->slots(); ++slot) {
    const SoftmaxCall call = arena_->call(slot);
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < call.rows * call.cols; ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, static_cast<const std::uint16_t*>(call.src) + i, 2);
      const int exponent = bits >> 10 & 31;
      const double value =
          std::ldexp(exponent == 0 ? bits & 1023 : (bits & 1023) + 1024, exponent - 25);
      sum += bits & 0x8000 ? -value : value;
      squares += value * value;
    }
    const auto count = static_cast<double>(call.rows * call.cols);
    EXPECT_LT(std::abs(sum / count), 0.15);
    EXPECT_NEAR(squares / count, 1, 0.25);
  }
}

// Layouts as calls have them: base offsets in bytes, strides beyond H, in place.
struct Placed {
  std::int64_t src_offset, dst_offset, src_pad, dst_pad;
  bool in_place;

  friend void PrintTo(const Placed& placed, std::ostream* out) {
    *out << placed.src_offset << " + " << placed.src_pad << " to " << placed.dst_offset << " + "
         << placed.dst_pad << (placed.in_place ? " in place" : "");
  }
};
class PlacementTest : public ::testing::TestWithParam<Placed> {};

TEST_P(PlacementTest, GivesTheLayoutOfTheCall) {
  const Placed& placed = GetParam();
  for (const std::int64_t cols : {1, 8, 257, 1000}) {
    for (const auto& [in, out] :
         {std::pair(DType::kF16, DType::kF16), std::pair(DType::kF32, DType::kF32),
          std::pair(DType::kF16, DType::kF32)}) {
      if (placed.in_place && in != out) continue;
      const auto unit =
          static_cast<std::int64_t>(size_of(in) > size_of(out) ? size_of(in) : size_of(out));
      Problem problem = contiguous_problem(in, out, 3, cols);
      const auto* x =
          reinterpret_cast<const char*>(std::uintptr_t{4096}) + placed.src_offset * unit;
      const auto* y =
          reinterpret_cast<const char*>(std::uintptr_t{placed.in_place ? 4096u : 8192u}) +
          placed.dst_offset * unit;
      problem.layout = layout_of(x, y, cols, cols + placed.src_pad, cols + placed.dst_pad, in, out);
      const Result<Placement> found = place(problem);
      ASSERT_TRUE(found.ok()) << found.status().to_string();
      alignas(256) char src[256], dst[256];
      const SoftmaxCall call = found->call(problem, 3, src, dst);
      EXPECT_EQ(layout_of(call.src, call.dst, cols, call.src_stride, call.dst_stride, in, out),
                problem.layout);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, PlacementTest,
                         ::testing::Values(Placed{0, 0, 0, 0, false}, Placed{1, 0, 0, 0, false},
                                           Placed{0, 3, 0, 0, false}, Placed{2, 2, 0, 0, false},
                                           Placed{0, 0, 1, 1, false}, Placed{0, 0, 7, 0, false},
                                           Placed{1, 5, 3, 8, false}, Placed{0, 0, 0, 0, true},
                                           Placed{1, 1, 0, 0, true}, Placed{2, 2, 6, 6, true}));

TEST(Placement, RefusesALayoutThatCannotBe) {
  Problem problem = contiguous_problem(DType::kF16, DType::kF16, 4, 257);
  problem.layout.src_align = 32;  // a contiguous odd row of 2-byte elements
  EXPECT_EQ(place(problem).status().code(), Code::kUnsupported);
}

}  // namespace
}  // namespace rowsmith
