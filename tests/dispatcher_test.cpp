// SPDX-License-Identifier: Apache-2.0
#include "kernel_templates/params.cuh"
#include "tests/support/dispatch_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <thread>

namespace rowsmith {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::ScriptedDevice;

class DispatcherTest : public testing::DispatchFixture {};

TEST_F(DispatcherTest, EmptyCallsSucceedWithoutCompilingOrLaunching) {
  open(OnMiss::kTune, tune_to(1));
  EXPECT_TRUE(softmax(0, kCols).ok());
  EXPECT_TRUE(softmax(10, 0).ok());
  EXPECT_EQ(device_->compiles(), 0u);
  EXPECT_TRUE(device_->launches().empty());
  EXPECT_EQ(tunings_, 0);
}

TEST_F(DispatcherTest, AnExactWinnerServesWithTheCallsParameters) {
  ASSERT_TRUE(store_winner(100, 3).ok());
  open();
  EXPECT_EQ(serve(100), entry(config(3)));
  const auto launch = device_->launches().back();
  rowsmith_params::RowsParams params{};
  ASSERT_EQ(launch.params.size(), sizeof(params));
  std::memcpy(&params, launch.params.data(), sizeof(params));
  EXPECT_EQ(params.src, call(100).src);
  EXPECT_EQ(params.dst, call(100).dst);
  EXPECT_EQ(params.rows, 100);
  EXPECT_EQ(params.src_stride, kCols);
  EXPECT_EQ(runtime_->stats().exact, 1u);
  EXPECT_EQ(runtime_->stats().misses, 0u);
}

TEST_F(DispatcherTest, C12_EachProblemUsesItsOwnWinner) {
  ASSERT_TRUE(store_winner(100, 1).ok());
  ASSERT_TRUE(store_winner(1000, 2).ok());
  open();
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(serve(100), entry(config(1)));
    EXPECT_EQ(serve(1000), entry(config(2)));
  }
}

TEST_F(DispatcherTest, AWinnerServesItsNeighboursAsTheNearest) {
  ASSERT_TRUE(store_winner(100, 3).ok());
  open();
  EXPECT_EQ(serve(60), entry(config(3)));
  EXPECT_EQ(serve(200), entry(config(3)));
  EXPECT_EQ(source(150), Source::kNearest);
  EXPECT_EQ(source(201), Source::kDefault);
  EXPECT_EQ(runtime_->stats().misses, 2u);
}

TEST_F(DispatcherTest, AMeasuredLossLetsOneKernelServeAllBetweenTwoWinners) {
  ASSERT_TRUE(store_winner(16, 1).ok());
  ASSERT_TRUE(store_winner(4096, 2).ok());
  const auto above = session_.store->find(device_class(device_->facts()), problem(4096));
  WinnerRecord measured = above.value().value();
  measured.evidence.below = {16, to_string(config(1)), 1.02};
  ASSERT_TRUE(session_.store->put(measured).ok());
  open(OnMiss::kError);
  EXPECT_EQ(serve(500), entry(config(1)));
  EXPECT_EQ(serve(4096), entry(config(2)));
  ASSERT_TRUE(session_.store->erase(measured.device_class, problem(16)).ok());
  EXPECT_EQ(serve(17), entry(config(1)));  // as published
  EXPECT_EQ(serve(4095), entry(config(1)));
  EXPECT_EQ(softmax(15).code(), Code::kNotTuned);
}

TEST_F(DispatcherTest, AHitNeitherCompilesNorLoads) {
  open();
  serve(64);
  const std::uint64_t loads = device_->loads();
  for (std::int64_t rows = 64; rows < 128; ++rows) serve(rows);
  EXPECT_EQ(device_->loads(), loads);
  EXPECT_EQ(runtime_->stats().calls, 65u);
}

TEST_F(DispatcherTest, MissesAreCountedPerProblemAndWrittenAtTheEnd) {
  ASSERT_TRUE(store_winner(100, 1).ok());
  open();
  for (int i = 0; i < 3; ++i) serve(100);
  for (int i = 0; i < 5; ++i) serve(7);
  runtime_.reset();
  const auto misses = session_.store->list_misses();
  ASSERT_TRUE(misses.ok());
  ASSERT_EQ(misses.value().size(), 1u);
  EXPECT_EQ(misses.value()[0].problem, problem(7));
  EXPECT_EQ(misses.value()[0].calls, 5);
}

