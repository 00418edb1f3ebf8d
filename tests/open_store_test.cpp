// SPDX-License-Identifier: Apache-2.0
//
// Opening winners.db wherever it lies and whatever is in it: made, migrated, read, set aside or
// done without, with one sentence that says so.
#include "cache/directory.h"
#include "cache/record.h"
#include "cache/schema.h"
#include "tests/support/open_store_fixture.h"

#include <linux/magic.h>
#include <sys/stat.h>

namespace rowsmith {
namespace {

class OpenStore : public OpenStoreFixture {};

TEST_F(OpenStore, MakesPrivateFilesAndFoldsTheLogBackOnClose) {
  options_.directory = temporary_ / "a/b/cache";
  const mode_t mask = umask(0);
  {
    const OpenedStore opened = open();
    EXPECT_EQ(opened.note, "");
    EXPECT_EQ(opened.store->location(), file());
    EXPECT_TRUE(opened.store->put(record_of(problem_)).ok());
    for (const char* name : {"winners.db", "winners.db-wal", "winners.db-shm"}) {
      struct stat info;
      ASSERT_EQ(stat(file(name).c_str(), &info), 0) << name;
      EXPECT_EQ(info.st_mode & 0777, 0600u) << name;
    }
  }
  umask(mask);
  struct stat info;
  ASSERT_EQ(stat(options_.directory.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_FALSE(exists("winners.db-wal"));
  EXPECT_GT(median_in(*open().store, problem_), 0);
}

TEST_F(OpenStore, KeepsNothingOnDiskWithoutADirectory) {
  const OpenedStore opened = open_store({});
  EXPECT_EQ(opened.note, "");
  EXPECT_EQ(opened.store->location(), "memory");
  expect_works(*opened.store);
}

TEST_F(OpenStore, SetsDamagedFilesAsideOnceAndBeginsAnew) {
  fill();
  const std::string good = read_file(file());
  std::string bad_head = good, other = good;
  bad_head.replace(0, 16, "\xff\xfe not a database");
  other.replace(68, 4, "abcd");  // the application id
  for (const std::string& content : {std::string(), std::string("some text\n"), bad_head, other,
                                     good.substr(0, 100), std::string(8192, '\0')}) {
    std::filesystem::remove_all(options_.directory);
    std::filesystem::create_directories(options_.directory);
    write_file(file(), content);
    const OpenedStore first = open();
    EXPECT_NE(first.note.find(file("winners.db.damaged-1")), std::string::npos) << first.note;
    EXPECT_EQ(read_file(file("winners.db.damaged-1")), content);
    EXPECT_EQ(median_in(*first.store, problem_), 0);
    expect_works(*first.store);
    const OpenedStore second = open();
    EXPECT_EQ(second.note, "");
    EXPECT_EQ(median_in(*second.store, problem_of(77, 77)), 77);
  }
}

class DamagedInside : public OpenStore {
 protected:
  // Many rows, the later half of their pages overwritten: opening meets none of those.
  DamagedInside() {
    fill();
    sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)"
        " INSERT INTO winners SELECT device_class, op, dtype_in, dtype_out, cols + i, layout, rows,"
        " config, family, family_digest, median_ns, effort, tuned_at, evidence FROM winners, n");
    std::string content = read_file(file());
    std::fill(content.begin() + static_cast<std::ptrdiff_t>(content.size() / 2), content.end(),
              '\xa5');
    write_file(file(), content);
  }
  Problem lost_ = problem_of(4, 257 + 400);
};

TEST_F(DamagedInside, IsSetAsideByTheReadThatFindsIt) {
  const OpenedStore opened = open();
  EXPECT_EQ(opened.note, "");
  EXPECT_EQ(median_in(*opened.store, problem_), 900);
  const auto found = opened.store->find(kDeviceA, lost_);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), Code::kCacheDamaged);
  EXPECT_NE(found.status().message().find("winners.db.damaged-1"), std::string::npos);
  EXPECT_EQ(median_in(*opened.store, lost_), 0);
  expect_works(*opened.store);
  EXPECT_EQ(open().note, "");
}

TEST_F(DamagedInside, IsSetAsideByTheWriteThatFindsItAndTheWriteRepeated) {
  const OpenedStore opened = open();
  EXPECT_EQ(opened.store->put(record_of(lost_, 901)).code(), Code::kCacheDamaged);
  EXPECT_EQ(median_in(*opened.store, lost_), 901);
  EXPECT_EQ(median_in(*open().store, lost_), 901);
}

TEST_F(DamagedInside, IsReopenedByThoseWhoHadItOpen) {
  const OpenedStore first = open(), second = open();
  EXPECT_EQ(median_in(*second.store, problem_), 900);
  EXPECT_FALSE(first.store->find(kDeviceA, lost_).ok());
  EXPECT_TRUE(second.store->put(record_of(lost_, 902)).ok());
  EXPECT_EQ(median_in(*first.store, lost_), 902);
  EXPECT_FALSE(exists("winners.db.damaged-2"));
}

