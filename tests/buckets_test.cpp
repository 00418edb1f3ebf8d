// SPDX-License-Identifier: Apache-2.0
//
// Which S are tuned between those listed, on winners of synthetic times; and what the ladder then
// promises is what a call in between loses.
#include "tuner/buckets.h"

#include "kernel_templates/catalog.h"
#include "runtime/ladder.h"
#include "tests/support/scripted_device.h"

#include <rowsmith/text.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <set>

namespace rowsmith {
namespace {

constexpr std::size_t kConfigs = 6;

Problem problem(std::int64_t rows, std::int64_t cols = 1000) {
  return contiguous_problem(DType::kF32, DType::kF32, rows, cols);
}

// What a tuner would store, by synthetic times.
class Tuner {
 public:
  using Time = std::function<double(std::size_t config, std::int64_t rows)>;

  explicit Tuner(Time time) : time_(std::move(time)) {
    const std::vector<Config> legal = legal_configs(problem(4), facts_);
    configs_.assign(legal.begin(), legal.begin() + kConfigs);
  }

  void tune(std::int64_t rows) {
    if (broken_.count(rows) > 0) return;
    WinnerRecord record;
    record.device_class = device_class(facts_);
    record.problem = problem(rows);
    record.config = configs_[best_at(rows)];
    record.family_digest = std::string(find_family(record.config.family)->digest());
    record.evidence.median_ns = 1;
    const auto above = winners_.upper_bound(rows);
    if (above != winners_.end()) record.evidence.above = reuse_of(above->second, rows);
    if (above != winners_.begin()) {
      record.evidence.below = reuse_of(std::prev(above)->second, rows);
    }
    winners_[rows] = record;
  }
  // Tunes what of the list is not stored, then what Buckets asks for; answers the S of the latter.
  std::vector<std::int64_t> run(const std::vector<std::int64_t>& list) {
    std::vector<Problem> listed;
    for (const std::int64_t rows : list) {
      listed.push_back(problem(rows));
      if (winners_.count(rows) == 0) tune(rows);
    }
    Buckets buckets(listed);
    std::vector<std::int64_t> asked;
    while (true) {
      const auto next = buckets.next([this](const Problem&) { return winners(); });
      if (next.empty()) return asked;
      for (const Problem& each : next) {
        asked.push_back(each.rows);
        tune(each.rows);
      }
    }
  }
  std::vector<WinnerRecord> winners() const {
    std::vector<WinnerRecord> all;
    for (const auto& [rows, record] : winners_) all.push_back(record);
    return all;
  }
  Choice ask(std::int64_t rows) const {
    const Problem asked = problem(rows);
    const std::vector<WinnerRecord> all = winners();
    Result<Choice> choice = choose({asked, facts_, all, nullptr, {}});
    EXPECT_TRUE(choice.ok());
    return choice.ok() ? *choice : Choice();
  }
  // The time of what serves, over that of the best.
  double loss(const Config& config, std::int64_t rows) const {
    return time_(index_of(config), rows) / time_(best_at(rows), rows);
  }
  std::size_t best_at(std::int64_t rows) const {
    std::size_t best = 0;
    for (std::size_t i = 1; i < kConfigs; ++i) {
      if (time_(i, rows) < time_(best, rows)) best = i;
    }
    return best;
  }
  void breaks_at(std::int64_t rows) { broken_.insert(rows); }
  void forget_measurements() {
    for (auto& [rows, record] : winners_) record.evidence.below = record.evidence.above = {};
  }

 private:
  std::size_t index_of(const Config& config) const {
    const auto found = std::find(configs_.begin(), configs_.end(), config);
    EXPECT_NE(found, configs_.end()) << to_string(config);
    return static_cast<std::size_t>(found - configs_.begin());
  }
  Reuse reuse_of(const WinnerRecord& other, std::int64_t here) const {
    return {other.problem.rows, to_string(other.config), loss(other.config, here)};
  }

