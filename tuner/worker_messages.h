// SPDX-License-Identifier: Apache-2.0
//
// What `tune softmax` and its worker processes tell each other, one JSON object a line: a request
// to the worker, messages from it. Both ends are one binary, so the form has no version; whatever
// is not exactly of the form is refused with the field that is wrong.
#pragma once

#include <rowsmith/runtime.h>
#include <rowsmith/tuner.h>

#include <cstddef>
#include <string>
#include <variant>

namespace rowsmith {

struct WorkerRequest {
  RuntimeOptions options;  // device, cache, site cache and read-only travel
  TuneRequest request;     // without its callbacks
  bool explain = false;    // whether decisions are told
};

// The device is open and the problems begin.
struct WorkerReady {
  std::string device_class;
  double start_s = 0;  // from the worker's start to an open session
};
// The device could not be opened: nothing else follows.
struct WorkerCannotStart {
  Status status;
};
// About to be on the device, until another is; "" = none. What each problem begins with.
struct WorkerTrying {
  std::size_t problem = 0;
  Problem in_hand;
  std::string config;
};
struct WorkerFinished {
  std::size_t problem = 0;
  TuneOutcome outcome;
};
// Every problem was told of: nothing else follows.
struct WorkerEnded {
  bool interrupted = false;
};

// Problems are named by their index in the request; those that `buckets` adds go on from there.
using WorkerMessage = std::variant<WorkerReady, WorkerCannotStart, WorkerTrying, TuneProgress,
                                   SearchEvent, WorkerFinished, WorkerEnded>;

// With its end of line; no other is inside.
std::string to_line(const WorkerRequest& request);
std::string to_line(const WorkerMessage& message);

// Of a line without its end. Internal: it is not of the form, and why.
Result<WorkerRequest> parse_worker_request(const std::string& line);
Result<WorkerMessage> parse_worker_message(const std::string& line);

}  // namespace rowsmith
