// SPDX-License-Identifier: Apache-2.0
//
// Each kind of message lists its fields once, by `fields`, for writing and for reading alike.
#include "tuner/worker_messages.h"

#include "cache/record_json.h"

#include <rowsmith/text.h>

#include <nlohmann/json.hpp>

#include <cmath>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>

namespace rowsmith {
namespace {

using nlohmann::json;

json value_of(const Status& status);
json value_of(const Problem& problem);
json value_of(const WinnerRecord& record);
json value_of(const TuneOutcome& outcome);
json value_of(const Rejection& rejection);
json value_of(const SearchEvent::Rival& rival);

// JSON has no infinities: they travel as text.
json value_of(double number) {
  if (std::isfinite(number)) return number;
  return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
}

template <typename T>
json value_of(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<int>(value);
  } else {
    return value;
  }
}

template <typename T>
json value_of(const std::vector<T>& values) {
  json array = json::array();
  for (const T& value : values) array.push_back(value_of(value));
  return array;
}

// What a kind of message is made of: write(name, field) puts the fields in, read gets them out.
class Writer {
 public:
  template <typename T>
  void operator()(const char* name, const T& field) {
    object_[name] = value_of(field);
  }
  json take() { return std::move(object_); }

 private:
  json object_ = json::object();
};

void read(const json& value, Status& status);
void read(const json& value, Problem& problem);
void read(const json& value, WinnerRecord& record);
void read(const json& value, TuneOutcome& outcome);
void read(const json& value, Rejection& rejection);
void read(const json& value, SearchEvent::Rival& rival);

// An enumerator from 0 to `last`.
template <typename T>
void read_enum(const json& value, T& field, T last) {
  const int number = value.get<int>();
  if (number < 0 || number > static_cast<int>(last)) throw std::out_of_range("no such number");
  field = static_cast<T>(number);
}
void read(const json& value, Effort& field) {
  read_enum(value, field, Effort::kThorough);
}
void read(const json& value, Code& field) {
  read_enum(value, field, Code::kInternal);
}
void read(const json& value, TuneOutcome::State& field) {
  read_enum(value, field, TuneOutcome::State::kFailed);
}
void read(const json& value, SearchEvent::Kind& field) {
  read_enum(value, field, SearchEvent::Kind::kVerdict);
}
void read(const json& value, SearchEvent::Rule& field) {
  read_enum(value, field, SearchEvent::Rule::kNoDefault);
}

void read(const json& value, double& field) {
  if (value == "nan") {
    field = std::numeric_limits<double>::quiet_NaN();
  } else if (value == "inf" || value == "-inf") {
    field = (value == "inf" ? 1 : -1) * std::numeric_limits<double>::infinity();
  } else {
    field = value.get<double>();
  }
}

template <typename T>
void read(const json& value, T& field) {
  static_assert(!std::is_enum_v<T>);
  if constexpr (std::is_same_v<T, bool>) {
    field = value.get<bool>();
  } else if constexpr (std::is_integral_v<T>) {
    // get() would cut a fraction off or wrap a number around.
    if (!value.is_number_integer()) throw std::out_of_range("not a whole number");
    const bool fits = value.is_number_unsigned() ? std::in_range<T>(value.get<std::uint64_t>())
                                                 : std::in_range<T>(value.get<std::int64_t>());
    if (!fits) throw std::out_of_range("beyond its range");
    field = value.get<T>();
  } else {
    field = value.get<T>();
  }
}

template <typename T>
void read(const json& value, std::vector<T>& fields) {
  if (!value.is_array()) throw std::out_of_range("not an array");
  fields.clear();
  for (const json& element : value) read(element, fields.emplace_back());
}

class Reader {
 public:
  explicit Reader(const json& object) : object_(object) {}
  template <typename T>
  void operator()(const char* name, T& field) {
    try {
      read(object_.at(name), field);
    } catch (const std::exception& error) {
      throw std::out_of_range(std::string("'") + name + "': " + error.what());
    }
  }

