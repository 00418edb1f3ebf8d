// SPDX-License-Identifier: Apache-2.0
//
// WorkerProcess: a child process that reads text from its standard input and writes lines to its
// standard output; its standard error is ours. Knows nothing of tuning. Started by posix_spawn,
// never by fork: the caller may have started CUDA and threads.
#pragma once

#include <rowsmith/status.h>

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rowsmith {

// A descriptor that is closed with its holder.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }
  int get() const { return fd_; }
  void close();

 private:
  int fd_ = -1;
};

// Not thread-safe.
class WorkerProcess {
 public:
  // Runs `program` with `arguments` (the first is its name) in a process group of its own, so that
  // a terminal's signals do not reach it. `text` goes to its input, which then stays open until
  // end_input(): a reader sees our death as its end. Internal: it could not be started.
  static Result<WorkerProcess> start(const std::string& program,
                                     const std::vector<std::string>& arguments, std::string text);
  WorkerProcess(WorkerProcess&&) = default;
  WorkerProcess& operator=(WorkerProcess&&) = delete;
  // Kills it where it has not been reaped.
  ~WorkerProcess();

  pid_t id() const { return id_.value; }

  // To wait for with poll(): output() for input, input() for output, where there is one (-1: none).
  int output() const { return output_.get(); }
  int input() const { return unsent_.empty() ? -1 : input_.get(); }
  // Moves what can be moved without waiting; complete lines are added to `lines`, without their
  // ends. False once the output has ended.
  bool exchange(std::vector<std::string>& lines);

  // Further text for its input, which exchange() moves. Requires that the input was not ended.
  void write(std::string_view text) { unsent_ += text; }
  void end_input();
  // The process and those it started.
  void kill();
  // How it ended, once it has; never waits. "exited with status 3", "died of signal 11 (SIGSEGV)".
  struct End {
    int signal = 0;  // 0 = it exited
    std::string text;
  };
  std::optional<End> reap();

 private:
  struct Id {
    explicit Id(pid_t pid) : value(pid) {}
    Id(Id&& other) noexcept : value(std::exchange(other.value, 0)) {}
    pid_t value = 0;  // 0 = reaped, or moved away
  };
  WorkerProcess(pid_t id, Descriptor input, Descriptor output, std::string text);
  void send();

  Id id_;
  Descriptor input_, output_;
  std::string unsent_, line_;
};

}  // namespace rowsmith
