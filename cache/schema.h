// SPDX-License-Identifier: Apache-2.0
//
// The tables of winners.db, their version and the way from each older version to this one.
// docs/cache-format.md describes them for people.
#pragma once

#include "cache/sqlite.h"

#include <rowsmith/status.h>

#include <cstdint>
#include <vector>

namespace rowsmith {

// "rows" in ASCII: what PRAGMA application_id says of a file that is ours.
inline constexpr std::int64_t kApplicationId = 0x726f7773;

// From here on the tables that a reader asks are as they are today: a read-only file of that
// version serves unmigrated.
inline constexpr std::int64_t kOldestRead = 1;

// SQL that leads from `version - 1` to `version`.
struct Migration {
  int version;
  const char* sql;
};
// In ascending order, none missing; the last one's version is this build's. Never edit an entry
// that was released: add one, and a golden file of the version before (tests/golden).
const std::vector<Migration>& migrations();

// Brings an empty or older database to the last of `steps` in one transaction, whoever else is
// doing the same. Unsupported: the schema is newer than `steps`. Cache damaged: it is not ours.
Status ensure_schema(Database& database, const std::vector<Migration>& steps = migrations());
// The same without writing: unsupported if it is older than kOldestRead, too.
Status check_schema(Database& database);

}  // namespace rowsmith
