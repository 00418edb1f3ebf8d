// SPDX-License-Identifier: Apache-2.0
//
// Progress of a tuning run for people: a bar redrawn in place on a terminal, one line a problem
// elsewhere (log files, CI).
#pragma once

#include <rowsmith/tuner.h>

#include <cstdint>
#include <iosfwd>
#include <string>

namespace rowsmith {

// Not thread-safe: for the thread that tunes.
class Progress {
 public:
  Progress(std::ostream& out, bool terminal) : out_(out), terminal_(terminal) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { finish(); }

  // `what` names the problem in hand.
  void update(const TuneProgress& progress, const std::string& what);
  // Clears the bar, so that what follows starts on an empty line.
  void finish();

 private:
  std::ostream& out_;
  const bool terminal_;
  std::string shown_;  // the bar as drawn; empty when there is none
  std::size_t announced_ = 0;
};

}  // namespace rowsmith
