// SPDX-License-Identifier: Apache-2.0
//
// `tune softmax`: the request, the devices that share it, and the report. Candidates run in worker
// processes (supervisor.h), never here.

#include "runtime/devices.h"
#include "tuner/cli_commands.h"
#include "tuner/cli_problem_list.h"
#include "tuner/progress.h"
#include "tuner/supervisor.h"
#include "tuner/tune_cli.h"

#include <rowsmith/text.h>
#include <rowsmith/winner_store.h>

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <ostream>
#include <thread>
#include <utility>

namespace rowsmith {
namespace {

bool is_done(const TuneOutcome& outcome) {
  return outcome.state == TuneOutcome::State::kTuned || outcome.state == TuneOutcome::State::kKept;
}

// The devices that --device stands for.
Result<std::vector<DeviceToTune>> requested_devices(const std::string& name) {
  if (name != "all") return std::vector<DeviceToTune>{{name, ""}};
  const DeviceList list = list_devices();
  std::vector<DeviceToTune> devices;
  for (const DeviceFacts& facts : list.devices) {
    if (facts.kind == "cuda") {
      devices.push_back({std::to_string(facts.ordinal), device_class(facts)});
    }
  }
  if (devices.empty())
    return Status(Code::kNoDevice, "--device all: " + list.why_no_gpu + "; " + kUseHost);
  return devices;
}

// What became of one problem on one device.
struct Row {
  std::size_t list_index = 0;  // its length for what buckets added
  std::string device;
  TuneOutcome outcome;
  Json search;
};

// What workers tell, as people see it while it happens; decisions are kept where JSON wants them.
class Display {
 public:
  Display(const CliArgs& args, const Supervision& what, Cli& cli)
      : args_(args), what_(what), cli_(cli) {
    // A terminal has one line for all.
    const std::size_t bars = cli.terminal ? 1 : what.shares.size();
    for (std::size_t i = 0; i < bars; ++i) bars_.emplace_back(cli.err, cli.terminal);
  }

  void show(std::size_t share, const TuneProgress& progress) {
    bars_[cli_.terminal ? 0 : share].update(progress,
                                            device_prefix(share) + short_name(progress.in_hand));
  }
  void explain(std::size_t share, const SearchEvent& event) {
    if (args_.json) {
      searches_[{share, event.problem}].push_back(explain_json(event));
      return;
    }
    clear();
    const std::pair now(share, event.problem);
    if (explained_ != now) cli_.out << device_prefix(share) << short_name(event.in_hand) << '\n';
    explained_ = now;
    cli_.out << explain_line(event) << '\n';
  }
  void note(std::size_t share, const std::string& text) {
    clear();
    cli_.err << "tune: " << device_prefix(share) << text << '\n';
  }
  // The decisions behind an outcome of the share, as an array.
  Json take_search(std::size_t share, std::size_t outcome) {
    Json search = std::move(searches_[{share, outcome}]);
    return search.is_null() ? Json::array() : search;
  }
  void clear() {
    for (Progress& bar : bars_) bar.finish();
  }

 private:
  std::string device_prefix(std::size_t share) const {
    return what_.shares.size() == 1 ? "" : "device " + what_.shares[share].device + ": ";
  }

