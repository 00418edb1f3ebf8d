// SPDX-License-Identifier: Apache-2.0
//
// A new database is filled under a private name and published by rename, so that winners.db is
// never seen half made and processes do not race to switch its journal mode.
#include "cache/store_file.h"

#include "cache/directory.h"
#include "cache/schema.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

namespace rowsmith {
namespace {

// SQLite's files beside a database.
constexpr const char* kSidecars[] = {"-wal", "-shm", "-journal"};
// How many damaged files are kept; the last name is used again.
constexpr int kMaxSetAside = 9;

bool exists(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

}  // namespace

StoreFile::StoreFile(StoreFileOptions options) : options_(std::move(options)) {}

StoreFile::~StoreFile() {
  close();
}

std::string StoreFile::take_note() {
  return std::exchange(note_, {});
}

StoreFile::Stamp StoreFile::stamp_of_path() const {
  Stamp stamp;
  struct stat info;
  if (stat(options_.path.c_str(), &info) != 0) return stamp;
  stamp.device = info.st_dev;
  stamp.inode = info.st_ino;
  stamp.bytes = info.st_size;
  stamp.modified_ns = info.st_mtim.tv_sec * 1000000000LL + info.st_mtim.tv_nsec;
  stamp.log = exists(options_.path + "-wal") || exists(options_.path + "-journal");
  return stamp;
}

// The last connection to close folds the WAL back and removes it, by name: not where the name
// belongs to another file by now.
void StoreFile::close() {
  if (database_ && !stamp_of_path().same_file(stamp_)) database_->forget_files();
  database_.reset();
}

Status StoreFile::open() {
  close();
  // Further rounds are for a file that other processes set aside or replace between two looks at
  // it.
  Status status;
  for (int round = 0; round < 5; ++round) {
    if (!options_.read_only && !exists(options_.path)) {
      if (Status made = make(); !made.ok()) return made;
    }
    status = open_existing();
    if (status.ok() || options_.read_only) return status;
    if (!stamp_of_path().same_file(stamp_)) continue;
    if (status.code() != Code::kCacheDamaged) return status;
    if (Status moved = set_aside(status.message()); !moved.ok()) return moved;
  }
  return status;
}

Status StoreFile::ready() {
  if (!database_) return open();
  const Stamp now = stamp_of_path();
  const bool changed =
      !now.same_file(stamp_) ||
      (options_.read_only && (now.bytes != stamp_.bytes || now.modified_ns != stamp_.modified_ns ||
                              now.log != stamp_.log));
  return changed ? open() : Status();
}

Status StoreFile::recover(const std::string& why) {
  // A newer build may have changed the tables under us: that is no damage.
  if (database_) {
    Status schema = ensure_schema(*database_);
    if (schema.code() == Code::kUnsupported) return schema;
  }
  if (Status moved = set_aside(why); !moved.ok()) return moved;
  return open();
}

Status StoreFile::open_existing() {
  stamp_ = stamp_of_path();
  if (stamp_.bytes < 0) return {Code::kCacheBusy, "there is no " + options_.path};
  if (stamp_.bytes == 0) return {Code::kCacheDamaged, options_.path + " is empty"};
  Status status;
  if (!options_.read_only) {
    status = open_mode(Database::Mode::kReadWrite);
  } else {
    // Beside a log there may be a writer, whose locks count. Where they cannot be had, and where
    // there is no log, the file is read as it lies; ready() looks for changes.
    status = Status(Code::kCacheBusy, "");
    if (stamp_.log) status = open_mode(Database::Mode::kReadOnly);
    if (status.code() == Code::kCacheBusy) status = open_mode(Database::Mode::kImmutable);
  }
  if (!status.ok()) close();
  return status;
}

Status StoreFile::open_mode(Database::Mode mode) {
  database_.reset();
  auto opened = Database::open(options_.path, mode, options_.busy_timeout_ms);
  if (!opened.ok()) return opened.status();
  database_ = std::move(*opened);
  if (options_.read_only) return check_schema(*database_);
  Status status = ensure_schema(*database_);
  if (status.ok()) set_journal_mode(*database_);
  // Losing the last rows to a power cut costs a tuning, not the file.
  return status.ok() ? database_->exec("PRAGMA synchronous = NORMAL") : status;
}

// Best effort: the switch needs the file alone, and either mode is right while others hold it.
void StoreFile::set_journal_mode(Database& database) const {
  const std::string wanted = options_.wal ? "wal" : "delete";
  const auto mode = database.text("PRAGMA journal_mode");
  if (mode.ok() && *mode != wanted) {
    static_cast<void>(database.text("PRAGMA journal_mode = " + wanted));
  }
}

Status StoreFile::make() {
  auto lock = FileLock::take(options_.path + ".lock", options_.busy_timeout_ms);
  if (!lock.ok()) return lock.status();
  if (exists(options_.path)) return {};
  // A log left by a file that was removed would be applied to the next one.
  for (const char* sidecar : kSidecars) unlink((options_.path + sidecar).c_str());
  const std::string path = unique_sibling(options_.path, ".new");
  Status status = fill(path);
  if (status.ok() && retrying([&] { return rename(path.c_str(), options_.path.c_str()); }) != 0) {
    status =
        Status(Code::kCacheBusy, "cannot make " + options_.path + ": rename: " + errno_text(errno));
  }
  if (!status.ok()) {
    for (const char* sidecar : kSidecars) unlink((path + sidecar).c_str());
    unlink(path.c_str());
  }
  return status;
}

Status StoreFile::fill(const std::string& path) const {
  // Made here for its mode, which SQLite gives to the files beside it, too.
  const int fd =
      retrying([&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600); });
  if (fd < 0) return {Code::kCacheBusy, "cannot make " + path + ": " + errno_text(errno)};
  Status status = fill_with_tables(path);
  if (status.ok() && fsync(fd) != 0) {
    status = Status(Code::kCacheBusy, "cannot write " + path + ": " + errno_text(errno));
  }
  ::close(fd);
  return status;
}

Status StoreFile::fill_with_tables(const std::string& path) const {
  auto database = Database::open(path, Database::Mode::kReadWrite, options_.busy_timeout_ms);
  if (!database.ok()) return database.status();
  // Nobody sees the file before fill() has flushed it: one flush instead of a dozen. The vacuum
  // mode, by which erased rows give their space back to the disk, must precede the first table.
  Status status = (*database)->exec("PRAGMA synchronous = OFF; PRAGMA auto_vacuum = FULL");
  if (status.ok()) status = ensure_schema(**database);
  if (status.ok()) set_journal_mode(**database);
  return status;
}

Status StoreFile::set_aside(const std::string& why) {
  if (database_) database_->forget_files();
  database_.reset();
  auto lock = FileLock::take(options_.path + ".lock", options_.busy_timeout_ms);
  if (!lock.ok()) return lock.status();
  // Another process may have done it, and the name leads to a sound file.
  if (!stamp_of_path().same_file(stamp_)) return {};
  std::string aside;
  for (int n = 1; n <= kMaxSetAside; ++n) {
    aside = options_.path + ".damaged-" + std::to_string(n);
    if (!exists(aside)) break;
  }
  // The logs first: alone they harm nobody, beside a new file they would be applied to it.
  for (const char* sidecar : kSidecars) {
    unlink((aside + sidecar).c_str());
    rename((options_.path + sidecar).c_str(), (aside + sidecar).c_str());
  }
  if (retrying([&] { return rename(options_.path.c_str(), aside.c_str()); }) != 0) {
    return {Code::kCacheBusy, "cannot set aside the damaged " + options_.path + " (" + why +
                                  "): rename: " + errno_text(errno)};
  }
  note_ = "the cache " + options_.path + " was damaged (" + why + "), set aside as " + aside +
          " and begun anew";
  return {};
}

}  // namespace rowsmith
