// SPDX-License-Identifier: Apache-2.0
//
// Tuning in worker processes, one a share of the problems, all at once. This process launches
// nothing: a candidate that faults or hangs the device takes its worker with it, is remembered as a
// rejection, and another worker goes on. worker_process.h knows processes, worker_messages.h what
// they say; here is what to make of it.
#pragma once

#include <rowsmith/runtime.h>
#include <rowsmith/tuner.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace rowsmith {

// What one device tunes.
struct WorkShare {
  std::string device;                 // as RuntimeOptions names it
  std::vector<std::size_t> problems;  // indices in the request
};

struct DeviceToTune {
  std::string name;
  std::string kind;  // its device class; "" = not asked
};
// Every device tunes the whole list of the request, but equal ones take turns: the n-th of them
// every n-th problem, or with buckets every n-th (dtypes, H, layout). One with none to tune has no
// share.
std::vector<WorkShare> share_out(const std::vector<DeviceToTune>& devices,
                                 const TuneRequest& request);

// Callbacks are called from the calling thread and may be empty; problems are told by the index of
// their outcome in the share's report.
struct Supervision {
  std::string program;                 // what a worker runs,
  std::vector<std::string> arguments;  // its name the first
  RuntimeOptions options;              // but for the device
  TuneRequest request;                 // without its callbacks; its budget begins with the first
                                       // device that is open, and is every share's own
  std::vector<WorkShare> shares;
  std::function<void(std::size_t share, const TuneProgress&)> progress;
  std::function<void(std::size_t share, const SearchEvent&)> explain;
  std::function<void(std::size_t share, const std::string&)> note;  // what befell a worker
  std::function<Status(const Rejection&)> remember;
  std::function<bool()> stop;
  // Seconds that a worker may be without a word: while a candidate is on the device, and while none
  // is ("" = its device is not open yet); empty = silence_limit_s and idle_limit_s.
  std::function<double(const Problem&, const std::string&device_class)> limit_s, idle_limit_s;
  std::function<double()> now_s;  // seconds of a steady clock; empty = the system's
};

struct ShareReport {
  std::vector<TuneOutcome> outcomes;  // of its problems, in their order, then what buckets added
  Status never_ran;                   // why the device was never open; ok where it was
  int started = 0, died = 0;          // workers
  double start_s = 0;                 // of the last that was ready: from its start to then
};

struct SupervisedReport {
  std::vector<ShareReport> shares;
  double elapsed_s = 0;
  bool interrupted = false;
};

// Never fails as a whole. A problem that three workers died on fails, as does one whose worker died
// or hung while no candidate was on the device; the rest go on. A share whose workers twice in a
// row do not come to open their device is given up: what is left of it fails. An interrupt ends the
// input of the workers, which then end by themselves.
SupervisedReport supervise(const Supervision& what);

// A GPU runs a candidate in milliseconds and reports each sample: 30 s, and 1 s for each 100 MB of
// the problem. The host device runs threads as fibers: ten minutes, and 1 s for each 10000
// elements.
double silence_limit_s(const Problem& problem, const std::string& device_class);
// What a worker does by itself is compiling, at worst with a cold compiler on a busy machine, and
// making the reference of the problem: ten minutes more than that, on the host device, where every
// candidate is compiled before the first is timed, half an hour more.
double idle_limit_s(const Problem& problem, const std::string& device_class);

}  // namespace rowsmith