TEST_F(DispatcherTest, MissesAreWrittenOnTheWayWhenManyArePending) {
  open();
  for (int i = 0; i < 300; ++i) serve(7);
  serve(700);
  const auto misses = session_.store->list_misses();
  ASSERT_TRUE(misses.ok());
  ASSERT_FALSE(misses.value().empty());
  EXPECT_EQ(misses.value()[0].calls, 300);
}

TEST_F(DispatcherTest, AConfigThatDoesNotCompileIsMarkedAndTheNextRungServes) {
  ASSERT_TRUE(store_winner(100, 1).ok());
  break_compile(entry(config(1)));
  open();
  EXPECT_EQ(serve(100), entry(config(0)));
  device_->script.on_compile = {};
  EXPECT_EQ(serve(101), entry(config(0)));
  const auto answer = runtime_->explain(problem(100));
  ASSERT_TRUE(answer.ok());
  EXPECT_THAT(answer.value().reasons, Contains(HasSubstr("scripted compile")));
}

TEST_F(DispatcherTest, AConfigThatDoesNotLaunchIsMarkedAndGenericServesLast) {
  open();
  const std::string fallback = entry(config(0));
  device_->script.on_launch = [&](const LaunchCall& launch) {
    return ScriptedDevice::entry_of(launch) == fallback ? Status(Code::kLaunchFailed, "no room")
                                                        : Status();
  };
  EXPECT_EQ(serve(100), entry(generic_config()));
  EXPECT_EQ(source(100), Source::kGeneric);
}

TEST_F(DispatcherTest, AServingKernelThatBeginsToFailIsReplaced) {
  ASSERT_TRUE(store_winner(100, 1).ok());
  open();
  EXPECT_EQ(serve(100), entry(config(1)));
  break_launch(entry(config(1)));
  EXPECT_EQ(serve(100), entry(config(0)));
  EXPECT_EQ(serve(100), entry(config(0)));
  EXPECT_EQ(device_->launches().size(), 4u);
}

TEST_F(DispatcherTest, WhenEveryRungFailsNoneIsMarked) {
  ASSERT_TRUE(store_winner(100, 1).ok());
  device_->script.on_launch = [](const LaunchCall&) {
    return Status(Code::kLaunchFailed, "no such stream");
  };
  open();
  EXPECT_EQ(softmax(100).code(), Code::kLaunchFailed);
  device_->script.on_launch = {};
  EXPECT_EQ(serve(100), entry(config(1)));
}

TEST_F(DispatcherTest, OutOfMemoryAndALostDeviceReturnTheirCodeAndMarkNothing) {
  ASSERT_TRUE(store_winner(100, 1).ok());
  open();
  for (const Code code : {Code::kOutOfMemory, Code::kDeviceLost}) {
    break_launch(entry(config(1)), code);
    EXPECT_EQ(softmax(100).code(), code);
    device_->script.on_launch = {};
    EXPECT_EQ(serve(100), entry(config(1)));
  }
}

TEST_F(DispatcherTest, AChangedFamilyDropsItsWinners) {
  WinnerRecord record;
  record.device_class = device_class(device_->facts());
  record.problem = problem(100);
  record.config = config(1);
  record.family_digest = "of another version";
  record.evidence.median_ns = 1;
  ASSERT_TRUE(session_.store->put(record).ok());
  open();
  EXPECT_EQ(serve(100), entry(config(0)));
}

TEST_F(DispatcherTest, APinnedConfigServesEveryLegalProblem) {
  ASSERT_TRUE(store_winner(100, 1).ok());
  open(OnMiss::kTune, tune_to(2), to_string(config(4)));
  EXPECT_EQ(serve(100), entry(config(4)));
  EXPECT_EQ(serve(3000), entry(config(4)));
  EXPECT_EQ(source(100), Source::kPinned);
  EXPECT_EQ(tunings_, 0);
}

TEST_F(DispatcherTest, AnIllegalPinIsAClearError) {
  open(OnMiss::kDefault, {}, "generic:threads=7");
  const Status status = softmax(100);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("generic:threads=7"));
  open(OnMiss::kDefault, {}, "a:b");
  EXPECT_EQ(softmax(100).code(), Code::kInvalidArgument);
  EXPECT_EQ(runtime_->explain(problem(100)).status().code(), Code::kInvalidArgument);
}

