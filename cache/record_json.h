// SPDX-License-Identifier: Apache-2.0
//
// One winner record as canonical JSON: sorted keys, no blanks, whole nanoseconds, null for what is
// not finite. Used by the export and by the rule that decides between two records.
#pragma once

#include <rowsmith/status.h>
#include <rowsmith/winner_store.h>

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace rowsmith {

std::string record_to_json(const WinnerRecord& record);
// Invalid argument: which field is missing or of the wrong kind. Fields of the evidence may be
// missing or null (then 0 or empty), and unknown ones are passed over.
Result<WinnerRecord> record_from_json(const nlohmann::json& value);

// The one-line text of a value, in which invalid UTF-8 is replaced.
std::string canonical_text(const nlohmann::json& value);

// One JSON value. Invalid argument: what is wrong and where; also nesting so deep that walking the
// value would exhaust the stack.
Result<nlohmann::json> parse_json(std::string_view text);

}  // namespace rowsmith
