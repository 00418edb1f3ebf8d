// SPDX-License-Identifier: Apache-2.0
//
// The small languages of the command line: "1,16,1000-1010" for sizes, "30s" for times. Every error
// names the piece that is wrong; the caller puts the option's name in front.
#pragma once

#include <rowsmith/status.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace rowsmith {

// Numbers and ascending inclusive ranges, by commas, each from 1 to `max`; repeats are dropped, the
// order stays. A 0 beside other numbers is kept, for the caller to tell of what is empty; alone it
// is wrong like any number outside. Invalid argument, also for more than 100000 numbers (a slip
// such as "1-2000000000" must not fill the memory).
Result<std::vector<std::int64_t>> parse_number_list(std::string_view text, std::int64_t max);

// One whole number from 0 to `max`. Invalid argument.
Result<std::int64_t> parse_number(std::string_view text, std::int64_t max);

// The i-th of n shares of the work.
struct Shard {
  std::size_t index = 1, count = 1;  // 1 <= index <= count
};
// "3/8". Invalid argument: not that form, i outside 1 to n, n outside 1 to 100000.
Result<Shard> parse_shard(std::string_view text);

// "500MiB", "2GiB", "0B" in bytes. Invalid argument unless it is a whole number with a unit (B,
// KiB, MiB, GiB, TiB) below 2^63.
Result<std::int64_t> parse_bytes(std::string_view text);

// "500ms", "30s", "1.5m" in seconds. Invalid argument unless it is above zero and has a unit.
Result<double> parse_duration_s(std::string_view text);

}  // namespace rowsmith
