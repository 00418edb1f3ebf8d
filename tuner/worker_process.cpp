// SPDX-License-Identifier: Apache-2.0
#include "tuner/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

extern char** environ;

namespace rowsmith {
namespace {

// posix_spawn's two structures, freed in the end.
class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  // An error number, 0 for none.
  int spawn(pid_t& id, const std::string& program, char* const* arguments, int input, int output) {
    posix_spawn_file_actions_adddup2(&actions_, input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP);
    return posix_spawn(&id, program.c_str(), &actions_, &attributes_, arguments, environ);
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// Above the three that the child replaces, and in no child of ours.
Descriptor out_of_the_way(int fd) {
  const Descriptor given(fd);
  return Descriptor(::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

Status cannot_start(const std::string& program, int error) {
  return Status(Code::kInternal,
                "a worker process (" + program + ") cannot be started: " + ::strerror(error));
}

}  // namespace

void Descriptor::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Result<WorkerProcess> WorkerProcess::start(const std::string& program,
                                           const std::vector<std::string>& arguments,
                                           std::string text) {
  // A socket for its input: writing to a pipe whose reader has died would raise SIGPIPE here.
  int in[2], out[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0) {
    return cannot_start(program, errno);
  }
  const Descriptor its_input = out_of_the_way(in[0]);
  Descriptor our_input = out_of_the_way(in[1]);
  if (::pipe2(out, O_CLOEXEC) != 0) return cannot_start(program, errno);
  Descriptor our_output = out_of_the_way(out[0]);
  const Descriptor its_output = out_of_the_way(out[1]);
  for (const int fd : {its_input.get(), our_input.get(), our_output.get(), its_output.get()}) {
    if (fd < 0) return cannot_start(program, EMFILE);
  }
  ::fcntl(our_output.get(), F_SETFL, O_NONBLOCK);

  std::vector<std::string> words = arguments;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t id = 0;
  const int error = SpawnPlan().spawn(id, program, argv.data(), its_input.get(), its_output.get());
  if (error != 0) return cannot_start(program, error);
  return WorkerProcess(id, std::move(our_input), std::move(our_output), std::move(text));
}

WorkerProcess::WorkerProcess(pid_t id, Descriptor input, Descriptor output, std::string text)
    : id_(id), input_(std::move(input)), output_(std::move(output)), unsent_(std::move(text)) {}

WorkerProcess::~WorkerProcess() {
  if (id_.value == 0) return;
  kill();
  while (::waitpid(id_.value, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// A reader that is gone shows in its output's end.
void WorkerProcess::send() {
  while (!unsent_.empty()) {
    const ssize_t sent =
        ::send(input_.get(), unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    unsent_.erase(0, sent < 0 ? unsent_.size() : static_cast<std::size_t>(sent));
  }
}

bool WorkerProcess::exchange(std::vector<std::string>& lines) {
  send();
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = ::read(output_.get(), buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (count <= 0) return false;
    const std::string_view text(buffer, static_cast<std::size_t>(count));
    for (const char c : text) {
      if (c != '\n') {
        line_ += c;
      } else {
        lines.push_back(std::exchange(line_, {}));
      }
    }
  }
}

void WorkerProcess::end_input() {
  unsent_.clear();
  input_.close();
}

void WorkerProcess::kill() {
  if (id_.value != 0) ::kill(-id_.value, SIGKILL);
}

std::optional<WorkerProcess::End> WorkerProcess::reap() {
  int status = 0;
  if (id_.value == 0 || ::waitpid(id_.value, &status, WNOHANG) != id_.value) return {};
  id_.value = 0;
  End end;
  if (WIFSIGNALED(status)) {
    end.signal = WTERMSIG(status);
    const char* const name = ::sigabbrev_np(end.signal);
    end.text = "died of signal " + std::to_string(end.signal) +
               (name == nullptr ? "" : " (SIG" + std::string(name) + ")");
  } else {
    end.text = "exited with status " + std::to_string(WEXITSTATUS(status));
  }
  return end;
}

}  // namespace rowsmith
