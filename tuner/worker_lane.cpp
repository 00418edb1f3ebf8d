// SPDX-License-Identifier: Apache-2.0
#include "tuner/worker_lane.h"

#include "kernel_templates/catalog.h"
#include "tuner/tune_problem.h"

#include <rowsmith/text.h>

#include <spdlog/fmt/fmt.h>

#include <csignal>
#include <utility>

namespace rowsmith {
namespace {

using State = TuneOutcome::State;

constexpr std::size_t kDeathsAProblem = 3;
constexpr int kFailedStarts = 2;
// From the last message to the end of the process: a driver that hangs in its cleaning up.
constexpr double kPartingS = 30;

// Sent by people and schedulers, never by what a candidate does.
bool is_request_to_end(int signal) {
  return signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
}

}  // namespace

WorkerLane::WorkerLane(const Supervision& what, std::size_t share, LaneClock& clock)
    : what_(what), share_(share), clock_(clock) {
  for (const std::size_t index : what.shares[share].problems) {
    waiting_.push_back(problems_.size());
    problems_.push_back(what.request.problems[index]);
  }
  report_.outcomes.resize(problems_.size());
}

void WorkerLane::note(const std::string& text) const {
  if (what_.note) what_.note(share_, text);
}

void WorkerLane::add_waits(std::vector<pollfd>& waited) const {
  if (!worker_ || gone_) return;
  waited.push_back({worker_->output(), POLLIN, 0});
  if (worker_->input() >= 0) waited.push_back({worker_->input(), POLLOUT, 0});
}

void WorkerLane::interrupt() {
  interrupted_ = true;
  if (worker_) {
    worker_->end_input();
  } else {
    finish_all(State::kSkipped, Status(Code::kNotTuned, "interrupted"));
  }
}

void WorkerLane::advance() {
  if (is_done()) return;
  if (!worker_) start();
  if (!worker_) return;
  if (!gone_ && !charge_) listen();
  if (!is_dying()) return;
  worker_->kill();
  if (const auto end = worker_->reap()) {
    worker_.reset();
    bury(*end);
    if (!waiting_.empty()) start();
  }
}

// --- Starting a worker ---

// Nothing where the request has no budget.
std::optional<double> WorkerLane::budget_left() const {
  if (what_.request.budget_s <= 0) return {};
  if (!clock_.ready_at_s) return what_.request.budget_s;
  // The next worker will count from its own start on.
  return what_.request.budget_s - (what_.now_s() - *clock_.ready_at_s) - report_.start_s;
}

void WorkerLane::start() {
  WorkerRequest request;
  if (const auto left = budget_left()) {
    if (*left <= 0) {
      return finish_all(State::kSkipped, Status(Code::kNotTuned, "the budget was spent"));
    }
    request.request.budget_s = *left;
  }
  request.options = what_.options;
  request.options.device = what_.shares[share_].device;
  sent_.assign(waiting_.begin(), waiting_.end());
  for (std::size_t at = 0; at < problems_.size(); ++at) {
    const bool waits = at >= waiting_.front();  // they are finished in order
    (waits ? request.request.problems : request.request.settled).push_back(problems_[at]);
  }
  request.request.effort = what_.request.effort;
  request.request.retune = what_.request.retune;
  request.request.buckets = what_.request.buckets;
  request.request.families = what_.request.families;
  request.request.compile_threads = what_.request.compile_threads;
  request.explain = static_cast<bool>(what_.explain);
  ready_ = ended_ = gone_ = false;
  start_failure_ = Status();
  charge_.reset();
  lost_.reset();
  on_device_.clear();
  heard_at_s_ = what_.now_s();
  auto started = WorkerProcess::start(what_.program, what_.arguments, to_line(request));
  if (!started.ok()) {
    start_failure_ = started.status();
    return start_failed(start_failure_);
  }
  ++report_.started;
  worker_.emplace(std::move(*started));
}

// --- While it runs ---

void WorkerLane::listen() {
  std::vector<std::string> lines;
  gone_ = !worker_->exchange(lines);
  for (const std::string& line : lines) {
    if (!charge_) hear(line);
  }
  const double silent_s = what_.now_s() - heard_at_s_;
  if (!gone_ && !charge_ && silent_s > patience_s()) {
    const std::string silence = fmt::format("silent for {:.0f} s", silent_s);
    charge_ = on_device_.empty() ? "hangs (" + silence + ")" : "was " + silence;
  }
}

double WorkerLane::patience_s() const {
  if (ended_) return kPartingS;
  // Between two problems that buckets add none is in hand.
  const Problem& last = waiting_.empty() ? problems_.back() : problem();
  return (on_device_.empty() ? what_.idle_limit_s : what_.limit_s)(last, device_class_);
}

void WorkerLane::hear(const std::string& line) {
  heard_at_s_ = what_.now_s();
  const auto message = parse_worker_message(line);
  if (!message.ok()) {
    charge_ = "wrote what is no message (" + message.status().message() + ")";
    return;
  }
  std::visit([this](const auto& it) { take(it); }, *message);
}

// Workers go through their problems in order, then through what buckets add.
bool WorkerLane::is_in_hand(std::size_t index, const Problem& problem) {
  if (waiting_.empty() && index == sent_.size() && what_.request.buckets) {
    sent_.push_back(problems_.size());
    waiting_.push_back(problems_.size());
    problems_.push_back(problem);
    report_.outcomes.emplace_back();
  }
  const bool known = !waiting_.empty() && index < sent_.size() &&
                     sent_[index] == waiting_.front() && problems_[sent_[index]] == problem;
  if (!known) charge_ = "told of a problem that is not its turn";
  return known;
}

void WorkerLane::take(const WorkerReady& ready) {
  ready_ = ever_ready_ = true;
  failed_starts_ = 0;
  device_class_ = ready.device_class;
  report_.start_s = ready.start_s;
  if (!clock_.ready_at_s) clock_.ready_at_s = what_.now_s();
}

void WorkerLane::take(const WorkerCannotStart& failed) {
  start_failure_ = failed.status;
}

void WorkerLane::take(const WorkerTrying& trying) {
  if (!is_in_hand(trying.problem, trying.in_hand)) return;
  const auto config = parse_config(trying.config);
  if (!trying.config.empty() && (!config || find_family(config->family) == nullptr)) {
    charge_ = "told of '" + trying.config + "', which is no config";
    return;
  }
  on_device_ = trying.config;
}

void WorkerLane::take(const TuneProgress& progress) {
  if (!is_in_hand(progress.problem, progress.in_hand) || !what_.progress) return;
  TuneProgress told = progress;
  told.problem = waiting_.front();
  told.problems = problems_.size();
  what_.progress(share_, told);
}

void WorkerLane::take(const SearchEvent& event) {
  if (!is_in_hand(event.problem, event.in_hand) || !what_.explain) return;
  SearchEvent told = event;
  told.problem = waiting_.front();
  what_.explain(share_, told);
}

void WorkerLane::take(const WorkerFinished& finished) {
  if (!is_in_hand(finished.problem, finished.outcome.problem)) return;
  if (finished.outcome.status.code() == Code::kDeviceLost) {
    charge_ = "lost the device (" + finished.outcome.status.message() + ")";
    lost_ = finished.outcome;
    return;
  }
  finish(finished.outcome);
}

void WorkerLane::take(const WorkerEnded& ended) {
  ended_ = true;
  interrupted_ = interrupted_ || ended.interrupted;
}

// --- When it is dead ---

void WorkerLane::bury(const WorkerProcess::End& end) {
  const std::string why = charge_.value_or(end.text);
  const bool in_peace = ended_ && !charge_ && waiting_.empty();
  if (!in_peace && start_failure_.ok()) ++report_.died;
  if (!charge_ && is_request_to_end(end.signal)) interrupted_ = true;
  if (waiting_.empty()) return;
  if (interrupted_) {
    return finish_all(State::kSkipped, Status(Code::kNotTuned, "interrupted"));
  }
  if (!ready_) {
    return start_failed(!start_failure_.ok()
                            ? start_failure_
                            : Status(Code::kInternal, "a worker process " + why +
                                                          " before it had opened its device"));
  }
  if (!on_device_.empty()) return blame(why);
  const std::string text = "the worker " + why + " while no candidate was on the device";
  note(to_string(problem()) + ": " + text);
  finish(lost_ ? *lost_ : outcome_of(problem(), State::kFailed, Status(Code::kInternal, text)));
}

// The candidate is remembered; the next worker leaves it out.
void WorkerLane::blame(const std::string& why) {
  const std::string family = parse_config(on_device_)->family;
  Rejection rejection{device_class_,     problem(),
                      on_device_,        std::string(find_family(family)->digest()),
                      Code::kDeviceLost, "the worker " + why + " while it ran this candidate"};
  note(to_string(problem()) + ": " + on_device_ + ": " + rejection.reason);
  const Status stored = what_.remember ? what_.remember(rejection) : Status();
  if (!stored.ok()) note(on_device_ + ": a rejection is not remembered: " + stored.message());
  SearchEvent event;
  event.kind = SearchEvent::Kind::kRestarted;
  event.problem = waiting_.front();
  event.in_hand = problem();
  event.config = on_device_;
  event.reason = on_device_ + ": " + rejection.reason;
  if (what_.explain) what_.explain(share_, event);
  blamed_.push_back(std::move(rejection));
  if (blamed_.size() < kDeathsAProblem) return;
  TuneOutcome outcome = outcome_of(
      problem(), State::kFailed,
      Status(Code::kDeviceLost, fmt::format("{} workers died on it, the last on {}: {}",
                                            blamed_.size(), on_device_, blamed_.back().reason)));
  outcome.rejections = std::move(blamed_);
  finish(std::move(outcome));
}

void WorkerLane::start_failed(const Status& why) {
  const bool told_at_once = !start_failure_.ok() && !ever_ready_;
  if (++failed_starts_ < kFailedStarts && !told_at_once) return note(why.message());
  if (!ever_ready_) report_.never_ran = why;
  finish_all(State::kFailed, why);
}

void WorkerLane::finish(TuneOutcome outcome) {
  report_.outcomes[waiting_.front()] = std::move(outcome);
  waiting_.pop_front();
  blamed_.clear();
  on_device_.clear();
}

void WorkerLane::finish_all(State state, const Status& why) {
  while (!waiting_.empty()) finish(outcome_of(problem(), state, why));
}

}  // namespace rowsmith
