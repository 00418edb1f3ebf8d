// SPDX-License-Identifier: Apache-2.0
//
// What every WinnerStore promises, checked on all of them.
#include "cache/record.h"
#include "cache/sqlite_store.h"
#include "tests/support/cache_fixture.h"

#include <limits>
#include <random>
#include <thread>
#include <vector>

namespace rowsmith {
namespace {

enum class Kind { kMemory, kSqliteWal, kSqliteRollback, kOpened };
void PrintTo(Kind kind, std::ostream* out) {
  constexpr const char* kNames[] = {"Memory", "SqliteWal", "SqliteRollback", "Opened"};
  *out << kNames[static_cast<int>(kind)];
}

class StoreContract : public testing::TestWithParam<Kind> {
 protected:
  StoreContract() : store_(make("a")) {}

  // A fresh store; `name` keeps those of one test apart.
  std::unique_ptr<WinnerStore> make(const std::string& name) {
    const bool wal = GetParam() == Kind::kSqliteWal;
    switch (GetParam()) {
      case Kind::kMemory: return make_memory_store();
      case Kind::kOpened: return open_store({directory_ / name, false, {}, 5000}).store;
      default: break;
    }
    auto opened = open_sqlite_store({directory_ / (name + ".db"), false, wal, 5000});
    EXPECT_TRUE(opened.ok()) << opened.status().to_string();
    return std::move(opened->store);
  }

  void put(const WinnerRecord& record) {
    const Status status = store_->put(record);
    EXPECT_TRUE(status.ok()) << status.to_string();
  }

