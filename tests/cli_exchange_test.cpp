// SPDX-License-Identifier: Apache-2.0
//
// `tune export` and `tune import`: what is carried is whole or refused, and no backup is lost to a
// cache that cannot be read.
#include "cache/exchange.h"
#include "tests/support/cli_fixture.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

namespace rowsmith {
namespace {

class CliExchange : public testing::CliFixture {
 protected:
  static std::string content_of(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // Runs a statement on the file of the cache `name`, as another program might.
  void meddle(const std::string& name, const char* statement) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open((path(name) + "/winners.db").c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, statement, nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(database);
  }
  std::size_t winners(const std::string& name) {
    EXPECT_EQ(tune("list --json --cache " + path(name)), kExitDone) << err_;
    return json()["winners"].size();
  }
};

TEST_F(CliExchange, ImportTakesWhatExportWroteOnce) {
  store_winner("from", 4, 10);
  store_winner("from", 8, 10);
  ASSERT_EQ(tune("export " + path("winners.json") + " --cache " + path("from")), kExitDone);
  const std::string import = "import --json " + path("winners.json") + " --cache " + path("to");
  ASSERT_EQ(tune(import), kExitDone);
  EXPECT_EQ(json()["taken"], 2);
  ASSERT_EQ(tune(import), kExitDone);
  EXPECT_EQ(json()["taken"], 0);
  EXPECT_EQ(json()["unchanged"], 2);
}

TEST_F(CliExchange, ExportsOfEqualCachesAreByteIdentical) {
  store_winner("from", 4, 10);
  ASSERT_EQ(tune("export - --cache " + path("from")), kExitDone);
  const std::string exported = out_;
  std::ofstream(path("winners.json")) << exported;
  ASSERT_EQ(tune("import " + path("winners.json") + " --cache " + path("to")), kExitDone);
  ASSERT_EQ(tune("export - --cache " + path("to")), kExitDone);
  EXPECT_EQ(out_, exported);
}

TEST_F(CliExchange, DryRunShowsTheDifferenceAndChangesNothing) {
  store_winner("from", 4, 20);
  store_winner("to", 4, 10);
  ASSERT_EQ(tune("export " + path("winners.json") + " --cache " + path("from")), kExitDone);
  ASSERT_EQ(tune("import --dry-run --json " + path("winners.json") + " --cache " + path("to")),
            kExitDone);
  EXPECT_EQ(json()["taken"], 1);
  ASSERT_EQ(tune("list --json --cache " + path("to")), kExitDone);
  EXPECT_EQ(json()["winners"][0]["tuned_at"], 10);
}

TEST_F(CliExchange, DryRunMakesNoCache) {
  store_winner("from", 4, 20);
  ASSERT_EQ(tune("export " + path("winners.json") + " --cache " + path("from")), kExitDone);
  ASSERT_EQ(tune("import --dry-run --json " + path("winners.json") + " --cache " + path("none")),
            kExitDone);
  EXPECT_EQ(json()["taken"], 1);
  EXPECT_FALSE(std::filesystem::exists(path("none")));
}

TEST_F(CliExchange, ImportRefusesAFileThatIsNoExport) {
  std::ofstream(path("other.json")) << "{}";
  EXPECT_EQ(tune("import " + path("other.json") + " --cache " + path("to")), kExitUsage);
  EXPECT_TRUE(said(path("other.json") + ": ")) << err_;
}

TEST_F(CliExchange, ExportToAFullDiskExitsThree) {
  store_winner("cache", 4, 1);
  EXPECT_EQ(tune("export /proc/winners.json --cache " + path("cache")), kExitNothingRan);
  EXPECT_TRUE(said("'/proc/winners.json' cannot be written")) << err_;
}

TEST_F(CliExchange, ExportFollowsLinksAndKeepsTheMode) {
  store_winner("cache", 4, 1);
  std::ofstream(path("real.json")) << "old";
  std::filesystem::permissions(path("real.json"), std::filesystem::perms(0600));
  std::filesystem::create_symlink("real.json", path("link.json"));
  ASSERT_EQ(tune("export " + path("link.json") + " --cache " + path("cache")), kExitDone);
  EXPECT_TRUE(std::filesystem::is_symlink(path("link.json")));
  EXPECT_NE(content_of(path("real.json")).find("rowsmith-winners"), std::string::npos);
  EXPECT_EQ(std::filesystem::status(path("real.json")).permissions(), std::filesystem::perms(0600));
}

TEST_F(CliExchange, ExportWritesToAPipeAndLeavesItOne) {
  store_winner("cache", 4, 1);
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  const int reader = open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_EQ(tune("export " + path("pipe") + " --cache " + path("cache")), kExitDone) << err_;
  char begin[12] = {};
  EXPECT_EQ(read(reader, begin, sizeof(begin) - 1), 11);
  EXPECT_EQ(std::string(begin), "{\"checksum\"");
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));
  close(reader);
}

TEST_F(CliExchange, NoBackupIsLostToACacheThatCannotBeRead) {
  store_winner("cache", 4, 1);
  const std::string line = "export " + path("backup.json") + " --cache " + path("cache");
  ASSERT_EQ(tune(line), kExitDone);
  const std::string backup = content_of(path("backup.json"));
  const std::string database = path("cache") + "/winners.db";
  const auto refused = [&] {
    EXPECT_EQ(tune(line), kExitNothingRan);
    EXPECT_TRUE(said("the winners in '" + path("cache") + "' cannot be read")) << err_;
    EXPECT_EQ(content_of(path("backup.json")), backup);
    EXPECT_EQ(tune("list --cache " + path("cache")), kExitNothingRan);
  };
  std::filesystem::permissions(path("cache"), std::filesystem::perms(0770));
  refused();
  std::filesystem::permissions(path("cache"), std::filesystem::perms(0700));
  meddle("cache", "PRAGMA user_version = 99");
  refused();
  std::filesystem::resize_file(database, 100);
  refused();
  EXPECT_EQ(std::filesystem::file_size(database), 100u) << "looking sets nothing aside";
}

TEST_F(CliExchange, ImportPutsAllIntoTheFileThatWasBegunInADamagedOnesPlace) {
  for (const std::int64_t rows : {4, 8, 12, 16}) store_winner("from", rows, 10);
  ASSERT_EQ(tune("export " + path("winners.json") + " --cache " + path("from")), kExitDone);
  store_winner("to", 2, 10);
  meddle("to",
         "CREATE TRIGGER t BEFORE INSERT ON winners WHEN NEW.rows = 12 "
         "BEGIN SELECT RAISE(ABORT, 'no'); END");
  EXPECT_EQ(tune("import " + path("winners.json") + " --cache " + path("to")), kExitDone) << err_;
  EXPECT_TRUE(said("set aside")) << err_;
  EXPECT_EQ(winners("to"), 4u);
}

TEST_F(CliExchange, ImportRefusesDeviceClassesThatNoDeviceHas) {
  for (const char* name : {"cuda-sm", "cuda-sm-90", "cuda-sm74-1sm", "cuda-sm90", "hosts"}) {
    WinnerRecord record;
    record.device_class = name;
    record.problem = contiguous_problem(DType::kF16, DType::kF16, 4, 257);
    record.config = generic_config();
    record.family_digest = find_family(record.config.family)->digest();
    record.evidence.median_ns = 900;
    std::ofstream(path("odd.json")) << export_winners({record});
    EXPECT_EQ(tune("import " + path("odd.json") + " --cache " + path("to")), kExitSomeFailed);
    EXPECT_TRUE(said(std::string("'") + name + "' is no device class")) << err_;
  }
  EXPECT_EQ(winners("to"), 0u);
}

}  // namespace
}  // namespace rowsmith
