// SPDX-License-Identifier: Apache-2.0
//
// Schema creation and migration, driven by one table.
#include "cache/schema.h"

#include <string>

namespace rowsmith {
namespace {

constexpr const char* kVersion1 = R"sql(
CREATE TABLE devices (
  device_class TEXT NOT NULL,
  uuid TEXT NOT NULL,
  name TEXT NOT NULL,
  compiler TEXT NOT NULL,
  driver_version INTEGER NOT NULL,
  tuned_at INTEGER NOT NULL,
  PRIMARY KEY (device_class, uuid)
);
CREATE TABLE winners (
  device_class TEXT NOT NULL,
  op TEXT NOT NULL,
  dtype_in TEXT NOT NULL,
  dtype_out TEXT NOT NULL,
  cols INTEGER NOT NULL,
  layout TEXT NOT NULL,
  rows INTEGER NOT NULL,
  config TEXT NOT NULL,
  family TEXT NOT NULL,
  family_digest TEXT NOT NULL,
  median_ns INTEGER NOT NULL,
  effort TEXT NOT NULL,
  tuned_at INTEGER NOT NULL,
  evidence TEXT NOT NULL,
  PRIMARY KEY (device_class, op, dtype_in, dtype_out, cols, layout, rows)
);
CREATE TABLE rejections (
  device_class TEXT NOT NULL,
  op TEXT NOT NULL,
  dtype_in TEXT NOT NULL,
  dtype_out TEXT NOT NULL,
  cols INTEGER NOT NULL,
  layout TEXT NOT NULL,
  rows INTEGER NOT NULL,
  config TEXT NOT NULL,
  family_digest TEXT NOT NULL,
  code INTEGER NOT NULL,
  reason TEXT NOT NULL,
  PRIMARY KEY (device_class, op, dtype_in, dtype_out, cols, layout, rows, config)
);
CREATE TABLE misses (
  device_class TEXT NOT NULL,
  op TEXT NOT NULL,
  dtype_in TEXT NOT NULL,
  dtype_out TEXT NOT NULL,
  cols INTEGER NOT NULL,
  layout TEXT NOT NULL,
  rows INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  PRIMARY KEY (device_class, op, dtype_in, dtype_out, cols, layout, rows)
);
)sql";

constexpr const char* kVersion2 = R"sql(
CREATE TABLE screenings (
  device_class TEXT NOT NULL,
  op TEXT NOT NULL,
  dtype_in TEXT NOT NULL,
  dtype_out TEXT NOT NULL,
  cols INTEGER NOT NULL,
  layout TEXT NOT NULL,
  rows INTEGER NOT NULL,
  config TEXT NOT NULL,
  median_ns INTEGER NOT NULL,
  default_config TEXT NOT NULL,
  default_ns INTEGER NOT NULL,
  family_digest TEXT NOT NULL,
  compiler TEXT NOT NULL,
  driver_version INTEGER NOT NULL,
  PRIMARY KEY (device_class, op, dtype_in, dtype_out, cols, layout, rows, config)
);
)sql";

struct Found {
  bool empty = false;
  std::int64_t version = 0;
};

Result<Found> inspect(Database& database) {
  const auto tables = database.integer("SELECT count(*) FROM sqlite_master");
  if (!tables.ok()) return tables.status();
  const auto application = database.integer("PRAGMA application_id");
  if (!application.ok()) return application.status();
  const auto version = database.integer("PRAGMA user_version");
  if (!version.ok()) return version.status();
  const bool empty = *tables == 0 && *application == 0;
  if (!empty && *application != kApplicationId) {
    return Status(Code::kCacheDamaged, database.path() + ": it is another program's database");
  }
  return Found{empty, *version};
}

Status newer(const Database& database, std::int64_t version, int known) {
  return {Code::kUnsupported, database.path() + ": its schema version " + std::to_string(version) +
                                  " was made by a newer build; this one knows up to " +
                                  std::to_string(known)};
}

// A version number alone does not make tables; a file without them is as good as damaged.
Status check_tables(Database& database, std::int64_t version) {
  std::vector<const char*> tables = {"devices", "winners", "rejections", "misses"};
  if (version >= 2) tables.push_back("screenings");
  for (const char* table : tables) {
    const auto probe = database.integer(std::string("SELECT 1 FROM ") + table + " LIMIT 1");
    if (!probe.ok()) return probe.status();
  }
  return {};
}

}  // namespace

const std::vector<Migration>& migrations() {
  static const std::vector<Migration> steps = {{1, kVersion1}, {2, kVersion2}};
  return steps;
}

Status ensure_schema(Database& database, const std::vector<Migration>& steps) {
  const int current = steps.back().version;
  auto found = inspect(database);
  if (!found.ok()) return found.status();
  if (found->version == current && !found->empty) return check_tables(database, current);
  if (found->version > current) return newer(database, found->version, current);
  return database.write([&]() -> Status {
    // Again, under the lock: another process may have done it meanwhile.
    found = inspect(database);
    if (!found.ok()) return found.status();
    Status status;
    if (found->empty) {
      status = database.exec("PRAGMA application_id = " + std::to_string(kApplicationId));
    }
    for (const Migration& step : steps) {
      if (!status.ok() || step.version <= found->version) continue;
      status = database.exec(step.sql);
      if (status.ok()) {
        status = database.exec("PRAGMA user_version = " + std::to_string(step.version));
      }
    }
    return status;
  });
}

Status check_schema(Database& database) {
  const int current = migrations().back().version;
  const auto found = inspect(database);
  if (!found.ok()) return found.status();
  if (found->version > current) return newer(database, found->version, current);
  if (found->version < kOldestRead || found->empty) {
    return {Code::kUnsupported, database.path() + ": its schema version " +
                                    std::to_string(found->version) + " is older than " +
                                    std::to_string(kOldestRead) +
                                    " and cannot be brought up to date without writing"};
  }
  return check_tables(database, found->version);
}

}  // namespace rowsmith
