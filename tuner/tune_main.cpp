// SPDX-License-Identifier: Apache-2.0
//
// The `tune` program: the first interrupt, request to end or loss of the terminal asks the command
// to end and keep what finished; a second one ends it at once.

#include "tuner/tune_cli.h"

#include <csignal>
#include <iostream>

namespace {
volatile std::sig_atomic_t interrupted = 0;

void on_signal(int signal) {
  interrupted = 1;
  std::signal(signal, SIG_DFL);
}
}  // namespace

int main(int argc, char** argv) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    // What whoever started us has ignored (nohup, a background job) stays so.
    if (std::signal(signal, on_signal) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
  return rowsmith::tune_cli(
      {argv + 1, argv + argc}, std::cout, std::cerr, [] { return interrupted != 0; },
      "/proc/self/exe");
}
