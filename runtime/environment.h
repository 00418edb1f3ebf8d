// SPDX-License-Identifier: Apache-2.0
//
// The environment: every ROWSMITH_* variable is read and judged here and nowhere else. A set but
// empty variable counts as unset; any other value that is not allowed is an error that names the
// variable, the value and what is allowed.
#pragma once

#include <rowsmith/runtime.h>
#include <rowsmith/status.h>

#include <functional>
#include <string>

namespace rowsmith {

// The text of a variable, or nullptr where it is unset: std::getenv, or a table in tests.
using ReadVariable = std::function<const char*(const char* name)>;

// The options that the variables ask for. `note` is one sentence where no place on disk could be
// found (the cache then lives in memory), else empty.
struct EnvironmentOptions {
  RuntimeOptions options;
  std::string log_level = "warn";
  std::string note;
};
Result<EnvironmentOptions> read_environment(const ReadVariable& read);

// ROWSMITH_LOG alone: the logger's level, for runtimes whose options do not come from here.
Result<std::string> log_level_from_environment(const ReadVariable& read);
// ROWSMITH_NVRTC: the absolute path of the NVRTC library to load; "" = search for it.
Result<std::string> nvrtc_from_environment();
// ROWSMITH_CXX: the C++ compiler of the host device, a path or a command; "" = the usual ones.
Result<std::string> cxx_from_environment();

}  // namespace rowsmith
