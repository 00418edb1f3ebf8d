// SPDX-License-Identifier: Apache-2.0
//
// What a miss in a call does by policy: tune once, serve whatever becomes of that, launch nothing
// that is known to lose the device.
#include "tests/support/dispatch_fixture.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace rowsmith {
namespace {

class DispatcherTuningTest : public testing::DispatchFixture {};

TEST_F(DispatcherTuningTest, PolicyErrorAnswersNotTunedAndLaunchesNothing) {
  open(OnMiss::kError);
  EXPECT_EQ(softmax(4).code(), Code::kNotTuned);
  EXPECT_TRUE(device_->launches().empty());
  ASSERT_TRUE(store_winner(4, 1).ok());
  EXPECT_EQ(serve(4), entry(config(1)));
  EXPECT_EQ(serve(8), entry(config(1)));
}

TEST_F(DispatcherTuningTest, PolicyTuneTunesOnceAndServesTheWinner) {
  open(OnMiss::kTune, tune_to(2));
  EXPECT_EQ(serve(64), entry(config(2)));
  EXPECT_EQ(serve(64), entry(config(2)));
  EXPECT_EQ(tunings_, 1);
  EXPECT_EQ(runtime_->stats().tuned, 1u);
  EXPECT_EQ(runtime_->stats().exact, 2u);
}

TEST_F(DispatcherTuningTest, C54_AStreamOfChangingRowsDoesNotKeepTuning) {
  open(OnMiss::kTune, tune_to(1));
  for (std::int64_t rows = 1; rows <= 1000; ++rows) serve(rows);
  EXPECT_LE(tunings_, 10);
  EXPECT_GE(tunings_, 5);
  EXPECT_EQ(session_.store->list().value().size(), static_cast<std::size_t>(tunings_));
}

TEST_F(DispatcherTuningTest, C33_AFailedTuningIsNotRepeatedAndTheDefaultServes) {
  open(OnMiss::kTune, [this](const Session&, const Problem&, int) {
    ++tunings_;
    return Status(Code::kOutOfMemory, "scripted");
  });
  EXPECT_EQ(serve(64), entry(config(0)));
  EXPECT_EQ(serve(65), entry(config(0)));
  EXPECT_EQ(tunings_, 1);
  EXPECT_EQ(runtime_->stats().tuned, 0u);
}

TEST_F(DispatcherTuningTest, ATuningThatThrowsDoesNotEscape) {
  open(OnMiss::kTune,
       [](const Session&, const Problem&, int) -> Status { throw std::runtime_error("scripted"); });
  EXPECT_EQ(serve(64), entry(config(0)));
}

TEST_F(DispatcherTuningTest, ATuningThatLosesTheDeviceReturnsThatAndLaunchesNoMore) {
  open(OnMiss::kTune, [](const Session&, const Problem&, int) {
    return Status(Code::kDeviceLost, "illegal address");
  });
  EXPECT_EQ(softmax(100).to_string(), "device lost: illegal address");
  EXPECT_TRUE(device_->launches().empty());
  EXPECT_TRUE(session_.store->list().value().empty());
}

TEST_F(DispatcherTuningTest, WhileOneThreadTunesOthersAreServedTheDefault) {
  open(OnMiss::kTune, [this](const Session&, const Problem& asked, int) {
    // A second thread asks for the same problem in the middle of the first one's tuning.
    std::thread([this] { EXPECT_EQ(serve(64), entry(config(0))); }).join();
    return tune_to(2)(session_, asked, 0);
  });
  EXPECT_EQ(serve(64), entry(config(2)));
  EXPECT_EQ(serve(64), entry(config(2)));
  EXPECT_EQ(tunings_, 1);
}

TEST_F(DispatcherTuningTest, C64_TheDefaultIsNeverStoredAsAWinner) {
  ASSERT_TRUE(store_winner(100, 1).ok());
  const auto before = session_.store->list();
  open(OnMiss::kDefault);
  for (const std::int64_t rows : {100, 150, 1, 5000}) serve(rows);
  runtime_.reset();
  const auto after = session_.store->list();
  ASSERT_TRUE(after.ok());
  ASSERT_EQ(after.value().size(), 1u);
  EXPECT_EQ(after.value()[0].config, before.value()[0].config);
}

TEST_F(DispatcherTuningTest, WhatLostTheDeviceIsNotLaunchedAsTheDefault) {
  const Problem asked = problem(64);
  const Config killer = config(0);
  Rejection rejection{device_class(device_->facts()),
                      asked,
                      to_string(killer),
                      std::string(find_family(killer.family)->digest()),
                      Code::kDeviceLost,
                      "the worker died of signal 11 (SIGSEGV) while it ran this candidate"};
  ASSERT_TRUE(session_.store->put_rejection(rejection).ok());
  open(OnMiss::kDefault);
  EXPECT_NE(serve(64), entry(killer));
  EXPECT_EQ(serve(32), entry(killer)) << "another problem";
  // A changed family is another kernel.
  rejection.family_digest = "as it was before";
  ASSERT_TRUE(session_.store->put_rejection(rejection).ok());
  open(OnMiss::kDefault);
  EXPECT_EQ(serve(64), entry(killer));
}

}  // namespace
}  // namespace rowsmith
