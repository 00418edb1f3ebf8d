// SPDX-License-Identifier: Apache-2.0
//
// Both forms of a problem file come down to four texts a line, which are judged in one place.

#include "tuner/cli_problem_list.h"

#include "cache/binary_store.h"
#include "cache/record_json.h"
#include "tuner/number_list.h"
#include "tuner/placement.h"

#include <rowsmith/text.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <ostream>
#include <string_view>
#include <unordered_set>

namespace rowsmith {
namespace {

constexpr const char* kFields[] = {"S", "H", "dtype", "layout"};
constexpr std::size_t kNeeded = 3;  // of them
constexpr std::size_t kFieldCount = std::size(kFields);
// What a line says of each; nullopt = nothing.
using FieldTexts = std::array<std::optional<std::string>, kFieldCount>;

Status broken(const std::string& why) {
  return Status(Code::kInvalidArgument, why);
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// The fields of a CSV line, unquoted. A quoted field ends on its line.
Result<std::vector<std::string>> split_csv(std::string_view line) {
  std::vector<std::string> fields;
  while (true) {
    line = trimmed(line);
    std::string field;
    if (!line.empty() && line.front() == '"') {
      std::size_t at = 1;
      for (; at < line.size() && (line[at] != '"' || line.substr(at, 2) == "\"\""); ++at) {
        if (line[at] == '"') ++at;
        field += line[at];
      }
      if (at == line.size()) return broken("a quote is not closed");
      line = trimmed(line.substr(at + 1));
      if (!line.empty() && line.front() != ',') return broken("text follows a closed quote");
    } else {
      const std::size_t end = std::min(line.find(','), line.size());
      field = trimmed(line.substr(0, end));
      line.remove_prefix(end);
    }
    fields.push_back(std::move(field));
    if (line.empty()) return fields;
    line.remove_prefix(1);
  }
}

// Which column holds each field.
using Columns = std::array<std::optional<std::size_t>, kFieldCount>;

Result<Columns> read_header(const std::vector<std::string>& names) {
  Columns columns;
  for (std::size_t field = 0; field < kFieldCount; ++field) {
    for (std::size_t at = 0; at < names.size(); ++at) {
      if (names[at] != kFields[field]) continue;
      if (columns[field]) return broken(std::string("two columns are named ") + kFields[field]);
      columns[field] = at;
    }
    if (!columns[field] && field < kNeeded) {
      return broken(std::string("no column is named ") + kFields[field] +
                    "; the first line of a CSV file names its columns, such as S,H,dtype");
    }
  }
  return columns;
}

Result<FieldTexts> read_csv_line(std::string_view line, const Columns& columns, std::size_t width) {
  auto values = split_csv(line);
  if (!values.ok()) return values.status();
  if (values->size() != width) {
    return broken(std::to_string(values->size()) + " fields under a header of " +
                  std::to_string(width));
  }
  FieldTexts texts;
  for (std::size_t field = 0; field < kFieldCount; ++field) {
    if (columns[field]) texts[field] = std::move((*values)[*columns[field]]);
  }
  return texts;
}

Result<FieldTexts> read_json_line(std::string_view line) {
  const auto object = parse_json(line);
  if (!object.ok() || !object->is_object()) return broken("not a JSON object");
  FieldTexts texts;
  for (std::size_t field = 0; field < kFieldCount; ++field) {
    const auto value = object->find(kFields[field]);
    if (value == object->end() || value->is_null()) continue;
    const bool number = field < 2;
    if (!number && !value->is_string()) {
      return broken(std::string(kFields[field]) + ": " + value->dump() + " is not a text");
    }
    texts[field] = number ? value->dump() : value->get<std::string>();
  }
  return texts;
}

Result<Problem> problem_of(const FieldTexts& texts) {
  for (std::size_t field = 0; field < kNeeded; ++field) {
    if (!texts[field] || texts[field]->empty()) {
      return broken(std::string(kFields[field]) + " is missing");
    }
  }
  const auto rows = parse_number(*texts[0], kMaxRows);
  if (!rows.ok()) return rows.status().with_context("S");
  const auto cols = parse_number(*texts[1], kMaxCols);
  if (!cols.ok()) return cols.status().with_context("H");
  const auto dtypes = parse_dtypes(*texts[2]);
  if (!dtypes) return broken("dtype: '" + *texts[2] + "' is not one of " + kDtypeChoices);
  const auto problem = sized_problem(dtypes->first, dtypes->second, *rows, *cols);
  if (!problem.ok() || !texts[3] || texts[3]->empty()) return problem;
  const auto layout = checked_layout(*texts[3]);
  if (!layout.ok()) return layout.status().with_context("layout");
  return laid_out(*problem, *layout);
}

// Reads line by line; the first one with content decides the form.
class ListReader {
 public:
  // Fails where the file can have no further use.
  Status read(std::string_view line, std::size_t number) {
    line = trimmed(line);
    if (line.empty() || line.front() == '#') return {};
    if (!begun_ && line.front() != '{') return read_csv_header(line, number);
    begun_ = true;
    const auto texts = csv_ ? read_csv_line(line, columns_, width_) : read_json_line(line);
    const auto problem = texts.ok() ? problem_of(*texts) : Result<Problem>(texts.status());
    if (!problem.ok()) {
      list_.broken.push_back({number, problem.status().message()});
    } else if (seen_.insert(to_string(*problem)).second) {
      list_.problems.push_back(*problem);
    }
    return {};
  }

  Result<ProblemList> finish() {
    if (!begun_) return broken("no header and no problem");
    return std::move(list_);
  }

 private:
  Status read_csv_header(std::string_view line, std::size_t number) {
    const auto names = split_csv(line);
    const auto columns = names.ok() ? read_header(*names) : Result<Columns>(names.status());
    if (!columns.ok()) return columns.status().with_context("line " + std::to_string(number));
    begun_ = csv_ = true;
    columns_ = *columns;
    width_ = names->size();
    return {};
  }

  bool begun_ = false, csv_ = false;
  Columns columns_;
  std::size_t width_ = 0;
  ProblemList list_;
  std::unordered_set<std::string> seen_;
};

}  // namespace

Result<ProblemList> parse_problem_list(const std::string& text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  std::string_view rest = text;
  if (rest.substr(0, kByteOrderMark.size()) == kByteOrderMark) {
    rest.remove_prefix(kByteOrderMark.size());
  }
  ListReader reader;
  Status status;
  std::size_t number = 0;
  detail::for_each_piece(rest, '\n', [&](std::string_view line) {
    status = reader.read(line, ++number);
    return status.ok();
  });
  if (!status.ok()) return status;
  return reader.finish();
}

std::vector<Problem> share_of(const std::vector<Problem>& problems, const Shard& shard) {
  std::vector<std::string> digests;
  for (const Problem& problem : problems) digests.push_back(digest_of({to_string(problem)}));
  std::vector<std::size_t> order(problems.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return digests[a] < digests[b]; });
  std::vector<std::size_t> mine;
  for (std::size_t at = shard.index - 1; at < order.size(); at += shard.count) {
    mine.push_back(order[at]);
  }
  std::sort(mine.begin(), mine.end());  // in the order that the user gave
  std::vector<Problem> share;
  for (const std::size_t i : mine) share.push_back(problems[i]);
  return share;
}

Result<ProblemList> requested_problems(const CliArgs& args) {
  ProblemList list;
  if (!args.from.empty()) {
    const auto text = read_file(args.from);
    if (!text.ok()) return text.status().with_context("--from");
    auto listed = parse_problem_list(*text);
    if (!listed.ok()) return listed.status().with_context("--from: " + args.from);
    list = std::move(*listed);
  } else {
    const std::pair<bool, const char*> given[] = {{!args.rows.empty(), "--rows"},
                                                  {!args.cols.empty(), "--cols"},
                                                  {!args.dtypes.empty(), "--dtype"}};
    for (const auto& [is_given, name] : given) {
      if (!is_given) return broken(std::string(name) + " is required, or --from");
    }
    auto problems = problems_of(args);
    if (!problems.ok()) return problems.status();
    list.problems = std::move(*problems);
  }
  list.problems = share_of(list.problems, args.shard);
  if (list.problems.size() > kMostProblems) {
    return broken("--from: " + args.from + " names " + std::to_string(list.problems.size()) +
                  " problems; at most " + std::to_string(kMostProblems) +
                  " at a time (--shard splits a list)");
  }
  return list;
}

void print_broken(const CliArgs& args, const ProblemList& list, Cli& cli) {
  for (const BrokenLine& line : list.broken) {
    cli.err << "tune: " << args.from << ":" << line.line << ": " << line.why << '\n';
  }
}

Json broken_json(const ProblemList& list) {
  Json lines = Json::array();
  for (const BrokenLine& line : list.broken) {
    lines.push_back({{"line", line.line}, {"reason", line.why}});
  }
  return lines;
}

}  // namespace rowsmith
