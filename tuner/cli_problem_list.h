// SPDX-License-Identifier: Apache-2.0
//
// The problems that a command works on: from -S, -H and -d or from a file, each once, and of them
// one machine's share. docs/fleet.md describes the file for people.
#pragma once

#include "tuner/cli_commands.h"

#include <cstddef>
#include <string>
#include <vector>

namespace rowsmith {

// A line of a problem file that names no problem.
struct BrokenLine {
  std::size_t line = 0;  // from 1
  std::string why;
};

struct ProblemList {
  std::vector<Problem> problems;  // in order of first appearance, each once
  std::vector<BrokenLine> broken;
};

// The text of a problem file: CSV under a header that has S, H and dtype, or one JSON object a
// line; `layout` is optional, further fields are passed over. Blank lines and those that begin with
// '#' are skipped. A broken line costs itself only. Invalid argument: no header that can be used.
Result<ProblemList> parse_problem_list(const std::string& text);

// The problems of shard i of n: all of them dealt out in the order of a stable digest, so that the
// shares depend on neither the order of the list nor the machine, and differ by one at most.
std::vector<Problem> share_of(const std::vector<Problem>& problems, const Shard& shard);

// What --from, or -S, -H and -d, and --shard ask for. Invalid argument also where neither is given.
Result<ProblemList> requested_problems(const CliArgs& args);
// Says which lines of the file were passed over.
void print_broken(const CliArgs& args, const ProblemList& list, Cli& cli);
Json broken_json(const ProblemList& list);

}  // namespace rowsmith
