// SPDX-License-Identifier: Apache-2.0
//
// `tune export` and `tune import`: winners as canonical JSON, out and in. What a record may hold is
// checked here against the catalog; how two records for one key are joined is the store's rule.

#include "cache/directory.h"
#include "cache/exchange.h"
#include "kernel_templates/catalog.h"
#include "runtime/devices.h"
#include "tuner/cli_commands.h"
#include "tuner/tune_cli.h"

#include <rowsmith/text.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <ostream>

namespace rowsmith {
namespace {

// A file at once or not at all, with the mode it had; through a link to what it names. What is no
// file (a device, a pipe) is written to.
Status write_file(const std::string& path, const std::string& text) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path canonical = fs::canonical(path, error);
  const std::string target = error ? path : canonical.string();
  const fs::file_status before = fs::status(target, error);
  const bool replaces = !fs::exists(before) || fs::is_regular_file(before);
  const std::string written = replaces ? target + "." + std::to_string(getpid()) + ".tmp" : target;
  errno = 0;
  std::ofstream file(written, std::ios::binary);
  file << text;
  file.close();
  bool done = static_cast<bool>(file);
  if (done && fs::exists(before) && replaces) {
    done = ::chmod(written.c_str(), static_cast<mode_t>(before.permissions())) == 0;
  }
  if (done && replaces) done = std::rename(written.c_str(), target.c_str()) == 0;
  if (done) return {};
  const int why = errno;
  if (replaces) std::remove(written.c_str());
  return Status(Code::kInternal, "'" + path + "' cannot be written: " + errno_text(why));
}

// Facts good enough to check legality for a device class that need not be on this machine; none
// where no device has such a class.
std::optional<DeviceFacts> facts_of_class(const std::string& device_class) {
  static constexpr std::string_view kCuda = "cuda-sm";
  if (device_class == "host") {
    DeviceFacts facts;
    facts.kind = device_class;
    return facts;
  }
  const char* const last = device_class.data() + device_class.size();
  int capability = 0;
  if (device_class.compare(0, kCuda.size(), kCuda) != 0) return {};
  const auto [end, error] = std::from_chars(device_class.data() + kCuda.size(), last, capability);
  if (error != std::errc() || end == last || *end != '-' || capability < 75) return {};
  return nominal_facts(capability);
}

// Empty, or why the record must not be stored: an import can never name what the catalog lacks.
std::string why_refused(const WinnerRecord& record) {
  const std::string lost = why_family_lost(record);
  if (!lost.empty()) return lost;
  const auto facts = facts_of_class(record.device_class);
  if (!facts) return "'" + record.device_class + "' is no device class";
  return why_illegal(record.problem, *facts, record.config);
}

// What the store's joining rule would do with the record, without touching the store.
Result<bool> would_take(WinnerStore& store, const WinnerRecord& record) {
  const auto present = store.find(record.device_class, record.problem);
  if (!present.ok()) return present.status();
  const auto scratch = make_memory_store();
  if (present->has_value()) {
    if (const Status status = scratch->put(**present); !status.ok()) return status;
  }
  return scratch->merge(record);
}

// Every file's records, read before any is stored.
Result<ImportedWinners> read_all(const std::vector<std::string>& files) {
  ImportedWinners all;
  for (const std::string& file : files) {
    const auto text = read_file(file);
    if (!text.ok()) return text.status();
    auto winners = parse_export(*text, why_refused);
    if (!winners.ok()) return winners.status().with_context(file);
    for (WinnerRecord& record : winners->records) all.records.push_back(std::move(record));
    for (std::string& refused : winners->refused) {
      all.refused.push_back(file + ": " + std::move(refused));
    }
  }
  return all;
}

using Taken = std::vector<const WinnerRecord*>;

// Those that the store took, or with --dry-run would take.
Result<Taken> join_once(bool dry_run, const std::vector<WinnerRecord>& records,
                        WinnerStore& store) {
  Taken taken;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto took = dry_run ? would_take(store, records[i]) : store.merge(records[i]);
    if (!took.ok()) {
      return took.status().with_context("ended after " + std::to_string(i) + " of " +
                                        std::to_string(records.size()) + " winners, of which " +
                                        std::to_string(taken.size()) + " were taken");
    }
    if (*took) taken.push_back(&records[i]);
  }
  return taken;
}

// Where the cache's file turns out to be damaged, what was taken has gone with it: once more, into
// the one that was begun in its place.
Result<Taken> join(bool dry_run, const std::vector<WinnerRecord>& records, WinnerStore& store,
                   Cli& cli) {
  auto taken = join_once(dry_run, records, store);
  if (taken.status().code() != Code::kCacheDamaged) return taken;
  cli.err << "tune: cache: " << taken.status().message() << "; once more\n";
  return join_once(dry_run, records, store);
}

}  // namespace

int run_export(const CliArgs& args, Cli& cli) {
  const auto opened = open_to_look(args, cli);
  if (!opened.ok()) return fail(args, cli, opened.status());
  const auto records = opened->store->list();
  if (!records.ok()) return fail(args, cli, records.status());
  if (records->empty() && opened->store->location() == "memory") {
    return fail(args, cli, Status(Code::kNotTuned, "there is nothing to export"));
  }
  const std::string text = export_winners(*records);
  const std::string& file = args.files.front();
  if (file == "-") {
    cli.out << text;
  } else {
    if (const Status status = write_file(file, text); !status.ok()) return fail(args, cli, status);
    if (args.json) print_json(cli.out, {{"exported", records->size()}, {"file", file}});
  }
  cli.err << records->size() << " winners exported from " << opened->store->location() << '\n';
  return kExitDone;
}

int run_import(const CliArgs& args, Cli& cli) {
  const auto options = args.dry_run ? options_to_look(args, cli) : runtime_options(args);
  if (!options.ok()) return fail(args, cli, options.status());
  const auto winners = read_all(args.files);
  if (!winners.ok()) return fail(args, cli, winners.status());
  const OpenedStore opened = open_noting(*options, cli);
  const Status keeps = args.dry_run ? Status() : check_keeps(*options, *opened.store);
  if (!keeps.ok()) return fail(args, cli, keeps);
  const auto taken_records = join(args.dry_run, winners->records, *opened.store, cli);
  if (!taken_records.ok()) return fail(args, cli, taken_records.status());
  const std::size_t taken = taken_records->size();
  Json changes = Json::array();
  for (const WinnerRecord* record : *taken_records) {
    changes.push_back({{"device_class", record->device_class},
                       {"problem", to_string(record->problem)},
                       {"config", to_string(record->config)}});
  }
  const std::size_t unchanged = winners->records.size() - taken;
  for (const std::string& refused : winners->refused)
    cli.err << "tune: refused: " << refused << '\n';
  if (args.json) {
    print_json(cli.out, {{"dry_run", args.dry_run},
                         {"taken", taken},
                         {"unchanged", unchanged},
                         {"refused", winners->refused},
                         {"changes", changes}});
  } else if (args.dry_run) {
    for (const Json& change : changes) {
      cli.out << change["device_class"].get<std::string>() << "  "
              << change["problem"].get<std::string>() << "  " << change["config"].get<std::string>()
              << '\n';
    }
  }
  cli.err << taken << (args.dry_run ? " would be taken, " : " taken, ") << unchanged
          << " unchanged, " << winners->refused.size() << " refused\n";
  return winners->refused.empty() ? kExitDone : kExitSomeFailed;
}

}  // namespace rowsmith
