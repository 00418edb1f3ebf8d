// SPDX-License-Identifier: Apache-2.0
//
// Records and evidence to JSON and back, strictly: a whole number is a whole number.
#include "cache/record_json.h"

#include "cache/exchange.h"
#include "cache/record.h"

#include <rowsmith/text.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

namespace rowsmith {
namespace {

using nlohmann::json;

// Every field of the evidence with its name in the JSON form. Names are frozen: caches and exports
// hold them.
template <typename EvidenceType, typename Visit>
void for_each_field(EvidenceType& evidence, Visit&& visit) {
  visit("median_ns", evidence.median_ns);
  visit("spread_ns", evidence.spread_ns);
  visit("samples", evidence.samples);
  visit("default_config", evidence.default_config);
  visit("default_ns", evidence.default_ns);
  visit("runner_up", evidence.runner_up);
  visit("runner_up_ns", evidence.runner_up_ns);
  visit("floor_ns", evidence.floor_ns);
  visit("verdict", evidence.verdict);
  visit("candidates", evidence.candidates);
  visit("rejected", evidence.rejected);
  visit("error_ratio", evidence.error_ratio);
  visit("max_error_ulp", evidence.max_error_ulp);
  visit("policy", evidence.policy);
  visit("effort", evidence.effort);
  visit("contended", evidence.contended);
  visit("device_name", evidence.device_name);
  visit("device_uuid", evidence.device_uuid);
  visit("compiler", evidence.compiler);
  visit("tool_version", evidence.tool_version);
  visit("driver_version", evidence.driver_version);
  visit("tuned_at", evidence.tuned_at);
}

// Fields that came later: written only where they say something, so that the record of an earlier
// build keeps its text and with it the digest that decides between equals.
template <typename EvidenceType, typename Visit>
void for_each_later_field(EvidenceType& evidence, Visit&& visit) {
  visit("below_rows", evidence.below.rows);
  visit("below_config", evidence.below.config);
  visit("below_ratio", evidence.below.ratio);
  visit("above_rows", evidence.above.rows);
  visit("above_config", evidence.above.config);
  visit("above_ratio", evidence.above.ratio);
  visit("sm_clock_mhz", evidence.sm_clock_mhz);
  visit("sm_clock_high_mhz", evidence.sm_clock_high_mhz);
  visit("memory_clock_mhz", evidence.memory_clock_mhz);
  visit("throttled", evidence.throttled);
  visit("cut", evidence.cut);
  visit("families", evidence.families);
  visit("timed", evidence.timed);
  visit("speedup_low", evidence.speedup_low);
  visit("speedup_high", evidence.speedup_high);
}

json evidence_value(const Evidence& evidence) {
  json value = json::object();
  const auto write = [&](const char* name, const auto& field) {
    if constexpr (std::is_floating_point_v<std::decay_t<decltype(field)>>) {
      // -0 and 0 are one value and must have one text.
      value[name] = std::isfinite(field) ? json(field + 0.0) : json(nullptr);
    } else {
      value[name] = field;
    }
  };
  for_each_field(evidence, write);
  for_each_later_field(evidence, [&](const char* name, const auto& field) {
    if (field != std::decay_t<decltype(field)>()) write(name, field);
  });
  return value;
}

// False if the value is not of the field's kind or does not fit.
template <typename Field>
bool read_field(const json& value, Field& field) {
  if constexpr (std::is_same_v<Field, std::string>) {
    if (!value.is_string()) return false;
    field = value.get<std::string>();
    return is_plain_text(field);
  } else if constexpr (std::is_same_v<Field, bool>) {
    if (!value.is_boolean()) return false;
    field = value.get<bool>();
  } else if constexpr (std::is_floating_point_v<Field>) {
    if (!value.is_number()) return false;
    field = value.get<Field>();
  } else {
    constexpr auto kMax = std::numeric_limits<Field>::max();
    if (!value.is_number_integer()) return false;
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{kMax}) {
      return false;
    }
    if (value.get<std::int64_t>() < std::numeric_limits<Field>::min()) return false;
    field = value.get<Field>();
  }
  return true;
}

Status wrong_field(const char* name) {
  return {Code::kInvalidArgument,
          std::string("field '") + name + "' is missing or of a wrong kind"};
}

Result<Evidence> evidence_from_value(const json& value) {
  if (!value.is_object()) return wrong_field("evidence");
  Evidence evidence;
  const char* wrong = nullptr;
  const auto read = [&](const char* name, auto& field) {
    const auto found = value.find(name);
    if (found == value.end() || found->is_null()) return;
    if (!read_field(*found, field)) wrong = name;
  };
  for_each_field(evidence, read);
  for_each_later_field(evidence, read);
  if (wrong != nullptr) return wrong_field(wrong);
  return evidence;
}

}  // namespace

