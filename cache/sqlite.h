// SPDX-License-Identifier: Apache-2.0
//
// Database: one SQLite connection whose failures are Status values. Its source is the only file
// that includes SQLite and SQLiteCpp. Knows no table; not thread-safe.
#pragma once

#include <rowsmith/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace SQLite {
class Database;
class Statement;
}  // namespace SQLite

namespace rowsmith {

using SqlValue = std::variant<std::int64_t, std::string>;

// A row of a result; valid inside the query's callback only.
class SqlRow {
 public:
  explicit SqlRow(SQLite::Statement& statement) : statement_(statement) {}
  std::int64_t integer(int column) const;
  std::string text(int column) const;

 private:
  SQLite::Statement& statement_;
};

// Codes of every method: cache busy (locked, full, read-only, failing disk: the content may be
// sound), cache damaged (not a database, malformed, or its tables are not as they should be).
// A locked file is waited for: first by SQLite's busy handler, then, where SQLite answers at once,
// by trying again; for busy_timeout_ms in all.
class Database {
 public:
  enum class Mode {
    kReadWrite,  // the file must exist
    kReadOnly,   // takes part in locking, so it may need to write beside the file
    kImmutable,  // neither locks nor looks for a log: for files that cannot change or be written
  };

  static Result<std::unique_ptr<Database>> open(const std::string& path, Mode mode,
                                                int busy_timeout_ms);
  ~Database();

  const std::string& path() const { return path_; }

  // Any number of statements, without results.
  Status exec(const std::string& sql);
  Status run(const std::string& sql, const std::vector<SqlValue>& values);
  Status query(const std::string& sql, const std::vector<SqlValue>& values,
               const std::function<void(const SqlRow&)>& visit);
  // The first column of the first row; 0 or "" where there is none.
  Result<std::int64_t> integer(const std::string& sql);
  Result<std::string> text(const std::string& sql);
  // The body in one immediate transaction: a look-up followed by a write never fails on the
  // upgrade of its lock. Rolled back unless the body answers ok.
  Status write(const std::function<Status()>& body);

  // The file's name leads elsewhere by now: closing must not touch the files beside that name.
  void forget_files();

 private:
  Database(std::string path, std::unique_ptr<SQLite::Database> connection, int busy_timeout_ms);
  // Throws SQLite::Exception.
  static std::unique_ptr<Database> open_once(const std::string& path, Mode mode,
                                             int busy_timeout_ms);
  Status attempt(const std::function<void()>& body) const;
  Status retrying(const std::function<void()>& body) const;

  std::string path_;
  std::unique_ptr<SQLite::Database> connection_;
  int busy_timeout_ms_;
};

}  // namespace rowsmith
