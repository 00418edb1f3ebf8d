// SPDX-License-Identifier: Apache-2.0
//
// StoreFile: winners.db as a file. Makes it whole or not at all, opens it, notices when the name
// leads to another file, and sets a damaged one aside. Knows nothing of records.
//
// Never opens the database but through SQLite: closing any descriptor of it would drop the POSIX
// locks of every connection in the process.
#pragma once

#include "cache/sqlite.h"

#include <rowsmith/status.h>

#include <cstdint>
#include <memory>
#include <string>

namespace rowsmith {

struct StoreFileOptions {
  std::string path;
  bool read_only = false;
  bool wal = true;  // false: rollback journal, for disks that are not local
  int busy_timeout_ms = 5000;
};

// Not thread-safe; its store holds a mutex.
class StoreFile {
 public:
  explicit StoreFile(StoreFileOptions options);
  ~StoreFile();

  // Makes the file where it is absent, sets a damaged one aside (see take_note) and makes another.
  // Cache busy, cache damaged (read-only), unsupported (a newer schema: left alone).
  Status open();
  // Requires ok() of the last open() or ready().
  Database& database() { return *database_; }
  // Opens again if there is no connection, or the file was replaced or (read-only) changed.
  Status ready();
  // After a statement failed with cache damaged: sets the file aside and opens another. Ok: done.
  Status recover(const std::string& why);

  // What open, ready and recover did that people should know; "" if nothing. Clears it.
  std::string take_note();
  const StoreFileOptions& options() const { return options_; }

 private:
  // Tells a file from another under the same name and, by the rest, from itself after a change.
  struct Stamp {
    std::uint64_t device = 0, inode = 0;
    std::int64_t bytes = -1, modified_ns = 0;  // bytes < 0: there is no file
    bool log = false;                          // a WAL or rollback journal lies beside it
    bool same_file(const Stamp& other) const {
      return bytes >= 0 && other.bytes >= 0 && device == other.device && inode == other.inode;
    }
  };
  Stamp stamp_of_path() const;
  Status open_existing();
  Status open_mode(Database::Mode mode);
  Status make();
  Status fill(const std::string& path) const;
  Status fill_with_tables(const std::string& path) const;
  Status set_aside(const std::string& why);
  void set_journal_mode(Database& database) const;
  void close();

  StoreFileOptions options_;
  std::unique_ptr<Database> database_;
  Stamp stamp_;
  std::string note_;
};

}  // namespace rowsmith
