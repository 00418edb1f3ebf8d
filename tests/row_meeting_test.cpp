// SPDX-License-Identifier: Apache-2.0
//
// Meetings of blocks that share a row, on the host device: what each block gets, in every order and
// again; places that other rows hold; and the same dst twice at once, which must not hang.
#include "kernel_templates/space.h"
#include "runtime/host_scheduler.h"
#include "tests/support/host_kernel.h"

#include "row_meeting_text.h"

#include <gmock/gmock.h>

#include <thread>

namespace rowsmith::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Blocks of one warp. Piece i of a row gives the reference 10 * row + i and the sum i + 1, and puts
// into its place of the row, in dst, what it got: the sum over i of (i + 1) * reference * sum. Rows
// are 256 words apart, as a meeting asks; p.count of them. Pieces come late by turns.
constexpr char kMeetBody[] = R"({
  using Meeting = RowMeeting<Acc, kPieces>;
  const int piece = static_cast<int>(block_index() % kPieces), lane = thread_index();
  for (i64 row = block_index() / kPieces; row < p.count; row += block_count() / kPieces) {
    float* out = reinterpret_cast<float*>(p.dst) + row * 256;
    const Meeting meeting(p.dst, row, out, piece);
    for (i64 i = (piece + row) % 3; i > 0; --i) spin_pause();
    if (lane == 0) meeting.join();
    sync();
    if (lane == 0) meeting.publish({Acc(10 * row + piece), Acc(piece + 1)});
    Part<Acc> parts[Meeting::kLaneParts];
    meeting.collect(parts);
    float got = 0;
    for (int k = 0; k < Meeting::kLaneParts; ++k) {
      const int i = k * 32 + lane;
      if (i < kPieces) got += static_cast<float>(Acc(i + 1) * parts[k].reference * parts[k].sum);
    }
    for (int mask = 16; mask > 0; mask /= 2) got += shfl_xor(got, mask);
    if (lane == 0) out[piece] = got;
    sync();
    if (lane == 0) meeting.leave();
  }
})";

std::string meet(int pieces, const char* acc) {
  return "{ constexpr int kPieces = " + std::to_string(pieces) + "; using Acc = " + acc + ";\n" +
         kMeetBody + "}";
}

Loaded load_meeting(int pieces, const HostOptions& options = {}, const char* acc = "float") {
  return load(meet(pieces, acc), options, detail::kRowMeetingText);
}

// What stands in dst after a meeting of `rows`; elsewhere what was there.
std::vector<float> met(int pieces, int rows, float elsewhere) {
  std::vector<float> values(static_cast<std::size_t>(rows) * 256, elsewhere);
  for (int row = 0; row < rows; ++row) {
    double sum = 0;
    for (int i = 0; i < pieces; ++i) sum += double(i + 1) * (10 * row + i) * (i + 1);
    const auto begin = values.begin() + row * 256;
    std::fill(begin, begin + pieces, static_cast<float>(sum));
  }
  return values;
}

LaunchShape together(int pieces, int groups, int threads = 32) {
  LaunchShape shape = shape_of(std::int64_t{groups} * pieces, threads);
  shape.together = pieces;
  return shape;
}

Buffer rows_of(const Loaded& loaded, int rows) {
  const Buffer out = loaded.device->allocate(static_cast<std::size_t>(rows) * 1024).value();
  EXPECT_TRUE(loaded.device->fill(out.data(), 0, out.bytes()).ok());
  return out;
}

TEST(HostRowMeeting, GivesEveryBlockEveryPartInEveryOrderAndAgain) {
  for (const HostOptions& options : orders()) {
    for (const int pieces : {8, 32, 40, 128}) {
      for (const char* acc : {"float", "double"}) {
        const Loaded loaded = load_meeting(pieces, options, acc);
        for (int replay = 0; replay < 3; ++replay) {
          const Buffer out = rows_of(loaded, 3);
          const Status status = loaded.run({nullptr, out.data(), 3}, together(pieces, 3));
          ASSERT_TRUE(status.ok()) << status.to_string();
          ASSERT_EQ(values_of<float>(out), met(pieces, 3, 0)) << pieces << " " << acc;
        }
      }
    }
  }
}

