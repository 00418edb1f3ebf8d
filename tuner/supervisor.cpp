// SPDX-License-Identifier: Apache-2.0
#include "tuner/supervisor.h"

#include "tuner/clocks.h"
#include "tuner/worker_lane.h"

#include <rowsmith/text.h>

#include <poll.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

namespace rowsmith {
namespace {

// How soon a call of `stop` is noticed that no signal announced, and the end of one that was
// killed.
constexpr int kPollMs = 100, kReapMs = 5;

// By problem: its place among what is dealt. Buckets look between the S of an H, which stay
// together.
std::vector<std::size_t> turns_of(const TuneRequest& request) {
  std::vector<std::size_t> turns;
  std::map<std::string, std::size_t> frames;
  for (Problem frame : request.problems) {
    frame.rows = 0;
    const auto [at, added] = frames.try_emplace(to_string(frame), frames.size());
    turns.push_back(request.buckets ? at->second : turns.size());
  }
  return turns;
}

using Lanes = std::vector<std::unique_ptr<WorkerLane>>;

// Until a worker says something, or a while has passed.
void wait_for_news(const Lanes& lanes) {
  std::vector<pollfd> waited;
  int timeout_ms = kPollMs;
  for (const auto& lane : lanes) {
    lane->add_waits(waited);
    if (lane->is_dying()) timeout_ms = kReapMs;
  }
  ::poll(waited.data(), waited.size(), timeout_ms);
}

}  // namespace

std::vector<WorkShare> share_out(const std::vector<DeviceToTune>& devices,
                                 const TuneRequest& request) {
  const std::vector<std::size_t> turns = turns_of(request);
  std::map<std::string, std::size_t> equal, taken;
  for (const DeviceToTune& device : devices) ++equal[device.kind];
  std::vector<WorkShare> shares;
  for (const DeviceToTune& device : devices) {
    WorkShare share{device.name, {}};
    const std::size_t own = taken[device.kind]++;
    for (std::size_t i = 0; i < turns.size(); ++i) {
      if (turns[i] % equal[device.kind] == own) share.problems.push_back(i);
    }
    if (!share.problems.empty()) shares.push_back(std::move(share));
  }
  return shares;
}

double silence_limit_s(const Problem& problem, const std::string& device_class) {
  const double elements = static_cast<double>(problem.rows) * static_cast<double>(problem.cols);
  if (device_class == "host") return 600 + elements / 1e4;
  return 30 + elements * static_cast<double>(size_of(problem.in) + size_of(problem.out)) / 1e8;
}

double idle_limit_s(const Problem& problem, const std::string& device_class) {
  return (device_class == "host" ? 1800 : 600) + silence_limit_s(problem, device_class);
}

SupervisedReport supervise(const Supervision& asked) {
  Supervision what = asked;
  if (!what.now_s) what.now_s = steady_now_s;
  if (!what.limit_s) what.limit_s = silence_limit_s;
  if (!what.idle_limit_s) what.idle_limit_s = idle_limit_s;
  SupervisedReport report;
  const double start_s = what.now_s();
  LaneClock clock;
  Lanes lanes;
  for (std::size_t share = 0; share < what.shares.size(); ++share) {
    lanes.push_back(std::make_unique<WorkerLane>(what, share, clock));
  }
  const auto is_done = [](const auto& lane) { return lane->is_done(); };
  while (!std::all_of(lanes.begin(), lanes.end(), is_done)) {
    if (what.stop && what.stop() && !report.interrupted) {
      report.interrupted = true;
      for (const auto& lane : lanes) lane->interrupt();
    }
    for (const auto& lane : lanes) lane->advance();
    if (!std::all_of(lanes.begin(), lanes.end(), is_done)) wait_for_news(lanes);
  }
  for (const auto& lane : lanes) {
    report.interrupted = report.interrupted || lane->was_interrupted();
    report.shares.push_back(lane->take_report());
  }
  report.elapsed_s = what.now_s() - start_s;
  return report;
}

}  // namespace rowsmith
