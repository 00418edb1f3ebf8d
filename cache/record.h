// SPDX-License-Identifier: Apache-2.0
//
// What every winner store agrees on: the order of keys, which records may be stored, and which of
// two records for one key stays. Pure functions; storing is left to the stores.
#pragma once

#include <rowsmith/winner_store.h>

#include <cstddef>
#include <string>

namespace rowsmith {

// Bounds on what a long-running process may pile up: past them the misses with the fewest calls
// and the oldest rejections go. Winners have no bound here: people prune them.
inline constexpr std::size_t kMaxMisses = 10000;
inline constexpr std::size_t kMaxRejections = 20000;
inline constexpr std::size_t kMaxScreenings = 50000;  // the oldest go
// A compiler's log is cut here; its first lines say what is wrong.
inline constexpr std::size_t kMaxReasonBytes = 2000;

// One problem on one class of device, ordered by (device class, in, out, cols, rows, layout text).
struct RecordKey {
  std::string device_class;
  Problem problem;

  friend bool operator<(const RecordKey& a, const RecordKey& b);
};
RecordKey key_of(const WinnerRecord& record);

// Empty, or why such a key cannot be stored and found again.
std::string why_unstorable(const std::string& device_class, const Problem& problem);
std::string why_unstorable(const Screening& screening);
// Whether its search was neither cut nor limited to families.
bool is_whole(const Evidence& evidence);
// Whether storing the record makes its problem's screenings needless.
bool ends_screening(const WinnerRecord& record);
// Empty, or why the record cannot be stored: its key, no time, a config that does not survive text.
std::string why_unstorable(const WinnerRecord& record);

// The record as its JSON form gives it back: a number that is not finite becomes 0, invalid UTF-8
// is replaced. Stores hold only such records, so that what they hold and its export are equal.
WinnerRecord normalised(const WinnerRecord& record);

// "thorough" is more than "standard", that more than "quick". An effort of a later version ranks
// below those known here, never above.
int effort_rank(const std::string& effort);

// The greater of two records of one key by (a search that was whole, effort, tuned_at, digest): a
// total order on content.
bool supersedes(const WinnerRecord& challenger, const WinnerRecord& holder);

// Valid UTF-8 without control characters, which a terminal would obey.
bool is_plain_text(const std::string& text);

// The first kMaxReasonBytes of the text, as valid UTF-8.
std::string shortened_reason(const std::string& reason);

}  // namespace rowsmith