  Time time_;
  DeviceFacts facts_ = testing::scripted_facts();
  std::vector<Config> configs_;
  std::map<std::int64_t, WinnerRecord> winners_;
  std::set<std::int64_t> broken_;
};

using Asked = std::vector<std::int64_t>;

// Config 0 up to `border`, config 1 beyond, each `factor` slower on the other's side.
Tuner::Time border_at(std::int64_t border, double factor) {
  return [=](std::size_t config, std::int64_t rows) {
    if (config > 1) return 1e9;
    return (rows <= border) == (config == 0) ? 1.0 : factor;
  };
}

TEST(Buckets, AskForNothingWhereOneConfigWinsAtBothEnds) {
  EXPECT_EQ(Tuner(border_at(1 << 20, 2)).run({1, 4096}), Asked{});
}

TEST(Buckets, AskForNothingWhereTheOtherWinnerCostsLittle) {
  EXPECT_EQ(Tuner(border_at(100, 1.05)).run({16, 4096}), Asked{});
}

TEST(Buckets, HalveTheGapThatHoldsTheBorderUntilItIsAFactorOfTwo) {
  Tuner tuner(border_at(100, 1.06));
  EXPECT_EQ(tuner.run({16, 4096}), (Asked{256, 64, 128}));
  EXPECT_EQ(tuner.run({16, 4096}), Asked{});  // all is known
}

TEST(Buckets, AskForTheOnlySInBetween) {
  EXPECT_EQ(Tuner(border_at(1, 2)).run({1, 3}), Asked{2});
  EXPECT_EQ(Tuner(border_at(1, 2)).run({1, 2}), Asked{});
}

TEST(Buckets, CoverTheListOnly) {
  Tuner tuner(border_at(100, 2));
  tuner.tune(1);
  tuner.tune(1 << 20);
  EXPECT_EQ(tuner.run({200, 4096}), Asked{});
  EXPECT_EQ(tuner.run({128}), Asked{});
}

TEST(Buckets, MeasureWhatWasStoredWithoutNeighbours) {
  Tuner tuner(border_at(100, 1.04));
  tuner.tune(16);
  tuner.tune(4096);
  tuner.forget_measurements();
  EXPECT_EQ(tuner.run({16, 4096}), (Asked{256}));
}

TEST(Buckets, AskOnceForWhatCannotBeTuned) {
  Tuner tuner(border_at(100, 2));
  tuner.breaks_at(256);
  EXPECT_EQ(tuner.run({16, 4096}), Asked{256});
}

TEST(Buckets, KeepTheProblemsOfAListApart) {
  Tuner tuner(border_at(100, 2));
  tuner.tune(16);
  tuner.tune(4096);
  Problem pitched = problem(16);
  pitched.layout.src_pitched = true;
  Buckets buckets({problem(16), problem(16, 500), problem(0), problem(4096, 500), problem(4096),
                   pitched, problem(16, 700)});
  const auto next = buckets.next([&](const Problem& any) {
    std::vector<WinnerRecord> winners = tuner.winners();
    for (WinnerRecord& winner : winners) winner.problem.cols = any.cols;
    return winners;
  });
  EXPECT_EQ(next, (std::vector<Problem>{problem(256), problem(256, 500)}));
}

TEST(Buckets, DivideGapsUpToTheGreatestS) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  Tuner tuner(border_at(1000, 2));
  EXPECT_LE(tuner.run({1, most}).size(), 8u);
}

// Whatever the times: at every winner, what serves beside it loses what was promised.
void expect_promises_kept(const Tuner& tuner, std::int64_t lo, std::int64_t hi) {
  const std::vector<WinnerRecord> winners = tuner.winners();
  ASSERT_EQ(winners.front().problem.rows, lo);
  ASSERT_EQ(winners.back().problem.rows, hi);
  for (std::size_t i = 1; i < winners.size(); ++i) {
    const std::int64_t below = winners[i - 1].problem.rows, above = winners[i].problem.rows;
    if (above <= 2 * below) continue;
    for (const std::int64_t rows : {below + 1, (below + above) / 2, above - 1}) {
      const Choice choice = tuner.ask(rows);
      ASSERT_EQ(choice.source, Source::kNearest) << rows;
      EXPECT_LE(tuner.loss(choice.config, below), kReuseTolerance) << below << ' ' << above;
      EXPECT_LE(tuner.loss(choice.config, above), kReuseTolerance) << below << ' ' << above;
    }
  }
}

class BucketPromises : public ::testing::TestWithParam<int> {
 protected:
  double pick(double least, double most) {
    return least * std::pow(most / least, std::uniform_real_distribution<double>(0, 1)(random_));
  }
  std::mt19937 random_{static_cast<std::mt19937::result_type>(GetParam())};
};
INSTANTIATE_TEST_SUITE_P(Seeds, BucketPromises, ::testing::Range(0, 40));

TEST_P(BucketPromises, HoldAtTheWinnersWhateverTheTimes) {
  std::map<std::pair<std::size_t, std::int64_t>, double> times;
  Tuner tuner([&](std::size_t config, std::int64_t rows) {
    const auto [time, fresh] = times.try_emplace({config, rows}, 0);
    if (fresh) time->second = pick(1, 1.5);
    return time->second;
  });
  tuner.run({1, 7, 4096});
  expect_promises_kept(tuner, 1, 4096);
}

// A fixed cost and a cost a row: then they hold at every S.
TEST_P(BucketPromises, HoldInBetweenWhereTimesAreLinear) {
  double fixed[kConfigs], a_row[kConfigs];
  for (std::size_t i = 0; i < kConfigs; ++i) {
    fixed[i] = pick(10, 1000);
    a_row[i] = pick(0.1, 10);
  }
  Tuner tuner([&](std::size_t config, std::int64_t rows) {
    return fixed[config] + a_row[config] * static_cast<double>(rows);
  });
  tuner.run({1, 100, 4096});
  expect_promises_kept(tuner, 1, 4096);
  const std::vector<WinnerRecord> winners = tuner.winners();
  for (std::size_t i = 1; i < winners.size(); ++i) {
    if (!is_bounded(winners[i - 1], winners[i])) continue;
    for (std::int64_t rows = winners[i - 1].problem.rows; rows <= winners[i].problem.rows; ++rows) {
      EXPECT_LE(tuner.loss(tuner.ask(rows).config, rows), kReuseTolerance + 1e-9) << rows;
    }
  }
}

}  // namespace
}  // namespace rowsmith
