// SPDX-License-Identifier: Apache-2.0
//
// Order, validity and precedence of winner records.
#include "cache/record.h"

#include "cache/binary_store.h"
#include "cache/exchange.h"
#include "cache/record_json.h"

#include <rowsmith/text.h>

#include <tuple>

namespace rowsmith {
namespace {

bool is_dtype(DType dtype) {
  return parse_dtype(to_string(dtype)) == dtype;
}

std::string digest_of_record(const WinnerRecord& record) {
  return digest_of({record_to_json(record)});
}

}  // namespace

int effort_rank(const std::string& effort) {
  if (effort == "thorough") return 3;
  if (effort == "standard") return 2;
  return effort == "quick" ? 1 : 0;
}

bool operator<(const RecordKey& a, const RecordKey& b) {
  const auto head = [](const RecordKey& key) {
    const Problem& p = key.problem;
    return std::tie(key.device_class, p.in, p.out, p.cols, p.rows);
  };
  if (head(a) != head(b)) return head(a) < head(b);
  return to_string(a.problem.layout) < to_string(b.problem.layout);
}

RecordKey key_of(const WinnerRecord& record) {
  return {record.device_class, record.problem};
}

std::string why_unstorable(const std::string& device_class, const Problem& problem) {
  constexpr std::size_t kLongestClass = 200;
  if (device_class.empty() || device_class.size() > kLongestClass || !is_plain_text(device_class)) {
    return "it has no device class";
  }
  if (!is_dtype(problem.in) || !is_dtype(problem.out)) return "it has an unknown dtype";
  if (problem.rows <= 0 || problem.cols <= 0) return "it has no rows or no columns";
  if (parse_layout(to_string(problem.layout)) != problem.layout) return "it has no legal layout";
  return {};
}

std::string why_unstorable(const Screening& screening) {
  std::string why = why_unstorable(screening.device_class, screening.problem);
  if (!why.empty()) return why;
  if (screening.median_ns <= 0 || screening.default_ns <= 0) return "it has no time";
  for (const std::string* text : {&screening.config, &screening.default_config,
                                  &screening.family_digest, &screening.compiler}) {
    if (!is_plain_text(*text)) return "it is not text";
  }
  return {};
}

bool is_whole(const Evidence& evidence) {
  return !evidence.cut && evidence.families.empty();
}

bool ends_screening(const WinnerRecord& record) {
  return is_whole(record.evidence) &&
         effort_rank(record.evidence.effort) == effort_rank("thorough");
}

std::string why_unstorable(const WinnerRecord& record) {
  std::string why = why_unstorable(record.device_class, record.problem);
  if (!why.empty()) return why;
  if (record.evidence.median_ns <= 0) return "it has no time (median_ns <= 0)";
  if (record.config.empty()) return "it has no config";
  const std::string config = to_string(record.config);
  if (!is_plain_text(config) || parse_config(config) != record.config) {
    return "its config is not one as text: " + shortened_reason(config);
  }
  if (!is_plain_text(record.family_digest)) return "its family digest is not text";
  return {};
}

WinnerRecord normalised(const WinnerRecord& record) {
  WinnerRecord result = record;
  auto evidence = evidence_from_json(evidence_to_json(record.evidence));
  if (evidence.ok()) result.evidence = std::move(*evidence);
  result.site.clear();
  return result;
}

std::string why_dirty(const Evidence& evidence) {
  std::string why;
  const auto add = [&](const std::string& fault) { why += (why.empty() ? "" : "; ") + fault; };
  if (evidence.cut) {
    add("its search was cut: the time was up after " + std::to_string(evidence.timed) + " of " +
        std::to_string(evidence.candidates) + " candidates");
  }
  if (!evidence.families.empty()) add("its search was limited to " + evidence.families);
  if (evidence.contended) add("another process may have used the device");
  if (!evidence.throttled.empty()) add("throttled: " + evidence.throttled);
  const std::int64_t low = evidence.sm_clock_mhz, high = evidence.sm_clock_high_mhz;
  if (low > 0 && 100.0 * static_cast<double>(high) > 105.0 * static_cast<double>(low)) {
    add("the SM clock moved between " + std::to_string(low) + " and " + std::to_string(high) +
        " MHz");
  }
  return why;
}

bool supersedes(const WinnerRecord& challenger, const WinnerRecord& holder) {
  const auto rank = [](const WinnerRecord& record) {
    return std::tuple(is_whole(record.evidence), effort_rank(record.evidence.effort),
                      record.evidence.tuned_at);
  };
  if (rank(challenger) != rank(holder)) return rank(challenger) > rank(holder);
  return digest_of_record(challenger) > digest_of_record(holder);
}

}  // namespace rowsmith
