// SPDX-License-Identifier: Apache-2.0
//
// Calls that meet no winner, with the real tuner behind the dispatcher on a scripted device: what a
// tuning in a call may do to the caller's buffers, process and cache.
#include "kernel_templates/params.cuh"
#include "runtime/dispatcher.h"
#include "tests/support/tune_fixture.h"
#include "tuner/reference.h"

#include <cstring>
#include <set>

namespace rowsmith {
namespace {

using testing::Fault;
using testing::kProblem;
using testing::ScriptedDevice;
using testing::TuneTest;

class TuneOnMissTest : public TuneTest {
 protected:
  void open_runtime(OnMiss on_miss = OnMiss::kTune, const std::string& pin = "") {
    RuntimeOptions options;
    options.on_miss = on_miss;
    options.pin = pin;
    runtime_ = make_dispatcher(session_, options,
                               [this](const Session& session, const Problem& problem, int) {
                                 FloorMeter floor;
                                 return tune_problem(session, problem, settings(), floor).status;
                               });
  }
  // Makes the caller's x and y, on the borders that `contiguous_problem` promises; out of place y
  // is full of NaN.
  void make_buffers(bool in_place = false) {
    const std::size_t bytes = kElements * 2;
    const int refuses = std::exchange(device_->script.out_of_memory_at, -1);
    x_ = device_->allocate(bytes).value();
    y_ = in_place ? x_ : device_->allocate(bytes).value();
    device_->script.out_of_memory_at = refuses;
    std::memset(y_.data(), 0xff, bytes);
    for (std::size_t i = 0; i < kElements; ++i) encode(DType::kF16, value(i), element(x_, i));
    expected_.assign(bytes, '\0');
    for (std::size_t row = 0; row < 4; ++row) {
      const ReferenceRow reference = reference_row(DType::kF16, element(x_, row * kCols), kCols, 1);
      for (std::size_t col = 0; col < kCols; ++col) {
        encode(DType::kF16, reference.p[col], &expected_[(row * kCols + col) * 2]);
      }
    }
  }
  Status softmax(std::int64_t rows = 4) {
    SoftmaxCall call;
    call.src = x_.data();
    call.dst = y_.data();
    call.rows = rows;
    call.cols = kCols;
    call.in = call.out = DType::kF16;
    return runtime_->softmax(call);
  }
  bool is_right() const { return std::memcmp(y_.data(), expected_.data(), expected_.size()) == 0; }
  // Launches that read or write the caller's buffers.
  int launches_on_the_callers() const {
    int count = 0;
    for (const auto& launched : device_->launches()) {
      rowsmith_params::RowsParams params;
      if (launched.params.size() < sizeof params) continue;
      std::memcpy(&params, launched.params.data(), sizeof params);
      const std::set<const void*> callers{x_.data(), y_.data()};
      count += callers.count(params.src) != 0 || callers.count(params.dst) != 0;
    }
    return count;
  }
  // Serves the rows and answers which kernel did.
  std::string serve(std::int64_t rows = 4) {
    const Status status = softmax(rows);
    EXPECT_TRUE(status.ok()) << status.to_string();
    return device_->launches().back().entry;
  }
  Source source() const { return runtime_->explain(problem_)->source; }

  static constexpr std::size_t kCols = 100, kElements = 4 * kCols;
  std::unique_ptr<Runtime> runtime_;
  Buffer x_, y_;
  std::string expected_;