  TemporaryDirectory directory_;
  std::unique_ptr<WinnerStore> store_;
};

TEST_P(StoreContract, ReturnsAbsentForAnUnknownProblem) {
  EXPECT_EQ(median_in(*store_, problem_of(4, 257)), 0);
  EXPECT_EQ(content_of(*store_), export_winners({}));
}

TEST_P(StoreContract, ReturnsEveryFieldOfWhatWasPut) {
  WinnerRecord record = record_of(problem_of(4096, 50257));
  record.problem.layout.src_pitched = record.problem.layout.in_place = true;
  record.evidence.runner_up = "warp_rows";
  record.evidence.runner_up_ns = 1600;
  record.evidence.contended = true;
  record.evidence.speedup_low = 1.03125;
  record.evidence.speedup_high = 1.0625;
  record.evidence.sm_clock_mhz = 1410;
  record.evidence.sm_clock_high_mhz = 1980;
  record.evidence.memory_clock_mhz = 3201;
  record.evidence.throttled = "power cap, thermal";
  record.evidence.families = "split_row,warp_rows";
  record.evidence.max_error_ulp = 0.501953125;
  put(record);
  const auto found = store_->find(kDeviceA, record.problem);
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ(export_winners({**found}), export_winners({record}));
  EXPECT_EQ((*found)->config, record.config);
}

TEST_P(StoreContract, ReplacesTheRecordOfAKey) {
  put(record_of(problem_of(4, 257), 900));
  put(record_of(problem_of(4, 257), 1200));
  EXPECT_EQ(content_of(*store_), export_winners({record_of(problem_of(4, 257), 1200)}));
}

TEST_P(StoreContract, ReturnsAbsentForOtherDtypes) {
  put(record_of(problem_of(4, 8192, DType::kF16, DType::kF16)));
  EXPECT_EQ(median_in(*store_, problem_of(4, 8192, DType::kF32, DType::kF32)), 0);
  EXPECT_EQ(median_in(*store_, problem_of(4, 8192, DType::kF16, DType::kF32)), 0);
}

TEST_P(StoreContract, ReturnsAbsentForAnotherLayout) {
  Problem problem = problem_of(4, 257);
  put(record_of(problem));
  problem.layout.dst_align = 1;
  EXPECT_EQ(median_in(*store_, problem), 0);
}

TEST_P(StoreContract, ReturnsAbsentForAnotherDeviceClass) {
  put(record_of(problem_of(4, 257), 900, kDeviceA));
  put(record_of(problem_of(4, 257), 1100, kDeviceB));
  EXPECT_EQ(median_in(*store_, problem_of(4, 257), kDeviceA), 900);
  EXPECT_EQ(median_in(*store_, problem_of(4, 257), kDeviceB), 1100);
  EXPECT_EQ(median_in(*store_, problem_of(4, 257), "host"), 0);
}

TEST_P(StoreContract, SharesWinnersOfEqualSiliconWhateverItsName) {
  DeviceFacts facts;
  facts.kind = "cuda";
  facts.name = "NVIDIA One";
  facts.capability = 89;
  put(record_of(problem_of(4, 257), 900, device_class(facts)));
  facts.name = "Two";
  EXPECT_EQ(median_in(*store_, problem_of(4, 257), device_class(facts)), 900);
  facts.sm_count = 142;
  EXPECT_EQ(median_in(*store_, problem_of(4, 257), device_class(facts)), 0);
}

TEST_P(StoreContract, FindsTheSameColumnsByAscendingRows) {
  for (const int rows : {4096, 1, 64}) put(record_of(problem_of(rows, 1000), 100 + rows));
  put(record_of(problem_of(64, 1001)));
  put(record_of(problem_of(64, 1000, DType::kF32, DType::kF32)));
  put(record_of(problem_of(64, 1000), 7, kDeviceB));
  const auto found = store_->find_same_cols(kDeviceA, problem_of(7, 1000));
  ASSERT_TRUE(found.ok());
  std::vector<std::int64_t> rows;
  for (const WinnerRecord& record : *found) rows.push_back(record.problem.rows);
  EXPECT_EQ(rows, (std::vector<std::int64_t>{1, 64, 4096}));
}

TEST_P(StoreContract, ListsInTheOrderOfKeys) {
  const std::vector<WinnerRecord> ordered = {
      record_of(problem_of(9, 100, DType::kF32, DType::kF32), 1, kDeviceB),
      record_of(problem_of(9, 100, DType::kF32, DType::kF16), 1, kDeviceA),
      record_of(problem_of(16, 100), 1, kDeviceA),
      record_of(problem_of(9, 1000), 1, kDeviceA),
      record_of(problem_of(16, 1000), 1, kDeviceA),
  };
  for (auto it = ordered.rbegin(); it != ordered.rend(); ++it) put(*it);
  const auto listed = store_->list();
  ASSERT_TRUE(listed.ok());
  ASSERT_EQ(listed->size(), ordered.size());
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    EXPECT_EQ((*listed)[i].problem, ordered[i].problem) << i;
  }
}

TEST_P(StoreContract, RefusesWhatCouldNotServe) {
  std::vector<WinnerRecord> bad(7, record_of(problem_of(4, 257)));
  bad[0].evidence.median_ns = 0;
  bad[1].evidence.median_ns = -5;
  bad[2].config = {};
  bad[3].device_class.clear();
  bad[4].problem.cols = 0;
  bad[5].config.params = {{"threads", "256,pack=8"}};
  bad[6].config.family = "block\xff";
  for (const WinnerRecord& record : bad) {
    EXPECT_EQ(store_->put(record).code(), Code::kInvalidArgument);
    EXPECT_EQ(store_->merge(record).status().code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(content_of(*store_), export_winners({}));
}

TEST_P(StoreContract, KeepsNumbersThatAreNotFiniteAsZero) {
  WinnerRecord record = record_of(problem_of(4, 257));
  record.evidence.error_ratio = std::numeric_limits<double>::quiet_NaN();
  record.evidence.max_error_ulp = std::numeric_limits<double>::infinity();
  put(record);
  const auto found = store_->find(kDeviceA, record.problem);
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->evidence.error_ratio, 0);
  EXPECT_EQ((*found)->evidence.max_error_ulp, 0);
}

TEST_P(StoreContract, ErasesOneKey) {
  put(record_of(problem_of(4, 257)));
  put(record_of(problem_of(4, 258)));
  EXPECT_TRUE(store_->erase(kDeviceA, problem_of(4, 257)).ok());
  EXPECT_TRUE(store_->erase(kDeviceA, problem_of(4, 259)).ok());
  EXPECT_EQ(content_of(*store_), export_winners({record_of(problem_of(4, 258))}));
}

TEST_P(StoreContract, ErasesManyKeysAtOnce) {
  std::vector<WinnerRecord> many;
  for (int cols = 1; cols <= 50; ++cols) many.push_back(record_of(problem_of(4, cols)));
  for (const WinnerRecord& record : many) put(record);
  put(record_of(problem_of(4, 257)));
  put(record_of(problem_of(4, 7), 1500, kDeviceB));
  many.push_back(record_of(problem_of(4, 999)));  // not there
  EXPECT_TRUE(store_->erase_all(many).ok());
  EXPECT_TRUE(store_->erase_all({}).ok());
  EXPECT_EQ(content_of(*store_), export_winners({record_of(problem_of(4, 257)),
                                                 record_of(problem_of(4, 7), 1500, kDeviceB)}));
}

TEST_P(StoreContract, KeepsRejectionsApartFromTimes) {
  const Problem problem = problem_of(4, 257);
  const auto reject = [&](const std::string& config, Code code, const std::string& reason) {
    EXPECT_TRUE(store_->put_rejection({kDeviceA, problem, config, "d", code, reason}).ok());
  };
  reject("warp_rows:lanes=8", Code::kLaunchFailed, "too many resources");
  reject("block_row", Code::kCompileFailed, "old");
  reject("block_row", Code::kCompileFailed, std::string(100000, 'x') + "\xff");
  const auto rejections = store_->list_rejections(kDeviceA, problem);
  ASSERT_TRUE(rejections.ok());
  ASSERT_EQ(rejections->size(), 2u);
  EXPECT_EQ((*rejections)[0].config, "block_row");
  EXPECT_EQ((*rejections)[0].reason, std::string(kMaxReasonBytes, 'x'));
  EXPECT_EQ((*rejections)[1].code, Code::kLaunchFailed);
  EXPECT_EQ((*rejections)[1].reason, "too many resources");
  EXPECT_EQ(store_->list_rejections(kDeviceB, problem)->size(), 0u);
  EXPECT_EQ(median_in(*store_, problem), 0);
}

Screening screening_of(const Problem& problem, const std::string& config, std::int64_t median_ns,
                       const std::string& device_class = kDeviceA) {
  return {device_class, problem, config, median_ns, "warp_rows", 900, "d", "nvrtc 13.0", 13000};
}

TEST_P(StoreContract, KeepsScreeningsByProblemAndConfig) {
  const Problem problem = problem_of(4, 257);
  const auto put = [&](const std::vector<Screening>& them) {
    const Status status = store_->put_screenings(them);
    EXPECT_TRUE(status.ok()) << status.to_string();
  };
  put({screening_of(problem, "b", 800), screening_of(problem, "a", 700)});
  put({screening_of(problem, "b", 850), screening_of(problem_of(8, 257), "b", 1),
       screening_of(problem, "b", 2, kDeviceB)});
  put({});
  auto found = store_->find_screenings(kDeviceA, problem);
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[0].config, "a");
  EXPECT_EQ((*found)[1].median_ns, 850);
  EXPECT_EQ((*found)[1].default_config, "warp_rows");
  EXPECT_EQ((*found)[1].default_ns, 900);
  EXPECT_EQ((*found)[1].family_digest, "d");
  EXPECT_EQ((*found)[1].compiler, "nvrtc 13.0");
  EXPECT_EQ((*found)[1].driver_version, 13000);
  EXPECT_EQ(store_->list_screenings()->size(), 4u);
  EXPECT_TRUE(store_->erase_screenings({(*found)[0]}).ok());
  EXPECT_EQ(store_->find_screenings(kDeviceA, problem)->size(), 1u);
  EXPECT_EQ(content_of(*store_), export_winners({})) << "they are no winners";
}

TEST_P(StoreContract, RefusesScreeningsWithoutTimesAllTogether) {
  const Problem problem = problem_of(4, 257);
  std::vector<Screening> bad = {screening_of(problem, "a", 700), screening_of(problem, "b", 0)};
  EXPECT_EQ(store_->put_screenings(bad).code(), Code::kInvalidArgument);
  bad[1] = screening_of(problem, "b\xff", 5);
  EXPECT_EQ(store_->put_screenings(bad).code(), Code::kInvalidArgument);
  EXPECT_TRUE(store_->list_screenings()->empty());
}

TEST_P(StoreContract, TheOldestScreeningsGoFirst) {
  const Problem problem = problem_of(4, 257);
  EXPECT_TRUE(store_->put_screenings({screening_of(problem, "y", 700)}).ok());
  EXPECT_TRUE(store_->put_screenings({screening_of(problem, "z", 700)}).ok());
  EXPECT_TRUE(store_->put_screenings({screening_of(problem, "y", 800)}).ok()) << "as new";
  std::vector<Screening> later;
  for (std::size_t i = 1; i < kMaxScreenings; ++i) {
    later.push_back(screening_of(problem, "a" + std::to_string(i), 700));
  }
  EXPECT_TRUE(store_->put_screenings(later).ok());
  const auto kept = store_->find_screenings(kDeviceA, problem);
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(kept->size(), kMaxScreenings);
  EXPECT_EQ(kept->front().config, "a1");
  EXPECT_EQ(kept->back().config, "y");
}

TEST_P(StoreContract, AWholeThoroughRecordEndsItsProblemsScreenings) {
  const Problem problem = problem_of(4, 257);
  EXPECT_TRUE(store_->put_screenings({screening_of(problem, "a", 700)}).ok());
  WinnerRecord record = record_of(problem);
  put(record);
  record.evidence.effort = "thorough";
  record.evidence.cut = true;
  put(record);
  record.evidence.cut = false;
  record.evidence.families = "warp_rows";
  put(record);
  put(record_of(problem_of(8, 257)));
  EXPECT_EQ(store_->list_screenings()->size(), 1u) << "less effort, not whole, or another problem";
  record.evidence.families.clear();
  put(record);
  EXPECT_TRUE(store_->list_screenings()->empty());
}

TEST_P(StoreContract, AddsUpMissesMostCallsFirst) {
  EXPECT_TRUE(store_->add_misses(kDeviceA, problem_of(4, 257), 3).ok());
  EXPECT_TRUE(store_->add_misses(kDeviceA, problem_of(4, 1000), 5).ok());
  EXPECT_TRUE(store_->add_misses(kDeviceA, problem_of(4, 257), 4).ok());
  const auto misses = store_->list_misses();
  ASSERT_TRUE(misses.ok());
  ASSERT_EQ(misses->size(), 2u);
  EXPECT_EQ((*misses)[0].problem, problem_of(4, 257));
  EXPECT_EQ((*misses)[0].calls, 7);
  EXPECT_EQ((*misses)[1].calls, 5);
}

TEST_P(StoreContract, MergesByEffortThenTime) {
  WinnerRecord quick = record_of(problem_of(4, 257), 800), later = quick, thorough = quick;
  quick.evidence.effort = "quick";
  later.evidence.tuned_at += 1;
  thorough.evidence.effort = "thorough";
  thorough.evidence.tuned_at = 5;
  EXPECT_TRUE(*store_->merge(quick));
  EXPECT_TRUE(*store_->merge(later));
  EXPECT_FALSE(*store_->merge(quick));
  EXPECT_TRUE(*store_->merge(thorough));
  EXPECT_FALSE(*store_->merge(later));
  EXPECT_FALSE(*store_->merge(thorough));
  WinnerRecord cut = thorough;
  cut.evidence.cut = true;
  cut.evidence.tuned_at += 100;
  EXPECT_FALSE(*store_->merge(cut)) << "whatever was asked for, its search did not end";
  WinnerRecord limited = thorough;
  limited.evidence.families = "warp_rows";
  limited.evidence.tuned_at += 100;
  EXPECT_FALSE(*store_->merge(limited)) << "it did not try all families";
  EXPECT_EQ(content_of(*store_), export_winners({thorough}));
}

// Records of few keys, so that batches collide in every way.
std::vector<WinnerRecord> random_batch(std::mt19937& random) {
  const char* efforts[] = {"quick", "standard", "thorough", "heroic"};
  std::vector<WinnerRecord> batch;
  for (int i = 0; i < 6; ++i) {
    WinnerRecord record = record_of(problem_of(1 + random() % 2, 257), 100 + random() % 3);
    record.evidence.effort = efforts[random() % 4];
    record.evidence.tuned_at = random() % 3;
    record.evidence.error_ratio =
        random() % 2 != 0 ? 0.5 : std::numeric_limits<double>::quiet_NaN();
    batch.push_back(record);
  }
  return batch;
}

TEST_P(StoreContract, MergeIsAJoin) {
  std::mt19937 random(20261130);
  const int rounds = GetParam() == Kind::kMemory ? 20 : 2;  // files are flushed, maps are not
  for (int round = 0; round < rounds; ++round) {
    const auto a = random_batch(random), b = random_batch(random), c = random_batch(random);
    const auto merged = [&](const std::string& name,
                            const std::vector<std::vector<WinnerRecord>>& batches) {
      auto store = make(std::to_string(round) + name);
      for (const auto& batch : batches) {
        for (const WinnerRecord& record : batch) EXPECT_TRUE(store->merge(record).ok());
      }
      return store;
    };
    const auto abc = merged("abc", {a, b, c});
    const std::string expected = content_of(*abc);
    EXPECT_EQ(content_of(*merged("cba", {c, b, a})), expected) << "commutative, round " << round;
    const auto bc = merged("bc", {b, c});
    EXPECT_EQ(content_of(*merged("a(bc)", {a, *bc->list()})), expected) << "associative " << round;
    EXPECT_EQ(content_of(*merged("again", {*abc->list(), a, b, c, a})), expected)
        << "idempotent, round " << round;
  }
}

TEST_P(StoreContract, ServesManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 1; i <= 25; ++i) {
        EXPECT_TRUE(store_->put(record_of(problem_of(1 + t, i), i)).ok());
        EXPECT_EQ(median_in(*store_, problem_of(1 + t, i)), i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store_->list()->size(), 100u);
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreContract,
                         testing::Values(Kind::kMemory, Kind::kSqliteWal, Kind::kSqliteRollback,
                                         Kind::kOpened),
                         testing::PrintToStringParamName());

TEST(MemoryStore, ForgetsTheRarestMissesPastItsBound) {
  const auto store = make_memory_store();
  for (std::size_t i = 1; i <= kMaxMisses + 5; ++i) {
    const auto cols = static_cast<std::int64_t>(i);
    EXPECT_TRUE(store->add_misses(kDeviceA, problem_of(1, cols), cols).ok());
  }
  const auto misses = store->list_misses();
  ASSERT_EQ(misses->size(), kMaxMisses);
  EXPECT_EQ(misses->back().calls, 6);
}

}  // namespace
}  // namespace rowsmith
