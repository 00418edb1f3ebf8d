// SPDX-License-Identifier: Apache-2.0
//
// The system's C++ compiler as a kernel compiler: device text in, a shared object as bytes out.
// Started by argument array, never through a shell, so that any path works.
#pragma once

#include "runtime/device.h"

#include <string>
#include <vector>

namespace rowsmith {

struct HostCompiler {
  std::string command;  // a path, or a name to be found on PATH; empty where there is none
  std::string version;  // the first line of its --version
  std::string problem;  // why there is none, and what to set
};

// `requested`, else the first of c++, g++, clang++ that runs.
HostCompiler find_host_compiler(const std::string& requested);

// All options but input and output; `more` go last.
std::vector<std::string> host_compiler_options(const std::vector<std::string>& more);

// Compile failed (message: options and log), unsupported (no compiler). Thread-safe.
Result<Binary> compile_host_program(const HostCompiler& compiler,
                                    const std::vector<std::string>& options,
                                    const Program& program);

}  // namespace rowsmith
