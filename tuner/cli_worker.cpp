// SPDX-License-Identifier: Apache-2.0
//
// Not for people: `tune worker`, a process that `tune softmax` starts to run candidates in, and
// `tune compiler`, one that a worker or `tune compile` starts to compile in.

#include "runtime/nvrtc.h"
#include "tuner/build.h"
#include "tuner/cli_commands.h"
#include "tuner/compiler_messages.h"
#include "tuner/compiler_processes.h"
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

// What a process that another one started does first.
Channel begin_as_child() {
  // Where whoever started it is killed; where that one ends in peace, the input's end tells.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // In a process group of its own it is no foreground job: `stty tostop` must not stop its log.
  std::signal(SIGTTOU, SIG_IGN);
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
  const Channel channel = begin_as_child();
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
  const DeviceFacts& facts = session->device->facts();
  const int threads = compile_threads(request->request.compile_threads);
  CompilerProcesses compilers(cli.program, {"tune", "compiler"},
                              facts.kind == "cuda" ? compiler_count(threads) : 0);
  TuneSettings around;
  if (compilers.started() > 0) {
    around.compile = [&](const Program& it) { return compilers.compile(it, facts.capability); };
    around.front_ends = compilers.started();
  }
  serve_request(*session, *request, channel.in, channel.out, start_s.count(), cli.stop, around);
  return kExitDone;
}

int run_compiler(const CliArgs&, Cli& cli) {
  const Channel channel = begin_as_child();
  nvrtc_version();  // opens it before the first program comes
  while (const auto line = read_line(channel.in)) {
    const auto request = parse_compile_request(*line);
    if (!request.ok()) {
      cli.err << "tune: compiler: " << request.status().message() << '\n';
      return kExitUsage;
    }
    const auto binary = nvrtc_compile(request->program, request->capability);
    const auto answer = to_line({binary.status(), binary.ok() ? *binary : Binary()});
    if (!write_line(channel.out, answer)) break;
  }
  return kExitDone;
}

}  // namespace rowsmith
