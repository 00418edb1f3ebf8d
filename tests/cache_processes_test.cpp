// SPDX-License-Identifier: Apache-2.0
//
// Many processes on one cache directory. The workers are this program, executed again, so that no
// open database is ever carried through a fork.
#include "cache/binary_store.h"
#include "tests/support/cache_fixture.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <vector>

extern char** environ;

namespace rowsmith {
namespace {

// Rounds of look-up and write on keys that all workers share and on the worker's own.
bool work_on_store(const std::string& directory, int worker, int rounds) {
  const OpenedStore opened = open_store({directory, false, {}, 30000});
  bool good = opened.note.empty();
  if (!good) std::fprintf(stderr, "worker %d: %s\n", worker, opened.note.c_str());
  const auto check = [&](const Status& status) {
    if (!status.ok()) std::fprintf(stderr, "worker %d: %s\n", worker, status.to_string().c_str());
    good = good && status.ok();
  };
  WinnerStore& store = *opened.store;
  for (int round = 1; round <= rounds; ++round) {
    const Problem shared = problem_of(1, 1 + round % 7), own = problem_of(2 + worker, round);
    check(store.find(kDeviceA, shared).status());
    check(store.put(record_of(shared, 1 + worker)));
    WinnerRecord record = record_of(own, round);
    check(store.merge(record).status());
    check(store.add_misses(kDeviceA, shared, 1));
    const auto found = store.find(kDeviceA, own);
    check(found.status());
    good = good && found.ok() && found->has_value();
  }
  return good;
}

// Every worker puts every key; whatever a get answers must be whole.
bool work_on_binaries(const std::string& directory, int worker, int rounds) {
  BinaryStoreOptions options;
  options.directory = directory;
  options.cap_bytes = 400000;
  BinaryStore store(options);
  bool good = true;
  for (int round = 0; round < rounds; ++round) {
    const std::string key = digest_of({std::to_string((round + worker) % 8)});
    const std::string bytes(50000 + round % 8, key[0]);
    good = store.put(key, bytes).ok() && good;
    const auto found = store.get(key);
    good = (!found || found->find_first_not_of(key[0]) == std::string::npos) && good;
  }
  return good && store.take_notes().empty();
}

// Starts `workers` processes of this program at once and counts those that failed.
int failures_of(const std::string& what, int workers, int rounds, const std::string& directory) {
  std::vector<pid_t> children;
  int failures = 0;
  for (int worker = 0; worker < workers; ++worker) {
    std::vector<std::string> arguments = {
        "cache_processes_test", "--worker", what, directory, std::to_string(worker),
        std::to_string(rounds)};
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_t child = 0;
    if (posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, argv.data(), environ) == 0) {
      children.push_back(child);
    } else {
      ++failures;
    }
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    if (status != 0) ++failures;
  }
  return failures;
}

TEST(CacheProcesses, WriteAndReadAtOnceWithoutAnError) {
  TemporaryDirectory temporary;
  constexpr int kWorkers = 8, kRounds = 40;
  EXPECT_EQ(failures_of("store", kWorkers, kRounds, temporary / "cache"), 0);
  const OpenedStore opened = open_store({temporary / "cache", false, {}, 5000});
  EXPECT_EQ(opened.note, "");
  EXPECT_EQ(opened.store->list()->size(), std::size_t{7 + kWorkers * kRounds});
  const auto misses = opened.store->list_misses();
  ASSERT_TRUE(misses.ok());
  std::int64_t calls = 0;
  for (const auto& miss : *misses) calls += miss.calls;
  EXPECT_EQ(calls, kWorkers * kRounds);
}

TEST(CacheProcesses, StartColdTogetherWithoutAnError) {
  for (int round = 0; round < 3; ++round) {
    TemporaryDirectory temporary;
    EXPECT_EQ(failures_of("store", 20, 1, temporary / "cache"), 0);
    const OpenedStore opened = open_store({temporary / "cache", false, {}, 5000});
    EXPECT_EQ(opened.store->list()->size(), 21u);
    for (const auto& entry : std::filesystem::directory_iterator(temporary / "cache")) {
      EXPECT_EQ(entry.path().string().find(".new"), std::string::npos) << entry.path();
    }
  }
}

TEST(CacheProcesses, SetOneDamagedFileAsideOnce) {
  TemporaryDirectory temporary;
  {
    const OpenedStore opened = open_store({temporary / "cache", false, {}, 5000});
    EXPECT_EQ(opened.note, "");
  }
  write_file(temporary / "cache/winners.db", "not a database, but long enough to be taken for one");
  // Those that find the damage say so; that is all they fail by.
  EXPECT_LE(failures_of("store", 8, 3, temporary / "cache"), 1);
  const OpenedStore opened = open_store({temporary / "cache", false, {}, 5000});
  EXPECT_EQ(opened.note, "");
  EXPECT_EQ(opened.store->list()->size(), std::size_t{3 + 8 * 3});
  EXPECT_TRUE(std::filesystem::exists(temporary / "cache/winners.db.damaged-1"));
  EXPECT_FALSE(std::filesystem::exists(temporary / "cache/winners.db.damaged-2"));
}

TEST(CacheProcesses, ShareBinariesWhileTheStoreIsTrimmed) {
  TemporaryDirectory temporary;
  EXPECT_EQ(failures_of("binaries", 8, 30, temporary / "binaries"), 0);
  std::uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(temporary / "binaries")) {
    EXPECT_EQ(entry.path().extension(), ".bin");
    bytes += entry.file_size();
  }
  EXPECT_LE(bytes, 400000u);
  EXPECT_GT(bytes, 300000u);
}

}  // namespace
}  // namespace rowsmith

int main(int argc, char** argv) {
  if (argc == 6 && std::string(argv[1]) == "--worker") {
    const int worker = std::stoi(argv[4]), rounds = std::stoi(argv[5]);
    const bool good = std::string(argv[2]) == "store"
                          ? rowsmith::work_on_store(argv[3], worker, rounds)
                          : rowsmith::work_on_binaries(argv[3], worker, rounds);
    return good ? 0 : 1;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
