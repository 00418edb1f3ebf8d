// SPDX-License-Identifier: Apache-2.0
//
// Arguments of `tune` by CLI11: every option is checked as it is parsed, so that commands see
// values only. A wrong one ends with the option's name, the value and what would be right.

#include "tuner/tune_cli.h"

#include "kernel_templates/catalog.h"
#include "tuner/cli_commands.h"
#include "tuner/number_list.h"

#include <rowsmith/rowsmith_c.h>
#include <rowsmith/text.h>

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <iostream>
#include <optional>

namespace rowsmith {
namespace {

[[noreturn]] void refuse(const std::string& option, const std::string& why) {
  throw CLI::ValidationError(option, why);
}

// The value, or a usage error that names the option.
template <typename T>
T checked(const std::string& option, Result<T> result) {
  if (!result.ok()) refuse(option, result.status().message());
  return std::move(result).value();
}

// The pieces between the commas. An empty one is refused by its place: it cannot be quoted.
template <typename Visit>
void for_each_item(const std::string& option, const std::string& text, Visit&& visit) {
  std::size_t place = 0;
  detail::for_each_piece(text, ',', [&](std::string_view piece) {
    ++place;
    if (piece.empty()) {
      refuse(option, "item " + std::to_string(place) + " of '" + text + "' is empty");
    }
    visit(piece);
    return true;
  });
}

std::vector<std::int64_t> numbers_of(const std::string& option, const std::string& text,
                                     std::int64_t max) {
  for_each_item(option, text, [](std::string_view) {});
  return checked(option, parse_number_list(text, max));
}

std::vector<std::string> families_of(const std::string& text) {
  std::vector<std::string> families;
  for_each_item("--family", text, [&](std::string_view piece) {
    if (find_family(piece) == nullptr) {
      std::string names;
      for (const Family* family : catalog()) {
        names += (names.empty() ? "" : ", ") + std::string(family->name());
      }
      refuse("--family", "'" + std::string(piece) + "' is not one of " + names);
    }
    families.emplace_back(piece);
  });
  return families;
}

std::vector<std::pair<DType, DType>> dtypes_of(const std::string& text) {
  std::vector<std::pair<DType, DType>> dtypes;
  for_each_item("-d", text, [&](std::string_view piece) {
    const auto pair = parse_dtypes(piece);
    if (!pair) {
      refuse("-d", "'" + std::string(piece) + "' is not one of " + kDtypeChoices);
    }
    if (std::find(dtypes.begin(), dtypes.end(), *pair) == dtypes.end()) dtypes.push_back(*pair);
  });
  return dtypes;
}

std::vector<int> archs_of(const std::string& text) {
  std::vector<int> archs;
  for_each_item("--arch", text, [&](std::string_view piece) {
    int arch = 0;
    const std::string_view digits = piece.substr(std::min<std::size_t>(3, piece.size()));
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), arch);
    if (piece.substr(0, 3) != "sm_" || error != std::errc() || arch < 10 ||
        end != digits.data() + digits.size()) {
      refuse("--arch", "'" + std::string(piece) + "' is not an architecture such as sm_90");
    }
    if (arch < 75) refuse("--arch", "'" + std::string(piece) + "' is older than sm_75");
    if (std::find(archs.begin(), archs.end(), arch) == archs.end()) archs.push_back(arch);
  });
  return archs;
}

Effort effort_of(const std::string& text) {
  for (const Effort effort : {Effort::kQuick, Effort::kStandard, Effort::kThorough}) {
    if (text == to_string(effort)) return effort;
  }
  refuse("--effort", "'" + text + "' is not quick, standard or thorough");
}

// The command line's grammar, bound to the values it fills.
class Grammar {
 public:
  Grammar() {
    app_.set_version_flag("--version", std::string("tune ") + rowsmith_version());
    app_.require_subcommand(0, 1);  // asked for in tune_cli: CLI11 would not name a wrong word
    app_.footer(
        "Exit status: 0 done; 1 some problems failed; 2 wrong usage; 3 nothing could run.\n"
        "ROWSMITH_* variables set the defaults; `tune doctor` shows those that are set.");
    add_tuning();
    add_inspection();
    add_exchange();
  }

  CLI::App& app() { return app_; }
  bool has_command() const { return command_ != nullptr; }
  // Requires has_command().
  int run(Cli& cli) const { return command_(args_, cli); }

 private:
  using Command = int (*)(const CliArgs&, Cli&);