  const CliArgs& args_;
  const Supervision& what_;
  Cli& cli_;
  std::deque<Progress> bars_;
  std::map<std::pair<std::size_t, std::size_t>, Json> searches_;  // by share and outcome
  std::optional<std::pair<std::size_t, std::size_t>> explained_;
};

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
      {"dirty", done ? Json(why_dirty(evidence)) : Json(nullptr)},
      {"config", done ? Json(to_string(outcome.record.config)) : Json(nullptr)},
      {"median_ns", ns_or_null(evidence.median_ns)},
      {"default_ns", ns_or_null(evidence.default_ns)},
      {"speedup_low", evidence.speedup_low > 0 ? Json(evidence.speedup_low) : Json(nullptr)},
      {"speedup_high", evidence.speedup_high > 0 ? Json(evidence.speedup_high) : Json(nullptr)},
      {"floor_ns", ns_or_null(evidence.floor_ns)},
      {"candidates", evidence.candidates},
      {"restored", outcome.restored},
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

// What tuning won over the default: the interval, where the finals gave one.
std::string gain_text(const Evidence& evidence) {
  if (evidence.cut) return "-";
  if (evidence.verdict == "default") {
    const bool another_led =
        evidence.runner_up_ns > 0 && evidence.runner_up_ns < evidence.median_ns;
    return another_led ? "within noise" : "not worth tuning";
  }
  if (evidence.speedup_low <= 0) return "-";
  return fmt::format("{:.1f} to {:.1f} %", 100 * (evidence.speedup_low - 1),
                     100 * (evidence.speedup_high - 1));
}

std::string floor_ratio_text(const Evidence& evidence) {
  if (evidence.floor_ns <= 0 || evidence.median_ns <= 0) return "-";
  return fmt::format(
      "{:.2f}", static_cast<double>(evidence.floor_ns) / static_cast<double>(evidence.median_ns));
}

// H, and the layout where it is not the one that -S and -H name.
std::string cols_text(const Problem& problem) {
  const Problem plain = contiguous_problem(problem.in, problem.out, problem.rows, problem.cols);
  const std::string cols = std::to_string(problem.cols);
  return problem == plain ? cols : cols + " (" + to_string(problem.layout) + ")";
}

void print_table(const std::vector<Row>& rows, Cli& cli) {
  std::vector<std::vector<std::string>> lines = {
      {"dtype", "S", "H", "device", "status", "verdict", "time", "gain", "floor/time", "config"}};
  for (const Row& row : rows) {
    const TuneOutcome& outcome = row.outcome;
    const Evidence& evidence = outcome.record.evidence;
    const bool done = is_done(outcome);
    lines.push_back({dtypes_to_string(outcome.problem.in, outcome.problem.out),
                     std::to_string(outcome.problem.rows), cols_text(outcome.problem),
                     row.device.empty() ? "0" : row.device, to_string(outcome.state),
                     done ? verdict_text(evidence) : "-", duration_to_string(evidence.median_ns),
                     done ? gain_text(evidence) : "-", floor_ratio_text(evidence),
                     done ? to_string(outcome.record.config) : outcome.status.to_string()});
  }
  cli.out << table_text(lines);
}

// The sum; with JSON also a sentence for each problem without a winner, which the table shows.
void print_summary(const std::vector<Row>& rows, double elapsed_s, bool json, Cli& cli) {
  std::size_t tuned = 0, kept = 0, skipped = 0, failed = 0, restored = 0;
  for (const Row& row : rows) {
    const TuneOutcome& outcome = row.outcome;
    tuned += outcome.state == TuneOutcome::State::kTuned;
    kept += outcome.state == TuneOutcome::State::kKept;
    skipped += outcome.state == TuneOutcome::State::kSkipped;
    failed += outcome.state == TuneOutcome::State::kFailed;
    restored += outcome.restored;
    if (json && !is_done(outcome)) {
      cli.err << fmt::format("tune: {} {}: {}\n", short_name(outcome.problem),
                             to_string(outcome.state), outcome.status.to_string());
    }
  }
  cli.err << fmt::format("{} tuned, {} kept, {} skipped, {} failed in {:.1f} s", tuned, kept,
                         skipped, failed, elapsed_s);
  if (restored > 0) cli.err << fmt::format("; {} screenings of earlier runs restored", restored);
  cli.err << '\n';
}

Supervision supervision_of(const CliArgs& args, const RuntimeOptions& options,
                           const std::vector<DeviceToTune>& devices, const ProblemList& list,
                           WinnerStore& store, Cli& cli) {
  Supervision what;
  what.program = cli.program;
  what.arguments = {"tune", "worker"};
  what.options = options;
  what.request.problems = list.problems;
  what.request.effort = args.effort;
  what.request.budget_s = args.budget_s;
  what.request.retune = args.retune;
  what.request.buckets = args.buckets;
  what.request.families = args.families;
  what.shares = share_out(devices, what.request);
  if (what.shares.size() > 1) {
    const auto workers = static_cast<unsigned>(what.shares.size());
    what.request.compile_threads =
        static_cast<int>(std::max(1u, std::thread::hardware_concurrency() / workers));
  }
  what.remember = [&store](const Rejection& rejection) { return store.put_rejection(rejection); };
  what.stop = cli.stop;
  return what;
}

// In the order of the list, then what buckets added; of each the devices in turn.
std::vector<Row> rows_of(const Supervision& what, SupervisedReport& report, Display& display) {
  std::vector<Row> rows;
  for (std::size_t share = 0; share < what.shares.size(); ++share) {
    const WorkShare& asked = what.shares[share];
    std::vector<TuneOutcome>& outcomes = report.shares[share].outcomes;
    for (std::size_t at = 0; at < outcomes.size(); ++at) {
      const bool listed = at < asked.problems.size();
      rows.push_back({listed ? asked.problems[at] : what.request.problems.size(), asked.device,
                      std::move(outcomes[at]), display.take_search(share, at)});
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.list_index < b.list_index; });
  return rows;
}

Json workers_json(const Supervision& what, const SupervisedReport& report) {
  Json workers = Json::array();
  for (std::size_t share = 0; share < what.shares.size(); ++share) {
    const std::string& device = what.shares[share].device;
    workers.push_back({{"device", device.empty() ? "0" : device},
                       {"started", report.shares[share].started},
                       {"died", report.shares[share].died},
                       {"start_s", report.shares[share].start_s}});
  }
  return workers;
}

// Ok where some device was open, or none was needed.
Status why_nothing_ran(const SupervisedReport& report) {
  for (const ShareReport& share : report.shares) {
    if (share.never_ran.ok()) return Status();
  }
  return report.shares.empty() ? Status() : report.shares.front().never_ran;
}

}  // namespace

int run_softmax(const CliArgs& args, Cli& cli) {
  const auto options = runtime_options(args);
  if (!options.ok()) return fail(args, cli, options.status());
  const auto list = requested_problems(args);
  if (!list.ok()) return fail(args, cli, list.status());
  print_broken(args, *list, cli);
  const auto devices = requested_devices(options->device);
  if (!devices.ok()) return fail(args, cli, devices.status());
  const OpenedStore opened = open_noting(*options, cli);
  const Status keeps = check_keeps(*options, *opened.store);
  if (!keeps.ok()) return fail(args, cli, keeps);

  Supervision what = supervision_of(args, *options, *devices, *list, *opened.store, cli);
  Display display(args, what, cli);
  what.progress = [&](std::size_t share, const TuneProgress& progress) {
    display.show(share, progress);
  };
  what.note = [&](std::size_t share, const std::string& text) { display.note(share, text); };
  if (args.explain_search) {
    what.explain = [&](std::size_t share, const SearchEvent& event) {
      display.explain(share, event);
    };
  }
  SupervisedReport report = supervise(what);
  display.clear();
  const Status nothing_ran = why_nothing_ran(report);
  if (!nothing_ran.ok()) return fail(args, cli, nothing_ran);

  const std::vector<Row> rows = rows_of(what, report, display);
  if (args.json) {
    Json problems = Json::array();
    for (const Row& row : rows) {
      problems.push_back(problem_json(row.device, row.outcome));
      if (args.explain_search) problems.back()["search"] = row.search;
    }
    print_json(cli.out, {{"problems", problems},
                         {"broken_lines", broken_json(*list)},
                         {"elapsed_s", report.elapsed_s},
                         {"interrupted", report.interrupted},
                         {"workers", workers_json(what, report)}});
  } else if (!rows.empty()) {
    print_table(rows, cli);
  }
  print_summary(rows, report.elapsed_s, args.json, cli);
  const bool all_done =
      std::all_of(rows.begin(), rows.end(), [](const Row& row) { return is_done(row.outcome); });
  return all_done && list->broken.empty() ? kExitDone : kExitSomeFailed;
}

}  // namespace rowsmith
