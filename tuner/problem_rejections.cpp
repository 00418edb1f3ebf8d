// SPDX-License-Identifier: Apache-2.0
//
// What becomes of candidates that fail: who is merely dropped, who is remembered, and what is said
// where nobody is left.
#include "runtime/log.h"
#include "tuner/problem_tuner.h"

#include <rowsmith/text.h>

#include <algorithm>
#include <string>
#include <utility>

namespace rowsmith {

void ProblemTuner::drop(std::size_t i, const Status& why) {
  SearchEvent event;
  event.kind = SearchEvent::Kind::kDropped;
  event.candidate = i;
  event.reason = why.to_string();
  explain(std::move(event));
  search_->reject(i);
  candidates_[i].watch.reset();
  forget_screening(i);
  log().debug("{}: {}: {}", to_string(outcome_.problem), to_string(chosen_.configs[i]),
              why.to_string());
}

// The device's and the memory's failures are nobody's.
void ProblemTuner::reject(std::size_t i, const Status& why) {
  const std::string config = to_string(chosen_.configs[i]);
  drop(i, why);
  switch (why.code()) {
    case Code::kDeviceLost: end_with(TuneOutcome::State::kFailed, why.with_context(config)); return;
    case Code::kOutOfMemory: memory_failure_ = why.with_context(config); return;
    case Code::kNotTuned: return;
    case Code::kUnsupported: passed_over_ = why; return;
    default: remember_rejection(chosen_.configs[i], why);
  }
}

// Whether it is a candidate or was only to be compared with.
void ProblemTuner::reject_generic(const Status& why) {
  const Config generic = generic_config();
  const auto& configs = chosen_.configs;
  const auto at = std::find(configs.begin(), configs.end(), generic);
  if (at != configs.end()) {
    reject(static_cast<std::size_t>(at - configs.begin()), why);
  } else {
    remember_rejection(generic, why);
  }
}

void ProblemTuner::remember_rejection(const Config& config, const Status& why) {
  Rejection rejection{class_,
                      outcome_.problem,
                      to_string(config),
                      std::string(find_family(config.family)->digest()),
                      why.code(),
                      why.message()};
  if (Status stored = session_.store->put_rejection(rejection); !stored.ok()) {
    log().warn("{}: a rejection is not remembered: {}", rejection.config, stored.message());
  }
  outcome_.rejections.push_back(std::move(rejection));
}

Status ProblemTuner::why_dropped(std::size_t spiller) const {
  const int spilled = candidates_[spiller].plan.kernel->resources().spill_bytes;
  return Status(Code::kUnsupported,
                "spills " + std::to_string(spilled) + " bytes a thread to local memory");
}

Status ProblemTuner::why_none_stands() const {
  if (!memory_failure_.ok()) return memory_failure_;
  if (outcome_.rejections.empty()) {
    return passed_over_.ok() ? Status(Code::kNotTuned, "the budget ended before anything was timed")
                             : passed_over_;
  }
  const Rejection& first = outcome_.rejections.front();
  // A candidate that lost the device earlier leaves a device that works.
  const Code code = first.code == Code::kDeviceLost ? Code::kLaunchFailed : first.code;
  return Status(code, "no candidate stands; " + std::to_string(outcome_.rejections.size()) +
                          " were rejected, the first (" + first.config + "): " + first.reason);
}

}  // namespace rowsmith