  CLI::App* add(const std::string& name, const std::string& summary, Command command) {
    CLI::App* sub = app_.add_subcommand(name, summary);
    sub->add_option("--cache", args_.cache, "The cache directory")
        ->type_name("DIR")
        ->check([](const std::string& value) {  // a script's unset variable means no default
          return std::string(value.empty() ? "'' is not a directory" : "");
        });
    sub->add_flag("--json", args_.json, "One JSON document on stdout, all else on stderr");
    sub->callback([this, command] { command_ = command; });
    return sub;
  }

  // Not for people: in no help, without options.
  void add_hidden(const std::string& name, const std::string& summary, Command command) {
    CLI::App* sub = app_.add_subcommand(name, summary);
    sub->group("");
    sub->callback([this, command] { command_ = command; });
  }

  using Options = std::vector<CLI::Option*>;

  Options add_shape(CLI::App* sub) {
    return {add_text(
                sub, "-S,--rows", "Rows: 1,16,4096 or 8-12", "LIST",
                [this](const std::string& text) { args_.rows = numbers_of("-S", text, kMaxRows); }),
            add_text(
                sub, "-H,--cols", "Columns: 256,1000-1010", "LIST",
                [this](const std::string& text) { args_.cols = numbers_of("-H", text, kMaxCols); }),
            add_text(sub, "-d,--dtype", "f64 f32 f16 bf16 f8e4m3 f8e5m2; in:out for a pair", "LIST",
                     [this](const std::string& text) { args_.dtypes = dtypes_of(text); })};
  }

  void add_problem(CLI::App* sub) {
    for (CLI::Option* option : add_shape(sub)) option->required();
    add_text(sub, "--layout",
             "As list prints it: src=4,dst=4,co=1 (default: of new, contiguous buffers)", "TEXT",
             [this](const std::string& text) {
               args_.layout = checked("--layout", checked_layout(text));
             });
  }

  // By -S, -H and -d or by a file, never by both.
  void add_problem_list(CLI::App* sub) {
    const Options shape = add_shape(sub);
    CLI::Option* from = sub->add_option("--from", args_.from,
                                        "Problems from CSV (S,H,dtype) or JSON lines; - for stdin");
    from->type_name("FILE")->check([](const std::string& value) {
      return std::string(value.empty() ? "'' is not a file" : "");
    });
    for (CLI::Option* option : shape) from->excludes(option);
  }

  void add_device(CLI::App* sub, const std::string& choices) {
    sub->add_option("--device", args_.device, choices)->type_name("NAME");
  }

  CLI::Option* add_device_class(CLI::App* sub, const std::string& help) {
    return add_text(sub, "--device-class", help, "LIST", [this](const std::string& text) {
      for_each_item("--device-class", text,
                    [&](std::string_view piece) { args_.device_classes.emplace_back(piece); });
    });
  }

  CLI::Option* add_arch(CLI::App* sub) {
    return add_text(sub, "--arch", "Architectures: sm_90,sm_120", "LIST",
                    [this](const std::string& text) { args_.archs = archs_of(text); });
  }

  void add_tuning() {
    CLI::App* softmax =
        add("softmax", "Time the legal configs and remember the winners", run_softmax);
    add_problem_list(softmax);
    CLI::Option* shard = add_text(
        softmax, "--shard", "Only the i-th of n shares of the problems", "I/N",
        [this](const std::string& text) { args_.shard = checked("--shard", parse_shard(text)); });
    add_device(softmax, "0, 1, .., GPU-<uuid>, all, host");
    add_text(softmax, "--effort", "quick, standard (default) or thorough", "WORD",
             [this](const std::string& text) { args_.effort = effort_of(text); });
    add_text(softmax, "--budget", "Time for all problems together: 500ms, 30s, 5m (default: none)",
             "TIME", [this](const std::string& text) {
               args_.budget_s = checked("--budget", parse_duration_s(text));
             });
    softmax->add_flag("--retune", args_.retune, "Also problems that have a winner");
    softmax
        ->add_flag("--buckets", args_.buckets,
                   "Also S in between, wherever the winners of those listed do not serve well")
        ->excludes(shard);  // which would tear the S of an H apart
    softmax->add_flag("--explain-search", args_.explain_search, "Print every decision");
    add_text(softmax, "--family", "Only these families, and the default", "LIST",
             [this](const std::string& text) { args_.families = families_of(text); });
    add_hidden("worker", "Runs candidates for softmax", run_worker);
    add_hidden("compiler", "Compiles programs for worker and compile", run_compiler);
    CLI::App* bench =
        add("bench", "Time stored winners again; says which no longer hold", run_bench);
    add_problem_list(bench);
    add_device(bench, "0, 1, .., GPU-<uuid>, host");
    CLI::App* compile = add("compile", "Fill the binary store without a GPU", run_compile);
    add_problem_list(compile);
    add_arch(compile)->required();
  }

