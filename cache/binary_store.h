// SPDX-License-Identifier: Apache-2.0
//
// Compiled kernels on disk, so that a second process compiles nothing: one file an entry, published
// by rename, checksummed, the least recently used removed past a size cap. An entry that cannot be
// used is a miss. Never part of an export.
#pragma once

#include <rowsmith/status.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rowsmith {

struct BinaryStoreOptions {
  std::string directory;          // made with mode 0700 if absent; "" = remembers nothing
  std::vector<std::string> site;  // read-only directories of the same form, asked after it
  bool read_only = false;         // neither writes nor removes anything
  std::int64_t cap_bytes = std::int64_t{1} << 30;
};

// The digest (32 hex digits) of the parts, each length-prefixed: what binaries are keyed by.
std::string digest_of(const std::vector<std::string_view>& parts);

// Thread-safe; many processes may share the directory.
class BinaryStore {
 public:
  explicit BinaryStore(BinaryStoreOptions options);

  // The bytes stored under `key` (a digest_of text), or nullopt: absent, damaged (then removed), or
  // in a file or directory that others can write to (then ignored, with a warning in take_notes()).
  std::optional<std::string> get(const std::string& key);
  // Publishes the bytes. A full or read-only disk is a Status that callers log and forget; ok
  // without effect where options ask for no writing. Invalid argument: not a key, above the cap.
  Status put(const std::string& key, std::string_view bytes);
  // Removes least recently used entries until the cap holds; returns the bytes released.
  std::int64_t trim();
  // The bytes that trim() would release now.
  std::int64_t surplus_bytes() const;

  // Why files or directories were passed over since the last call; no reason comes twice.
  std::vector<std::string> take_notes();

 private:
  struct Surplus {
    std::string path;
    std::int64_t bytes = 0;
  };
  std::vector<Surplus> surplus() const;
  std::string path_of(const std::string& directory, const std::string& key) const;
  std::optional<std::string> read(const std::string& directory, const std::string& key, bool own);
  bool is_trusted(const std::string& path);
  bool writes() const { return !options_.directory.empty() && !options_.read_only; }

  BinaryStoreOptions options_;
  std::mutex notes_mutex_;
  std::vector<std::string> notes_;  // all so far
  std::size_t taken_ = 0;           // of them
};

}  // namespace rowsmith
