// SPDX-License-Identifier: Apache-2.0
//
// Dispatcher: the Runtime behind the public face. A hit is a lock-free look-up of (dtypes, H,
// layout) -> interval of S -> launch plan; a miss walks the ladder exact -> nearest -> default ->
// generic once and publishes the answer.
#pragma once

#include "runtime/session.h"

#include <rowsmith/runtime.h>

#include <functional>
#include <memory>

namespace rowsmith {

// Tunes one problem within the options' budget on private buffers and stores the winner. Injected,
// so that the runtime does not know the tuner.
using TuneOnMiss = std::function<Status(const Session&, const Problem&, int budget_ms)>;

// `tune` may be empty: then policy kTune behaves as kDefault.
std::unique_ptr<Runtime> make_dispatcher(Session session, const RuntimeOptions& options,
                                         TuneOnMiss tune);

// Writes what the runtime has counted and closes its winner store; from then on it remembers in
// memory. For process-wide runtimes at exit, which are not destroyed.
void close_cache(Runtime& runtime);

// Invalid argument that names the value, or unsupported; ok for empty calls. Fills strides of 0.
Status check_call(SoftmaxCall& call);
// The test that nearly every call passes and that hits pay for: true if the call is plainly in
// order and not empty. False says nothing: ask check_call. Fills strides of 0. Allocates nothing.
bool is_plain_call(SoftmaxCall& call);
// check_call of what a problem holds.
Status check_values(const Problem& problem);

}  // namespace rowsmith
