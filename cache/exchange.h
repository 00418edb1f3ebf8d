// SPDX-License-Identifier: Apache-2.0
//
// Carrying winners between machines: a canonical JSON text (sorted, versioned, checksummed,
// byte-identical for equal content) that holds parameters only, never code.
#pragma once

#include <rowsmith/status.h>
#include <rowsmith/winner_store.h>

#include <functional>
#include <string>
#include <vector>

namespace rowsmith {

// The whole store, as one JSON document ending in a newline.
std::string export_winners(const std::vector<WinnerRecord>& records);

struct ImportedWinners {
  std::vector<WinnerRecord> records;
  std::vector<std::string> refused;  // one sentence for each record that was left out
};
// Invalid argument: not such a document, a newer version, a wrong checksum (says which and where).
// A record with a time of 0 or less, or that `check` answers with a reason, is refused alone.
Result<ImportedWinners> parse_export(const std::string& text,
                                     const std::function<std::string(const WinnerRecord&)>& check);

// The record as it stands in the export, and back; also the form of a row's evidence in the store.
std::string evidence_to_json(const Evidence& evidence);
Result<Evidence> evidence_from_json(const std::string& text);

}  // namespace rowsmith
