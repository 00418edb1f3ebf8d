// SPDX-License-Identifier: Apache-2.0
//
// `tune softmax`: the request, the devices it goes to, and the report.

#include "runtime/devices.h"
#include "tuner/cli_commands.h"
#include "tuner/cli_problem_list.h"
#include "tuner/progress.h"
#include "tuner/tune_cli.h"

#include <rowsmith/text.h>
#include <rowsmith/winner_store.h>

#include <spdlog/fmt/fmt.h>

#include <ostream>
#include <utility>

namespace rowsmith {
namespace {

bool is_done(const TuneOutcome& outcome) {
  return outcome.state == TuneOutcome::State::kTuned || outcome.state == TuneOutcome::State::kKept;
}

// The outcomes of one device.
struct DeviceReport {
  std::string device;
  TuneReport report;
  std::vector<Json> searches = {};  // by problem: its decisions, with --explain-search
};

// The names that --device stands for.
Result<std::vector<std::string>> device_names(const std::string& name) {
  if (name != "all") return std::vector<std::string>{name};
  const DeviceList list = list_devices();
  std::vector<std::string> names;
  for (const DeviceFacts& facts : list.devices) {
    if (facts.kind == "cuda") names.push_back(std::to_string(facts.ordinal));
  }
  if (names.empty()) return Status(Code::kNoDevice, "--device all: " + list.why_no_gpu);
  return names;
}

Json problem_json(const std::string& device, const TuneOutcome& outcome) {
  const Evidence& evidence = outcome.record.evidence;
  const bool done = is_done(outcome);
  Json json = {
      {"S", outcome.problem.rows},
      {"H", outcome.problem.cols},
      {"dtype", dtypes_to_string(outcome.problem.in, outcome.problem.out)},
      {"device", device.empty() ? "0" : device},
      {"status", to_string(outcome.state)},
      {"verdict", done ? Json(evidence.verdict) : Json(nullptr)},
      {"config", done ? Json(to_string(outcome.record.config)) : Json(nullptr)},
      {"median_ns", ns_or_null(evidence.median_ns)},
      {"default_ns", ns_or_null(evidence.default_ns)},
      {"floor_ns", ns_or_null(evidence.floor_ns)},
      {"candidates", evidence.candidates},
      {"rejected", done ? evidence.rejected : static_cast<std::int64_t>(outcome.rejections.size())},
      {"error_ratio", done ? Json(evidence.error_ratio) : Json(nullptr)},
      {"max_error_ulp", done ? Json(evidence.max_error_ulp) : Json(nullptr)},
      {"reason", done ? Json(nullptr) : Json(outcome.status.to_string())},
      {"rejections", Json::array()}};
  for (const Rejection& rejection : outcome.rejections) {
    json["rejections"].push_back({{"config", rejection.config},
                                  {"code", to_string(rejection.code)},
                                  {"reason", rejection.reason}});
  }
  return json;
}

void print_table(const std::vector<DeviceReport>& reports, Cli& cli) {
  std::vector<std::vector<std::string>> rows = {
      {"dtype", "S", "H", "device", "status", "verdict", "time", "default", "floor", "config"}};
  for (const auto& [device, report, searches] : reports) {
    for (const TuneOutcome& outcome : report.outcomes) {
      const Evidence& evidence = outcome.record.evidence;
      const bool done = is_done(outcome);
      rows.push_back({dtypes_to_string(outcome.problem.in, outcome.problem.out),
                      std::to_string(outcome.problem.rows), std::to_string(outcome.problem.cols),
                      device.empty() ? "0" : device, to_string(outcome.state),
                      done ? evidence.verdict : "-", format_ns(evidence.median_ns),
                      format_ns(evidence.default_ns), format_ns(evidence.floor_ns),
                      done ? to_string(outcome.record.config) : outcome.status.to_string()});
    }
  }
  cli.out << table_text(rows);
}

// The sum; with JSON also a sentence for each problem without a winner, which the table shows.
void print_summary(const std::vector<DeviceReport>& reports, double elapsed_s, bool json,
                   Cli& cli) {
  std::size_t tuned = 0, kept = 0, skipped = 0, failed = 0;
  for (const auto& [device, report, searches] : reports) {
    for (const TuneOutcome& outcome : report.outcomes) {
      tuned += outcome.state == TuneOutcome::State::kTuned;
      kept += outcome.state == TuneOutcome::State::kKept;
      skipped += outcome.state == TuneOutcome::State::kSkipped;
      failed += outcome.state == TuneOutcome::State::kFailed;
      if (json && !is_done(outcome)) {
        cli.err << fmt::format("tune: {} {}: {}\n", short_name(outcome.problem),
                               to_string(outcome.state), outcome.status.to_string());
      }
    }
  }
  cli.err << fmt::format("{} tuned, {} kept, {} skipped, {} failed in {:.1f} s\n", tuned, kept,
                         skipped, failed, elapsed_s);
}

// Tunes on one device after the other; the budget is shared. Fails as the first device that could
// not be used at all.
Result<std::vector<DeviceReport>> tune_devices(const CliArgs& args, RuntimeOptions options,
                                               const std::vector<std::string>& names,
                                               const std::vector<Problem>& problems, Cli& cli) {
  std::vector<DeviceReport> reports;
  double spent_s = 0;
  for (const std::string& name : names) {
    TuneRequest request;
    std::size_t explained = std::string::npos;  // none yet
    request.problems = problems;
    request.effort = args.effort;
    request.retune = args.retune;
    request.buckets = args.buckets;
    request.families = args.families;
    // A budget of 0 would mean none: a spent one becomes a sliver, which skips what is left.
    if (args.budget_s > 0) request.budget_s = std::max(args.budget_s - spent_s, 1e-3);
    options.device = name;
    Progress bar(cli.err, cli.terminal);
    std::vector<Json> searches;
    if (args.explain_search) {
      request.explain = [&](const SearchEvent& event) {
        if (args.json) {
          if (event.problem >= searches.size()) searches.resize(event.problem + 1, Json::array());
          searches[event.problem].push_back(explain_json(event));
          return;
        }
        bar.finish();
        if (std::exchange(explained, event.problem) != event.problem) {
          cli.out << short_name(event.in_hand) << '\n';
        }
        cli.out << explain_line(event) << '\n';
      };
    }
    auto report = tune(
        options, request,
        [&](const TuneProgress& progress) { bar.update(progress, short_name(progress.in_hand)); },
        cli.stop);
    if (!report.ok()) return report.status();
    spent_s += report->elapsed_s;
    searches.resize(report->outcomes.size(), Json::array());
    const bool interrupted = report->interrupted;
    reports.push_back({name, std::move(report).value(), std::move(searches)});
    if (interrupted) break;
  }
  return reports;
}

}  // namespace

int run_softmax(const CliArgs& args, Cli& cli) {
  const auto options = runtime_options(args);
  if (!options.ok()) return fail(args, cli, options.status());
  const auto list = requested_problems(args);
  if (!list.ok()) return fail(args, cli, list.status());
  print_broken(args, *list, cli);
  auto names = device_names(options->device);
  if (!names.ok()) return fail(args, cli, names.status());
  const Status keeps = check_keeps(*options, *open_noting(*options, cli).store);
  if (!keeps.ok()) return fail(args, cli, keeps);
  if (list->problems.empty()) names->clear();  // a shard may have none; no device is opened
  const auto reports = tune_devices(args, *options, *names, list->problems, cli);
  if (!reports.ok()) return fail(args, cli, reports.status());

  double elapsed_s = 0;
  bool all_done = reports->size() == names->size() && list->broken.empty(), interrupted = false;
  Json rows = Json::array();
  for (const auto& [device, report, searches] : *reports) {
    elapsed_s += report.elapsed_s;
    interrupted = interrupted || report.interrupted;
    for (std::size_t i = 0; i < report.outcomes.size(); ++i) {
      all_done = all_done && is_done(report.outcomes[i]);
      rows.push_back(problem_json(device, report.outcomes[i]));
      if (args.explain_search) rows.back()["search"] = searches[i];
    }
  }
  if (args.json) {
    print_json(cli.out, {{"problems", rows},
                         {"broken_lines", broken_json(*list)},
                         {"elapsed_s", elapsed_s},
                         {"interrupted", interrupted}});
  } else if (!list->problems.empty()) {
    print_table(*reports, cli);
  }
  print_summary(*reports, elapsed_s, args.json, cli);
  return all_done ? kExitDone : kExitSomeFailed;
}

}  // namespace rowsmith
