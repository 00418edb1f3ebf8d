// SPDX-License-Identifier: Apache-2.0
//
// What the commands of `tune` share: options, problems, reports of failure, JSON and tables.

#include "cache/directory.h"
#include "kernel_templates/catalog.h"
#include "runtime/devices.h"
#include "runtime/nvrtc.h"
#include "tuner/cli_commands.h"
#include "tuner/placement.h"
#include "tuner/tune_cli.h"

#include <rowsmith/text.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>

namespace rowsmith {

void print_json(std::ostream& out, const Json& json) {
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

Json ns_or_null(std::int64_t ns) {
  return ns > 0 ? Json(ns) : Json(nullptr);
}

int fail(const CliArgs& args, Cli& cli, const Status& status) {
  cli.err << "tune: " << status.message() << '\n';
  if (args.json) {
    Json json;
    json["error"] = {{"code", to_string(status.code())}, {"message", status.message()}};
    print_json(cli.out, json);
  }
  return status.code() == Code::kInvalidArgument ? kExitUsage : kExitNothingRan;
}

Result<RuntimeOptions> runtime_options(const CliArgs& args) {
  auto options = RuntimeOptions::from_environment();
  if (!options.ok()) return options.status();
  if (!args.cache.empty()) {
    std::error_code error;
    const std::filesystem::path path = std::filesystem::absolute(args.cache, error);
    if (error || (std::filesystem::exists(path, error) && !std::filesystem::is_directory(path))) {
      return Status(Code::kInvalidArgument, "--cache: '" + args.cache + "' is not a directory");
    }
    options->cache_dir = path.lexically_normal().string();
  }
  if (!args.device.empty()) options->device = args.device;
  return options;
}

Result<RuntimeOptions> options_to_look(const CliArgs& args, Cli& cli) {
  auto options = runtime_options(args);
  if (!options.ok() || options->cache_dir.empty()) return options;
  const std::string path = options->cache_dir + "/winners.db";
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) {
    cli.err << "tune: cache: there is no " << path << '\n';
    options->cache_dir.clear();
  }
  return options;
}

std::string verdict_text(const Evidence& evidence) {
  return evidence.verdict + (why_dirty(evidence).empty() ? "" : ", dirty");
}

std::string why_family_lost(const WinnerRecord& record) {
  const Family* family = find_family(record.config.family);
  if (family == nullptr) return "no family '" + record.config.family + "'";
  if (family->digest() == record.family_digest) return {};
  return "family " + record.config.family + " has changed since it was tuned";
}

Result<std::string> read_file(const std::string& path) {
  std::ostringstream text;
  if (path == "-") {
    text << std::cin.rdbuf();
    return text.str();
  }
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return Status(Code::kInvalidArgument, path + " cannot be read: it is a directory");
  }
  std::ifstream file(path, std::ios::binary);
  text << file.rdbuf();
  if (!file) return Status(Code::kInvalidArgument, path + " cannot be read: " + errno_text(errno));
  return text.str();
}

Result<Problem> sized_problem(DType in, DType out, std::int64_t rows, std::int64_t cols) {
  const auto bytes = static_cast<std::int64_t>(std::max(size_of(in), size_of(out)));
  if (cols > 0 && rows > std::numeric_limits<std::int64_t>::max() / bytes / cols) {
    return Status(Code::kInvalidArgument, "S = " + std::to_string(rows) +
                                              ", H = " + std::to_string(cols) +
                                              ": a matrix of 2^63 bytes or more");
  }
  return contiguous_problem(in, out, rows, cols);
}

Result<Layout> checked_layout(const std::string& text) {
  if (const auto layout = parse_layout(text)) return *layout;
  return Status(Code::kInvalidArgument, "'" + text + "' is not a layout such as src=4,dst=4,co=1");
}

Result<Problem> laid_out(Problem problem, const Layout& layout) {
  if (problem.layout == layout) return problem;
  problem.layout = layout;
  if (const auto placed = place(problem); !placed.ok()) {
    return Status(Code::kInvalidArgument, placed.status().message());
  }
  return problem;
}

