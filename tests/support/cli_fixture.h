// SPDX-License-Identifier: Apache-2.0
//
// The language of the command's tests: runs `tune` in this process, with a directory of its own,
// and puts winners and misses of a CUDA device that is not here into caches.
#pragma once

#include "kernel_templates/catalog.h"
#include "tests/support/tune_program.h"
#include "tuner/tune_cli.h"

#include <rowsmith/text.h>
#include <rowsmith/winner_store.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace rowsmith::testing {

class CliFixture : public ::testing::Test {
 protected:
  CliFixture() {
    std::string pattern = ::testing::TempDir() + "rowsmith-cli-XXXXXX";
    directory_ = mkdtemp(pattern.data());
  }
  ~CliFixture() override { std::filesystem::remove_all(directory_); }

  // Runs `tune` with the words of `line`; out_ and err_ hold what it wrote.
  int tune(const std::string& line, const std::function<bool()>& stop = nullptr) {
    std::istringstream words(line);
    const std::vector<std::string> args{std::istream_iterator<std::string>(words), {}};
    std::ostringstream out, err;
    const int status = tune_cli(args, out, err, stop, tune_program());
    out_ = out.str();
    err_ = err.str();
    return status;
  }
  bool said(const std::string& text) const { return err_.find(text) != std::string::npos; }
  nlohmann::json json() const { return nlohmann::json::parse(out_); }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }

  // Puts a winner of a CUDA device that is not here into the cache `name`.
  void store_winner(const std::string& name, std::int64_t rows, std::int64_t tuned_at,
                    const std::string& throttled = "") {
    WinnerRecord record;
    record.device_class = kClass;
    record.problem = contiguous_problem(DType::kF16, DType::kF16, rows, 257);
    record.config = generic_config();
    record.family_digest = find_family(record.config.family)->digest();
    record.evidence.median_ns = 900;
    record.evidence.effort = "quick";
    record.evidence.verdict = "default";
    record.evidence.tuned_at = tuned_at;
    record.evidence.throttled = throttled;
    StoreOptions options;
    options.directory = path(name);
    ASSERT_TRUE(open_store(options).store->put(record).ok());
  }

  // Counts calls of rows x 257 that no winner served.
  void count_misses(const std::string& name, std::int64_t rows, std::int64_t calls,
                    const std::string& device_class = kClass) {
    StoreOptions options;
    options.directory = path(name);
    const Problem problem = contiguous_problem(DType::kF16, DType::kF16, rows, 257);
    ASSERT_TRUE(open_store(options).store->add_misses(device_class, problem, calls).ok());
  }

  static constexpr const char* kClass = "cuda-sm90-132sm-l2:62914560-bus6144-mem3201000";
  std::string directory_, out_, err_;
};

}  // namespace rowsmith::testing
