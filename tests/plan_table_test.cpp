// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan_table.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace rowsmith {
namespace {

constexpr std::uint64_t kKey = 7;

Served served(Source source, int threads) {
  Served value;
  value.source = source;
  value.plan.geometry.threads = threads;  // tells them apart
  return value;
}

// The `threads` of what serves, or 0.
int at(const PlanTable& table, std::int64_t rows, std::uint64_t key = kKey) {
  const Served* found = table.find(key, rows);
  return found == nullptr ? 0 : found->plan.geometry.threads;
}

TEST(PlanTable, KnowsNothingAtFirst) {
  EXPECT_EQ(at(PlanTable(), 1), 0);
}

TEST(PlanTable, ServesTheIntervalAndNothingBesideIt) {
  PlanTable table;
  table.publish(kKey, 70, 64, 127, served(Source::kDefault, 1));
  EXPECT_EQ(at(table, 63), 0);
  EXPECT_EQ(at(table, 64), 1);
  EXPECT_EQ(at(table, 127), 1);
  EXPECT_EQ(at(table, 128), 0);
  EXPECT_EQ(at(table, 64, kKey + 1), 0);
}

TEST(PlanTable, AnExactWinnerSplitsTheIntervalThatItLiesIn) {
  PlanTable table;
  table.publish(kKey, 70, 64, 127, served(Source::kDefault, 1));
  table.publish(kKey, 100, 100, 100, served(Source::kExact, 2));
  EXPECT_EQ(at(table, 99), 1);
  EXPECT_EQ(at(table, 100), 2);
  EXPECT_EQ(at(table, 101), 1);
}

TEST(PlanTable, WhatIsNotExactIsCutBetweenExactWinners) {
  PlanTable table;
  table.publish(kKey, 100, 100, 100, served(Source::kExact, 1));
  table.publish(kKey, 110, 110, 110, served(Source::kExact, 2));
  table.publish(kKey, 105, 50, 200, served(Source::kNearest, 3));
  EXPECT_EQ(at(table, 99), 0);
  EXPECT_EQ(at(table, 100), 1);
  EXPECT_EQ(at(table, 101), 3);
  EXPECT_EQ(at(table, 109), 3);
  EXPECT_EQ(at(table, 110), 2);
  EXPECT_EQ(at(table, 111), 0);
}

TEST(PlanTable, ALaterIntervalTakesWhatItMeets) {
  PlanTable table;
  table.publish(kKey, 70, 64, 127, served(Source::kDefault, 1));
  table.publish(kKey, 100, 90, 200, served(Source::kNearest, 2));
  EXPECT_EQ(at(table, 89), 1);
  EXPECT_EQ(at(table, 90), 2);
  EXPECT_EQ(at(table, 200), 2);
}

TEST(PlanTable, EvictionTakesEveryPieceOfWhatServed) {
  PlanTable table;
  table.publish(kKey, 70, 64, 127, served(Source::kDefault, 1));
  const Served* whole = table.find(kKey, 64);
  table.publish(kKey, 100, 100, 100, served(Source::kExact, 2));
  table.evict(kKey, whole);
  EXPECT_EQ(at(table, 64), 0);
  EXPECT_EQ(at(table, 100), 2);
  EXPECT_EQ(at(table, 127), 0);
}

TEST(PlanTable, KeysDifferInEveryPartOfTheProblemButItsRows) {
  const Problem base = contiguous_problem(DType::kF16, DType::kF16, 4, 1000);
  std::vector<Problem> others(8, base);
  others[0].in = DType::kBF16;
  others[1].out = DType::kF32;
  others[2].cols = 1001;
  others[3].layout.src_align = 4;
  others[4].layout.dst_align = 4;
  others[5].layout.co_align = 4;
  others[6].layout.src_pitched = true;
  others[7].layout.in_place = true;
  std::set<std::uint64_t> keys{node_key(base)};
  for (const Problem& other : others) keys.insert(node_key(other));
  EXPECT_EQ(keys.size(), 9u);
  Problem more_rows = base;
  more_rows.rows = 5;
  EXPECT_EQ(node_key(more_rows), node_key(base));
}

TEST(PlanTable, ReadersSeeWholeAnswersWhileWritersPublish) {
  PlanTable table;
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!done) {
        for (std::uint64_t key = 1; key <= 64; ++key) {
          const int threads = at(table, 10, key);
          if (threads != 0 && threads != static_cast<int>(key)) ++wrong;
        }
      }
    });
  }
  for (int round = 0; round < 20; ++round) {
    for (std::uint64_t key = 1; key <= 64; ++key) {
      table.publish(key, 10, 1, 10 + round, served(Source::kDefault, static_cast<int>(key)));
    }
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(at(table, 29, 64), 64);
}

}  // namespace
}  // namespace rowsmith
