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

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <ostream>

namespace rowsmith {
namespace {

Status write_file(const std::string& path, const std::string& text) {
  const std::string temporary = path + "." + std::to_string(getpid()) + ".tmp";
  errno = 0;
  std::ofstream file(temporary, std::ios::binary);
  file << text;
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    std::remove(temporary.c_str());
    return Status(Code::kInternal, path + " cannot be written: " + errno_text(errno));
  }
  return Status();
}

// Facts good enough to check legality for a device class that need not be on this machine.
DeviceFacts facts_of_class(const std::string& device_class) {
  static constexpr std::string_view kCuda = "cuda-sm";
  if (device_class.compare(0, kCuda.size(), kCuda) == 0) {
    int capability = 0;
    std::from_chars(device_class.data() + kCuda.size(), device_class.data() + device_class.size(),
                    capability);
    return nominal_facts(capability);
  }
  DeviceFacts facts;
  facts.kind = device_class;
  return facts;
}

// Empty, or why the record must not be stored: an import can never name what the catalog lacks.
std::string why_refused(const WinnerRecord& record) {
  const std::string lost = why_family_lost(record);
  if (!lost.empty()) return lost;
  return why_illegal(record.problem, facts_of_class(record.device_class), record.config);
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

}  // namespace

int run_export(const CliArgs& args, Cli& cli) {
  const auto options = options_to_look(args, cli);
  if (!options.ok()) return fail(args, cli, options.status());
  if (!args.cache.empty() && options->cache_dir.empty()) {
    return fail(args, cli, Status(Code::kNotTuned, "--cache: there is nothing to export"));
  }
  const OpenedStore opened = open_noting(*options, cli);
  const auto records = opened.store->list();
  if (!records.ok()) return fail(args, cli, records.status());
  const std::string text = export_winners(*records);
  const std::string& file = args.files.front();
  if (file == "-") {
    cli.out << text;
  } else {
    if (const Status status = write_file(file, text); !status.ok()) return fail(args, cli, status);
    if (args.json) print_json(cli.out, {{"exported", records->size()}, {"file", file}});
  }
  cli.err << records->size() << " winners exported from " << opened.store->location() << '\n';
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
  std::size_t taken = 0;
  Json changes = Json::array();
  for (const WinnerRecord& record : winners->records) {
    const auto took =
        args.dry_run ? would_take(*opened.store, record) : opened.store->merge(record);
    if (!took.ok()) return fail(args, cli, took.status());
    if (!*took) continue;
    ++taken;
    changes.push_back({{"device_class", record.device_class},
                       {"problem", to_string(record.problem)},
                       {"config", to_string(record.config)}});
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