TEST_F(DispatcherTest, ACaptureWithNothingLoadedIsNotPrepared) {
  open(OnMiss::kTune, tune_to(1));
  device_->capturing = true;
  EXPECT_EQ(softmax(100).code(), Code::kNotPrepared);
  EXPECT_EQ(device_->compiles(), 0u);
  EXPECT_EQ(tunings_, 0);
}

TEST_F(DispatcherTest, ACaptureIsServedByWhatWasPreparedAndElseByGeneric) {
  ASSERT_TRUE(store_winner(100, 1).ok());
  open();
  ASSERT_TRUE(runtime_->prepare({problem(100)}).ok());
  const std::uint64_t compiles = device_->compiles();
  device_->capturing = true;
  EXPECT_EQ(serve(100), entry(config(1)));
  EXPECT_EQ(serve(90), entry(config(1)));
  EXPECT_EQ(serve(100000), entry(generic_config()));
  EXPECT_EQ(device_->compiles(), compiles);
  // What a capture had to take does not settle what serves later.
  device_->capturing = false;
  EXPECT_EQ(serve(100000), entry(default_config(problem(100000), device_->facts())));
}

TEST_F(DispatcherTest, AFailureDuringACaptureIsReturnedAndMarksNothing) {
  ASSERT_TRUE(store_winner(100, 1).ok());
  open();
  ASSERT_TRUE(runtime_->prepare({problem(100)}).ok());
  device_->capturing = true;
  break_launch(entry(config(1)));
  EXPECT_EQ(softmax(100).code(), Code::kLaunchFailed);
  device_->script.on_launch = {};
  EXPECT_EQ(serve(100), entry(config(1)));
}

// As a context with few multiprocessors does blocks that must run at once.
TEST_F(DispatcherTest, AWinnerThatOneContextRefusesGivesWayToTheDefaultInThatContextAlone) {
  ASSERT_TRUE(store_winner(100, 1).ok());
  for (const bool served_before : {false, true}) {
    open();
    if (served_before) {
      EXPECT_EQ(serve(100), entry(config(1)));
    }
    break_launch(entry(config(1)), Code::kUnsupported);
    EXPECT_EQ(serve(100), entry(config(0)));
    EXPECT_EQ(serve(100), entry(config(0)));
    device_->script.on_launch = {};
    EXPECT_EQ(serve(100), entry(config(1)));
    EXPECT_EQ(source(100), Source::kExact);
  }
}

TEST_F(DispatcherTest, WhatServesWhereAWinnerIsRefusedIsFoundOnceAndGivesWayWhereItCannot) {
  open();
  const std::pair<std::int64_t, Code> cases[] = {{100, Code::kUnsupported},
                                                 {300, Code::kLaunchFailed}};
  for (const auto& [rows, code] : cases) {
    const std::string spare = entry(default_config(problem(rows), device_->facts()));
    ASSERT_TRUE(store_winner(rows, 1).ok());
    break_launch(entry(config(1)), Code::kUnsupported);
    EXPECT_EQ(serve(rows), spare);
    ASSERT_TRUE(store_winner(rows + 10, 2).ok());
    EXPECT_EQ(serve(rows), spare);  // a walk would take the nearest
    device_->script.on_launch = [code = code, spare](const LaunchCall& launch) {
      const std::string& launched = ScriptedDevice::entry_of(launch);
      if (launched == entry(config(1))) return Status(Code::kUnsupported, "scripted");
      return launched == spare ? Status(code, "scripted") : Status();
    };
    EXPECT_EQ(serve(rows), entry(config(2)));
    device_->script.on_launch = {};
    EXPECT_EQ(serve(rows), entry(config(1)));
  }
}

TEST_F(DispatcherTest, AWinnerThatTheContextRefusesDuringACaptureGivesWayToWhatIsLoaded) {
  ASSERT_TRUE(store_winner(100, 1).ok());
  for (const bool served_before : {false, true}) {
    open();
    ASSERT_TRUE(runtime_->prepare({problem(100)}).ok());
    if (served_before) {
      EXPECT_EQ(serve(100), entry(config(1)));
    }
    device_->capturing = true;
    break_launch(entry(config(1)), Code::kUnsupported);
    EXPECT_EQ(serve(100), entry(generic_config()));
    device_->script.on_launch = {};
    EXPECT_EQ(serve(100), entry(config(1)));
    device_->capturing = false;
    EXPECT_EQ(serve(100), entry(config(1)));
  }
}

