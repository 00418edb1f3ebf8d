// SPDX-License-Identifier: Apache-2.0
//
// The `tune` program: the first interrupt asks the command to end and keep what finished, a second
// one ends it at once.

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
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  return rowsmith::tune_cli(
      {argv + 1, argv + argc}, std::cout, std::cerr, [] { return interrupted != 0; },
      "/proc/self/exe");
}
