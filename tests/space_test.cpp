// SPDX-License-Identifier: Apache-2.0
//
// The enumeration of spaces, and the agreement of each family's space with its why_illegal.
#include "kernel_templates/space.h"

#include "kernel_templates/catalog.h"
#include "runtime/devices.h"

#include <rowsmith/text.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace rowsmith {
namespace {

const std::vector<Axis>& axes() {
  static const std::vector<Axis> all{
      {"a", {"1", "2", "3"}}, {"b", {"1", "2"}}, {"c", {"1", "2", "3", "4"}}, {"d", {"1", "2"}}};
  return all;
}

std::vector<std::string> texts(const std::vector<Config>& configs) {
  std::vector<std::string> result;
  for (const Config& config : configs) result.push_back(to_string(config));
  return result;
}

// By a filter at the last axis alone, which passes nothing over.
std::vector<std::string> filtered(const std::vector<Constraint>& constraints) {
  return texts(enumerate("f", axes(), {{"d", [&](const Config& config) {
                                          for (const Constraint& c : constraints) {
                                            if (const char* why = c.why_not(config)) return why;
                                          }
                                          return static_cast<const char*>(nullptr);
                                        }}}));
}

TEST(Space, HoldsEveryPointInOrderWhereNothingIsForbidden) {
  const std::vector<std::string> all = texts(enumerate("f", axes(), {}));
  EXPECT_EQ(all.size(), 48u);
  EXPECT_EQ(all.front(), "f:a=1,b=1,c=1,d=1");
  EXPECT_EQ(all[1], "f:a=1,b=1,c=1,d=2");
  EXPECT_EQ(all.back(), "f:a=3,b=2,c=4,d=2");
}

TEST(Space, PassesOverBranchesWithoutLosingAPoint) {
  const auto refuses = [](const char* axis, int value) {
    return [axis, value](const Config& config) {
      return config.number(axis) == value ? "no" : nullptr;
    };
  };
  const auto sum_is_even = [](const Config& config) {
    return (config.number("a") + config.number("c")) % 2 ? "odd" : nullptr;
  };
  const std::vector<std::vector<Constraint>> cases{
      {{"a", refuses("a", 1)}},
      {{"a", refuses("a", 3)}, {"b", refuses("b", 2)}},
      {{"b", refuses("b", 1)}, {"c", sum_is_even}, {"d", refuses("d", 2)}},
      {{"c", sum_is_even}, {"a", refuses("a", 2)}},
  };
  for (const auto& constraints : cases) {
    EXPECT_EQ(texts(enumerate("f", axes(), constraints)), filtered(constraints));
  }
  EXPECT_TRUE(enumerate("f", axes(), {{"a", [](const Config&) { return "no"; }}}).empty());
}

TEST(Space, OfEveryFamilyHoldsWhatItCallsLegal) {
  for (const int arch : {75, 90, 120}) {
    const DeviceFacts facts = nominal_facts(arch);
    for (const std::int64_t cols : {7, 1000, 50257}) {
      for (const bool in_place : {false, true}) {
        Problem problem = contiguous_problem(DType::kF16, DType::kF16, 64, cols);
        problem.layout.in_place = in_place;
        for (const Family* family : catalog()) {
          for (const Config& config : family->space(problem, facts)) {
            ASSERT_EQ(family->why_illegal(problem, facts, config), "") << to_string(config);
          }
        }
      }
    }
  }
}

TEST(Space, DefaultIsTheFirstOfTheRankedSpaceThatNoContextRefuses) {
  std::set<std::string> refusable;
  for (const int arch : {75, 90}) {
    const DeviceFacts facts = nominal_facts(arch);
    for (const std::int64_t cols : {1, 7, 257, 4096, 50257, 262144, 1000003}) {
      for (const DType dtype : {DType::kF32, DType::kF16, DType::kF8E4M3, DType::kF64}) {
        for (const std::int64_t rows : {1, 64}) {
          const Problem problem = contiguous_problem(dtype, dtype, rows, cols);
          const std::vector<Config> legal = legal_configs(problem, facts);
          const auto first = std::find_if(legal.begin(), legal.end(), [&](const Config& config) {
            const Family* family = find_family(config.family);
            if (family->context_may_refuse()) refusable.emplace(family->name());
            return !family->context_may_refuse();
          });
          EXPECT_EQ(default_config(problem, facts), *first);
          EXPECT_EQ(default_of(legal), *first);
        }
      }
    }
  }
  EXPECT_EQ(refusable, std::set<std::string>{"grid_row"}) << "some would be first";
}

TEST(Space, OfGridRowHasNoMoreBlocksThanRunAtOnce) {
  const DeviceFacts facts = nominal_facts(90);
  const Family& grid_row = *find_family("grid_row");
  std::set<std::int64_t> grids;
  for (const std::int64_t rows : {1, 4, 16, 66, 67}) {
    const Problem problem = contiguous_problem(DType::kF32, DType::kF32, rows, 32768);
    for (const Config& config : grid_row.space(problem, facts)) {
      const Geometry geometry = grid_row.geometry(problem, facts, config);
      const std::int64_t grid = rows * geometry.blocks_per_row;
      EXPECT_EQ(geometry.together, geometry.blocks_per_row);
      EXPECT_LE(grid, facts.sm_count * config.number("min_blocks")) << to_string(config);
      EXPECT_LE(rows, geometry.walkers);
      grids.insert(grid);
    }
  }
  EXPECT_EQ(*grids.rbegin(), 528);  // 66 rows in 8 pieces: 4 blocks on each of 132
}

// H200, 2026-11-30: within 2 % of the best of all configs of the family.
TEST(Space, OfGridRowBeginsWithWhatWasMeasuredBest) {
  const DeviceFacts facts = nominal_facts(90);
  const auto first_ten = [&](std::int64_t rows, std::int64_t cols) {
    const Problem problem = contiguous_problem(DType::kF32, DType::kF32, rows, cols);
    std::vector<Config> legal = legal_configs(problem, facts);
    std::erase_if(legal, [](const Config& config) { return config.family != "grid_row"; });
    legal.resize(10);
    return texts(legal);
  };
  const auto expect_in = [](const std::vector<std::string>& ranked, const std::string& best) {
    EXPECT_NE(std::find(ranked.begin(), ranked.end(), "grid_row:" + best), ranked.end()) << best;
  };
  const std::vector<std::string> four = first_ten(4, 1048576);
  for (const char* pack : {"2", "4"}) {
    expect_in(four, "pieces=32,threads=960,min_blocks=1,pack=" + std::string(pack) +
                        ",start=aligned,keep=f32,load=nc,store=cs");
  }
  const std::vector<std::string> one = first_ten(1, 1000003);
  for (const char* threads : {"512,min_blocks=2", "768,min_blocks=1", "960,min_blocks=1"}) {
    expect_in(one, "pieces=64,threads=" + std::string(threads) +
                       ",pack=4,start=any,keep=f32,load=cs,store=cs");
  }
}

// H200, 2026-12-01: 256 threads in 80 registers leave room for the next launch's blocks, and packs
// of four are ahead of packs of eight; 1 x 131072 needs no bound.
TEST(Space, OfFewLongRowsBeginsWithClustersThatLeaveRoom) {
  const auto first = [](std::int64_t rows, std::int64_t cols) {
    return to_string(default_config(contiguous_problem(DType::kF16, DType::kF16, rows, cols),
                                    nominal_facts(90)));
  };
  EXPECT_EQ(first(16, 262144),
            "cluster_row:cluster=16,threads=256,min_blocks=3,pack=4,start=aligned,keep=f32,load=nc,"
            "store=cs");
  EXPECT_EQ(first(1, 131072),
            "cluster_row:cluster=16,threads=256,min_blocks=1,pack=4,start=aligned,keep=f32,load=nc,"
            "store=cs");
}

// H200, 2026-12-01: f16 4096 x 257 by single elements 2.42 us, in packs 2.51 to 2.54; where rows
// are many it is the other way round.
TEST(Space, OfOddRowsThatRunAllAtOnceHasSingleElementsAmongTheFirst) {
  const auto place_of_single = [](std::int64_t rows) {
    const auto legal =
        legal_configs(contiguous_problem(DType::kF16, DType::kF16, rows, 257), nominal_facts(90));
    return std::find_if(legal.begin(), legal.end(),
                        [](const Config& config) { return config.number("pack", 0) == 1; }) -
           legal.begin();
  };
  EXPECT_LT(place_of_single(4096), 24);
  EXPECT_GT(place_of_single(262144), 24);
}

TEST(Space, OfGridRowEndsWithWhatSpilled) {
  const DeviceFacts facts = nominal_facts(90);
  const Problem problem = contiguous_problem(DType::kF32, DType::kF32, 4, 1048576);
  const Family& grid_row = *find_family("grid_row");
  double worst = 0, best = 1e9;
  for (const Config& config : grid_row.space(problem, facts)) {
    const double rank = grid_row.rank(problem, facts, config);
    const int threads = config.number("threads"), min_blocks = config.number("min_blocks");
    const bool spilled = (min_blocks == 2 && threads >= 768) || (min_blocks == 4 && threads == 384);
    spilled ? best = std::min(best, rank) : worst = std::max(worst, rank);
  }
  EXPECT_LT(worst, best) << "some that spilled are expected before some that did not";
}

}  // namespace
}  // namespace rowsmith
