// SPDX-License-Identifier: Apache-2.0
//
// `tune list`, `why` and `space`: look, change nothing.

#include "cache/exchange.h"
#include "kernel_templates/catalog.h"
#include "runtime/devices.h"
#include "tuner/cli_commands.h"
#include "tuner/progress.h"
#include "tuner/tune_cli.h"

#include <rowsmith/text.h>
#include <rowsmith/winner_store.h>

#include <algorithm>
#include <ostream>

namespace rowsmith {
namespace {

Json winner_json(const WinnerRecord& record) {
  Json json = {{"device_class", record.device_class},
               {"S", record.problem.rows},
               {"H", record.problem.cols},
               {"dtype", dtypes_to_string(record.problem.in, record.problem.out)},
               {"layout", to_string(record.problem.layout)},
               {"config", to_string(record.config)},
               {"family_digest", record.family_digest}};
  json.update(Json::parse(evidence_to_json(record.evidence)));
  const std::string dirty = why_dirty(record.evidence);
  json["site"] = record.site.empty() ? Json(nullptr) : Json(record.site);
  json["dirty"] = dirty.empty() ? Json(nullptr) : Json(dirty);
  return json;
}

// The facts that `space` enumerates for: an architecture's nominal ones, or a device's own.
Result<DeviceFacts> facts_of(const CliArgs& args) {
  if (args.archs.size() > 1) {
    return Status(Code::kInvalidArgument, "--arch: space takes one architecture");
  }
  if (!args.archs.empty()) {
    if (const Status status = check_arch(args.archs.front()); !status.ok()) return status;
    return nominal_facts(args.archs.front());
  }
  const auto options = runtime_options(args);
  if (!options.ok()) return options.status();
  const auto device = open_device(options->device);
  if (!device.ok()) {
    return Status(device.status().code(),
                  device.status().message() + " (--arch sm_90 needs no GPU)");
  }
  return (*device)->facts();
}

}  // namespace

int run_list(const CliArgs& args, Cli& cli) {
  const auto opened = open_to_look(args, cli);
  if (!opened.ok()) return fail(args, cli, opened.status());
  const auto records = opened->store->list();
  if (!records.ok()) return fail(args, cli, records.status());
  if (args.json) {
    Json winners = Json::array();
    for (const WinnerRecord& record : *records) winners.push_back(winner_json(record));
    print_json(cli.out, Json::object({{"winners", winners}}));
    return kExitDone;
  }
  const bool has_site =
      std::any_of(records->begin(), records->end(),
                  [](const WinnerRecord& record) { return !record.site.empty(); });
  std::vector<std::vector<std::string>> rows = {
      {"dtype", "S", "H", "device class", "layout", "time", "verdict", "config"}};
  if (has_site) rows.front().push_back("site");
  for (const WinnerRecord& record : *records) {
    rows.push_back({dtypes_to_string(record.problem.in, record.problem.out),
                    std::to_string(record.problem.rows), std::to_string(record.problem.cols),
                    record.device_class, to_string(record.problem.layout),
                    duration_to_string(record.evidence.median_ns), verdict_text(record.evidence),
                    to_string(record.config)});
    if (has_site) rows.back().push_back(record.site);
  }
  if (rows.size() > 1) cli.out << table_text(rows);
  cli.err << records->size() << " winners" << place_of(*opened->store) << '\n';
  return kExitDone;
}

int run_why(const CliArgs& args, Cli& cli) {
  auto options = options_to_look(args, cli);
  if (!options.ok()) return fail(args, cli, options.status());
  const auto problem = single_problem(args);
  if (!problem.ok()) return fail(args, cli, problem.status());
  options->on_miss = OnMiss::kDefault;
  const auto runtime = Runtime::open(*options);
  if (!runtime.ok()) return fail(args, cli, runtime.status());
  const auto explanation = (*runtime)->explain(*problem);
  if (!explanation.ok()) return fail(args, cli, explanation.status());
  if (args.json) {
    print_json(cli.out, {{"source", to_string(explanation->source)},
                         {"config", to_string(explanation->config)},
                         {"reasons", explanation->reasons},
                         {"median_ns", ns_or_null(explanation->median_ns)},
                         {"device", (*runtime)->device().name},
                         {"device_class", device_class((*runtime)->device())}});
    return kExitDone;
  }
  cli.out << to_string(explanation->source) << ": " << to_string(explanation->config) << '\n';
  for (const std::string& reason : explanation->reasons) cli.out << "  " << reason << '\n';
  return kExitDone;
}

int run_space(const CliArgs& args, Cli& cli) {
  const auto problem = single_problem(args);
  if (!problem.ok()) return fail(args, cli, problem.status());
  const auto facts = facts_of(args);
  if (!facts.ok()) return fail(args, cli, facts.status());
  if (const Status status = check_supported(problem->in, problem->out); !status.ok()) {
    return fail(args, cli, status);
  }
  const std::vector<Config> configs = legal_configs(*problem, *facts);
  if (args.json) {
    Json json = {{"count", configs.size()},
                 {"device_class", device_class(*facts)},
                 {"configs", Json::array()}};
    for (const Config& config : configs) {
      json["configs"].push_back({{"family", config.family}, {"config", to_string(config)}});
    }
    print_json(cli.out, json);
    return kExitDone;
  }
  for (const Config& config : configs) cli.out << to_string(config) << '\n';
  cli.err << configs.size() << " configs for " << to_string(*problem) << " on "
          << device_class(*facts) << '\n';
  return kExitDone;
}

}  // namespace rowsmith