  void add_inspection() {
    add("list", "The stored winners", run_list);
    CLI::App* misses =
        add("misses", "What was called without a winner, most calls first", run_misses);
    add_device_class(misses, "Only these, as list shows them");
    misses->add_flag("--all", args_.all, "Also what has been tuned since");
    add_text(misses, "--format", "table, or csv that softmax --from reads", "WORD",
             [this](const std::string& text) {
               if (text != "table" && text != "csv") {
                 refuse("--format", "'" + text + "' is not table or csv");
               }
               args_.csv = text == "csv";
             })
        ->excludes("--json");
    CLI::App* why = add("why", "Which config serves a problem now, and why", run_why);
    add_problem(why);
    add_device(why, "0, 1, .., GPU-<uuid>, host");
    CLI::App* space =
        add("space", "The legal configs of a problem, expected best first", run_space);
    add_problem(space);
    add_device(space, "0, 1, .., GPU-<uuid>, host");
    add_arch(space)->excludes("--device");
    add("doctor", "Devices, compilers, cache and environment, and what is wrong", run_doctor);
  }

  void add_exchange() {
    add("export", "Write the winners as JSON that other machines can import", run_export)
        ->add_option("file", args_.files, "The file to write; - for stdout")
        ->required()
        ->expected(1);
    CLI::App* import = add("import", "Join exported winners into the cache", run_import);
    import->add_option("file", args_.files, "Exported files")->required();
    add_dry_run(import);
    CLI::App* prune =
        add("prune", "Drop winners that cannot serve, and binaries past a size", run_prune);
    add_device_class(prune, "Also every winner of these, as list shows them");
    add_text(prune, "--max-size", "Of all binaries: 500MiB, 2GiB (default 1GiB)", "SIZE",
             [this](const std::string& text) {
               args_.max_bytes = checked("--max-size", parse_bytes(text));
             });
    add_dry_run(prune);
  }

  void add_dry_run(CLI::App* sub) {
    sub->add_flag("--dry-run", args_.dry_run, "Say what would change; change nothing");
  }

  // Is asked of each value in turn; CLI11 by itself would only count what is given twice.
  static CLI::Option* name_repeats(CLI::Option* option) {
    return option->check(
        [first = std::optional<std::string>()](const std::string& value) mutable -> std::string {
          if (first) return "given twice, as '" + *first + "' and as '" + value + "'";
          first = value;
          return "";
        });
  }

  template <typename Parse>
  CLI::Option* add_text(CLI::App* sub, const std::string& names, const std::string& help,
                        const std::string& type, Parse&& parse) {
    return name_repeats(
        sub->add_option_function<std::string>(names, std::forward<Parse>(parse), help)
            ->type_name(type));
  }

  CLI::App app_{"Tune rowsmith's softmax kernels and look after their cache.", "tune"};
  CliArgs args_;
  Command command_ = nullptr;
};

int run_line(const std::vector<std::string>& args, Cli& cli) {
  Grammar grammar;
  try {
    grammar.app().parse(std::vector<std::string>(args.rbegin(), args.rend()));  // last first
  } catch (const CLI::ExtrasError& error) {
    // CLI11 would tell the command's name as one argument more, and the last first.
    if (args.front().front() != '-') return grammar.app().exit(error, cli.out, cli.err), kExitUsage;
    cli.err << "tune: '" << args.front() << "' stands before the command; options go behind it\n";
    return kExitUsage;
  } catch (const CLI::ParseError& error) {
    return grammar.app().exit(error, cli.out, cli.err) == 0 ? kExitDone : kExitUsage;
  }
  if (!grammar.has_command()) {
    cli.err << "A command is required\n" << grammar.app().help();
    return kExitUsage;
  }
  return grammar.run(cli);
}

}  // namespace

int tune_cli(const std::vector<std::string>& args, std::ostream& out, std::ostream& err,
             const std::function<bool()>& stop, const std::string& program) {
  const bool terminal = &err == &std::cerr && isatty(STDERR_FILENO) != 0;
  Cli cli{out, err, stop, terminal, program};
  const int status = run_line(args, cli);
  if (out.flush()) return status;
  err << "tune: the output cannot be written\n";
  return status == kExitDone ? kExitSomeFailed : status;
}

}  // namespace rowsmith
