// SPDX-License-Identifier: Apache-2.0
//
// SQLiteCpp's exceptions become Status values here.
#include "cache/sqlite.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

namespace rowsmith {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kRetryPause{5};
// A network disk may answer "stale" or "busy" for a moment.
constexpr int kOpenTries = 3;

Code code_of(int sqlite_code) {
  switch (sqlite_code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR:  // no such table or column: the tables are not ours
    case SQLITE_MISMATCH:
    case SQLITE_CONSTRAINT: return Code::kCacheDamaged;
    default: return Code::kCacheBusy;
  }
}

bool is_contention(int sqlite_code) {
  const int code = sqlite_code & 0xff;
  return code == SQLITE_BUSY || code == SQLITE_LOCKED || code == SQLITE_PROTOCOL;
}

Status status_of(const std::string& path, const SQLite::Exception& error) {
  return {code_of(error.getErrorCode()), path + ": SQLite: " + error.what() + " (code " +
                                             std::to_string(error.getExtendedErrorCode()) + ")"};
}

// A "file:" name, in which the characters that would end or escape the path are escaped.
std::string immutable_uri(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '?' || c == '#' || c == '%') {
      char escape[4];
      std::snprintf(escape, sizeof escape, "%%%02X", static_cast<unsigned char>(c));
      uri += escape;
    } else {
      uri += c;
    }
  }
  return uri + "?immutable=1";
}

void bind(SQLite::Statement& statement, const std::vector<SqlValue>& values) {
  int index = 0;
  for (const SqlValue& value : values) {
    ++index;
    std::visit([&](const auto& held) { statement.bind(index, held); }, value);
  }
}

}  // namespace

std::int64_t SqlRow::integer(int column) const {
  return statement_.getColumn(column).getInt64();
}

std::string SqlRow::text(int column) const {
  return statement_.getColumn(column).getString();
}

Database::Database(std::string path, std::unique_ptr<SQLite::Database> connection,
                   int busy_timeout_ms)
    : path_(std::move(path)),
      connection_(std::move(connection)),
      busy_timeout_ms_(busy_timeout_ms) {}

Database::~Database() = default;

Result<std::unique_ptr<Database>> Database::open(const std::string& path, Mode mode,
                                                 int busy_timeout_ms) {
  for (int tries_left = kOpenTries;; --tries_left) {
    try {
      return open_once(path, mode, busy_timeout_ms);
    } catch (const SQLite::Exception& error) {
      const bool cannot_open = (error.getErrorCode() & 0xff) == SQLITE_CANTOPEN;
      if (!cannot_open || tries_left == 1) return status_of(path, error);
    }
  }
}

std::unique_ptr<Database> Database::open_once(const std::string& path, Mode mode,
                                              int busy_timeout_ms) {
  const int flags = mode == Mode::kReadWrite   ? SQLite::OPEN_READWRITE
                    : mode == Mode::kImmutable ? SQLite::OPEN_READONLY | SQLite::OPEN_URI
                                               : SQLite::OPEN_READONLY;
  // The timeout is set by the constructor, before any statement can meet a lock.
  auto connection = std::make_unique<SQLite::Database>(
      mode == Mode::kImmutable ? immutable_uri(path) : path, flags, busy_timeout_ms);
  return std::unique_ptr<Database>(new Database(path, std::move(connection), busy_timeout_ms));
}

Status Database::attempt(const std::function<void()>& body) const {
  try {
    body();
    return {};
  } catch (const SQLite::Exception& error) {
    return status_of(path_, error);
  }
}

Status Database::retrying(const std::function<void()>& body) const {
  const auto deadline = Clock::now() + std::chrono::milliseconds(busy_timeout_ms_);
  while (true) {
    try {
      body();
      return {};
    } catch (const SQLite::Exception& error) {
      if (!is_contention(error.getErrorCode()) || Clock::now() >= deadline) {
        return status_of(path_, error);
      }
    }
    std::this_thread::sleep_for(kRetryPause);
  }
}

Status Database::exec(const std::string& sql) {
  return retrying([&] { connection_->exec(sql); });
}

Status Database::run(const std::string& sql, const std::vector<SqlValue>& values) {
  return query(sql, values, [](const SqlRow&) {});
}

Status Database::query(const std::string& sql, const std::vector<SqlValue>& values,
                       const std::function<void(const SqlRow&)>& visit) {
  bool visited = false;
  const auto body = [&] {
    SQLite::Statement statement(*connection_, sql);
    bind(statement, values);
    while (statement.executeStep()) {
      visited = true;
      visit(SqlRow(statement));
    }
  };
  // Locks are met at the first step; a query that has begun to answer must not answer twice.
  return retrying([&] {
    if (visited) throw SQLite::Exception("interrupted in the middle of a result", SQLITE_IOERR);
    body();
  });
}

Result<std::int64_t> Database::integer(const std::string& sql) {
  std::int64_t value = 0;
  Status status = query(sql, {}, [&](const SqlRow& row) { value = row.integer(0); });
  if (!status.ok()) return status;
  return value;
}

Result<std::string> Database::text(const std::string& sql) {
  std::string value;
  Status status = query(sql, {}, [&](const SqlRow& row) { value = row.text(0); });
  if (!status.ok()) return status;
  return value;
}

Status Database::write(const std::function<Status()>& body) {
  if (Status begun = exec("BEGIN IMMEDIATE"); !begun.ok()) return begun;
  Status status = body();
  if (status.ok()) status = exec("COMMIT");
  if (!status.ok()) {
    // SQLite has rolled back by itself after some errors; then there is nothing left to do.
    static_cast<void>(attempt([&] { connection_->exec("ROLLBACK"); }));
  }
  return status;
}

void Database::forget_files() {
  sqlite3_db_config(connection_->getHandle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
}

}  // namespace rowsmith
