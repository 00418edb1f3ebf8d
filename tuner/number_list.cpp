// SPDX-License-Identifier: Apache-2.0
//
// Parsing without locale and without silent acceptance: std::from_chars over the whole piece.

#include "tuner/number_list.h"

#include <rowsmith/text.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <system_error>
#include <unordered_set>

namespace rowsmith {
namespace {

constexpr std::int64_t kMaxNumbers = 100'000;

Status wrong(std::string_view piece, const std::string& why) {
  return Status(Code::kInvalidArgument, std::string("'").append(piece).append("' ").append(why));
}

Status outside(std::string_view piece, std::int64_t max) {
  return wrong(piece, "is outside 1 to " + std::to_string(max));
}

struct Range {
  std::int64_t first = 0, last = 0;
};

Result<Range> parse_range(std::string_view piece, std::int64_t max) {
  const std::size_t dash = piece.find('-', 1);  // a leading '-' belongs to the number
  const auto first = parse_number(piece.substr(0, dash), max);
  if (!first.ok()) return first.status();
  if (dash == std::string_view::npos) return Range{*first, *first};
  const auto last = parse_number(piece.substr(dash + 1), max);
  if (!last.ok()) return last.status();
  if (*last < *first) return wrong(piece, "runs backwards");
  return Range{*first, *last};
}

}  // namespace

Result<std::int64_t> parse_number(std::string_view text, std::int64_t max) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = !text.empty() && end == text.data() + text.size();
  if (error == std::errc::invalid_argument || !whole) return wrong(text, "is not a whole number");
  if (error != std::errc() || value < 0 || value > max) return outside(text, max);
  return value;
}

Result<std::vector<std::int64_t>> parse_number_list(std::string_view text, std::int64_t max) {
  std::vector<std::int64_t> numbers;
  std::unordered_set<std::int64_t> seen;
  Status status;
  detail::for_each_piece(text, ',', [&](std::string_view piece) {
    const auto range = parse_range(piece, max);
    if (!range.ok()) {
      status = range.status();
      return false;
    }
    const auto room = kMaxNumbers - static_cast<std::int64_t>(numbers.size());
    if (range->last - range->first >= room) {
      status = wrong(piece, "makes the list longer than " + std::to_string(kMaxNumbers));
      return false;
    }
    for (std::int64_t n = range->first; n <= range->last; ++n) {
      if (seen.insert(n).second) numbers.push_back(n);
      if (n == max) break;  // n + 1 may not be representable
    }
    return true;
  });
  if (!status.ok()) return status;
  if (numbers == std::vector<std::int64_t>{0}) return outside(text, max);
  return numbers;
}

Result<Shard> parse_shard(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return wrong(text, "is not a shard such as 3/8");
  const auto count = parse_number(text.substr(slash + 1), kMaxNumbers);
  if (!count.ok()) return count.status().with_context("shard i/n");
  if (*count < 1) return outside(text.substr(slash + 1), kMaxNumbers).with_context("shard i/n");
  const auto index = parse_number(text.substr(0, slash), *count);
  if (!index.ok()) return index.status().with_context("shard i/n");
  if (*index < 1) return outside(text.substr(0, slash), *count).with_context("shard i/n");
  return Shard{static_cast<std::size_t>(*index), static_cast<std::size_t>(*count)};
}

Result<std::int64_t> parse_bytes(std::string_view text) {
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  int shift = 0;
  for (const char* name : {"B", "KiB", "MiB", "GiB", "TiB"}) {
    if (unit == name) {
      const std::int64_t max = std::numeric_limits<std::int64_t>::max() >> shift;
      if (error == std::errc() && value >= 0 && value <= max) return value << shift;
    }
    shift += 10;
  }
  return wrong(text, "is not a size such as 500MiB or 2GiB");
}

Result<double> parse_duration_s(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const double scale = unit == "ms" ? 1e-3 : unit == "s" ? 1 : unit == "m" ? 60 : 0;
  if (error != std::errc() || scale == 0) {
    return wrong(text, "is not a time such as 500ms, 30s or 5m");
  }
  if (!std::isfinite(value) || value <= 0) return wrong(text, "is not above zero");
  return value * scale;
}

}  // namespace rowsmith
