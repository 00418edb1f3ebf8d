// SPDX-License-Identifier: Apache-2.0
//
// The export document: a header that is the same whatever was tuned, a checksum over the canonical
// text of the records, and one record a line.
#include "cache/exchange.h"

#include "cache/binary_store.h"
#include "cache/record.h"
#include "cache/record_json.h"

#include <rowsmith/text.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rowsmith {
namespace {

using nlohmann::json;

// Both are frozen; a change that older builds cannot read raises the version.
constexpr const char* kFormat = "rowsmith-winners";
constexpr std::uint64_t kVersion = 1;

std::string checksum_of(const std::vector<std::string>& lines) {
  return digest_of(std::vector<std::string_view>(lines.begin(), lines.end()));
}

Status refuse(const std::string& why) {
  return {Code::kInvalidArgument, "not a rowsmith export: " + why};
}

// The header's checks; ok means that `document` has an array of winners with the right checksum.
Status check_document(const json& document) {
  if (!document.is_object() || document.value("format", json()) != kFormat) {
    return refuse(std::string("there is no \"format\": \"") + kFormat + "\"");
  }
  const json version = document.value("version", json());
  // Unsigned is what is not below zero, however large.
  if (!version.is_number_unsigned() || version == 0) return refuse("\"version\" is not a number");
  if (version.get<std::uint64_t>() > kVersion) {
    return {Code::kInvalidArgument, "the export has version " + version.dump() +
                                        "; this build reads up to " + std::to_string(kVersion)};
  }
  const auto winners = document.find("winners");
  if (winners == document.end() || !winners->is_array()) {
    return refuse("\"winners\" is not an array");
  }
  std::vector<std::string> lines;
  for (const json& winner : *winners) lines.push_back(canonical_text(winner));
  const std::string checksum = checksum_of(lines);
  if (document.value("checksum", json()) == checksum) return {};
  return {Code::kInvalidArgument, "the export is damaged: \"checksum\" is " +
                                      canonical_text(document.value("checksum", json())) +
                                      ", that of its " + std::to_string(lines.size()) +
                                      " winners is \"" + checksum + "\""};
}

}  // namespace

std::string export_winners(const std::vector<WinnerRecord>& records) {
  std::vector<WinnerRecord> sorted;
  for (const WinnerRecord& record : records) sorted.push_back(normalised(record));
  std::stable_sort(sorted.begin(), sorted.end(), [](const WinnerRecord& a, const WinnerRecord& b) {
    return key_of(a) < key_of(b);
  });
  std::vector<std::string> lines;
  for (const WinnerRecord& record : sorted) lines.push_back(record_to_json(record));
  std::string text = "{\"checksum\":\"" + checksum_of(lines) + "\",\"format\":\"" + kFormat +
                     "\",\"version\":" + std::to_string(kVersion) + ",\"winners\":[";
  for (const std::string& line : lines) {
    text.append(&line == &lines.front() ? "\n" : ",\n").append(line);
  }
  return text + "\n]}\n";
}

Result<ImportedWinners> parse_export(const std::string& text,
                                     const std::function<std::string(const WinnerRecord&)>& check) {
  const auto document = parse_json(text);
  if (!document.ok()) return refuse(document.status().message());
  if (Status status = check_document(*document); !status.ok()) return status;
  ImportedWinners imported;
  int number = 0;
  for (const json& winner : (*document)["winners"]) {
    const std::string place = "record " + std::to_string(++number);
    Result<WinnerRecord> record = record_from_json(winner);
    if (!record.ok()) {
      imported.refused.push_back(place + ": " + record.status().message());
      continue;
    }
    std::string why = why_unstorable(*record);
    if (why.empty() && check) why = check(*record);
    if (why.empty()) {
      imported.records.push_back(std::move(*record));
    } else {
      imported.refused.push_back(place + " (" + to_string(record->problem) + " on " +
                                 record->device_class + "): " + why);
    }
  }
  return imported;
}

}  // namespace rowsmith
