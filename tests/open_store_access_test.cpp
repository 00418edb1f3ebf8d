// SPDX-License-Identifier: Apache-2.0
//
// Caches that this process may read but not write, must not believe, or finds below its own.
#include "cache/directory.h"
#include "cache/sqlite_store.h"
#include "tests/support/open_store_fixture.h"

#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace rowsmith {
namespace {

constexpr uid_t kNobody = 65534;

class OpenStoreAccess : public OpenStoreFixture {
 protected:
  // Leaves the file in the state of a writer that died: in WAL mode, with its log beside it.
  void fill_and_die() const {
    const pid_t child = fork();
    if (child == 0) {
      OpenedStore opened = open();
      const bool done = opened.store->put(record_of(problem_, 901)).ok();
      _exit(done ? 0 : 1);  // no destructor runs
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(exists("winners.db-wal"));
  }

  // Runs the check as a user whom permission bits bind (root is not); false or a failed
  // expectation there fails here.
  void as_plain_user(const std::function<bool()>& check) const {
    const pid_t child = fork();
    if (child == 0) {
      const bool bound = geteuid() != 0 || (setgroups(0, nullptr) == 0 && setgid(kNobody) == 0 &&
                                            setuid(kNobody) == 0);
      const bool passed = bound && check();
      _exit(passed && !testing::Test::HasFailure() ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }

  // A directory of root's (or ours) that can be read by all and written by none.
  void close_to_writers() const {
    namespace fs = std::filesystem;
    fs::permissions(temporary_.path(), fs::perms(0755));
    for (const auto& entry : fs::directory_iterator(options_.directory)) {
      fs::permissions(entry.path(), fs::perms(0444));
    }
    fs::permissions(options_.directory, fs::perms(0555));
  }
  void open_to_writers() const {
    std::filesystem::permissions(options_.directory, std::filesystem::perms(0755));
  }

  // What must hold wherever the file can be read only.
  bool serves_without_writing(const std::string& expected_note) const {
    const OpenedStore opened = open();
    EXPECT_NE(opened.note.find(expected_note), std::string::npos) << opened.note;
    EXPECT_EQ(median_in(*opened.store, problem_), 900);
    EXPECT_EQ(content_of(*opened.store), export_winners({record_of(problem_, 900)}));
    EXPECT_TRUE(opened.store->put(record_of(problem_, 850)).ok());
    EXPECT_EQ(median_in(*opened.store, problem_), 850);
    expect_works(*opened.store);
    return true;
  }
};

TEST_F(OpenStoreAccess, ServesAReadOnlyStoreWithoutTouchingIt) {
  fill();
  const std::string before = read_file(file());
  options_.read_only = true;
  EXPECT_TRUE(serves_without_writing(""));
  EXPECT_EQ(open().note, "");
  EXPECT_EQ(read_file(file()), before);
  EXPECT_FALSE(exists("winners.db-wal"));
  EXPECT_FALSE(exists("winners.db-shm"));
}

TEST_F(OpenStoreAccess, MergesIntoMemoryAboveAReadOnlyStore) {
  fill();
  options_.read_only = true;
  const OpenedStore opened = open();
  WinnerRecord record = record_of(problem_, 850);
  record.evidence.effort = "quick";
  EXPECT_FALSE(*opened.store->merge(record));
  record.evidence.effort = "thorough";
  EXPECT_TRUE(*opened.store->merge(record));
  EXPECT_FALSE(*opened.store->merge(record));
  EXPECT_EQ(median_in(*opened.store, problem_), 850);
  EXPECT_EQ(median_in(*open().store, problem_), 900);
}

TEST_F(OpenStoreAccess, ServesAFileInAReadOnlyDirectory) {
  fill();
  close_to_writers();
  as_plain_user([&] { return serves_without_writing("cannot be written"); });
  open_to_writers();
}

TEST_F(OpenStoreAccess, ServesAFileLeftInWalModeInAReadOnlyDirectory) {
  fill();
  std::filesystem::copy(file(), temporary_ / "copy");
  fill_and_die();
  // The copy is sound and in WAL mode; the log of the dead writer is not readable at all.
  std::filesystem::rename(temporary_ / "copy", file());
  std::filesystem::remove(file("winners.db-shm"));
  close_to_writers();
  std::filesystem::permissions(file("winners.db-wal"), std::filesystem::perms::none);
  as_plain_user([&] { return serves_without_writing("cannot be written"); });
  open_to_writers();
}

TEST_F(OpenStoreAccess, ReadsTheLogOfALiveWriter) {
  const OpenedStore writer = open();
  ASSERT_TRUE(writer.store->put(record_of(problem_, 900)).ok());
  options_.read_only = true;
  const OpenedStore reader = open();
  EXPECT_EQ(median_in(*reader.store, problem_), 900);
  ASSERT_TRUE(writer.store->put(record_of(problem_, 800)).ok());
  EXPECT_EQ(median_in(*reader.store, problem_), 800);
}

TEST_F(OpenStoreAccess, NoticesThatAReadOnlyFileWasChanged) {
  fill();
  StoreOptions writing = options_;
  options_.read_only = true;
  const OpenedStore reader = open();
  EXPECT_EQ(median_in(*reader.store, problem_), 900);
  EXPECT_TRUE(open_store(writing).store->put(record_of(problem_, 12345)).ok());
  EXPECT_EQ(median_in(*reader.store, problem_), 12345);
}

TEST_F(OpenStoreAccess, RecoversTheLogOfADeadWriter) {
  fill();
  fill_and_die();
  const OpenedStore opened = open();
  EXPECT_EQ(opened.note, "");
  EXPECT_EQ(median_in(*opened.store, problem_), 901);
}

TEST_F(OpenStoreAccess, GoesOnInMemoryWhereTheDirectoryCannotBeMade) {
  write_file(temporary_ / "cache", "a file");
  const OpenedStore opened = open();
  EXPECT_NE(opened.note.find(options_.directory), std::string::npos);
  EXPECT_NE(opened.note.find("ROWSMITH_CACHE_DIR"), std::string::npos);
  EXPECT_EQ(opened.store->location(), "memory");
  expect_works(*opened.store);
}

TEST_F(OpenStoreAccess, GoesOnInMemoryWhereNothingMayBeMade) {
  std::filesystem::create_directory(options_.directory);
  close_to_writers();
  as_plain_user([&] {
    const OpenedStore opened = open();
    EXPECT_NE(opened.note.find("Permission denied"), std::string::npos) << opened.note;
    expect_works(*opened.store);
    return true;
  });
  open_to_writers();
}

TEST_F(OpenStoreAccess, SaysThatThereIsNothingToRead) {
  options_.read_only = true;
  const OpenedStore opened = open();
  EXPECT_NE(opened.note.find("there is no " + file()), std::string::npos) << opened.note;
  EXPECT_FALSE(std::filesystem::exists(options_.directory));
  expect_works(*opened.store);
}

TEST_F(OpenStoreAccess, OutlivesTheRemovalOfItsDirectory) {
  const OpenedStore opened = open();
  std::filesystem::remove_all(options_.directory);
  const Status status = opened.store->put(record_of(problem_, 900));
  EXPECT_EQ(status.code(), Code::kCacheBusy);
  EXPECT_NE(status.message().find("kept in memory"), std::string::npos);
  EXPECT_EQ(median_in(*opened.store, problem_), 900);
}

TEST_F(OpenStoreAccess, BeginsAnewWhereItsFileWasRemoved) {
  const OpenedStore opened = open();
  ASSERT_TRUE(opened.store->put(record_of(problem_, 900)).ok());
  std::filesystem::remove(file());
  EXPECT_EQ(median_in(*opened.store, problem_), 0);
  EXPECT_TRUE(opened.store->put(record_of(problem_, 901)).ok());
  EXPECT_EQ(median_in(*open().store, problem_), 901);
}

TEST_F(OpenStoreAccess, AnswersBusyWhileAnotherHoldsTheLock) {
  fill();
  options_.busy_timeout_ms = 20;
  const OpenedStore opened = open();
  auto other = Database::open(file(), Database::Mode::kReadWrite, 20);
  ASSERT_TRUE((*other)->exec("BEGIN IMMEDIATE").ok());
  EXPECT_EQ(opened.store->put(record_of(problem_, 950)).code(), Code::kCacheBusy);
  EXPECT_EQ(median_in(*opened.store, problem_), 950);
  ASSERT_TRUE((*other)->exec("ROLLBACK").ok());
  EXPECT_TRUE(opened.store->put(record_of(problem_, 951)).ok());
  EXPECT_EQ(median_in(*opened.store, problem_), 951);
  EXPECT_EQ(median_in(*open().store, problem_), 951);
}

// Another program in the middle of reading, for as long as it likes.
TEST_F(OpenStoreAccess, C20_AReaderThatStaysStopsNoWriter) {
  fill();
  options_.busy_timeout_ms = 20;
  const OpenedStore opened = open();
  auto reader = Database::open(file(), Database::Mode::kReadOnly, 20);
  ASSERT_TRUE((*reader)->exec("BEGIN").ok());
  ASSERT_EQ(*(*reader)->integer("SELECT count(*) FROM winners"), 1);
  const Status put = opened.store->put(record_of(problem_of(5, 257), 700));
  EXPECT_TRUE(put.ok()) << put.to_string();
  EXPECT_EQ(median_in(*opened.store, problem_of(5, 257)), 700);
  EXPECT_EQ(*(*reader)->integer("SELECT count(*) FROM winners"), 1);
  ASSERT_TRUE((*reader)->exec("COMMIT").ok());
  EXPECT_EQ(*(*reader)->integer("SELECT count(*) FROM winners"), 2);
}

TEST_F(OpenStoreAccess, C20_WithoutWalAWriterAnswersBusyAndWritesOnceTheReaderIsGone) {
  fill();
  auto opened = open_sqlite_store({file(), false, false, 20});
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  auto reader = Database::open(file(), Database::Mode::kReadOnly, 20);
  ASSERT_TRUE((*reader)->exec("BEGIN").ok());
  ASSERT_EQ(*(*reader)->integer("SELECT count(*) FROM winners"), 1);
  EXPECT_EQ(opened->store->put(record_of(problem_, 700)).code(), Code::kCacheBusy);
  EXPECT_EQ(median_in(*opened->store, problem_), 900) << "reads are not stopped";
  ASSERT_TRUE((*reader)->exec("COMMIT").ok());
  EXPECT_TRUE(opened->store->put(record_of(problem_, 700)).ok());
  EXPECT_EQ(median_in(*opened->store, problem_), 700);
}

TEST_F(OpenStoreAccess, IgnoresWhatOthersCanWrite) {
  for (const bool directory : {true, false}) {
    std::filesystem::remove_all(options_.directory);
    fill();
    const std::string path = directory ? options_.directory : file();
    std::filesystem::permissions(path, std::filesystem::perms(0777));
    const OpenedStore opened = open();
    EXPECT_NE(opened.note.find(path + " can be written by others"), std::string::npos)
        << opened.note;
    EXPECT_EQ(opened.store->location(), "memory");
    EXPECT_EQ(median_in(*opened.store, problem_), 0);
    expect_works(*opened.store);
  }
}

TEST_F(OpenStoreAccess, IgnoresWhatBelongsToAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  fill();
  ASSERT_EQ(chown(file().c_str(), kNobody, kNobody), 0);
  const OpenedStore opened = open();
  EXPECT_NE(opened.note.find("belongs to another user"), std::string::npos) << opened.note;
  EXPECT_EQ(median_in(*opened.store, problem_), 0);
  expect_works(*opened.store);
}

class SiteLayers : public OpenStoreAccess {
 protected:
  // A closed store in a directory of that name, with one record for each median.
  std::string make_site(const std::string& name, const std::vector<WinnerRecord>& records) const {
    const std::string directory = temporary_ / name;
    const OpenedStore opened = open_store({directory, false, {}, 5000});
    for (const WinnerRecord& record : records) EXPECT_TRUE(opened.store->put(record).ok());
    return directory;
  }
};

TEST_F(SiteLayers, AreAskedFromNearToFarAfterTheUsersOwn) {
  const Problem a = problem_of(1, 100), b = problem_of(2, 100), c = problem_of(3, 100);
  options_.site = {make_site("near", {record_of(a, 11), record_of(b, 12)}),
                   make_site("far", {record_of(a, 21), record_of(b, 22), record_of(c, 23)})};
  const OpenedStore opened = open();
  EXPECT_EQ(opened.note, "");
  // The user's own wins even where its evidence is the weaker.
  WinnerRecord own = record_of(a, 1);
  own.evidence.effort = "quick";
  EXPECT_TRUE(opened.store->put(own).ok());
  const std::string expected = export_winners({own, record_of(b, 12), record_of(c, 23)});
  EXPECT_EQ(content_of(*opened.store), expected);
  EXPECT_EQ(export_winners(*opened.store->find_same_cols(kDeviceA, a)), expected);
  EXPECT_EQ(median_in(*opened.store, a), 1);
  EXPECT_EQ(median_in(*opened.store, b), 12);
  EXPECT_EQ(median_in(*opened.store, c), 23);
  EXPECT_EQ((*opened.store->find(kDeviceA, a))->site, "");
  EXPECT_EQ((*opened.store->find(kDeviceA, c))->site, options_.site[1] + "/winners.db");
  std::vector<std::string> sites;
  const auto all = opened.store->list();
  for (const WinnerRecord& record : *all) sites.push_back(record.site);
  const std::vector<std::string> files = {"", options_.site[0] + "/winners.db",
                                          options_.site[1] + "/winners.db"};
  EXPECT_EQ(sites, files);
}

TEST_F(SiteLayers, AreNeverWritten) {
  const std::string site = make_site("site", {record_of(problem_, 900)});
  const std::string before = read_file(site + "/winners.db");
  options_.site = {site};
  {
    const OpenedStore opened = open();
    EXPECT_TRUE(opened.store->put(record_of(problem_, 800)).ok());
    EXPECT_TRUE(opened.store->erase(kDeviceA, problem_).ok());
    EXPECT_EQ(median_in(*opened.store, problem_), 900);
  }
  EXPECT_EQ(read_file(site + "/winners.db"), before);
  EXPECT_FALSE(std::filesystem::exists(site + "/winners.db-wal"));
}

TEST_F(SiteLayers, AreLeftOutWithANoteWhereTheyCannotServe) {
  const std::string damaged = make_site("damaged", {}), open_to_all = make_site("open", {});
  write_file(damaged + "/winners.db", "text");
  std::filesystem::permissions(open_to_all, std::filesystem::perms(0777));
  options_.site = {temporary_ / "absent", damaged, open_to_all,
                   make_site("sound", {record_of(problem_, 900)})};
  const OpenedStore opened = open();
  for (const char* name : {"absent", "damaged", "open"}) {
    EXPECT_NE(opened.note.find("'" + (temporary_ / name) + "' is not used"), std::string::npos)
        << opened.note;
  }
  EXPECT_EQ(read_file(damaged + "/winners.db"), "text");
  EXPECT_EQ(median_in(*opened.store, problem_), 900);
}

}  // namespace
}  // namespace rowsmith