 private:
  static double value(std::size_t i) { return static_cast<double>(i * 37 % 101) / 16 - 3; }
  static char* element(const Buffer& buffer, std::size_t i) {
    return static_cast<char*>(buffer.data()) + 2 * i;
  }
};

TEST_F(TuneOnMissTest, C28_AnUntunedCallInPlaceIsAppliedOnce) {
  open_runtime();
  make_buffers(true);
  const Status status = softmax();
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(runtime_->stats().tuned, 1u);
  EXPECT_TRUE(is_right());
  EXPECT_EQ(launches_on_the_callers(), 1);
}

TEST_F(TuneOnMissTest, C32_BadCandidatesCostTheCallNothing) {
  const std::string refused = entry(other(0)), broken = entry(other(1));
  takes(other(2), 10);
  does(other(2), Fault::kWritesPast);
  takes(other(3), 600);
  device_->script.on_launch = [&](const LaunchCall& call) {
    return ScriptedDevice::entry_of(call) == refused ? Status(Code::kLaunchFailed, "no room")
                                                     : Status();
  };
  device_->script.on_compile = [&](const Program& program) {
    return program.source.find(broken) == std::string::npos
               ? Status()
               : Status(Code::kCompileFailed, "no such thing");
  };
  open_runtime();
  make_buffers();
  const Status status = softmax();
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(is_right());
  EXPECT_EQ(stored(problem_)->config, chosen_.configs[other(3)]);
  EXPECT_EQ(device_->launches().back().entry, entry(other(3)));
}

TEST_F(TuneOnMissTest, C31_C32_ACandidateThatLosesTheDeviceIsAnErrorThatNamesIt) {
  const std::string culprit = entry(other(1));
  bool lost = false;
  device_->script.on_launch = [&](const LaunchCall& call) {
    lost = lost || ScriptedDevice::entry_of(call) == culprit;
    return lost ? Status(Code::kDeviceLost, "illegal address") : Status();
  };
  open_runtime();
  make_buffers();
  const Status status = softmax();
  EXPECT_EQ(status.code(), Code::kDeviceLost);
  EXPECT_NE(status.message().find(to_string(chosen_.configs[other(1)])), std::string::npos);
  EXPECT_EQ(launches_on_the_callers(), 0);
  EXPECT_TRUE(session_.store->list().value().empty());
}

TEST_F(TuneOnMissTest, C33_WithoutMemoryToTuneInTheDefaultServesAndNothingIsStored) {
  device_->script.out_of_memory_at = 0;
  open_runtime();
  make_buffers();
  const Status status = softmax();
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(is_right());
  EXPECT_EQ(source(), Source::kDefault);
  EXPECT_TRUE(session_.store->list().value().empty());
  EXPECT_TRUE(stored_rejections().empty());
  const int tried = device_->allocations();
  EXPECT_TRUE(softmax().ok());
  EXPECT_EQ(device_->allocations(), tried) << "tuned in every call";
}

TEST_F(TuneOnMissTest, C35_MemoryThatRunsOutAtAnyStepSparesThisCallAndTheNext) {
  open_runtime();
  make_buffers();
  const int before = device_->allocations();
  ASSERT_TRUE(softmax().ok());
  const int needed = device_->allocations() - before;
  ASSERT_GT(needed, 3);
  for (int k = 0; k < needed; ++k) {
    runtime_.reset();
    open(kProblem);
    open_runtime();
    make_buffers();
    device_->script.out_of_memory_at = device_->allocations() + k;
    for (const bool runs_out : {true, false}) {
      std::memset(y_.data(), 0xff, expected_.size());
      const Status status = softmax();
      EXPECT_TRUE(status.ok()) << k << status.to_string();
      EXPECT_TRUE(is_right()) << k << runs_out;
      device_->script.out_of_memory_at = -1;
    }
    make_buffers(true);  // another problem, which is tuned
    const auto tuned = runtime_->stats().tuned;
    EXPECT_TRUE(softmax().ok() && is_right()) << k;
    EXPECT_EQ(runtime_->stats().tuned, tuned + 1) << k;
  }
}

TEST_F(TuneOnMissTest, C64_ServingWithoutTuningLeavesTheStoredWinnersAsTheyAre) {
  RuntimeOptions on_disk;
  on_disk.cache_dir = directory_ + "/cache";
  takes(other(3), 600);
  session_ = make_session(device_, on_disk);
  open_runtime();
  make_buffers();
  for (const std::int64_t rows : {1, 3}) ASSERT_TRUE(softmax(rows).ok());
  const auto tuned = session_.store->list().value();
  ASSERT_EQ(tuned.size(), 2u);
  for (const OnMiss on_miss : {OnMiss::kDefault, OnMiss::kError, OnMiss::kDefault}) {
    runtime_.reset();
    session_ = make_session(device_, on_disk);
    open_runtime(on_miss);
    for (std::int64_t rows = 1; rows <= 4; ++rows) EXPECT_TRUE(softmax(rows).ok());
    make_buffers(true);  // new problems
    EXPECT_EQ(softmax().ok(), on_miss == OnMiss::kDefault);
    make_buffers();
  }
  runtime_.reset();
  session_ = make_session(device_, on_disk);
  const auto reloaded = session_.store->list().value();
  ASSERT_EQ(reloaded.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(reloaded[i].config, chosen_.configs[other(3)]);
    EXPECT_EQ(reloaded[i].evidence.tuned_at, tuned[i].evidence.tuned_at);
    EXPECT_EQ(reloaded[i].evidence.median_ns, 600'000);
  }
}

// Another winner may differ in the last bits of its results.
TEST_F(TuneOnMissTest, C66_APinServesTheSameKernelInEveryProcessWhateverWasTuned) {
  std::set<std::string> tuned, pinned;
  for (const std::size_t best : {1, 2, 3}) {
    runtime_.reset();
    open(kProblem);
    make_buffers();
    times_.clear();
    takes(other(best), 600);
    open_runtime();
    tuned.insert(serve());
    open_runtime(OnMiss::kTune, to_string(chosen_.configs[other(4)]));
    pinned.insert(serve());
  }
  EXPECT_EQ(tuned.size(), 3u);
  EXPECT_EQ(pinned, std::set<std::string>{entry(other(4))});
}

TEST_F(TuneOnMissTest, C66_AReadOnlyCacheServesTheSameKernelsInEveryProcessThatDoesNotTune) {
  RuntimeOptions cache;
  cache.cache_dir = directory_ + "/cache";
  takes(other(1), 600);
  session_ = make_session(device_, cache);
  open_runtime();
  make_buffers();
  serve();
  cache.read_only = true;
  std::set<std::string> exact, nearest, untuned, tuned_anew;
  for (const std::size_t best : {1, 2, 3}) {
    times_.clear();
    takes(other(best), 600);
    runtime_.reset();
    session_ = make_session(device_, cache);
    open_runtime(OnMiss::kDefault);
    make_buffers();
    exact.insert(serve(4));
    nearest.insert(serve(3));
    untuned.insert(serve(1));
    open_runtime(OnMiss::kTune);
    tuned_anew.insert(serve(1));
  }
  EXPECT_EQ(exact, std::set<std::string>{entry(other(1))});
  EXPECT_EQ(nearest, exact);
  EXPECT_EQ(untuned.size(), 1u);
  EXPECT_GT(tuned_anew.size(), 1u) << "as docs/architecture.md warns";
}

}  // namespace
}  // namespace rowsmith