TEST_F(OpenStore, KeepsOnlySomeDamagedFiles) {
  std::filesystem::create_directories(options_.directory);
  std::filesystem::permissions(options_.directory, std::filesystem::perms(0700));
  for (int i = 1; i <= 11; ++i) {
    write_file(file(), "damage " + std::to_string(i));
    EXPECT_NE(open().note, "");
  }
  EXPECT_EQ(read_file(file("winners.db.damaged-9")), "damage 11");
  EXPECT_FALSE(exists("winners.db.damaged-10"));
}

TEST_F(OpenStore, SkipsRowsThatItCannotUnderstand) {
  fill();
  const Problem other = problem_of(5, 257);
  ASSERT_TRUE(open().store->put(record_of(other, 901)).ok());
  for (const char* change :
       {"evidence = '{'", "evidence = CAST(x'7bff7d' AS TEXT)", "config = CAST(x'ff41' AS TEXT)",
        "evidence = '{\"median_ns\":0}'", "config = ''", "family_digest = CAST(x'ff' AS TEXT)"}) {
    ASSERT_TRUE(open().store->put(record_of(problem_, 900)).ok());
    sql(std::string("UPDATE winners SET ") + change + " WHERE rows = 4");
    const OpenedStore opened = open();
    EXPECT_EQ(median_in(*opened.store, problem_), 0) << change;
    EXPECT_EQ(content_of(*opened.store), export_winners({record_of(other, 901)})) << change;
    EXPECT_EQ(opened.store->find_same_cols(kDeviceA, problem_)->size(), 1u) << change;
  }
}

TEST_F(OpenStore, LeavesANewerSchemaAlone) {
  fill();
  sql("PRAGMA user_version = 99");
  const std::string before = read_file(file());
  const OpenedStore opened = open();
  EXPECT_NE(opened.note.find("schema version 99"), std::string::npos) << opened.note;
  EXPECT_EQ(opened.store->location(), "memory");
  expect_works(*opened.store);
  EXPECT_EQ(read_file(file()), before);
  EXPECT_FALSE(exists("winners.db.damaged-1"));
}

TEST_F(OpenStore, DoesNotTakeANewerSchemaMadeMeanwhileForDamage) {
  fill();
  const OpenedStore opened = open();
  sql("PRAGMA user_version = 99; ALTER TABLE winners RENAME COLUMN evidence TO proof");
  EXPECT_EQ(opened.store->find(kDeviceA, problem_).status().code(), Code::kUnsupported);
  EXPECT_EQ(opened.store->put(record_of(problem_, 5)).code(), Code::kUnsupported);
  EXPECT_EQ(median_in(*opened.store, problem_), 5);
  EXPECT_FALSE(exists("winners.db.damaged-1"));
}

class GoldenStore : public OpenStore {
 protected:
  // Makes the file from a dump, as an older build left it.
  void load_golden(int version) const {
    std::filesystem::remove_all(options_.directory);
    EXPECT_TRUE(make_private_directory(options_.directory).ok());
    write_file(file(), "");
    sql(read_file(std::string(ROWSMITH_GOLDEN_DIR) + "/winners_v" + std::to_string(version) +
                  ".sql"));
  }
  static void expect_golden_content(const OpenedStore& opened) {
    EXPECT_EQ(opened.note, "");
    const auto records = opened.store->list();
    ASSERT_TRUE(records.ok());
    ASSERT_EQ(records->size(), 2u);
    const WinnerRecord& mixed = records->at(1);
    EXPECT_EQ(to_string(mixed.problem), "softmax f16:f32 4 x 257 (src=2,dst=4,co=1,src-pitched)");
    EXPECT_EQ(mixed.evidence.candidates, 12);
    EXPECT_EQ(median_in(*opened.store, problem_of(4, 1000, DType::kF32, DType::kF32), "host"), 999);
    EXPECT_EQ(opened.store->list_misses()->at(0).calls, 17);
    const auto rejections = opened.store->list_rejections("host", records->at(0).problem);
    EXPECT_EQ(rejections->at(0).code, Code::kCompileFailed);
  }
};

TEST_F(GoldenStore, OpensTheGoldenFileOfEachVersion) {
  for (const int version : {1, 2}) {
    load_golden(version);
    expect_golden_content(open());
  }
}

TEST_F(GoldenStore, ReadsTheGoldenFileOfEachVersionWhereItMayNotBeMigrated) {
  for (const int version : {1, 2}) {
    load_golden(version);
    options_.read_only = true;
    expect_golden_content(open());
    options_.read_only = false;
  }
}

