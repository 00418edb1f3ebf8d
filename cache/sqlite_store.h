// SPDX-License-Identifier: Apache-2.0
//
// WinnerStore on one winners.db: rows to records and back. Where the file may lie and what to do
// without it is open_store's.
#pragma once

#include "cache/store_file.h"

#include <rowsmith/winner_store.h>

#include <memory>
#include <string>

namespace rowsmith {

struct OpenedSqlite {
  std::unique_ptr<WinnerStore> store;
  std::string note;  // of a file set aside
};
// Codes of StoreFile::open. A file found damaged later is set aside by the call that finds it,
// which answers cache damaged once (a write is repeated on the new file first). Writes to a
// read-only store answer cache busy.
Result<OpenedSqlite> open_sqlite_store(const StoreFileOptions& options);

}  // namespace rowsmith
