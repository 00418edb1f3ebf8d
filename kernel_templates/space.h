// SPDX-License-Identifier: Apache-2.0
//
// What the families' spaces are made of: axes, their enumeration, and the constraints that several
// families share. A constraint answers "" or the reason why not.
#pragma once

#include <rowsmith/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace rowsmith {

// A parameter and its values, in the order of enumeration.
struct Axis {
  std::string_view name;
  std::vector<std::string_view> values;
};

// Why a config is not legal, or nullptr. Reads no axis after `last`, so that a whole branch of the
// space can be passed over.
struct Constraint {
  std::string_view last;
  std::function<const char*(const Config&)> why_not;
};

// Every point of the axes that all constraints let pass, the last axis varying first.
std::vector<Config> enumerate(std::string_view family, const std::vector<Axis>& axes,
                              const std::vector<Constraint>& constraints);

// Empty if the config names exactly these axes in this order, with values of theirs; else why not.
std::string check_axes(std::string_view family, const std::vector<Axis>& axes,
                       const Config& config);

// H as 32-bit columns, and dtypes that RowSlice moves: f64 to itself, all others to each other.
const char* check_row_problem(const Problem& problem);
// `pack` (elements) and `start` (aligned | any) against the layout: accesses of at most 16 bytes
// (32 where the device has them), on their own border. "any" is offered only where "aligned" does
// not hold.
const char* check_pack(const Problem& problem, const DeviceFacts& facts, const Config& config);
// `load` against aliasing: the read-only path must not see memory that the launch writes.
const char* check_load(const Problem& problem, const Config& config);
// `keep`: packed is for 8-bit and 16-bit input.
const char* check_keep(const Problem& problem, const Config& config);
// threads * min_blocks fits a multiprocessor, and `registers_needed` a thread fit its share.
const char* check_occupancy(const DeviceFacts& facts, int threads, int min_blocks,
                            int registers_needed);

// Blocks that the device is sure to run at once, of kernels that are compiled for `min_blocks` on a
// multiprocessor.
int resident_blocks(const DeviceFacts& facts, int threads, int min_blocks);

// 32-bit registers that a lane needs to hold its share of a row with `lanes` lanes.
int registers_for_row(const Problem& problem, const Config& config, int lanes);

// "using In = f16; using Out = f16;".
std::string row_types(const Problem& problem);
// The types, kCols, kPack, kLanes, kAnyStart, kLoad and kStore.
std::string row_traits(const Problem& problem, const Config& config, int lanes);
// And kKeepPacked: the traits that RowSlice reads.
std::string row_slice_traits(const Problem& problem, const Config& config, int lanes);
// kLoad and kStore.
std::string policy_traits(const Config& config);
// "static constexpr int kThreads = 256;" (locale-free).
std::string int_trait(std::string_view name, long long value);
std::string bool_trait(std::string_view name, bool value);

// RowSlice's axes: pack, start, keep, load, store.
const std::vector<Axis>& row_slice_axes();

// What all families' ranks share. Full packs come first: narrow ones cost 15 to 40 % (pack 1 on
// f16), more than any other axis. Policies come last: they move 1 %, so each alternative stands
// behind a step of any other axis.
double pack_rank(const Problem& problem, int pack);
// Of block_row and cluster_row: of 16-bit elements, fours come first.
double long_row_pack_rank(const Problem& problem, int pack);
double policy_rank(const Problem& problem, const Config& config);
double keep_rank(const Problem& problem, const Config& config);
// What it costs to have fewer rows on a multiprocessor than keep memory busy while others compute;
// `lanes` share a row. Reads the axes threads, min_blocks and keep.
double flight_rank(const Problem& problem, const DeviceFacts& facts, const Config& config,
                   int lanes);
// What it costs to launch blocks for so many rows each, where that takes longer than to move them.
double launch_rank(const Problem& problem, double rows_per_block);
// Of shared memory that an Arrival takes, on every device.
constexpr std::int64_t kArrivalBytes = 32;

// 32-bit registers of one value while it is computed with: 2 for f64, else 1.
int accumulator_words(const Problem& problem);
// Bytes of a Part, what merging a row over warps takes of shared memory for each.
int part_bytes(const Problem& problem);
// Bytes of an element on the side where they are more.
std::int64_t bytes_of_wider(const Problem& problem);

// |log2(value / ideal)|: how far a parameter is from where it is expected to be best.
double octaves_from(double value, double ideal);

// The least power of two >= value, for value >= 1.
long long power_of_two_at_least(long long value);

}  // namespace rowsmith
