// SPDX-License-Identifier: Apache-2.0
#include "tuner/compiler_processes.h"

#include "runtime/log.h"
#include "runtime/nvrtc.h"
#include "tuner/compiler_messages.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <thread>
#include <utility>

namespace rowsmith {
namespace {

constexpr int kEndPollMs = 1;

// Its next line; nothing where its output ended before.
std::optional<std::string> next_line(WorkerProcess& child) {
  std::vector<std::string> lines;
  while (true) {
    const bool open = child.exchange(lines);
    if (!lines.empty()) return std::move(lines.front());
    if (!open) return {};
    pollfd waited[] = {{child.output(), POLLIN, 0}, {child.input(), POLLOUT, 0}};
    ::poll(waited, 2, -1);
  }
}

// Of one whose output has ended: a kill comes too late to change how.
WorkerProcess::End end_of(WorkerProcess& child) {
  child.kill();
  while (true) {
    if (const auto end = child.reap()) return *end;
    ::poll(nullptr, 0, kEndPollMs);
  }
}

}  // namespace

CompilerProcesses::CompilerProcesses(const std::string& program,
                                     const std::vector<std::string>& arguments, std::size_t count) {
  idle_.reserve(count);
  while (idle_.size() < count) {
    auto child = WorkerProcess::start(program, arguments, "");
    if (!child.ok()) {
      log().warn("{}; {} of {} compile", child.status().message(), idle_.size(), count);
      break;
    }
    idle_.push_back(std::move(*child));
  }
  started_ = idle_.size();
}

// All before the first is waited for.
CompilerProcesses::~CompilerProcesses() {
  for (WorkerProcess& child : idle_) child.kill();
}

Result<Binary> CompilerProcesses::compile(const Program& program, int capability) {
  std::optional<WorkerProcess> child;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      child.emplace(std::move(idle_.back()));
      idle_.pop_back();
    }
  }
  if (!child) return nvrtc_compile(program, capability);
  child->write(to_line(CompileRequest{program, capability}));
  const std::optional<std::string> line = next_line(*child);
  Result<CompileAnswer> answer = Status(Code::kInternal, "no answer");
  if (line) {
    answer = parse_compile_answer(*line);
  } else {
    const WorkerProcess::End end = end_of(*child);
    // From outside, as by the out-of-memory killer: no fault of the program.
    if (end.signal == SIGKILL || end.signal == SIGTERM) return nvrtc_compile(program, capability);
    answer = Status(Code::kInternal, "its compiler process " + end.text);
  }
  if (!answer.ok()) {
    return Status(Code::kCompileFailed,
                  "program " + program.name + ": " + answer.status().message());
  }
  {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(*child));
  }
  if (!answer->status.ok()) return answer->status;
  return std::move(answer->binary);
}

// With libnvrtc 13.0 a child has 81 MB after its first program, 20 of them its own alone.
std::size_t compiler_count(int threads) {
  constexpr std::int64_t kChildBytes = 81'000'000;
  const std::int64_t memory =
      static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  const std::int64_t cores = std::thread::hardware_concurrency();
  return static_cast<std::size_t>(
      std::clamp<std::int64_t>(threads - 1, 0, std::min(cores, memory / 2 / kChildBytes)));
}

}  // namespace rowsmith
