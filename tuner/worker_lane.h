// SPDX-License-Identifier: Apache-2.0
//
// WorkerLane: one share of a supervised tuning: the worker that tunes it, what that told, and what
// follows from its death. Never waits: its owner polls for all lanes together.
#pragma once

#include "tuner/supervisor.h"
#include "tuner/worker_messages.h"
#include "tuner/worker_process.h"

#include <poll.h>

#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace rowsmith {

// What lanes share: when the first device was open, and the budget began.
struct LaneClock {
  std::optional<double> ready_at_s;
};

class WorkerLane {
 public:
  // Keeps both references. `what` has its clock and its limits.
  WorkerLane(const Supervision& what, std::size_t share, LaneClock& clock);

  bool is_done() const { return !worker_ && waiting_.empty(); }
  // Killed or gone, and still to be reaped.
  bool is_dying() const { return worker_ && (gone_ || charge_); }
  bool was_interrupted() const { return interrupted_; }
  void add_waits(std::vector<pollfd>& waited) const;
  // Starts a worker where one is due, hears what there is to hear, judges.
  void advance();
  // What has not begun is skipped; the worker ends what is in hand.
  void interrupt();
  // Requires is_done().
  ShareReport take_report() { return std::move(report_); }

 private:
  void start();
  std::optional<double> budget_left() const;
  void listen();
  void hear(const std::string& line);
  void take(const WorkerReady& ready);
  void take(const WorkerCannotStart& failed);
  void take(const WorkerTrying& trying);
  void take(const TuneProgress& progress);
  void take(const SearchEvent& event);
  void take(const WorkerFinished& finished);
  void take(const WorkerEnded& ended);
  bool is_in_hand(std::size_t index, const Problem& problem);
  double patience_s() const;

  void bury(const WorkerProcess::End& end);
  void blame(const std::string& why);
  void start_failed(const Status& why);
  void finish(TuneOutcome outcome);
  void finish_all(TuneOutcome::State state, const Status& why);
  void note(const std::string& text) const;
  const Problem& problem() const { return problems_[waiting_.front()]; }  // in hand

  const Supervision& what_;
  const std::size_t share_;
  LaneClock& clock_;
  ShareReport report_;
  std::vector<Problem> problems_;    // the share's, then what buckets added
  std::deque<std::size_t> waiting_;  // their places; the first is in hand
  bool interrupted_ = false;
  int failed_starts_ = 0;  // in a row
  bool ever_ready_ = false;

  // --- Of the problem in hand ---
  std::vector<Rejection> blamed_;  // candidates that workers died on

  // --- Of the worker that runs ---
  std::optional<WorkerProcess> worker_;
  std::vector<std::size_t> sent_;  // places by the index that the worker knows
  bool ready_ = false, ended_ = false, gone_ = false;
  Status start_failure_;               // as it told
  std::optional<std::string> charge_;  // why it is being killed: "was silent for 30 s"
  std::optional<TuneOutcome> lost_;    // the outcome that told of a lost device
  std::string device_class_, on_device_;
  double heard_at_s_ = 0;
};

}  // namespace rowsmith
