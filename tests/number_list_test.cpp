// SPDX-License-Identifier: Apache-2.0

#include "tuner/number_list.h"

#include <gtest/gtest.h>

#include <limits>

namespace rowsmith {
namespace {

using Numbers = std::vector<std::int64_t>;

std::string error_of(std::string_view text, std::int64_t max = 1'000'000) {
  const auto result = parse_number_list(text, max);
  return result.ok() ? "" : result.status().message();
}

TEST(NumberList, ReadsNumbersAndInclusiveRangesInOrder) {
  const auto result = parse_number_list("256,1000-1003,7", 50'000);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(*result, (Numbers{256, 1000, 1001, 1002, 1003, 7}));
}

TEST(NumberList, DropsRepeats) {
  const auto result = parse_number_list("3,1-4,3", 100);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(*result, (Numbers{3, 1, 2, 4}));
}

TEST(NumberList, ReadsTheLargestNumberThereIs) {
  const auto max = std::numeric_limits<std::int64_t>::max();
  const auto result = parse_number_list("9223372036854775806-9223372036854775807", max);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(*result, (Numbers{max - 1, max}));
}

TEST(NumberList, KeepsAZeroBesideOthersOnly) {
  EXPECT_EQ(*parse_number_list("0,4", 9), (Numbers{0, 4}));
  EXPECT_EQ(error_of("0,0", 9), "'0,0' is outside 1 to 9");
}

TEST(NumberList, NamesThePieceThatIsWrong) {
  EXPECT_EQ(error_of("4,12x"), "'12x' is not a whole number");
  EXPECT_EQ(error_of("4,,5"), "'' is not a whole number");
  EXPECT_EQ(error_of(""), "'' is not a whole number");
  EXPECT_EQ(error_of("4-"), "'' is not a whole number");
  EXPECT_EQ(error_of(" 4"), "' 4' is not a whole number");
  EXPECT_EQ(error_of("1.5"), "'1.5' is not a whole number");
  EXPECT_EQ(error_of("10-5"), "'10-5' runs backwards");
  EXPECT_EQ(error_of("0", 9), "'0' is outside 1 to 9");
  EXPECT_EQ(error_of("-3", 9), "'-3' is outside 1 to 9");
  EXPECT_EQ(error_of("5-10", 9), "'10' is outside 1 to 9");
  EXPECT_EQ(error_of("99999999999999999999", 9), "'99999999999999999999' is outside 1 to 9");
}

TEST(NumberList, RefusesMoreNumbersThanAnyoneMeans) {
  EXPECT_EQ(error_of("1-100000", 2'000'000), "");
  EXPECT_EQ(error_of("1-100001", 2'000'000), "'1-100001' makes the list longer than 100000");
  EXPECT_EQ(error_of("1-60000,100001-160000"), "'100001-160000' makes the list longer than 100000");
}

TEST(Duration, ReadsMillisecondsSecondsAndMinutes) {
  EXPECT_DOUBLE_EQ(*parse_duration_s("500ms"), 0.5);
  EXPECT_DOUBLE_EQ(*parse_duration_s("30s"), 30);
  EXPECT_DOUBLE_EQ(*parse_duration_s("1.5m"), 90);
}

TEST(Duration, RefusesMissingUnitsAndNothing) {
  for (const char* text : {"", "30", "s", "30 s", "30h", "0s", "-1s", "infs", "nans"}) {
    const auto result = parse_duration_s(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.status().message().find("'" + std::string(text) + "'"), 0u) << text;
  }
}

TEST(ShardText, ReadsTheFirstAndTheLastShare) {
  for (const auto& [text, index] : {std::pair("1/8", 1u), std::pair("8/8", 8u)}) {
    const auto shard = parse_shard(text);
    ASSERT_TRUE(shard.ok()) << text;
    EXPECT_EQ(shard->index, index);
    EXPECT_EQ(shard->count, 8u);
  }
}

TEST(ShardText, NamesWhatIsWrong) {
  for (const auto& [text, message] :
       {std::pair("0/8", "'0' is outside 1 to 8"), std::pair("9/8", "'9' is outside 1 to 8"),
        std::pair("1/0", "'0' is outside 1 to 100000"),
        std::pair("1/100001", "'100001' is outside 1 to 100000"),
        std::pair("/8", "'' is not a whole number"), std::pair("1/", "'' is not a whole number"),
        std::pair("1/2/3", "'2/3' is not a whole number"),
        std::pair("3", "'3' is not a shard such as 3/8")}) {
    const auto shard = parse_shard(text);
    ASSERT_FALSE(shard.ok()) << text;
    EXPECT_NE(shard.status().message().find(message), std::string::npos)
        << shard.status().message();
  }
}

TEST(SizeText, ReadsBinaryUnitsAndRefusesTheRest) {
  EXPECT_EQ(*parse_bytes("0B"), 0);
  EXPECT_EQ(*parse_bytes("3KiB"), 3072);
  EXPECT_EQ(*parse_bytes("8388607TiB"), std::int64_t{8388607} << 40);
  for (const char* text : {"", "1", "GiB", "-1GiB", "1GB", "1.5GiB", "1GiB ", "8388608TiB"}) {
    const auto bytes = parse_bytes(text);
    ASSERT_FALSE(bytes.ok()) << text;
    EXPECT_EQ(bytes.status().message(),
              "'" + std::string(text) + "' is not a size such as 500MiB or 2GiB");
  }
}

}  // namespace
}  // namespace rowsmith