TEST(HostRowMeeting, ServesMoreRowsThanItHasPlaces) {
  const Loaded loaded = load_meeting(8);
  for (const int groups : {1, 7, 150}) {
    const Buffer out = rows_of(loaded, 150);
    const Status status = loaded.run({nullptr, out.data(), 150}, together(8, groups));
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(values_of<float>(out), met(8, 150, 0)) << groups;
  }
}

// Launches on threads of their own, so often that they meet at the same places.
void launch_at_once(const Loaded& loaded, const std::vector<Buffer>& outs, int rows) {
  std::vector<std::thread> threads;
  for (const Buffer& out : outs) {
    threads.emplace_back([&loaded, &out, rows] {
      for (int i = 0; i < 100; ++i) {
        const Status status = loaded.run({nullptr, out.data(), rows}, together(8, 2));
        ASSERT_TRUE(status.ok()) << status.to_string();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(HostRowMeeting, KeepsApartLaunchesThatHoldThePlacesInTurn) {
  constexpr int kRows = 80;  // more than the places, so that each launch has some at all of them
  const Loaded loaded = load_meeting(8);
  std::vector<Buffer> outs;
  for (int i = 0; i < 4; ++i) outs.push_back(rows_of(loaded, kRows));
  launch_at_once(loaded, outs, kRows);
  for (const Buffer& out : outs) EXPECT_EQ(values_of<float>(out), met(8, kRows, 0));
}

TEST(HostRowMeeting, DoesNotHangWhereOneDstIsWrittenFromTwoSidesAtOnce) {
  const Loaded loaded = load_meeting(8);
  const Buffer raced = rows_of(loaded, 5), other = rows_of(loaded, 5);
  launch_at_once(loaded, {raced, raced, raced, other}, 5);
  EXPECT_EQ(values_of<float>(other), met(8, 5, 0));
  // And leaves all places free.
  ASSERT_TRUE(loaded.run({nullptr, raced.data(), 5}, together(8, 5)).ok());
  EXPECT_EQ(values_of<float>(raced), met(8, 5, 0));
}

TEST(HostRowMeeting, IsReportedAsStuckWhereABlockStaysAway) {
  const Loaded loaded = load(R"({
  using Meeting = RowMeeting<float, 4>;
  const int piece = static_cast<int>(block_index());
  const Meeting meeting(p.dst, 0, p.dst, piece);
  if (piece == 2) return;
  if (thread_index() == 0) meeting.join();
  sync();
  if (thread_index() == 0) meeting.publish({0, 1});
  Part<float> parts[Meeting::kLaneParts];
  meeting.collect(parts);
})",
                             {}, detail::kRowMeetingText);
  const Buffer out = rows_of(loaded, 1);
  EXPECT_THAT(
      loaded.run({nullptr, out.data(), 1}, together(4, 1)).to_string(),
      AllOf(HasSubstr("stuck"), HasSubstr("125 threads from block 0 thread 0 have left the kernel"),
            HasSubstr("wait for a word in memory at row_meeting.cuh:")));
}

TEST(HostTogether, RefusesWhatCannotRunAtOnceAsUnsupported) {
  const Loaded loaded = load("{}");
  EXPECT_TRUE(loaded.run({}, together(128, 2, 64)).ok());
  const Status status = loaded.run({}, together(128, 2, 65));
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("128 blocks that wait for each other have more than the "
                                          "8192 threads"));
  LaunchShape ragged = together(8, 2);
  ragged.grid = 15;
  EXPECT_EQ(loaded.run({}, ragged).code(), Code::kLaunchFailed);
  // Spaces count on as many.
  EXPECT_EQ(resident_blocks(loaded.device->facts(), 1, 1), HostScheduler::kMaxFibers);
}

}  // namespace
}  // namespace rowsmith::testing
