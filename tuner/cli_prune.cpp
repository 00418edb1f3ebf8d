// SPDX-License-Identifier: Apache-2.0
//
// `tune prune`: gives back what the cache no longer needs. Winners go when nothing can serve by
// them or their class of device is named, binaries by least recent use. Sites are left alone.

#include "cache/binary_store.h"
#include "cache/record.h"
#include "kernel_templates/catalog.h"
#include "tuner/cli_commands.h"
#include "tuner/tune_cli.h"

#include <rowsmith/text.h>

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <set>

namespace rowsmith {
namespace {

struct DroppedWinner {
  WinnerRecord record;
  std::string why;
};

struct Pruned {
  std::vector<DroppedWinner> dropped;
  std::size_t kept = 0;
  std::size_t screenings = 0;  // of searches that had not ended, dropped
  // Bytes on disk given back, or with --dry-run to be given back. Of winners only what was seen.
  std::int64_t winner_bytes = 0, binary_bytes = 0;
};

std::string size_text(std::int64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, units[unit]);
}

// winners.db with its log.
std::int64_t database_bytes(const std::string& directory) {
  std::int64_t total = 0;
  for (const char* name : {"/winners.db", "/winners.db-wal"}) {
    std::error_code absent;
    const auto bytes = std::filesystem::file_size(directory + name, absent);
    if (!absent) total += static_cast<std::int64_t>(bytes);
  }
  return total;
}

bool is_named(const CliArgs& args, const std::string& device_class) {
  const auto& classes = args.device_classes;
  return std::find(classes.begin(), classes.end(), device_class) != classes.end();
}

std::string why_dropped(const CliArgs& args, const WinnerRecord& record) {
  return is_named(args, record.device_class) ? "its device class was named"
                                             : why_family_lost(record);
}

// What no search can take over, or none is going to: `ended` are the problems of ended searches.
bool is_needless(const CliArgs& args, const Screening& screening,
                 const std::set<RecordKey>& ended) {
  const auto config = parse_config(screening.config);
  const Family* family = config ? find_family(config->family) : nullptr;
  return is_named(args, screening.device_class) || family == nullptr ||
         family->digest() != screening.family_digest ||
         ended.count({screening.device_class, screening.problem}) > 0;
}

// Answers how many go, or with --dry-run would go.
Result<std::size_t> prune_screenings(const CliArgs& args, std::vector<Screening> screenings,
                                     const std::vector<WinnerRecord>& records, WinnerStore& store) {
  std::set<RecordKey> ended;
  for (const WinnerRecord& record : records) {
    if (ends_screening(record)) ended.insert(key_of(record));
  }
  std::erase_if(screenings, [&](const Screening& it) { return !is_needless(args, it, ended); });
  if (!args.dry_run && !screenings.empty()) {
    if (Status status = store.erase_screenings(screenings); !status.ok()) return status;
  }
  return screenings.size();
}

// Invalid argument where a class that was named has nothing in the cache: a slip, which would pass
// for done.
Status check_device_classes(const CliArgs& args, const std::vector<WinnerRecord>& records,
                            const std::vector<Screening>& screenings) {
  std::set<std::string> classes;
  for (const WinnerRecord& record : records) classes.insert(record.device_class);
  for (const Screening& screening : screenings) classes.insert(screening.device_class);
  std::string names;
  for (const std::string& name : classes) names += (names.empty() ? "" : ", ") + name;
  for (const std::string& name : args.device_classes) {
    if (classes.count(name) > 0) continue;
    return Status(Code::kInvalidArgument,
                  "--device-class: the cache has nothing of '" + name + "'; " +
                      (names.empty() ? "it is empty" : "it knows " + names));
  }
  return {};
}

// The winners are gone from the file once the store is closed.
Status prune_winners(const CliArgs& args, const RuntimeOptions& options, Cli& cli, Pruned& pruned) {
  const OpenedStore opened = open_noting(options, cli);
  if (!args.dry_run) {
    if (Status keeps = check_keeps(options, *opened.store); !keeps.ok()) return keeps;
  }
  const auto records = opened.store->list();
  if (!records.ok()) return records.status();
  const auto screenings = opened.store->list_screenings();
  if (!screenings.ok()) return screenings.status();
  Status known = check_device_classes(args, *records, *screenings);
  if (!known.ok()) return known;
  const auto needless = prune_screenings(args, *screenings, *records, *opened.store);
  if (!needless.ok()) return needless.status();
  pruned.screenings = *needless;
  for (const WinnerRecord& record : *records) {
    if (cli.stop && cli.stop()) break;
    std::string why = why_dropped(args, record);
    if (why.empty()) {
      ++pruned.kept;
      continue;
    }
    pruned.dropped.push_back({record, std::move(why)});
  }
  if (args.dry_run || pruned.dropped.empty()) return {};
  std::vector<WinnerRecord> dropped;
  for (const DroppedWinner& winner : pruned.dropped) dropped.push_back(winner.record);
  return opened.store->erase_all(dropped);
}

Status prune_cache(const CliArgs& args, RuntimeOptions options, Cli& cli, Pruned& pruned) {
  options.site_cache.clear();
  const std::int64_t before = database_bytes(options.cache_dir);
  if (Status status = prune_winners(args, options, cli, pruned); !status.ok()) return status;
  if (!args.dry_run) {
    pruned.winner_bytes = std::max<std::int64_t>(0, before - database_bytes(options.cache_dir));
  }
  BinaryStoreOptions store;
  store.directory = options.cache_dir + "/binaries";
  store.read_only = options.read_only;
  if (args.max_bytes) store.cap_bytes = *args.max_bytes;
  BinaryStore binaries(store);
  pruned.binary_bytes = args.dry_run ? binaries.surplus_bytes() : binaries.trim();
  return {};
}

void print_dropped(const Pruned& pruned, Cli& cli) {
  for (const DroppedWinner& dropped : pruned.dropped) {
    cli.out << dropped.record.device_class << "  " << to_string(dropped.record.problem) << "  "
            << to_string(dropped.record.config) << ": " << dropped.why << '\n';
  }
}

void print_sums(const CliArgs& args, const Pruned& pruned, Cli& cli) {
  const char* verb = args.dry_run ? "would be " : "";
  cli.err << fmt::format("{} winners {}dropped, {} kept", pruned.dropped.size(), verb, pruned.kept);
  if (pruned.screenings > 0) {
    cli.err << fmt::format(", {} screenings {}dropped", pruned.screenings, verb);
  }
  if (!args.dry_run) cli.err << fmt::format(", {} freed", size_text(pruned.winner_bytes));
  cli.err << fmt::format("; {} of binaries {}freed\n", size_text(pruned.binary_bytes), verb);
}

Json pruned_json(const CliArgs& args, const Pruned& pruned) {
  Json json = {{"dry_run", args.dry_run},
               {"dropped", Json::array()},
               {"kept", pruned.kept},
               {"screenings_dropped", pruned.screenings},
               {"winners_freed_bytes", args.dry_run ? Json(nullptr) : Json(pruned.winner_bytes)},
               {"binaries_freed_bytes", pruned.binary_bytes}};
  for (const DroppedWinner& dropped : pruned.dropped) {
    json["dropped"].push_back({{"device_class", dropped.record.device_class},
                               {"problem", to_string(dropped.record.problem)},
                               {"config", to_string(dropped.record.config)},
                               {"reason", dropped.why}});
  }
  return json;
}

}  // namespace

int run_prune(const CliArgs& args, Cli& cli) {
  const auto options = options_to_look(args, cli);
  if (!options.ok()) return fail(args, cli, options.status());
  Pruned pruned;
  if (!options->cache_dir.empty()) {
    const Status status = prune_cache(args, *options, cli, pruned);
    if (!status.ok()) return fail(args, cli, status);
  } else if (const Status known = check_device_classes(args, {}, {}); !known.ok()) {
    return fail(args, cli, known);
  }
  if (args.json) {
    print_json(cli.out, pruned_json(args, pruned));
  } else {
    print_dropped(pruned, cli);
  }
  print_sums(args, pruned, cli);
  return cli.stop && cli.stop() ? kExitSomeFailed : kExitDone;
}

}  // namespace rowsmith
