// SPDX-License-Identifier: Apache-2.0
//
// A disk that fails for a moment or for good, as network disks do: the calls that the stores make
// are answered with an error by this program, as often as a case says.
#include "cache/binary_store.h"
#include "tests/support/open_store_fixture.h"

#include <sqlite3.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace rowsmith {
namespace {

// The next `times` calls fail with `error`.
struct Fails {
  int times = 0, error = 0;
  bool now() {
    if (times == 0) return false;
    --times;
    errno = error;
    return true;
  }
};
Fails rename_fails, read_fails, sqlite_open_fails, sqlite_read_fails;

constexpr int kForGood = 1 << 30;
constexpr int kHere = -100;  // AT_FDCWD; fcntl.h would bring an `open` of its own

int sqlite_open(const char* path, int flags, int mode) {
  return sqlite_open_fails.now()
             ? -1
             : static_cast<int>(::syscall(SYS_openat, kHere, path, flags, mode));
}

ssize_t sqlite_read(int fd, void* to, std::size_t bytes) {
  return sqlite_read_fails.now() ? -1 : ::syscall(SYS_read, fd, to, bytes);
}

ssize_t sqlite_pread(int fd, void* to, std::size_t bytes, off_t at) {
  return sqlite_read_fails.now() ? -1 : ::syscall(SYS_pread64, fd, to, bytes, at);
}

}  // namespace
}  // namespace rowsmith

// These stand before those of the C library, for the stores too.
extern "C" int rename(const char* from, const char* to) noexcept {
  return rowsmith::rename_fails.now() ? -1 : ::renameat(rowsmith::kHere, from, rowsmith::kHere, to);
}
extern "C" ssize_t read(int fd, void* to, std::size_t bytes) {
  return rowsmith::read_fails.now() ? -1 : ::syscall(SYS_read, fd, to, bytes);
}

namespace rowsmith {
namespace {

class CacheFaults : public OpenStoreFixture {
 protected:
  CacheFaults() {
    const auto replace = [](const char* name, auto* call) {
      sqlite3_vfs* vfs = sqlite3_vfs_find(nullptr);
      return vfs->xSetSystemCall(vfs, name, reinterpret_cast<sqlite3_syscall_ptr>(call));
    };
    EXPECT_EQ(replace("open", &sqlite_open), SQLITE_OK);
    // Which of them it uses depends on how it was built.
    EXPECT_EQ(replace("read", &sqlite_read), SQLITE_OK);
    EXPECT_EQ(replace("pread", &sqlite_pread), SQLITE_OK);
    EXPECT_EQ(replace("pread64", &sqlite_pread), SQLITE_OK);
    binaries_.directory = temporary_ / "binaries";
  }
  ~CacheFaults() override {
    for (Fails* fails : {&rename_fails, &read_fails, &sqlite_open_fails, &sqlite_read_fails}) {
      *fails = {};
    }
    sqlite3_vfs* vfs = sqlite3_vfs_find(nullptr);
    for (const char* name : {"open", "read", "pread", "pread64"})
      vfs->xSetSystemCall(vfs, name, nullptr);
  }
  BinaryStoreOptions binaries_;
  const std::string key_ = digest_of({"a key"});
};

TEST_F(CacheFaults, C67_ARenameThatIsStaleOrBusyForAMomentIsRepeated) {
  for (const int error : {ESTALE, EBUSY}) {
    rename_fails = {2, error};
    const Status put = BinaryStore(binaries_).put(key_, "bytes");
    EXPECT_TRUE(put.ok()) << put.to_string();
    EXPECT_EQ(rename_fails.times, 0);
    EXPECT_EQ(BinaryStore(binaries_).get(key_), "bytes");
    std::filesystem::remove_all(options_.directory);
    rename_fails = {2, error};
    const OpenedStore opened = open();
    EXPECT_EQ(opened.note, "");
    EXPECT_EQ(rename_fails.times, 0);
    expect_works(*opened.store);
    EXPECT_TRUE(exists("winners.db"));
  }
}

TEST_F(CacheFaults, C67_WithoutARenameTheStoresGoOnWithoutTheDisk) {
  rename_fails = {kForGood, EBUSY};
  const Status put = BinaryStore(binaries_).put(key_, "bytes");
  EXPECT_EQ(put.code(), Code::kCacheBusy);
  EXPECT_NE(put.message().find("rename"), std::string::npos) << put.message();
  EXPECT_EQ(BinaryStore(binaries_).get(key_), std::nullopt);
  EXPECT_TRUE(std::filesystem::is_empty(binaries_.directory)) << "temporary files stay";
  const OpenedStore opened = open();
  EXPECT_NE(opened.note.find("rename"), std::string::npos) << opened.note;
  EXPECT_EQ(opened.store->location(), "memory");
  expect_works(*opened.store);
}

TEST_F(CacheFaults, C67_ABinaryThatCannotBeReadIsAMissAndStays) {
  ASSERT_TRUE(BinaryStore(binaries_).put(key_, "bytes").ok());
  for (const int error : {ESTALE, EIO}) {
    read_fails = {kForGood, error};
    EXPECT_EQ(BinaryStore(binaries_).get(key_), std::nullopt);
    read_fails = {};
    EXPECT_EQ(BinaryStore(binaries_).get(key_), "bytes");
  }
  read_fails = {2, EBUSY};
  EXPECT_EQ(BinaryStore(binaries_).get(key_), "bytes");
}

TEST_F(CacheFaults, C67_ADatabaseThatIsStaleForAMomentIsOpenedAgain) {
  fill();
  sqlite_open_fails = {2, ESTALE};
  const OpenedStore opened = open();
  EXPECT_EQ(opened.note, "");
  EXPECT_EQ(sqlite_open_fails.times, 0);
  EXPECT_EQ(median_in(*opened.store, problem_), 900);
}

TEST_F(CacheFaults, C67_ADatabaseThatCannotBeOpenedOrReadIsGoneWithoutAndStays) {
  fill();
  for (Fails* fails : {&sqlite_open_fails, &sqlite_read_fails}) {
    *fails = {kForGood, ESTALE};
    const OpenedStore opened = open();
    EXPECT_NE(opened.note.find("memory"), std::string::npos) << opened.note;
    EXPECT_EQ(median_in(*opened.store, problem_), 0);
    expect_works(*opened.store);
    *fails = {};
    EXPECT_EQ(median_in(*open().store, problem_), 900);
    EXPECT_FALSE(exists("winners.db.damaged-1"));
  }
}

TEST_F(CacheFaults, C67_AReadThatFailsLaterIsAnErrorAndNoDamage) {
  fill();
  options_.busy_timeout_ms = 20;
  const OpenedStore opened = open();
  sql("INSERT INTO devices SELECT device_class, 'another', name, compiler, driver_version, tuned_at"
      " FROM devices");  // so that what was read before must be read again
  sqlite_read_fails = {kForGood, ESTALE};
  EXPECT_EQ(opened.store->find(kDeviceA, problem_).status().code(), Code::kCacheBusy);
  sqlite_read_fails = {};
  EXPECT_EQ(median_in(*opened.store, problem_), 900);
  EXPECT_FALSE(exists("winners.db.damaged-1"));
}

}  // namespace
}  // namespace rowsmith
