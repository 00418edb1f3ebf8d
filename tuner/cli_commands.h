// SPDX-License-Identifier: Apache-2.0
//
// The commands of `tune`, once the arguments are parsed, and what they share. Each answers the exit
// status; tune_cli.h names them. Knows nothing of CLI11.
#pragma once

#include "runtime/device_state.h"
#include "runtime/session.h"
#include "tuner/number_list.h"

#include <rowsmith/runtime.h>
#include <rowsmith/tuner.h>
#include <rowsmith/winner_store.h>

#include <nlohmann/json.hpp>

#include <functional>
#include <iosfwd>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rowsmith {

// Every option of every command, as checked values.
struct CliArgs {
  std::string cache;   // "" = as the environment says
  std::string device;  // "" = as the environment says
  std::vector<std::int64_t> rows, cols;
  std::vector<std::pair<DType, DType>> dtypes;
  std::optional<Layout> layout;  // of a single problem; none = contiguous, separate buffers
  std::string from;              // a file of problems in place of these; "" = none
  Shard shard;
  Effort effort = Effort::kStandard;
  double budget_s = 0;
  bool retune = false;
  bool buckets = false;
  bool explain_search = false;
  std::vector<std::string> families;
  std::vector<int> archs;  // compute capabilities: 90, 120
  std::vector<std::string> files;
  std::vector<std::string> device_classes;  // only these; empty = all
  std::optional<std::int64_t> max_bytes;    // of all binaries together
  bool all = false;
  bool csv = false;
  bool dry_run = false;
  bool json = false;
};

// Where a command writes, and when it should end early.
struct Cli {
  std::ostream& out;
  std::ostream& err;
  const std::function<bool()>& stop;
  bool terminal = false;  // err is one
  std::string program;    // that runs `tune`, for child processes
};

int run_softmax(const CliArgs& args, Cli& cli);  // cli_softmax.cpp
int run_worker(const CliArgs& args, Cli& cli);   // cli_worker.cpp
int run_compiler(const CliArgs& args, Cli& cli);
int run_list(const CliArgs& args, Cli& cli);  // cli_inspect.cpp
int run_why(const CliArgs& args, Cli& cli);
int run_bench(const CliArgs& args, Cli& cli);   // cli_bench.cpp
int run_misses(const CliArgs& args, Cli& cli);  // cli_misses.cpp
int run_space(const CliArgs& args, Cli& cli);
int run_prune(const CliArgs& args, Cli& cli);   // cli_prune.cpp
int run_doctor(const CliArgs& args, Cli& cli);  // cli_doctor.cpp
int run_export(const CliArgs& args, Cli& cli);  // cli_exchange.cpp
int run_import(const CliArgs& args, Cli& cli);
int run_compile(const CliArgs& args, Cli& cli);  // cli_compile.cpp

// --- shared (cli_shared.cpp) ---

using Json = nlohmann::ordered_json;
// Strictly valid JSON: what is not a number becomes null, what is not UTF-8 is replaced.
void print_json(std::ostream& out, const Json& json);
// `ns`, or null where it was not measured.
Json ns_or_null(std::int64_t ns);

// Says what went wrong (with --json also as {"error": ..} on stdout) and answers the exit status.
int fail(const CliArgs& args, Cli& cli, const Status& status);

// The environment's options with the command line's put over them.
Result<RuntimeOptions> runtime_options(const CliArgs& args);
// The same for a command that only looks: where there is no cache yet none is made, and the options
// name none.
Result<RuntimeOptions> options_to_look(const CliArgs& args, Cli& cli);
// "winner", or "winner, dirty" where the times are in doubt.
std::string verdict_text(const Evidence& evidence);
// Empty, or why the catalog no longer has the family that gave the record's config.
std::string why_family_lost(const WinnerRecord& record);
// The text of a file, or of standard input where `path` is "-". Invalid argument.
Result<std::string> read_file(const std::string& path);

inline constexpr std::int64_t kMaxRows = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kMaxCols = std::numeric_limits<std::int32_t>::max();
inline constexpr const char* kDtypeChoices =
    "f64, f32, f16, bf16, f8e4m3, f8e5m2, or a pair in:out";

// Of one command.
inline constexpr std::size_t kMostProblems = 100'000;

// The contiguous problem. Invalid argument where a matrix passes 2^63 bytes.
Result<Problem> sized_problem(DType in, DType out, std::int64_t rows, std::int64_t cols);
// A layout as list prints it. Invalid argument.
Result<Layout> checked_layout(const std::string& text);
// The problem in that layout. Invalid argument where no such matrix can have it.
Result<Problem> laid_out(Problem problem, const Layout& layout);
// Every dtype x H x S, contiguous. Invalid argument where a matrix passes 2^63 bytes.
Result<std::vector<Problem>> problems_of(const CliArgs& args);
// The one problem of commands that take one, in --layout.
Result<Problem> single_problem(const CliArgs& args);
// "sm_90".
std::string arch_name(int capability);
// Invalid argument, with the choices, where no GPU has that capability.
Status check_arch(int capability);
// "f16 4 x 257"; layouts other than that of freshly allocated matrices behind it.
std::string short_name(const Problem& problem);

// Opens the winner store, printing its note if it has one.
OpenedStore open_noting(const RuntimeOptions& options, Cli& cli);
// As it stands: nothing is made, mended or set aside. Where there is no cache it is empty, which is
// said. Cache busy where one is there and cannot be read.
Result<OpenedStore> open_to_look(const CliArgs& args, Cli& cli);
// " in <file>"; empty where the user has no file of their own.
std::string place_of(const WinnerStore& store);

// A session to tune or time on. No device also where it has no compiler at all: nothing could run.
Result<Session> open_compiling_session(const RuntimeOptions& options);

// Cache busy where winners would end with the process: time and work thrown away.
Status check_keeps(const RuntimeOptions& options, const WinnerStore& store);

// A decision of the search, as a line without its end and as an object (cli_explain.cpp).
std::string explain_line(const SearchEvent& event);
Json explain_json(const SearchEvent& event);

// A device's clocks, or why they are not known; and that in words (cli_doctor.cpp).
Json clocks_json(const Result<DeviceState>& state);
std::string clocks_text(const Json& clocks);

// Left-aligned columns, two blanks apart; the first row is the head.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

}  // namespace rowsmith