 private:
  const json& object_;
};

// --- The fields of each type, for Writer (const) and Reader alike ---

template <typename Rejections, typename Visit>
void rejection_fields(Rejections& it, Visit&& visit) {
  visit("device_class", it.device_class);
  visit("problem", it.problem);
  visit("config", it.config);
  visit("family_digest", it.family_digest);
  visit("code", it.code);
  visit("reason", it.reason);
}

template <typename Rivals, typename Visit>
void rival_fields(Rivals& it, Visit&& visit) {
  visit("candidate", it.candidate);
  visit("ns", it.ns);
  visit("ratio", it.ratio);
  visit("low", it.low);
  visit("high", it.high);
}

template <typename Outcome, typename Visit>
void outcome_fields(Outcome& it, Visit&& visit) {
  visit("problem", it.problem);
  visit("state", it.state);
  visit("rejections", it.rejections);
  visit("status", it.status);
  visit("restored", it.restored);
}

template <typename Message, typename Visit>
void fields(Message& it, Visit&& visit) {
  using T = std::remove_const_t<Message>;
  if constexpr (std::is_same_v<T, WorkerReady>) {
    visit("device_class", it.device_class);
    visit("start_s", it.start_s);
  } else if constexpr (std::is_same_v<T, WorkerCannotStart>) {
    visit("status", it.status);
  } else if constexpr (std::is_same_v<T, WorkerTrying>) {
    visit("problem", it.problem);
    visit("in_hand", it.in_hand);
    visit("config", it.config);
  } else if constexpr (std::is_same_v<T, TuneProgress>) {
    visit("problem", it.problem);
    visit("problems", it.problems);
    visit("in_hand", it.in_hand);
    visit("candidate", it.candidate);
    visit("candidates", it.candidates);
    visit("restored", it.restored);
    visit("best_ns", it.best_ns);
    visit("default_ns", it.default_ns);
    visit("floor_ns", it.floor_ns);
  } else if constexpr (std::is_same_v<T, SearchEvent>) {
    visit("event", it.kind);
    visit("problem", it.problem);
    visit("in_hand", it.in_hand);
    visit("candidate", it.candidate);
    visit("config", it.config);
    visit("is_default", it.is_default);
    visit("registers", it.registers);
    visit("spill_bytes", it.spill_bytes);
    visit("reason", it.reason);
    visit("samples", it.samples);
    visit("ns", it.ns);
    visit("limit_ns", it.limit_ns);
    visit("rule", it.rule);
    visit("rivals", it.rivals);
  } else if constexpr (std::is_same_v<T, WorkerFinished>) {
    visit("problem", it.problem);
    visit("outcome", it.outcome);
  } else if constexpr (std::is_same_v<T, WorkerEnded>) {
    visit("interrupted", it.interrupted);
  } else {
    static_assert(std::is_same_v<T, WorkerRequest>);
    visit("device", it.options.device);
    visit("cache_dir", it.options.cache_dir);
    visit("site_cache", it.options.site_cache);
    visit("read_only", it.options.read_only);
    visit("problems", it.request.problems);
    visit("effort", it.request.effort);
    visit("budget_s", it.request.budget_s);
    visit("retune", it.request.retune);
    visit("buckets", it.request.buckets);
    visit("settled", it.request.settled);
    visit("families", it.request.families);
    visit("compile_threads", it.request.compile_threads);
    visit("explain", it.explain);
  }
}

// By the variant's index.
constexpr const char* kNames[] = {"ready",   "cannot start", "trying", "progress",
                                  "explain", "finished",     "end"};
static_assert(std::size(kNames) == std::variant_size_v<WorkerMessage>);

// --- Types that have a form of their own ---

json value_of(const Status& status) {
  if (status.ok()) return nullptr;
  return {{"code", value_of(status.code())}, {"message", status.message()}};
}

void read(const json& value, Status& status) {
  status = Status();
  if (value.is_null()) return;
  Code code = Code::kOk;
  read(value.at("code"), code);
  if (code == Code::kOk) throw std::out_of_range("a failure of code ok");
  status = Status(code, value.at("message").get<std::string>());
}

json value_of(const Problem& problem) {
  return {{"dtypes", dtypes_to_string(problem.in, problem.out)},
          {"rows", problem.rows},
          {"cols", problem.cols},
          {"layout", to_string(problem.layout)}};
}

void read(const json& value, Problem& problem) {
  const auto dtypes = parse_dtypes(value.at("dtypes").get<std::string>());
  const auto layout = parse_layout(value.at("layout").get<std::string>());
  if (!dtypes || !layout) throw std::out_of_range("no problem has such dtypes or layout");
  std::tie(problem.in, problem.out) = *dtypes;
  problem.layout = *layout;
  read(value.at("rows"), problem.rows);
  read(value.at("cols"), problem.cols);
}

json value_of(const WinnerRecord& record) {
  return json::parse(record_to_json(record));
}

void read(const json& value, WinnerRecord& record) {
  Result<WinnerRecord> parsed = record_from_json(value);
  if (!parsed.ok()) throw std::out_of_range(parsed.status().message());
  record = std::move(*parsed);
}

json value_of(const Rejection& rejection) {
  Writer writer;
  rejection_fields(rejection, writer);
  return writer.take();
}

void read(const json& value, Rejection& rejection) {
  rejection_fields(rejection, Reader(value));
}

json value_of(const SearchEvent::Rival& rival) {
  Writer writer;
  rival_fields(rival, writer);
  return writer.take();
}

void read(const json& value, SearchEvent::Rival& rival) {
  rival_fields(rival, Reader(value));
}

// A record stands where one was found: without a config it is none.
json value_of(const TuneOutcome& outcome) {
  Writer writer;
  outcome_fields(outcome, writer);
  if (!outcome.record.config.empty()) writer("record", outcome.record);
  return writer.take();
}

void read(const json& value, TuneOutcome& outcome) {
  Reader reader(value);
  outcome_fields(outcome, reader);
  if (value.contains("record")) reader("record", outcome.record);
}

// --- Lines ---

template <typename Message>
std::string line_of(const char* name, const Message& message) {
  Writer writer;
  fields(message, writer);
  json object = writer.take();
  object["is"] = name;
  return canonical_text(object) + '\n';
}

Status refusal(const std::string& what, const std::string& why, const std::string& line) {
  constexpr std::size_t kShown = 80;
  return Status(Code::kInternal, what + ": " + why + ": " + line.substr(0, kShown));
}

// Parsed as T where the name is the I-th of kNames, else as one of those that follow.
template <std::size_t I = 0>
WorkerMessage message_of(const std::string& name, const json& object) {
  if constexpr (I < std::size(kNames)) {
    if (name != kNames[I]) return message_of<I + 1>(name, object);
    std::variant_alternative_t<I, WorkerMessage> message;
    fields(message, Reader(object));
    return message;
  } else {
    throw std::out_of_range("no message is called '" + name + "'");
  }
}

}  // namespace

std::string to_line(const WorkerRequest& request) {
  return line_of("request", request);
}

std::string to_line(const WorkerMessage& message) {
  return std::visit([&](const auto& it) { return line_of(kNames[message.index()], it); }, message);
}

Result<WorkerRequest> parse_worker_request(const std::string& line) {
  try {
    WorkerRequest request;
    fields(request, Reader(json::parse(line)));
    return request;
  } catch (const std::exception& error) {
    return refusal("a request to a worker", error.what(), line);
  }
}

Result<WorkerMessage> parse_worker_message(const std::string& line) {
  try {
    const json object = json::parse(line);
    return message_of(object.at("is").get<std::string>(), object);
  } catch (const std::exception& error) {
    return refusal("a worker's message", error.what(), line);
  }
}

}  // namespace rowsmith