TEST_F(DispatcherTest, ARefusalIsNoReasonToTuneWhereTheCallIsServedUntuned) {
  open(OnMiss::kTune, tune_to(1));
  EXPECT_EQ(serve(100), entry(config(1)));
  break_launch(entry(config(1)), Code::kUnsupported);
  EXPECT_EQ(serve(100), entry(config(0)));
  EXPECT_EQ(serve(100), entry(config(0)));
  EXPECT_EQ(tunings_, 1);
}

// Unlike a launch's, a compiler's "unsupported" holds in every context.
TEST_F(DispatcherTest, AConfigThatTheCompilerDoesNotSupportIsNotTriedAgain) {
  ASSERT_TRUE(store_winner(100, 1).ok());
  device_->script.on_compile = [](const Program& program) {
    return program.entries.front() == entry(config(1)) ? Status(Code::kUnsupported, "scripted")
                                                       : Status();
  };
  open();
  EXPECT_EQ(serve(100), entry(config(0)));
  const std::uint64_t compiles = device_->compiles();
  EXPECT_EQ(serve(100), entry(config(0)));
  EXPECT_EQ(device_->compiles(), compiles);
}

TEST_F(DispatcherTest, PrepareLoadsSoThatCallsCompileNothing) {
  open(OnMiss::kTune, tune_to(1));
  ASSERT_TRUE(runtime_->prepare({problem(100), problem(0), problem(4, 77)}).ok());
  EXPECT_TRUE(device_->launches().empty());
  EXPECT_EQ(tunings_, 2);
  const std::uint64_t compiles = device_->compiles();
  serve(100);
  serve(4, 77);
  EXPECT_EQ(device_->compiles(), compiles);
}

TEST_F(DispatcherTest, PrepareAnswersTheFirstFailureAfterTryingAll) {
  open();
  const Status status = runtime_->prepare({problem(-1), problem(100)});
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  const std::uint64_t compiles = device_->compiles();
  serve(100);
  EXPECT_EQ(device_->compiles(), compiles);
}

TEST_F(DispatcherTest, InPlaceCallsHaveTheirOwnKernels) {
  open();
  serve(100);
  SoftmaxCall in_place = call(100);
  in_place.src = in_place.dst;
  ASSERT_TRUE(runtime_->softmax(in_place).ok());
  Problem asked = problem(100);
  asked.layout.in_place = true;
  EXPECT_EQ(launched(), entry(default_config(asked, device_->facts())));
}

TEST_F(DispatcherTest, PointersAreCheckedWhereAsked) {
  RuntimeOptions options;
  options.on_miss = OnMiss::kDefault;
  options.check_pointers = true;
  device_->script.on_check_access = [](const void*, const char* what) {
    return std::string(what) == "dst" ? Status(Code::kInvalidArgument, "dst is elsewhere")
                                      : Status();
  };
  runtime_ = make_dispatcher(session_, options, {});
  EXPECT_EQ(softmax(100).message(), "dst is elsewhere");
  EXPECT_TRUE(device_->launches().empty());
}

TEST_F(DispatcherTest, ThirtyTwoThreadsCompileOneKernelOnceEach) {
  open();
  std::vector<std::thread> threads;
  for (int i = 0; i < 32; ++i) {
    threads.emplace_back([this, i] {
      EXPECT_TRUE(softmax(64, 100 + i).ok());
      EXPECT_TRUE(softmax(64, 99).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<std::string> compiled = device_->compiled_entries();
  EXPECT_EQ(compiled.size(), std::set<std::string>(compiled.begin(), compiled.end()).size());
  EXPECT_EQ(compiled.size(), 33u);
  EXPECT_EQ(runtime_->stats().calls, 64u);
}

TEST_F(DispatcherTest, ClosingTheCacheWritesMissesAndKeepsServing) {
  open();
  serve(7);
  close_cache(*runtime_);
  EXPECT_EQ(session_.store->list_misses().value().size(), 1u);
  serve(7);
  serve(4000);
  runtime_.reset();
  EXPECT_EQ(session_.store->list_misses().value().size(), 1u);
}

}  // namespace
}  // namespace rowsmith
