// SPDX-License-Identifier: Apache-2.0
//
// `tune worker`: not for people. A process that `tune softmax` starts to run candidates in.

#include "tuner/cli_commands.h"
#include "tuner/tune_cli.h"
#include "tuner/worker.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <ostream>

namespace rowsmith {
namespace {

// The descriptors of the messages, out of reach of what libraries print and compilers inherit. They
// stay open: the end of the output is the end of the process.
struct Channel {
  int in = -1, out = -1;
};

Channel take_standard_streams() {
  const Channel channel{::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1),
                        ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)};
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
  if (nothing >= 0) ::close(nothing);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return channel;
}

}  // namespace

int run_worker(const CliArgs&, Cli& cli) {
  const auto start = std::chrono::steady_clock::now();
  // Where whoever started it is killed; where that one ends in peace, the input's end tells.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // In a process group of its own it is no foreground job: `stty tostop` must not stop its log.
  std::signal(SIGTTOU, SIG_IGN);
  const Channel channel = take_standard_streams();
  const auto request = read_worker_request(channel.in);
  if (!request.ok()) {
    cli.err << "tune: worker: " << request.status().message() << '\n';
    return kExitUsage;
  }
  const auto session = open_compiling_session(request->options);
  if (!session.ok()) {
    write_worker_message(channel.out, WorkerCannotStart{session.status()});
    return kExitNothingRan;
  }
  const std::chrono::duration<double> start_s = std::chrono::steady_clock::now() - start;
  serve_request(*session, *request, channel.in, channel.out, start_s.count(), cli.stop);
  return kExitDone;
}

}  // namespace rowsmith
