// SPDX-License-Identifier: Apache-2.0
//
// `tune prune`: what goes, what stays, and that the disk has the space again.

#include "cache/binary_store.h"
#include "tests/support/cli_fixture.h"

namespace rowsmith {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOther = "cuda-sm80-108sm-l2:41943040-bus5120-mem1215000";

class CliPrune : public testing::CliFixture {
 protected:
  using json = nlohmann::json;

  int prune(const std::string& options = "") {
    const int status = tune("prune --json --cache " + cache_ + " " + options);
    report_ = CliFixture::json();
    return status;
  }

  OpenedStore store() const {
    StoreOptions options;
    options.directory = cache_;
    return open_store(options);
  }

  static WinnerRecord winner(std::int64_t rows, const std::string& device_class = kClass) {
    WinnerRecord record;
    record.device_class = device_class;
    record.problem = contiguous_problem(DType::kF16, DType::kF16, rows, 257);
    record.config = generic_config();
    record.family_digest = find_family(record.config.family)->digest();
    record.evidence.median_ns = 900;
    return record;
  }

  // "4,8": the rows of the stored winners.
  std::string stored() const {
    std::string rows;
    const auto records = store().store->list();
    for (const WinnerRecord& record : *records) {
      rows += (rows.empty() ? "" : ",") + std::to_string(record.problem.rows);
    }
    return rows;
  }

  // Binaries of 1000 bytes, oldest first.
  void put_binaries(int count) const {
    BinaryStoreOptions options;
    options.directory = cache_ + "/binaries";
    BinaryStore binaries(options);
    const auto now = fs::file_time_type::clock::now();
    for (int i = 0; i < count; ++i) {
      const std::string key = digest_of({std::to_string(i)});
      ASSERT_TRUE(binaries.put(key, std::string(1000 - 56, 'x')).ok());
      fs::last_write_time(options.directory + "/" + key + ".bin",
                          now - std::chrono::hours(count - i));
    }
  }
  bool has_binary(int i) const {
    return fs::exists(cache_ + "/binaries/" + digest_of({std::to_string(i)}) + ".bin");
  }

