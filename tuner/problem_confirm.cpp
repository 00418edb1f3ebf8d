// SPDX-License-Identifier: Apache-2.0
//
// The last gate before a winner is stored: by the reference, then in full beside generic.
#include "tuner/full_check.h"
#include "tuner/problem_tuner.h"

#include <rowsmith/text.h>

#include <algorithm>
#include <string>

namespace rowsmith {

// The kernel that will be stored, once more by the reference, then in full beside generic.
bool ProblemTuner::confirm(std::size_t i) {
  on_device({});
  Status status = build_alone(i);
  on_device(i);
  if (status.ok()) status = verifier_->check(candidates_[i].plan);
  if (status.ok()) {
    accuracy_ = verifier_->accuracy();
    if (accuracy_.error_ratio > 1) {
      status =
          Status(Code::kAccuracyFailed, "error ratio " + std::to_string(accuracy_.error_ratio));
    }
  }
  if (status.ok()) status = compare_in_full(i);
  if (!status.ok() && !ended_) reject(i, status);
  return status.ok() && !ended_;
}

// What the candidate did wrong. A generic that is at fault is rejected in its place: the candidate
// then stands by the reference alone.
Status ProblemTuner::compare_in_full(std::size_t i) {
  compared_.clear();
  const Config generic = generic_config();
  const auto& rejected = outcome_.rejections;
  const bool is_out = std::any_of(rejected.begin(), rejected.end(), [&](const Rejection& it) {
    return it.config == to_string(generic);
  });
  if (is_out || chosen_.configs[i].family == generic.family) return {};
  on_device({});
  const Result<const Kernel*> kernel = session_.modules->get(
      outcome_.problem, generic, generic_ ? builds_->compiled_alone(*generic_) : nullptr);
  if (!kernel.ok()) {
    end_with(TuneOutcome::State::kFailed, kernel.status().with_context("generic, to compare"));
    return {};
  }
  on_device(i);
  const FullCheck check = compare_with_generic(
      *session_.device, candidates_[i].plan, make_plan(outcome_.problem, facts_, generic, *kernel),
      *arena_, plan_.compare_bytes, threads_, [&] {
        on_device({});
        if (!settings_.trying) return;
        settings_.trying(settings_.problem_index, outcome_.problem, to_string(generic));
      });
  on_device(i);
  if (check.generic.ok() && check.candidate.ok()) compared_ = check.checked;
  if (check.generic.ok()) return check.candidate;
  switch (check.generic.code()) {
    case Code::kDeviceLost:
      end_with(TuneOutcome::State::kFailed, check.generic.with_context(to_string(generic)));
      return {};
    case Code::kOutOfMemory: return check.generic.with_context("generic, to compare");
    default: reject_generic(check.generic);
  }
  return check.candidate;
}

}  // namespace rowsmith