Result<std::vector<Problem>> problems_of(const CliArgs& args) {
  std::vector<Problem> problems;
  const double count = static_cast<double>(args.dtypes.size()) *
                       static_cast<double>(args.cols.size()) *
                       static_cast<double>(args.rows.size());
  if (count > static_cast<double>(kMostProblems)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("-S, -H and -d name {:.0f} problems; at most {} at a time", count,
                              kMostProblems));
  }
  for (const auto& [in, out] : args.dtypes) {
    for (const std::int64_t cols : args.cols) {
      for (const std::int64_t rows : args.rows) {
        const auto problem = sized_problem(in, out, rows, cols);
        if (!problem.ok()) return problem.status();
        problems.push_back(*problem);
      }
    }
  }
  return problems;
}

Result<Problem> single_problem(const CliArgs& args) {
  auto problems = problems_of(args);
  if (!problems.ok()) return problems.status();
  if (problems->size() != 1) {
    return Status(Code::kInvalidArgument, "this command takes one problem; -S, -H and -d name " +
                                              std::to_string(problems->size()));
  }
  return args.layout ? laid_out(problems->front(), *args.layout) : problems->front();
}

std::string arch_name(int capability) {
  return std::string("sm_").append(std::to_string(capability));
}

Status check_arch(int capability) {
  std::set<int> choices;
  for (const DeviceFacts& facts : nominal_devices()) choices.insert(facts.capability);
  const auto known = nvrtc_archs();
  for (const int arch : known.ok() ? *known : std::vector<int>()) {
    if (arch > *choices.begin()) choices.insert(arch);
  }
  if (choices.count(capability) > 0) return {};
  std::string names;
  for (const int arch : choices) names += (names.empty() ? "" : ", ") + arch_name(arch);
  return Status(Code::kInvalidArgument,
                "--arch: '" + arch_name(capability) + "' is not one of " + names);
}

std::string short_name(const Problem& problem) {
  std::string name = dtypes_to_string(problem.in, problem.out) + " " +
                     std::to_string(problem.rows) + " x " + std::to_string(problem.cols);
  const Problem usual = contiguous_problem(problem.in, problem.out, problem.rows, problem.cols);
  if (problem.layout != usual.layout) name += " (" + to_string(problem.layout) + ")";
  return name;
}

OpenedStore open_noting(const RuntimeOptions& options, Cli& cli) {
  StoreOptions store_options;
  store_options.directory = options.cache_dir;
  store_options.read_only = options.read_only || options.cache_dir.empty();
  store_options.site = options.site_cache;
  OpenedStore opened = open_store(store_options);
  if (!opened.note.empty()) cli.err << "tune: cache: " << opened.note << '\n';
  return opened;
}

Result<OpenedStore> open_to_look(const CliArgs& args, Cli& cli) {
  auto options = options_to_look(args, cli);
  if (!options.ok()) return options.status();
  options->read_only = true;
  OpenedStore opened = open_noting(*options, cli);
  if (options->cache_dir.empty() || opened.store->location() != "memory") return opened;
  return Status(Code::kCacheBusy, "the winners in '" + options->cache_dir + "' cannot be read");
}

std::string place_of(const WinnerStore& store) {
  return store.location() == "memory" ? "" : " in " + store.location();
}

Result<Session> open_compiling_session(const RuntimeOptions& options) {
  auto session = open_session(options);
  if (!session.ok() || !session->device->facts().compiler.empty()) return session;
  const auto probe = session->device->compile({"probe", "int rowsmith_probe;", {}});
  if (probe.ok()) return session;
  return Status(Code::kNoDevice, "the device cannot be compiled for: " + probe.status().message());
}

Status check_keeps(const RuntimeOptions& options, const WinnerStore& store) {
  const std::string location = store.location();
  if (options.read_only) {
    return Status(Code::kCacheBusy, "ROWSMITH_READONLY is set: winners cannot be kept");
  }
  // root may write to what is read-only for others, but not to a read-only disk.
  if (location == "memory" || access(location.c_str(), W_OK) != 0) {
    return Status(Code::kCacheBusy, "winners cannot be kept in '" + options.cache_dir +
                                        "'; name another directory with --cache");
  }
  return Status();
}

std::string table_text(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] + 2 - row[i].size(), ' ');
    }
    text += line + '\n';
  }
  return text;
}

}  // namespace rowsmith