  const std::string cache_ = path("cache");
  json report_;
};

TEST_F(CliPrune, DropsWinnersWhoseFamilyIsGoneOrChanged) {
  WinnerRecord gone = winner(4), changed = winner(8);
  gone.config.family = "forgotten";
  changed.family_digest = "0123";
  {
    const OpenedStore opened = store();
    for (const WinnerRecord& record : {gone, changed, winner(16)}) {
      ASSERT_TRUE(opened.store->put(record).ok());
    }
  }
  ASSERT_EQ(prune(), kExitDone);
  EXPECT_EQ(report_["kept"], 1);
  ASSERT_EQ(report_["dropped"].size(), 2u);
  EXPECT_EQ(report_["dropped"][0]["reason"], "no family 'forgotten'");
  EXPECT_EQ(report_["dropped"][1]["reason"], "family generic has changed since it was tuned");
  EXPECT_EQ(stored(), "16");
}

TEST_F(CliPrune, DropsADeviceClassWhenItIsNamed) {
  {
    const OpenedStore opened = store();
    ASSERT_TRUE(opened.store->put(winner(4)).ok());
    ASSERT_TRUE(opened.store->put(winner(8, kOther)).ok());
  }
  ASSERT_EQ(prune(), kExitDone);
  EXPECT_EQ(report_["kept"], 2);
  ASSERT_EQ(prune(std::string("--device-class ") + kOther), kExitDone);
  EXPECT_EQ(report_["dropped"].size(), 1u);
  EXPECT_EQ(stored(), "4");
}

TEST_F(CliPrune, RefusesADeviceClassThatHasNothingAndNamesThoseThatHave) {
  EXPECT_EQ(prune("--device-class nope"), kExitUsage) << "no cache at all";
  {
    const OpenedStore opened = store();
    ASSERT_TRUE(opened.store->put(winner(4)).ok());
    ASSERT_TRUE(opened.store->put(winner(8, kOther)).ok());
  }
  EXPECT_EQ(prune(std::string("--device-class ") + kOther + ",nope"), kExitUsage);
  EXPECT_EQ(report_["error"]["message"], std::string("--device-class: the cache has nothing of "
                                                     "'nope'; it knows ") +
                                             kOther + ", " + kClass);
  EXPECT_EQ(stored(), "8,4") << "by device class";
}

TEST_F(CliPrune, DropsScreeningsThatNoSearchCanTakeOver) {
  const auto screening = [](std::int64_t rows, const std::string& device_class = kClass) {
    const WinnerRecord like = winner(rows, device_class);
    return Screening{device_class, like.problem,       to_string(like.config), 900,  "generic",
                     1000,         like.family_digest, "nvrtc 13.0",           13000};
  };
  Screening gone = screening(4), changed = screening(8);
  gone.config = "forgotten:threads=4";
  changed.family_digest = "0123";
  WinnerRecord whole = winner(16);
  whole.evidence.effort = "thorough";
  {
    const OpenedStore opened = store();
    ASSERT_TRUE(opened.store->put(whole).ok());
    ASSERT_TRUE(
        opened.store
            ->put_screenings({gone, changed, screening(16), screening(32), screening(32, kOther)})
            .ok());
  }
  ASSERT_EQ(prune("--dry-run"), kExitDone);
  EXPECT_EQ(report_["screenings_dropped"], 3);
  EXPECT_EQ(store().store->list_screenings()->size(), 5u);
  ASSERT_EQ(prune(), kExitDone);
  EXPECT_EQ(store().store->list_screenings()->size(), 2u);
  ASSERT_EQ(prune(std::string("--device-class ") + kOther), kExitDone) << "a class without winners";
  EXPECT_EQ(report_["screenings_dropped"], 1);
  EXPECT_EQ(store().store->list_screenings()->size(), 1u);
  EXPECT_EQ(stored(), "16");
  ASSERT_TRUE(store().store->erase_all({winner(16)}).ok());
  EXPECT_EQ(prune("--device-class nope"), kExitUsage);
  EXPECT_EQ(report_["error"]["message"],
            std::string("--device-class: the cache has nothing of 'nope'; it knows ") + kClass)
      << "of screenings alone";
}

TEST_F(CliPrune, DryRunChangesNothing) {
  WinnerRecord changed = winner(8);
  changed.family_digest = "0123";
  ASSERT_TRUE(store().store->put(changed).ok());
  put_binaries(3);
  ASSERT_EQ(prune("--dry-run --max-size 2000B"), kExitDone);
  EXPECT_EQ(report_["dropped"].size(), 1u);
  EXPECT_EQ(report_["binaries_freed_bytes"], 1000);
  EXPECT_TRUE(report_["winners_freed_bytes"].is_null());
  EXPECT_EQ(stored(), "8");
  EXPECT_TRUE(has_binary(0));
}

TEST_F(CliPrune, KeepsTheBinariesUsedLast) {
  ASSERT_TRUE(store().store->put(winner(4)).ok());
  put_binaries(4);
  ASSERT_EQ(prune(), kExitDone);
  EXPECT_EQ(report_["binaries_freed_bytes"], 0);
  ASSERT_EQ(prune("--max-size 2KiB"), kExitDone);
  EXPECT_EQ(report_["binaries_freed_bytes"], 2000);
  EXPECT_FALSE(has_binary(0));
  EXPECT_FALSE(has_binary(1));
  EXPECT_TRUE(has_binary(2));
  EXPECT_TRUE(has_binary(3));
  ASSERT_EQ(prune("--max-size 0B"), kExitDone);
  EXPECT_TRUE(fs::is_empty(cache_ + "/binaries"));
}

TEST_F(CliPrune, TheDiskHasTheSpaceAgain) {
  {
    const OpenedStore opened = store();
    for (std::int64_t rows = 1; rows <= 600; ++rows) {
      ASSERT_TRUE(opened.store->put(winner(rows, rows == 1 ? kClass : kOther)).ok());
    }
  }
  const auto before = fs::file_size(cache_ + "/winners.db");
  ASSERT_EQ(prune(std::string("--device-class ") + kOther), kExitDone);
  const auto after = fs::file_size(cache_ + "/winners.db");
  EXPECT_LT(after, before / 4);
  EXPECT_EQ(report_["winners_freed_bytes"], before - after);
  EXPECT_EQ(stored(), "1");
}

TEST_F(CliPrune, AReadOnlyCacheIsRefusedUnlessNothingWouldChange) {
  ASSERT_TRUE(store().store->put(winner(4)).ok());
  setenv("ROWSMITH_READONLY", "1", 1);
  const int status = prune();
  const json refused = report_;
  const int dry = prune("--dry-run");
  unsetenv("ROWSMITH_READONLY");
  EXPECT_EQ(status, kExitNothingRan);
  EXPECT_EQ(refused["error"]["message"], "ROWSMITH_READONLY is set: winners cannot be kept");
  EXPECT_EQ(dry, kExitDone);
  EXPECT_EQ(stored(), "4");
}

}  // namespace
}  // namespace rowsmith
