// SPDX-License-Identifier: Apache-2.0
//
// What compiler processes are asked and answer: whole there and back, or refused with the reason.
#include "tuner/compiler_messages.h"

#include <gtest/gtest.h>

namespace rowsmith {
namespace {

template <typename T>
std::string line_of(const T& message) {
  std::string line = to_line(message);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  line.pop_back();
  return line;
}

TEST(CompilerMessages, KeepARequestWhole) {
  const CompileRequest asked{{"a \"name\"", "line one\nline two\t\\", {"k1", "k2"}}, 90};
  const auto read = parse_compile_request(line_of(asked));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->program.name, asked.program.name);
  EXPECT_EQ(read->program.source, asked.program.source);
  EXPECT_EQ(read->program.entries, asked.program.entries);
  EXPECT_EQ(read->capability, 90);
}

TEST(CompilerMessages, KeepEveryByteOfABinary) {
  CompileAnswer given;
  for (int byte = 0; byte < 256; ++byte) given.binary.bytes += static_cast<char>(byte);
  given.binary.log = "ptxas info\n";
  given.binary.note = "PTX";
  const auto read = parse_compile_answer(line_of(given));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_TRUE(read->status.ok());
  EXPECT_EQ(read->binary.bytes, given.binary.bytes);
  EXPECT_EQ(read->binary.log, "ptxas info\n");
  EXPECT_EQ(read->binary.note, "PTX");
}

TEST(CompilerMessages, KeepAFailureWhole) {
  const auto read = parse_compile_answer(
      line_of(CompileAnswer{Status(Code::kCompileFailed, "k(1): error\nno \xff"), Binary()}));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->status.to_string(), "compile failed: k(1): error\nno \xef\xbf\xbd");
}

struct Malformed {
  const char* line;
  const char* why;
  friend void PrintTo(const Malformed& it, std::ostream* out) { *out << it.line; }
};
class CompilerGarbage : public ::testing::TestWithParam<Malformed> {};

TEST_P(CompilerGarbage, IsRefusedWithTheReason) {
  const auto answer = parse_compile_answer(GetParam().line);
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.status().code(), Code::kInternal);
  EXPECT_NE(answer.status().message().find(GetParam().why), std::string::npos)
      << answer.status().message();
}

INSTANTIATE_TEST_SUITE_P(
    Lines, CompilerGarbage,
    ::testing::Values(Malformed{"", "parse error"}, Malformed{"NVRTC says hello", "parse error"},
                      Malformed{"[]", "type"}, Malformed{"{}", "'bytes'"},
                      Malformed{R"({"bytes":"","log":"","note":""})", "'bytes': not whole"},
                      Malformed{R"({"bytes":"abc","log":"","note":""})", "'bytes': not whole"},
                      Malformed{R"({"bytes":"0g","log":"","note":""})", "'bytes': no hex digit"},
                      Malformed{R"({"bytes":"-1","log":"","note":""})", "'bytes': no hex digit"},
                      Malformed{R"({"bytes":"00","log":1,"note":""})", "type must be string"},
                      Malformed{R"({"bytes":"00","log":""})", "'note'"},
                      Malformed{R"({"code":0,"message":""})", "'code': no such number"},
                      Malformed{R"({"code":99,"message":""})", "'code': no such number"},
                      Malformed{R"({"code":5.5,"message":""})", "'code': no such number"},
                      Malformed{R"({"code":5})", "'message'"}));

TEST(CompilerMessages, RefuseARequestThatIsNone) {
  for (const char* line : {"", "{}", R"({"name":"","source":"","entries":[],"capability":"90"})",
                           R"({"name":"","source":"","entries":[],"capability":0})",
                           R"({"name":"","source":"","entries":"k","capability":90})"}) {
    EXPECT_FALSE(parse_compile_request(line).ok()) << line;
  }
}

}  // namespace
}  // namespace rowsmith
