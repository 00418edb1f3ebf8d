// SPDX-License-Identifier: Apache-2.0
//
// A cache directory that open_store is let loose on, and what else may happen to its file.
#pragma once

#include "cache/sqlite.h"
#include "tests/support/cache_fixture.h"

#include <string>

namespace rowsmith {

class OpenStoreFixture : public testing::Test {
 protected:
  OpenStoreFixture() { options_.directory = temporary_ / "cache"; }

  std::string file(const std::string& name = "winners.db") const {
    return options_.directory + "/" + name;
  }
  OpenedStore open() const { return open_store(options_); }
  // A store in the directory with one record, closed again.
  void fill() const {
    const OpenedStore opened = open();
    EXPECT_EQ(opened.note, "");
    EXPECT_TRUE(opened.store->put(record_of(problem_, 900)).ok());
  }
  // Runs SQL on the file, as another program would.
  void sql(const std::string& statements) const {
    auto database = Database::open(file(), Database::Mode::kReadWrite, 1000);
    ASSERT_TRUE(database.ok()) << database.status().to_string();
    const Status status = (*database)->exec(statements);
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
  bool exists(const std::string& name) const { return std::filesystem::exists(file(name)); }
  // The store works, whatever became of the file.
  static void expect_works(WinnerStore& store) {
    const Problem problem = problem_of(77, 77);
    EXPECT_TRUE(store.put(record_of(problem, 77)).ok());
    EXPECT_EQ(median_in(store, problem), 77);
  }

  TemporaryDirectory temporary_;
  StoreOptions options_;
  Problem problem_ = problem_of(4, 257);
};

}  // namespace rowsmith
