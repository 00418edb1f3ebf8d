// SPDX-License-Identifier: Apache-2.0
//
// Files of problems and their shares: which lines count, what is said of the others, and who gets
// what.

#include "tuner/cli_problem_list.h"

#include <rowsmith/text.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>

namespace rowsmith {
namespace {

// "f16 4 x 257" for each problem, by commas.
std::string problems_in(const std::string& text) {
  const auto list = parse_problem_list(text);
  if (!list.ok()) return list.status().message();
  std::string names;
  for (const Problem& problem : list->problems) {
    names += (names.empty() ? "" : ", ") + short_name(problem);
  }
  return names;
}

// "3: why" for each broken line.
std::vector<std::string> broken_in(const std::string& text) {
  std::vector<std::string> lines;
  const auto list = parse_problem_list(text);
  if (!list.ok()) return {list.status().message()};
  for (const BrokenLine& line : list->broken) {
    lines.push_back(std::to_string(line.line) + ": " + line.why);
  }
  return lines;
}

TEST(ProblemListFile, ReadsCsvByTheNamesOfItsColumns) {
  EXPECT_EQ(problems_in("H,calls,dtype,S\n257,9,f16,4\n1000,8,f16:f32,8\n"),
            "f16 4 x 257, f16:f32 8 x 1000");
}

TEST(ProblemListFile, ReadsJsonLinesPassingOverFurtherFields) {
  EXPECT_EQ(problems_in("{\"S\": 4, \"H\": 257, \"dtype\": \"f16\", \"calls\": 9}\n"
                        "{\"dtype\": \"bf16\", \"H\": 33, \"S\": 1, \"layout\": null}"),
            "f16 4 x 257, bf16 1 x 33");
}

TEST(ProblemListFile, SkipsBlankLinesCommentsAndWhatSpreadsheetsAdd) {
  EXPECT_EQ(
      problems_in("\xef\xbb\xbf# from production\r\n\r\nS, H ,\"dtype\"\r\n 4 , 257 , f16 \r\n"),
      "f16 4 x 257");
}

TEST(ProblemListFile, TakesAProblemOnce) {
  EXPECT_EQ(problems_in("S,H,dtype\n4,257,f16\n8,257,f16\n4,257,f16:f16\n"),
            "f16 4 x 257, f16 8 x 257");
}

TEST(ProblemListFile, TheLayoutIsPartOfTheProblem) {
  const auto list = parse_problem_list(
      "S,H,dtype,layout\n4,257,f16,\n4,257,f16,\"src=2,dst=2,co=32,in-place\"\n");
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->problems.size(), 2u);
  EXPECT_EQ(list->problems[0], contiguous_problem(DType::kF16, DType::kF16, 4, 257));
  EXPECT_TRUE(list->problems[1].layout.in_place);
}

TEST(ProblemListFile, BrokenLinesAreNumberedAndCostThemselvesOnly) {
  const std::string text =
      "S,H,dtype,layout\n"
      "4,257,f16,\n"
      "x,257,f16,\n"
      "\n"
      "4,257,f33,\n"
      "4,257\n"
      "-4,257,f16,\n"
      "4,2147483648,f16,\n"
      "4,,f16,\n"
      "4,257,f16,sideways\n"
      "4,257,f16,\"src=32,dst=32,co=32\"\n"
      "4611686018427387904,8,f32,\n"
      "4,257,\"f16,\n"
      "4,257,\"f16\"x,\n"
      "8,257,f16,\n";
  EXPECT_EQ(problems_in(text), "f16 4 x 257, f16 8 x 257");
  const auto broken = broken_in(text);
  const std::vector<std::string> expected = {
      "3: S: 'x' is not a whole number",
      "5: dtype: 'f33' is not one of f64, f32, f16, bf16, f8e4m3, f8e5m2, or a pair in:out",
      "6: 2 fields under a header of 4",
      "7: S: '-4' is outside 1 to 9223372036854775807",
      "8: H: '2147483648' is outside 1 to 2147483647",
      "9: H is missing",
      "10: layout: 'sideways' is not a layout such as src=4,dst=4,co=1",
      "11: softmax f16 4 x 257 (src=32,dst=32,co=32): no base address and pitch have this layout",
      "12: S = 4611686018427387904, H = 8: a matrix of 2^63 bytes or more",
      "13: a quote is not closed",
      "14: text follows a closed quote"};
  EXPECT_EQ(broken, expected);
}

TEST(ProblemListFile, BrokenJsonLinesAreNumbered) {
  const std::string text =
      "{\"S\": 4, \"H\": 257, \"dtype\": \"f16\"}\n{\"S\": 4\n[4, 257]\n"
      "{\"S\": \"4\", \"H\": 257, \"dtype\": \"f16\"}\n{\"S\": 4.5, \"H\": 257, \"dtype\": "
      "\"f16\"}\n"
      "{\"S\": 4, \"H\": 257, \"dtype\": 16}\n{\"S\": 4, \"H\": 257}\n{\"S\": " +
      std::string(400'000, '[') + std::string(400'000, ']') + "}\n";
  EXPECT_EQ(problems_in(text), "f16 4 x 257");
  const std::vector<std::string> expected = {"2: not a JSON object",
                                             "3: not a JSON object",
                                             "4: S: '\"4\"' is not a whole number",
                                             "5: S: '4.5' is not a whole number",
                                             "6: dtype: 16 is not a text",
                                             "7: dtype is missing",
                                             "8: not a JSON object"};
  EXPECT_EQ(broken_in(text), expected);
}

TEST(ProblemListFile, OfMoreProblemsThanACommandTakesIsRefusedUnlessAShardTakesFewer) {
  const std::string file = ::testing::TempDir() + "rowsmith-long-list.csv";
  {
    std::ofstream out(file);
    out << "S,H,dtype\n";
    for (std::size_t i = 1; i <= kMostProblems + 1; ++i) out << i << ",257,f16\n";
  }
  CliArgs args;
  args.from = file;
  const Status whole = requested_problems(args).status();
  EXPECT_NE(whole.message().find("names 100001 problems; at most 100000"), std::string::npos)
      << whole.to_string();
  args.shard = {2, 2};
  EXPECT_EQ(requested_problems(args).value().problems.size(), 50000u);
  std::remove(file.c_str());
}

TEST(ProblemListFile, AHeaderWithoutTheColumnsRefusesTheFile) {
  EXPECT_NE(problems_in("# shapes\nS,cols,dtype\n1,2,f16\n").find("line 2: no column is named H"),
            std::string::npos);
  EXPECT_NE(problems_in("S,H,dtype,S\n").find("line 1: two columns are named S"),
            std::string::npos);
  EXPECT_EQ(problems_in("\n# nothing\n"), "no header and no problem");
  EXPECT_EQ(problems_in("S,H,dtype\n"), "");
}

std::vector<Problem> many_problems() {
  std::vector<Problem> problems;
  for (std::int64_t rows = 1; rows <= 64; rows *= 2) {
    for (std::int64_t cols = 100; cols < 115; ++cols) {
      problems.push_back(contiguous_problem(DType::kF16, DType::kF16, rows, cols));
    }
  }
  return problems;
}

TEST(Shards, HoldEveryProblemOnceInEvenShares) {
  const auto problems = many_problems();
  for (const std::size_t count : {1u, 2u, 7u, 200u}) {
    std::multiset<std::string> dealt;
    for (std::size_t index = 1; index <= count; ++index) {
      const auto share = share_of(problems, {index, count});
      EXPECT_LE(share.size(), (problems.size() + count - 1) / count);
      EXPECT_GE(share.size(), problems.size() / count);
      for (const Problem& problem : share) dealt.insert(to_string(problem));
    }
    EXPECT_EQ(dealt.size(), problems.size());
    EXPECT_EQ(std::set<std::string>(dealt.begin(), dealt.end()).size(), problems.size());
  }
}

TEST(Shards, DoNotDependOnTheOrderOfTheList) {
  const auto names = [](const std::vector<Problem>& problems) {
    std::set<std::string> set;
    for (const Problem& problem : problems) set.insert(to_string(problem));
    return set;
  };
  auto problems = many_problems();
  const auto before = share_of(problems, {2, 3});
  std::reverse(problems.begin(), problems.end());
  EXPECT_EQ(names(share_of(problems, {2, 3})), names(before));
}

TEST(Shards, AreTheSameOnEveryMachine) {
  // Machines of one job must agree: this share is fixed.
  std::vector<Problem> problems;
  for (const std::int64_t cols : {256, 257, 1000, 1024}) {
    problems.push_back(contiguous_problem(DType::kF16, DType::kF16, 16, cols));
  }
  std::string share;
  for (const Problem& problem : share_of(problems, {1, 2})) share += short_name(problem) + ";";
  EXPECT_EQ(share, "f16 16 x 257;f16 16 x 1024;");
}

TEST(Shards, SpreadTheRowCountsOfALength) {
  // A split by position in a sorted list would give one machine all the longest problems.
  std::map<std::int64_t, int> largest_rows;
  for (const Problem& problem : share_of(many_problems(), {1, 7})) ++largest_rows[problem.rows];
  EXPECT_GT(largest_rows.size(), 3u);
}

}  // namespace
}  // namespace rowsmith
