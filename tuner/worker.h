// SPDX-License-Identifier: Apache-2.0
//
// The worker's side of `tune softmax`: tunes what a request asks for and tells each step on a
// descriptor. A candidate that faults or hangs the device takes this process with it, and nothing
// else; supervisor.h reads what it told.
#pragma once

#include "tuner/tune.h"
#include "tuner/worker_messages.h"

#include <functional>
#include <optional>
#include <string>

namespace rowsmith {

// Writes messages to `out`, from WorkerReady to WorkerEnded; after a lost device the rest stays
// untold. Ends early, as an interrupted tuning does, once `in` has ended or `stop` (may be empty)
// answers true. `start_s` is told; `around` as tune_all takes it.
void serve_request(const Session& session, const WorkerRequest& request, int in, int out,
                   double start_s, const std::function<bool()>& stop,
                   const TuneSettings& around = {});

// The line of `in`, up to its end, as a request. Internal: it ended before, or is none.
Result<WorkerRequest> read_worker_request(int in);
// A line of `in` without its end, where the other side sends the next one only when it has been
// answered. Nothing: `in` ended before.
std::optional<std::string> read_line(int in);

// To `out`, whole. False where nobody reads it any more.
bool write_worker_message(int out, const WorkerMessage& message);
bool write_line(int out, const std::string& line);

}  // namespace rowsmith
