// SPDX-License-Identifier: Apache-2.0
#include "tuner/worker.h"

#include <rowsmith/text.h>

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>

namespace rowsmith {
namespace {

// Each sample makes progress, and people read none of it faster.
constexpr std::chrono::milliseconds kBetweenProgress{50};

// Whether the other side has closed it. What may still come on it is passed over.
bool has_ended(int in) {
  pollfd waited{in, POLLIN, 0};
  if (::poll(&waited, 1, 0) <= 0) return false;
  char byte;
  return ::read(in, &byte, 1) <= 0;
}

// Progress at a bearable rate, the first of each problem always.
class ProgressTeller {
 public:
  explicit ProgressTeller(int out) : out_(out) {}
  void operator()(const TuneProgress& progress) {
    const auto now = std::chrono::steady_clock::now();
    if (progress.problem + 1 == told_ && now - last_ < kBetweenProgress) return;
    told_ = progress.problem + 1;
    last_ = now;
    write_worker_message(out_, progress);
  }

 private:
  const int out_;
  std::size_t told_ = 0;  // index + 1
  std::chrono::steady_clock::time_point last_;
};

}  // namespace

bool write_worker_message(int out, const WorkerMessage& message) {
  return write_line(out, to_line(message));
}

bool write_line(int out, const std::string& line) {
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t count = ::write(out, line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

std::optional<std::string> read_line(int in) {
  std::string line;
  char buffer[1 << 16];
  while (line.empty() || line.back() != '\n') {
    const ssize_t count = ::read(in, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return {};
    line.append(buffer, static_cast<std::size_t>(count));
  }
  line.pop_back();
  return line;
}

Result<WorkerRequest> read_worker_request(int in) {
  const std::optional<std::string> line = read_line(in);
  if (!line) return Status(Code::kInternal, "a worker's request ended before it was whole");
  return parse_worker_request(*line);
}

void serve_request(const Session& session, const WorkerRequest& request, int in, int out,
                   double start_s, const std::function<bool()>& stop, const TuneSettings& around) {
  write_worker_message(out, WorkerReady{device_class(session.device->facts()), start_s});
  TuneSettings settings = around;
  settings.trying = [out](std::size_t index, const Problem& problem, const std::string& config) {
    write_worker_message(out, WorkerTrying{index, problem, config});
  };
  TuneRequest told = request.request;
  if (request.explain) {
    told.explain = [out](const SearchEvent& event) { write_worker_message(out, event); };
  }
  bool lost = false;
  told.finished = [&](std::size_t problem, const TuneOutcome& outcome) {
    if (!lost) write_worker_message(out, WorkerFinished{problem, outcome});
    lost = lost || outcome.status.code() == Code::kDeviceLost;
  };
  const TuneReport report = tune_all(
      session, told, ProgressTeller(out), [&] { return (stop && stop()) || has_ended(in); },
      settings);
  if (!lost) write_worker_message(out, WorkerEnded{report.interrupted});
}

}  // namespace rowsmith
