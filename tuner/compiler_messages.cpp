// SPDX-License-Identifier: Apache-2.0
#include "tuner/compiler_messages.h"

#include "cache/record_json.h"

#include <nlohmann/json.hpp>

#include <charconv>
#include <stdexcept>

namespace rowsmith {
namespace {

using nlohmann::json;

// JSON strings hold text alone.
std::string to_hex(const std::string& bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte / 16];
    text += kDigits[byte % 16];
  }
  return text;
}

std::string from_hex(const std::string& text) {
  std::string bytes(text.size() / 2, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    unsigned char byte = 0;
    const char* const end = text.data() + 2 * i + 2;
    const auto read = std::from_chars(end - 2, end, byte, 16);
    if (read.ec != std::errc() || read.ptr != end) throw std::out_of_range("'bytes': no hex digit");
    bytes[i] = static_cast<char>(byte);
  }
  if (text.empty() || text.size() % 2 != 0) throw std::out_of_range("'bytes': not whole");
  return bytes;
}

int number_at(const json& object, const char* name, int least, int most) {
  const json& value = object.at(name);
  if (!value.is_number_integer() || value < least || value > most) {
    throw std::out_of_range(std::string("'") + name + "': no such number");
  }
  return value.get<int>();
}

Status malformed(const std::string& what, const std::string& why, const std::string& line) {
  constexpr std::size_t kShown = 80;
  return Status(Code::kInternal, what + ": " + why + ": " + line.substr(0, kShown));
}

}  // namespace

std::string to_line(const CompileRequest& request) {
  return canonical_text({{"name", request.program.name},
                         {"source", request.program.source},
                         {"entries", request.program.entries},
                         {"capability", request.capability}}) +
         '\n';
}

std::string to_line(const CompileAnswer& answer) {
  if (!answer.status.ok()) {
    return canonical_text({{"code", static_cast<int>(answer.status.code())},
                           {"message", answer.status.message()}}) +
           '\n';
  }
  return canonical_text({{"bytes", to_hex(answer.binary.bytes)},
                         {"log", answer.binary.log},
                         {"note", answer.binary.note}}) +
         '\n';
}

Result<CompileRequest> parse_compile_request(const std::string& line) {
  try {
    const json object = json::parse(line);
    CompileRequest request;
    object.at("name").get_to(request.program.name);
    object.at("source").get_to(request.program.source);
    object.at("entries").get_to(request.program.entries);
    request.capability = number_at(object, "capability", 10, 9999);
    return request;
  } catch (const std::exception& error) {
    return malformed("a request to a compiler process", error.what(), line);
  }
}

Result<CompileAnswer> parse_compile_answer(const std::string& line) {
  try {
    const json object = json::parse(line);
    CompileAnswer answer;
    if (object.contains("code")) {
      const int code = number_at(object, "code", 1, static_cast<int>(Code::kInternal));
      answer.status = Status(static_cast<Code>(code), object.at("message").get<std::string>());
      return answer;
    }
    answer.binary.bytes = from_hex(object.at("bytes").get<std::string>());
    object.at("log").get_to(answer.binary.log);
    object.at("note").get_to(answer.binary.note);
    return answer;
  } catch (const std::exception& error) {
    return malformed("a compiler process's answer", error.what(), line);
  }
}

}  // namespace rowsmith