std::string canonical_text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

bool is_plain_text(const std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]),
               next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    // U+0000 to U+001F, U+007F to U+009F.
    if (byte < 0x20 || byte == 0x7f || (byte == 0xc2 && next < 0xa0)) return false;
  }
  try {
    json(text).dump();
    return true;
  } catch (const json::exception&) {
    return false;
  }
}

std::string shortened_reason(const std::string& reason) {
  // Through JSON, which replaces what the cut or the compiler left as invalid UTF-8.
  const std::string text = canonical_text(json(reason.substr(0, kMaxReasonBytes)));
  return json::parse(text).get<std::string>();
}

std::string evidence_to_json(const Evidence& evidence) {
  return canonical_text(evidence_value(evidence));
}

Result<Evidence> evidence_from_json(const std::string& text) {
  const auto value = parse_json(text);
  return value.ok() ? evidence_from_value(*value) : value.status().with_context("evidence");
}

std::string record_to_json(const WinnerRecord& record) {
  return canonical_text({{"op", "softmax"},
                         {"device_class", record.device_class},
                         {"in", to_string(record.problem.in)},
                         {"out", to_string(record.problem.out)},
                         {"rows", record.problem.rows},
                         {"cols", record.problem.cols},
                         {"layout", to_string(record.problem.layout)},
                         {"config", to_string(record.config)},
                         {"family_digest", record.family_digest},
                         {"evidence", evidence_value(record.evidence)}});
}

Result<WinnerRecord> record_from_json(const json& value) {
  if (!value.is_object()) return Status(Code::kInvalidArgument, "it is not an object");
  std::string op, in, out, layout, config;
  WinnerRecord record;
  const char* wrong = nullptr;
  const auto read = [&](const char* name, auto& field) {
    const auto found = value.find(name);
    if (found == value.end() || !read_field(*found, field)) wrong = name;
  };
  read("op", op);
  read("device_class", record.device_class);
  read("in", in);
  read("out", out);
  read("rows", record.problem.rows);
  read("cols", record.problem.cols);
  read("layout", layout);
  read("config", config);
  read("family_digest", record.family_digest);
  if (wrong != nullptr) return wrong_field(wrong);
  if (op != "softmax") return Status(Code::kInvalidArgument, "its op is '" + op + "'");
  const auto parsed_in = parse_dtype(in), parsed_out = parse_dtype(out);
  if (!parsed_in || !parsed_out) return wrong_field(parsed_in ? "out" : "in");
  const auto parsed_layout = parse_layout(layout);
  if (!parsed_layout) return wrong_field("layout");
  auto parsed_config = parse_config(config);
  if (!parsed_config) return wrong_field("config");
  auto evidence = evidence_from_value(value.value("evidence", json()));
  if (!evidence.ok()) return evidence.status();
  record.problem.in = *parsed_in;
  record.problem.out = *parsed_out;
  record.problem.layout = *parsed_layout;
  record.config = std::move(*parsed_config);
  record.evidence = std::move(*evidence);
  return record;
}

Result<json> parse_json(std::string_view text) {
  constexpr int kDeepest = 100;
  struct TooDeep {};
  try {
    return json::parse(text, [](int depth, json::parse_event_t, json&) {
      return depth <= kDeepest ? true : throw TooDeep();
    });
  } catch (const TooDeep&) {
    return Status(Code::kInvalidArgument,
                  "it is nested deeper than " + std::to_string(kDeepest) + " levels");
  } catch (const json::exception& error) {
    std::string why = error.what();  // "[json.exception.parse_error.101] parse error at .."
    return Status(Code::kInvalidArgument, why.erase(0, why.find("] ") + 2));
  }
}

}  // namespace rowsmith
