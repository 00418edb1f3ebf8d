// SPDX-License-Identifier: Apache-2.0
//
// How a supervised tuning is shared over devices, and how long its workers may be silent.
#include "tests/support/cache_fixture.h"
#include "tuner/supervisor.h"

#include <initializer_list>
#include <vector>

namespace rowsmith {
namespace {

TuneRequest list_of(std::initializer_list<Problem> problems) {
  TuneRequest request;
  request.problems = problems;
  return request;
}

TEST(ShareOut, DealsTheListToEqualDevicesAndAllOfItToEachOther) {
  const Problem any = problem_of(4, 100);
  const auto shares =
      share_out({{"0", "H200"}, {"1", "L4"}, {"2", "H200"}}, list_of({any, any, any, any, any}));
  ASSERT_EQ(shares.size(), 3u);
  EXPECT_EQ(shares[0].device, "0");
  EXPECT_EQ(shares[0].problems, (std::vector<std::size_t>{0, 2, 4}));
  EXPECT_EQ(shares[1].problems, (std::vector<std::size_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(shares[2].device, "2");
  EXPECT_EQ(shares[2].problems, (std::vector<std::size_t>{1, 3}));
}

TEST(ShareOut, KeepsTheSOfAnHTogetherForBuckets) {
  TuneRequest request = list_of({problem_of(1, 100), problem_of(1, 200), problem_of(1, 300),
                                 problem_of(64, 100), problem_of(64, 200)});
  request.buckets = true;
  const auto shares = share_out({{"0", "H200"}, {"1", "H200"}}, request);
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_EQ(shares[0].problems, (std::vector<std::size_t>{0, 2, 3}));
  EXPECT_EQ(shares[1].problems, (std::vector<std::size_t>{1, 4}));
}

TEST(ShareOut, LeavesOutDevicesWithoutAProblem) {
  EXPECT_EQ(share_out({{"0", "H200"}, {"1", "H200"}}, list_of({problem_of(4, 100)})).size(), 1u);
  EXPECT_TRUE(share_out({{"host", ""}}, {}).empty());
}

TEST(SilenceLimit, IsHalfAMinuteAtLeastAndGrowsWithTheProblem) {
  const Problem small = problem_of(4, 100), large = problem_of(1 << 20, 8192);
  EXPECT_GE(silence_limit_s(small, kDeviceA), 30);
  EXPECT_LT(silence_limit_s(small, kDeviceA), 31);
  EXPECT_GT(silence_limit_s(large, kDeviceA), 300);
  EXPECT_GT(silence_limit_s(small, "host"), 10 * silence_limit_s(small, kDeviceA));
}

TEST(IdleLimit, LeavesCompilersMinutesOnAnyDeviceAndLongerOnTheHost) {
  const Problem small = problem_of(4, 100);
  EXPECT_GE(idle_limit_s(small, kDeviceA), 600);
  EXPECT_GE(idle_limit_s(small, ""), 600) << "before its device is known";
  EXPECT_GE(idle_limit_s(small, "host"), 3 * silence_limit_s(small, "host"));
}

}  // namespace
}  // namespace rowsmith
