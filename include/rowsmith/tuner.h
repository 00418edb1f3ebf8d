// SPDX-License-Identifier: Apache-2.0
//
// Tuning ahead of use: time the legal configs of problems on a device and remember the winners.
#pragma once

#include <rowsmith/runtime.h>
#include <rowsmith/search_event.h>
#include <rowsmith/winner_store.h>

#include <functional>
#include <string>
#include <vector>

namespace rowsmith {

// How much of the space is tried and how long the finals are.
enum class Effort { kQuick = 0, kStandard = 1, kThorough = 2 };

// "quick", "standard", "thorough".
const char* to_string(Effort effort) noexcept;

// What became of one problem.
struct TuneOutcome {
  enum class State { kTuned, kKept, kSkipped, kFailed };
  Problem problem;
  State state = State::kFailed;
  WinnerRecord record;  // when tuned or kept
  std::vector<Rejection> rejections;
  Status status;             // when failed or skipped: why
  std::size_t restored = 0;  // candidates whose screening an earlier run had done
};

// "tuned", "kept", "skipped", "failed".
const char* to_string(TuneOutcome::State state) noexcept;

struct TuneRequest {
  std::vector<Problem> problems;
  Effort effort = Effort::kStandard;
  double budget_s = 0;  // for all problems together; 0 = no limit
  bool retune = false;  // also problems that have a valid exact record
  // Also the S between those listed where it takes a winner more: until of each (dtypes, H, layout)
  // any S in between is served at a measured loss of 5 % or by a winner within a factor of two.
  bool buckets = false;
  // Of the same list, but settled by an earlier run: not tuned, yet part of what `buckets` looks
  // between.
  std::vector<Problem> settled;
  // Only these families, and the default; empty = all.
  std::vector<std::string> families;
  int compile_threads = 0;  // 0 = the machine's cores
  // Is told every decision of the search, in order, from the calling thread. May be empty.
  std::function<void(const SearchEvent&)> explain;
  // Is told what became of each problem, by its index in the report, as soon as that stands. May be
  // empty.
  std::function<void(std::size_t, const TuneOutcome&)> finished;
};

struct TuneProgress {
  std::size_t problem = 0, problems = 0;  // index of the problem in hand, and how many so far
  Problem in_hand;
  std::size_t candidate = 0, candidates = 0;  // timed so far, and how many will be
  std::size_t restored = 0;                   // of those timed: in an earlier run
  std::int64_t best_ns = 0, default_ns = 0, floor_ns = 0;
};

struct TuneReport {
  std::vector<TuneOutcome> outcomes;  // in the order of the request, then what `buckets` added
  double elapsed_s = 0;
  bool interrupted = false;
};

// Tunes on the device that `options` names, remembering in its cache. `progress` may be empty; it
// is called from the calling thread. `stop` may be empty; once it answers true the problem in hand
// is given up and the rest are skipped. Codes: no device, invalid argument; what befalls one
// problem is in its outcome.
Result<TuneReport> tune(const RuntimeOptions& options, const TuneRequest& request,
                        const std::function<void(const TuneProgress&)>& progress,
                        const std::function<bool()>& stop);

}  // namespace rowsmith
