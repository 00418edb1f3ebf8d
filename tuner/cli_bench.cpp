// SPDX-License-Identifier: Apache-2.0
//
// `tune bench`: times stored winners again and says which no longer hold. Changes nothing.

#include "tuner/cli_commands.h"
#include "tuner/cli_problem_list.h"
#include "tuner/cli_retime.h"
#include "tuner/progress.h"
#include "tuner/tune_cli.h"
#include "tuner/tuning_lock.h"

#include <rowsmith/text.h>

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>
#include <ostream>

namespace rowsmith {
namespace {

constexpr double kLockWaitS = 10;

struct BenchRow {
  Problem problem;
  std::optional<WinnerRecord> record;  // none: no winner is stored
  Retimed retimed;
  std::string dirty;  // why the times are in doubt
  bool holds() const { return record && retimed.state == Retimed::State::kHolds; }
  std::string status() const { return record ? to_string(retimed.state) : "absent"; }
};

// The problems that were named, else those of every winner of the device's class.
Result<std::vector<BenchRow>> rows_to_bench(const ProblemList* named, const Session& session) {
  const std::string own_class = device_class(session.device->facts());
  std::vector<BenchRow> rows;
  if (named == nullptr) {
    const auto records = session.store->list();
    if (!records.ok()) return records.status();
    for (const WinnerRecord& record : *records) {
      if (record.device_class == own_class) rows.push_back({record.problem, record, {}});
    }
    return rows;
  }
  for (const Problem& problem : named->problems) {
    const auto record = session.store->find(own_class, problem);
    if (!record.ok()) return record.status();
    rows.push_back({problem, *record, {}});
  }
  return rows;
}

Evidence evidence_of(const Retimed& retimed, bool contended) {
  Evidence evidence;
  if (retimed.winner_ns == 0) return evidence;
  evidence.contended = contended;
  retimed.clocks.tell(evidence);
  return evidence;
}

// Times the rows until asked to stop; the rest are dropped.
void bench_rows(const Session& session, bool contended, Cli& cli, std::vector<BenchRow>& rows) {
  FloorMeter floor;
  Progress bar(cli.err, cli.terminal);
  std::size_t done = 0;
  for (BenchRow& row : rows) {
    if (row.record) {
      TuneProgress progress;
      progress.problem = done;
      progress.problems = rows.size();
      bar.update(progress, short_name(row.problem));
      row.retimed = retime(session, *row.record, floor, cli.stop, steady_now_s);
      row.dirty = why_dirty(evidence_of(row.retimed, contended));
    }
    if (cli.stop && cli.stop()) break;
    ++done;
  }
  rows.resize(done);
}

// Why the stored result is in doubt, and softmax would tune it again.
std::string stored_dirty(const BenchRow& row) {
  return row.record ? why_dirty(row.record->evidence) : std::string();
}

Json bench_row_json(const BenchRow& row) {
  const Retimed& retimed = row.retimed;
  const bool timed = retimed.winner_ns > 0;
  const PairedComparison& ratio = retimed.against_default;
  return {{"S", row.problem.rows},
          {"H", row.problem.cols},
          {"dtype", dtypes_to_string(row.problem.in, row.problem.out)},
          {"layout", to_string(row.problem.layout)},
          {"status", row.status()},
          {"config", row.record ? Json(to_string(row.record->config)) : Json(nullptr)},
          {"stored_ns", ns_or_null(row.record ? row.record->evidence.median_ns : 0)},
          {"median_ns", ns_or_null(retimed.winner_ns)},
          {"default_ns", ns_or_null(retimed.default_ns)},
          {"floor_ns", ns_or_null(retimed.floor_ns)},
          {"ratio_to_default", timed ? Json(ratio.ratio) : Json(nullptr)},
          {"ratio_low", timed ? Json(ratio.interval.low) : Json(nullptr)},
          {"ratio_high", timed ? Json(ratio.interval.high) : Json(nullptr)},
          {"dirty", row.dirty.empty() ? Json(nullptr) : Json(row.dirty)},
          {"stored_dirty", stored_dirty(row).empty() ? Json(nullptr) : Json(stored_dirty(row))},
          {"reason", retimed.status.ok() ? Json(nullptr) : Json(retimed.status.to_string())}};
}

std::string bench_table(const std::vector<BenchRow>& rows) {
  std::vector<std::vector<std::string>> cells = {{"dtype", "S", "H", "layout", "status", "stored",
                                                  "time", "default", "floor", "time/default",
                                                  "config"}};
  for (const BenchRow& row : rows) {
    const Retimed& retimed = row.retimed;
    const PairedComparison& ratio = retimed.against_default;
    const std::string against = retimed.winner_ns == 0
                                    ? "-"
                                    : fmt::format("{:.3f} ({:.3f} to {:.3f})", ratio.ratio,
                                                  ratio.interval.low, ratio.interval.high);
    std::string why = retimed.status.ok() ? "" : ": " + retimed.status.to_string();
    if (!row.dirty.empty()) why += " (dirty: " + row.dirty + ")";
    if (!stored_dirty(row).empty()) why += " (tuned dirty: " + stored_dirty(row) + ")";
    cells.push_back({dtypes_to_string(row.problem.in, row.problem.out),
                     std::to_string(row.problem.rows), std::to_string(row.problem.cols),
                     to_string(row.problem.layout), row.status(),
                     duration_to_string(row.record ? row.record->evidence.median_ns : 0),
                     duration_to_string(retimed.winner_ns), duration_to_string(retimed.default_ns),
                     duration_to_string(retimed.floor_ns), against,
                     row.record ? to_string(row.record->config) + why : "-"});
  }
  return table_text(cells);
}

}  // namespace

int run_bench(const CliArgs& args, Cli& cli) {
  const auto options = options_to_look(args, cli);
  if (!options.ok()) return fail(args, cli, options.status());
  if (!args.cache.empty() && options->cache_dir.empty()) {
    return fail(args, cli, Status(Code::kNotTuned, "--cache: there is nothing to time"));
  }
  std::optional<ProblemList> named;
  if (!args.from.empty() || !args.rows.empty() || !args.cols.empty() || !args.dtypes.empty()) {
    auto list = requested_problems(args);
    if (!list.ok()) return fail(args, cli, list.status());
    named = std::move(*list);
    print_broken(args, *named, cli);
  }
  const auto session = open_compiling_session(*options);
  if (!session.ok()) return fail(args, cli, session.status());
  const DeviceFacts& facts = session->device->facts();
  auto rows = rows_to_bench(named ? &*named : nullptr, *session);
  if (!rows.ok()) return fail(args, cli, rows.status());
  if (!named && rows->empty()) {
    return fail(args, cli,
                Status(Code::kNotTuned,
                       "no winner of this device is stored in " + session->store->location()));
  }
  const std::size_t wanted = rows->size();
  const TuningLock lock("", facts.uuid, kLockWaitS, cli.stop);
  bench_rows(*session, lock.contended(), cli, *rows);

  const auto holding = static_cast<std::size_t>(
      std::count_if(rows->begin(), rows->end(), [](const BenchRow& row) { return row.holds(); }));
  if (args.json) {
    Json list = Json::array();
    for (const BenchRow& row : *rows) list.push_back(bench_row_json(row));
    print_json(cli.out, {{"winners", list},
                         {"broken_lines", named ? broken_json(*named) : Json::array()},
                         {"device", facts.name},
                         {"device_class", device_class(facts)},
                         {"contended", lock.contended()},
                         {"interrupted", rows->size() < wanted}});
  } else if (!rows->empty()) {
    cli.out << bench_table(*rows);
  }
  if (lock.contended())
    cli.err << "tune: another process tunes on this device: times are not its own\n";
  cli.err << fmt::format("{} of {} winners hold on {}", holding, wanted, facts.name);
  cli.err << (holding < wanted
                  ? "; softmax tunes what is absent, softmax --retune what no longer holds\n"
                  : "\n");
  return holding == wanted && (!named || named->broken.empty()) ? kExitDone : kExitSomeFailed;
}

}  // namespace rowsmith
