// SPDX-License-Identifier: Apache-2.0
//
// What the cache's tests share: a directory that goes with the test, records to store, and a view
// of a store's whole content that compares as text.
#pragma once

#include "cache/exchange.h"

#include <rowsmith/text.h>
#include <rowsmith/winner_store.h>

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace rowsmith {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "rowsmith-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
  std::filesystem::permissions(path, std::filesystem::perms(0600));
}

inline constexpr const char* kDeviceA = "cuda-sm90-132sm-l2:62914560-bus6144-mem3201000";
inline constexpr const char* kDeviceB = "cuda-sm120-170sm-l2:100663296-bus512-mem14001000";

inline Problem problem_of(std::int64_t rows, std::int64_t cols, DType in = DType::kF16,
                          DType out = DType::kF16) {
  return contiguous_problem(in, out, rows, cols);
}

inline WinnerRecord record_of(const Problem& problem, std::int64_t median_ns = 1500,
                              const std::string& device_class = kDeviceA) {
  WinnerRecord record;
  record.device_class = device_class;
  record.problem = problem;
  record.config = *parse_config("block_row:threads=256,pack=8,load=nc");
  record.family_digest = "0123456789abcdef0123456789abcdef";
  record.evidence.median_ns = median_ns;
  record.evidence.spread_ns = 3;
  record.evidence.samples = 41;
  record.evidence.default_config = "warp_rows:lanes=32";
  record.evidence.default_ns = 2 * median_ns;
  record.evidence.verdict = "winner";
  record.evidence.error_ratio = 0.21;
  record.evidence.effort = "standard";
  record.evidence.device_name = "NVIDIA Invented 9000";
  record.evidence.device_uuid = "GPU-1";
  record.evidence.compiler = "nvrtc 13.0";
  record.evidence.driver_version = 13000;
  record.evidence.tuned_at = 1790000000;
  return record;
}

// Every record of the store, as its export.
inline std::string content_of(WinnerStore& store) {
  const auto records = store.list();
  EXPECT_TRUE(records.ok()) << records.status().to_string();
  return records.ok() ? export_winners(*records) : std::string();
}

// The median of the record that serves, 0 for none, -1 for a failure.
inline std::int64_t median_in(WinnerStore& store, const Problem& problem,
                              const std::string& device_class = kDeviceA) {
  const auto found = store.find(device_class, problem);
  if (!found.ok()) return -1;
  return found->has_value() ? (*found)->evidence.median_ns : 0;
}

}  // namespace rowsmith
