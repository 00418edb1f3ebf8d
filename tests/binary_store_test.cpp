// SPDX-License-Identifier: Apache-2.0
//
// Compiled kernels on disk: whole or absent, bounded, private, and never fatal.
#include "cache/binary_store.h"
#include "tests/support/cache_fixture.h"

#include <sys/stat.h>
#include <utime.h>

#include <set>
#include <thread>
#include <vector>

namespace rowsmith {
namespace {

class BinaryStoreTest : public testing::Test {
 protected:
  BinaryStoreTest() : key_(digest_of({"source", "sm_90", "nvrtc 13.0"})) {}

  std::string directory() const { return temporary_ / "binaries"; }
  std::string file(const std::string& key) const { return directory() + "/" + key + ".bin"; }
  BinaryStoreOptions options() const {
    BinaryStoreOptions options;
    options.directory = directory();
    return options;
  }
  void put(const std::string& bytes) const {
    const Status status = BinaryStore(options()).put(key_, bytes);
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
  void set_age(const std::string& key, int seconds) const {
    const utimbuf times{0, 1790000000 - seconds};
    EXPECT_EQ(utime(file(key).c_str(), &times), 0);
  }
  int files() const {
    const std::filesystem::directory_iterator begin(directory()), end;
    return static_cast<int>(std::distance(begin, end));
  }

  TemporaryDirectory temporary_;
  std::string key_;
};

TEST(Digest, TellsWhereOnePartEnds) {
  const std::set<std::string> digests = {digest_of({"ab", "c"}), digest_of({"a", "bc"}),
                                         digest_of({"abc"}), digest_of({"abc", ""}), digest_of({})};
  EXPECT_EQ(digests.size(), 5u);
  for (const std::string& digest : digests) EXPECT_EQ(digest.size(), 32u);
}

TEST(Digest, IsTheSameInEveryBuild) {
  EXPECT_EQ(digest_of({"rowsmith", "1"}), "3152b3b0b88f7d2d2b7a5992becee265");
}

TEST_F(BinaryStoreTest, GivesBackTheBytesInAnotherProcessesStore) {
  const std::string bytes(
      "\x7f"
      "ELF\0\xff cubin",
      12);
  put(bytes);
  EXPECT_EQ(BinaryStore(options()).get(key_), bytes);
  EXPECT_EQ(BinaryStore(options()).get(digest_of({"other"})), std::nullopt);
}

TEST_F(BinaryStoreTest, KeepsAnEmptyBinary) {
  put("");
  EXPECT_EQ(BinaryStore(options()).get(key_), "");
}

TEST_F(BinaryStoreTest, MakesDirectoryAndFilePrivateWhateverTheUmask) {
  const mode_t mask = umask(0);
  put("bytes");
  umask(mask);
  struct stat info;
  ASSERT_EQ(stat(directory().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(stat(file(key_).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(BinaryStoreTest, RemovesDamagedEntriesAndMisses) {
  put("some bytes of a kernel");
  const std::string good = read_file(file(key_));
  std::vector<std::string> damaged = {"", "text", good.substr(0, good.size() - 1), good + "x"};
  for (std::size_t i = 0; i < good.size(); i += 5) {
    damaged.push_back(good);
    damaged.back()[i] ^= 0x20;
  }
  for (const std::string& content : damaged) {
    write_file(file(key_), content);
    EXPECT_EQ(BinaryStore(options()).get(key_), std::nullopt);
    EXPECT_EQ(files(), 0);
  }
  put("again");
  EXPECT_EQ(BinaryStore(options()).get(key_), "again");
}

TEST_F(BinaryStoreTest, MissesWhatIsNoFileOrClaimsToBeHuge) {
  put("bytes");
  std::filesystem::resize_file(file(key_), std::uintmax_t{1} << 40);
  EXPECT_EQ(BinaryStore(options()).get(key_), std::nullopt);
  EXPECT_EQ(files(), 0);
  ASSERT_EQ(mkfifo(file(key_).c_str(), 0600), 0);
  EXPECT_EQ(BinaryStore(options()).get(key_), std::nullopt) << "without waiting for a writer";
  EXPECT_EQ(files(), 0);
  std::filesystem::create_directory(file(key_));
  std::filesystem::permissions(file(key_), std::filesystem::perms::owner_all);
  EXPECT_EQ(BinaryStore(options()).get(key_), std::nullopt);
  EXPECT_EQ(files(), 0);
  put("again");
  EXPECT_EQ(BinaryStore(options()).get(key_), "again");
}

TEST_F(BinaryStoreTest, MissesAnEntryUnderAnotherName) {
  put("bytes");
  const std::string other = digest_of({"other"});
  std::filesystem::rename(file(key_), file(other));
  EXPECT_EQ(BinaryStore(options()).get(other), std::nullopt);
}

TEST_F(BinaryStoreTest, RefusesKeysThatAreNotDigests) {
  BinaryStore store(options());
  for (const char* key : {"", "../../etc/passwd", "0123", "0123456789ABCDEF0123456789ABCDEF"}) {
    EXPECT_EQ(store.put(key, "bytes").code(), Code::kInvalidArgument);
    EXPECT_EQ(store.get(key), std::nullopt);
  }
}

TEST_F(BinaryStoreTest, PassesOverWhatOthersCanWrite) {
  put("bytes");
  BinaryStore store(options());
  std::filesystem::permissions(file(key_), std::filesystem::perms(0620));
  EXPECT_EQ(store.get(key_), std::nullopt);
  EXPECT_EQ(store.get(key_), std::nullopt);
  const std::vector<std::string> notes = store.take_notes();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find(file(key_) + " can be written by others"), std::string::npos);
  std::filesystem::permissions(file(key_), std::filesystem::perms(0600));
  EXPECT_EQ(store.get(key_), "bytes");

  std::filesystem::permissions(directory(), std::filesystem::perms(0777));
  EXPECT_EQ(store.get(key_), std::nullopt);
  EXPECT_EQ(store.take_notes().size(), 1u);
  EXPECT_FALSE(store.put(digest_of({"other"}), "bytes").ok());
  EXPECT_EQ(files(), 1);
}

TEST_F(BinaryStoreTest, RemovesTheLeastRecentlyUsedPastItsCap) {
  BinaryStoreOptions small = options();
  std::vector<std::string> keys;
  for (const char* name : {"a", "b", "c"}) {
    keys.push_back(digest_of({name}));
    ASSERT_TRUE(BinaryStore(options()).put(keys.back(), std::string(1000, 'x')).ok());
  }
  set_age(keys[0], 300);
  set_age(keys[1], 200);
  set_age(keys[2], 100);
  EXPECT_TRUE(BinaryStore(options()).get(keys[0]).has_value());  // a use
  small.cap_bytes = 2 * 1100;
  EXPECT_GE(BinaryStore(small).trim(), 1000);
  EXPECT_TRUE(std::filesystem::exists(file(keys[0])));
  EXPECT_FALSE(std::filesystem::exists(file(keys[1])));
  EXPECT_TRUE(std::filesystem::exists(file(keys[2])));
}

TEST_F(BinaryStoreTest, StaysBoundedWhilePutsGoOn) {
  BinaryStoreOptions small = options();
  small.cap_bytes = 10 * 1100;
  BinaryStore store(small);
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(store.put(digest_of({std::to_string(i)}), std::string(1000, 'x')).ok());
    EXPECT_LE(files(), 10);
  }
  EXPECT_EQ(store.trim(), 0);
  EXPECT_EQ(store.put(key_, std::string(20000, 'x')).code(), Code::kInvalidArgument);
  EXPECT_EQ(files(), 10);
}

TEST_F(BinaryStoreTest, RemovesWhatADeadProcessLeft) {
  put("bytes");
  write_file(directory() + "/dead.1-2-3.tmp", "half");
  write_file(directory() + "/live.4-5-6.tmp", "half");
  const utimbuf long_ago{0, 1000000000};
  ASSERT_EQ(utime((directory() + "/dead.1-2-3.tmp").c_str(), &long_ago), 0);
  EXPECT_EQ(BinaryStore(options()).trim(), 4);
  EXPECT_EQ(files(), 2);
}

TEST_F(BinaryStoreTest, AsksTheSiteAfterItsOwnAndLeavesItAlone) {
  put("of the site");
  BinaryStoreOptions user;
  user.directory = temporary_ / "user";
  user.site = {temporary_ / "absent", directory()};
  BinaryStore store(user);
  EXPECT_EQ(store.get(key_), "of the site");
  ASSERT_TRUE(store.put(key_, "of the user").ok());
  EXPECT_EQ(store.get(key_), "of the user");
  write_file(file(key_), "damaged");
  std::filesystem::remove_all(user.directory);
  EXPECT_EQ(store.get(key_), std::nullopt);
  EXPECT_EQ(read_file(file(key_)), "damaged");
}

TEST_F(BinaryStoreTest, WritesNothingWhereItIsToldNotTo) {
  BinaryStoreOptions read_only = options();
  read_only.read_only = true;
  EXPECT_TRUE(BinaryStore(read_only).put(key_, "bytes").ok());
  EXPECT_FALSE(std::filesystem::exists(directory()));
  EXPECT_TRUE(BinaryStore(BinaryStoreOptions()).put(key_, "bytes").ok());
  EXPECT_EQ(BinaryStore(BinaryStoreOptions()).get(key_), std::nullopt);
  put("bytes");
  EXPECT_EQ(BinaryStore(read_only).get(key_), "bytes");
  write_file(file(key_), "damaged");
  EXPECT_EQ(BinaryStore(read_only).get(key_), std::nullopt);
  EXPECT_EQ(files(), 1);
}

TEST_F(BinaryStoreTest, AnswersAStatusWhereTheDiskCannot) {
  write_file(directory(), "a file where the directory should be");
  const Status status = BinaryStore(options()).put(key_, "bytes");
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(directory()), std::string::npos);
  EXPECT_EQ(BinaryStore(options()).get(key_), std::nullopt);
  BinaryStoreOptions kernel_made = options();
  kernel_made.directory = "/proc/self";
  EXPECT_FALSE(BinaryStore(kernel_made).put(key_, "bytes").ok());
}

TEST_F(BinaryStoreTest, ServesThreadsThatPutAndGetOneKey) {
  BinaryStore store(options());
  const std::string bytes(100000, 'k');
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        EXPECT_TRUE(store.put(key_, bytes).ok());
        EXPECT_EQ(store.get(key_), bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(files(), 1);
}

}  // namespace
}  // namespace rowsmith
