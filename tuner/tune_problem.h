// SPDX-License-Identifier: Apache-2.0
//
// Tuning one problem: candidates, their builds, verification, search, the winner's evidence. What
// both the `tune` command and a miss in a call come down to.
#pragma once

#include "runtime/session.h"
#include "tuner/floor.h"

#include <rowsmith/tuner.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace rowsmith {

struct TuneSettings {
  // --- What is tried ---
  Effort effort = Effort::kStandard;
  bool retune = false;
  std::vector<std::string> families;  // only these, and the default; empty = all
  // --- What it may cost ---
  double budget_s = 0;         // 0 = no limit; at its end the best so far stands
  int compile_threads = 0;     // 0 = the machine's cores
  std::function<bool()> stop;  // may be empty; true gives the problem up
  // --- Around it ---
  // Compiles candidates, so many at once at full speed; empty = the device. From several threads.
  std::function<Result<Binary>(const Program&)> compile;
  std::size_t front_ends = 1;
  std::function<void(const TuneProgress&)> progress;  // may be empty
  std::function<void(const SearchEvent&)> explain;    // may be empty
  // Is told the config that is about to be on the device, before its first launch and whenever it
  // changes: the problem's index and itself, and "" where it is none (while compilers run, say).
  // Each problem that is not settled at once begins with none. May be empty.
  std::function<void(std::size_t, const Problem&, const std::string&)> trying;
  std::size_t problem_index = 0, problem_count = 1;  // for progress
  std::string lock_directory;                        // "" = TuningLock::default_directory()
  double lock_wait_s = 10;
  std::function<double()> now_s;  // seconds of a steady clock; empty = the system's
};

// Of a problem that has no record.
TuneOutcome outcome_of(const Problem& problem, TuneOutcome::State state, Status why);

// Uses private buffers and the device's own stream alone. A record that is valid is kept: nothing
// is compiled or timed. One from a dirty run is tuned again; if that run is dirty, too, the one at
// the higher SM clock stays, else the later (with `retune` always the later). The winner is stored
// at once, with its kernel loaded and its binary kept; rejections are stored with their reasons. A
// config that lost the device once, as a stored rejection of its present family says, is never
// launched again. Failed: device lost, out of memory, compile failed and accuracy failed (no
// candidate stands), cache busy (the winner could not be stored).
TuneOutcome tune_problem(const Session& session, const Problem& problem,
                         const TuneSettings& settings, FloorMeter& floor);

// The session's records that differ from the problem in S at most and might serve it, S ascending.
// Codes of WinnerStore::find_same_cols.
Result<std::vector<WinnerRecord>> find_valid_same_cols(const Session& session,
                                                       const Problem& problem);

// Of these the nearest in S on either side, its own S left out.
struct Neighbours {
  std::optional<WinnerRecord> below, above;
  std::vector<Config> configs() const;
};
Neighbours find_neighbours(const Session& session, const Problem& problem);

// The session's record of exactly this problem, if it may serve: its family is as it was, its
// config is legal on the device. Codes of WinnerStore::find.
Result<std::optional<WinnerRecord>> find_servable(const Session& session, const Problem& problem);
// The same, if besides nothing is in doubt about it and it was tuned with no less effort: tuning
// again would tell nothing new. One of these very families alone is none in doubt for that.
Result<std::optional<WinnerRecord>> find_valid(const Session& session, const Problem& problem,
                                               Effort effort,
                                               const std::vector<std::string>& families);
// The families in their one form as evidence: "split_row,warp_rows".
std::string families_text(const std::vector<std::string>& families);

}  // namespace rowsmith