TEST_F(GoldenStore, HoldsTheScreeningsOfVersion2) {
  load_golden(2);
  const auto screenings = open().store->list_screenings();
  ASSERT_TRUE(screenings.ok()) << screenings.status().to_string();
  ASSERT_EQ(screenings->size(), 1u);
  const Screening& screening = screenings->front();
  EXPECT_EQ(screening.problem, problem_of(4, 1000, DType::kF32, DType::kF32));
  EXPECT_EQ(screening.config, "warp_rows:lanes=16");
  EXPECT_EQ(screening.median_ns, 1010);
  EXPECT_EQ(screening.default_config, "warp_rows:lanes=32");
  EXPECT_EQ(screening.default_ns, 1001);
  EXPECT_EQ(screening.family_digest, "d2");
  EXPECT_EQ(screening.compiler, "g++ 12.2.0");
  load_golden(1);
  EXPECT_TRUE(open().store->list_screenings().value().empty());
}

TEST_F(GoldenStore, HasTheGoldenTablesInANewFile) {
  const auto tables = [&] {
    auto database = Database::open(file(), Database::Mode::kReadOnly, 1000);
    std::string text;
    EXPECT_TRUE((*database)
                    ->query("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name", {},
                            [&](const SqlRow& row) { text += row.text(0) + "\n"; })
                    .ok());
    return text;
  };
  fill();
  const std::string made = tables();
  load_golden(2);
  EXPECT_EQ(made, tables());
  load_golden(1);
  open();
  EXPECT_EQ(made, tables()) << "migrated";
}

TEST_F(OpenStore, MigratesAnOlderSchemaStepByStepAndOnce) {
  fill();
  auto steps = migrations();
  const int current = steps.back().version;
  steps.push_back({current + 1, "ALTER TABLE winners ADD COLUMN added INTEGER DEFAULT 7"});
  steps.push_back({current + 2, "UPDATE winners SET added = added + 1"});
  auto database = Database::open(file(), Database::Mode::kReadWrite, 1000);
  ASSERT_TRUE(database.ok());
  for (int round = 0; round < 2; ++round) {
    const Status status = ensure_schema(**database, steps);
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(*(*database)->integer("SELECT added FROM winners"), 8);
    EXPECT_EQ(*(*database)->integer("PRAGMA user_version"), current + 2);
  }
}

TEST_F(OpenStore, LeavesAFailedMigrationUndone) {
  fill();
  auto steps = migrations();
  const int current = steps.back().version;
  steps.push_back({current + 1, "ALTER TABLE winners ADD COLUMN added INTEGER"});
  steps.push_back({current + 2, "UPDATE no_such_table SET x = 1"});
  auto database = Database::open(file(), Database::Mode::kReadWrite, 1000);
  EXPECT_FALSE(ensure_schema(**database, steps).ok());
  EXPECT_TRUE(ensure_schema(**database).ok());
  EXPECT_EQ(*(*database)->integer("PRAGMA user_version"), current);
}

TEST_F(OpenStore, StaysSmallWithTenThousandWinnersAndGivesSpaceBack) {
  {
    auto opened = open();
    EXPECT_TRUE(opened.store->put(record_of(problem_)).ok());
  }
  sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)"
      " INSERT INTO winners SELECT device_class, op, dtype_in, dtype_out, cols + i, layout, rows,"
      " config, family, family_digest, median_ns, effort, tuned_at, evidence FROM winners, n");
  auto database = Database::open(file(), Database::Mode::kReadOnly, 1000);
  EXPECT_EQ(*(*database)->integer("SELECT count(*) FROM winners"), 10000);
  const auto full = std::filesystem::file_size(file());
  EXPECT_LT(full, 16u << 20);
  sql("DELETE FROM winners WHERE cols > 300");
  EXPECT_LT(std::filesystem::file_size(file()), full / 10);
}

TEST_F(OpenStore, ForgetsTheRarestMissesPastItsBound) {
  EXPECT_TRUE(open().store->add_misses(kDeviceA, problem_of(1, 1), 50000).ok());
  sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)"
      " INSERT INTO misses SELECT device_class, op, dtype_in, dtype_out, cols + i, layout, rows, i"
      " FROM misses, n");
  const OpenedStore opened = open();
  EXPECT_TRUE(opened.store->add_misses(kDeviceA, problem_of(1, 1), 1).ok());
  const auto misses = opened.store->list_misses();
  ASSERT_EQ(misses->size(), kMaxMisses);
  EXPECT_EQ(misses->front().calls, 50001);
  EXPECT_EQ(misses->back().calls, 2002);
}

TEST(NetworkFilesystem, IsToldByItsType) {
  constexpr std::uint64_t kNetwork[] = {NFS_SUPER_MAGIC, SMB2_SUPER_MAGIC, FUSE_SUPER_MAGIC,
                                        V9FS_MAGIC, CIFS_SUPER_MAGIC | 0xffffffff00000000};
  constexpr std::uint64_t kLocal[] = {EXT4_SUPER_MAGIC, TMPFS_MAGIC, XFS_SUPER_MAGIC,
                                      OVERLAYFS_SUPER_MAGIC};
  for (const std::uint64_t type : kNetwork) EXPECT_TRUE(is_network_filesystem(type)) << type;
  for (const std::uint64_t type : kLocal) EXPECT_FALSE(is_network_filesystem(type)) << type;
}

}  // namespace
}  // namespace rowsmith
