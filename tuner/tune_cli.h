// SPDX-License-Identifier: Apache-2.0
//
// The `tune` command as a function, so that tests run it in process. tune_main.cpp gives it the
// process's arguments, streams and signals.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

namespace rowsmith {

// Exit statuses. Frozen: scripts depend on them.
enum ExitStatus {
  kExitDone = 0,
  kExitSomeFailed = 1,  // of several problems or records, at least one came to nothing
  kExitUsage = 2,       // an option or an environment variable is wrong; nothing was tried
  kExitNothingRan = 3,  // no device, no compiler, an unusable cache, an unreadable file
};

// Runs `tune` with `args` (without the program's name). Results go to `out`, everything else to
// `err`; with --json `out` holds one JSON document. `stop` may be empty; once it answers true the
// command ends early and keeps what finished. `program` is a file that runs this function with its
// arguments: `softmax` starts it, as `tune worker`, to run candidates in.
int tune_cli(const std::vector<std::string>& args, std::ostream& out, std::ostream& err,
             const std::function<bool()>& stop, const std::string& program);

}  // namespace rowsmith
