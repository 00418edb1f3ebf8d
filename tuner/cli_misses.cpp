// SPDX-License-Identifier: Apache-2.0
//
// `tune misses`: what was called and had no winner of its own, most calls first, as a table or as a
// file that --from reads.

#include "tuner/cli_commands.h"
#include "tuner/tune_cli.h"

#include <rowsmith/text.h>

#include <algorithm>
#include <ostream>

namespace rowsmith {
namespace {

struct MissRow {
  WinnerStore::Miss miss;
  bool tuned = false;  // a winner has been stored since
};

// Of the classes that were asked for, those without a winner, with --all the others too; `tuned`
// counts these.
Result<std::vector<MissRow>> missed(const CliArgs& args, WinnerStore& store, std::size_t& tuned) {
  const auto misses = store.list_misses();
  if (!misses.ok()) return misses.status();
  std::vector<MissRow> rows;
  for (const WinnerStore::Miss& miss : *misses) {
    const auto& wanted = args.device_classes;
    if (!wanted.empty() &&
        std::find(wanted.begin(), wanted.end(), miss.device_class) == wanted.end()) {
      continue;
    }
    const auto winner = store.find(miss.device_class, miss.problem);
    if (!winner.ok()) return winner.status();
    const bool served = winner->has_value() && why_family_lost(**winner).empty();
    tuned += served;
    if (!served || args.all) rows.push_back({miss, served});
  }
  return rows;
}

// A field that holds a comma, a quote or a blank, quoted.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\" ") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

void print_csv(const std::vector<MissRow>& rows, std::ostream& out) {
  out << "S,H,dtype,layout,calls,device_class\n";
  for (const auto& [miss, tuned] : rows) {
    const Problem& problem = miss.problem;
    out << problem.rows << ',' << problem.cols << ',' << dtypes_to_string(problem.in, problem.out)
        << ',' << csv_field(to_string(problem.layout)) << ',' << miss.calls << ','
        << csv_field(miss.device_class) << '\n';
  }
}

Json misses_json(const std::vector<MissRow>& rows) {
  Json list = Json::array();
  for (const auto& [miss, tuned] : rows) {
    const Problem& problem = miss.problem;
    list.push_back({{"S", problem.rows},
                    {"H", problem.cols},
                    {"dtype", dtypes_to_string(problem.in, problem.out)},
                    {"layout", to_string(problem.layout)},
                    {"calls", miss.calls},
                    {"device_class", miss.device_class},
                    {"tuned", tuned}});
  }
  return list;
}

std::string misses_table(const std::vector<MissRow>& rows) {
  std::vector<std::vector<std::string>> cells = {
      {"calls", "dtype", "S", "H", "layout", "device class", "tuned"}};
  for (const auto& [miss, tuned] : rows) {
    const Problem& problem = miss.problem;
    cells.push_back({std::to_string(miss.calls), dtypes_to_string(problem.in, problem.out),
                     std::to_string(problem.rows), std::to_string(problem.cols),
                     to_string(problem.layout), miss.device_class, tuned ? "yes" : "no"});
  }
  return table_text(cells);
}

}  // namespace

int run_misses(const CliArgs& args, Cli& cli) {
  const auto opened = open_to_look(args, cli);
  if (!opened.ok()) return fail(args, cli, opened.status());
  std::size_t tuned = 0;
  const auto rows = missed(args, *opened->store, tuned);
  if (!rows.ok()) return fail(args, cli, rows.status());
  if (args.json) {
    print_json(cli.out, Json::object({{"misses", misses_json(*rows)}, {"tuned_since", tuned}}));
  } else if (args.csv) {
    print_csv(*rows, cli.out);
  } else if (!rows->empty()) {
    cli.out << misses_table(*rows);
  }
  cli.err << rows->size() << " missed problems" << place_of(*opened->store);
  if (tuned > 0) cli.err << (args.all ? ", of which tuned since: " : "; tuned since: ") << tuned;
  cli.err << '\n';
  return kExitDone;
}

}  // namespace rowsmith
