// SPDX-License-Identifier: Apache-2.0
//
// What the scheduler says of a cluster that it gives up: who did it, where, and where all others
// stand.
#include "runtime/host_scheduler.h"

#include <algorithm>
#include <utility>

namespace rowsmith {

std::string HostScheduler::text_of(Place place) {
  return std::string(place.file) + ":" + std::to_string(place.line);
}

void HostScheduler::report(std::string text, const void* address) {
  failed_ = true;
  failure_.text = std::move(text);
  failure_.address = address;
}

std::string HostScheduler::who() const {
  return "block " + std::to_string(current_->block) + ", thread " + std::to_string(current_->index);
}

std::string HostScheduler::name_of_cluster() const {
  if (launch_->cluster == 1) return "block " + std::to_string(first_block_);
  return "blocks " + std::to_string(first_block_) + " to " +
         std::to_string(first_block_ + launch_->cluster - 1);
}

// One clause for each place where threads are, in the order of their first threads.
std::string HostScheduler::describe_stuck() const {
  struct Crowd {
    const Fiber* first;
    int count;
  };
  std::vector<Crowd> crowds;
  for (int i = 0; i < fiber_count(); ++i) {
    const Fiber& fiber = fibers_[static_cast<std::size_t>(i)];
    const auto same = [&fiber](const Crowd& crowd) {
      return crowd.first->state == fiber.state &&
             (fiber.state == State::kLeft || same_place(crowd.first->place, fiber.place));
    };
    const auto found = std::find_if(crowds.begin(), crowds.end(), same);
    if (found == crowds.end()) {
      crowds.push_back({&fiber, 1});
    } else {
      ++found->count;
    }
  }
  std::string text = name_of_cluster() + ": stuck";
  const char* separator = ": ";
  for (const Crowd& crowd : crowds) {
    text += separator + std::to_string(crowd.count) + " threads from ";
    if (launch_->cluster > 1) text += "block " + std::to_string(crowd.first->block) + " ";
    text += "thread " + std::to_string(crowd.first->index);
    switch (crowd.first->state) {
      case State::kReady:
      case State::kLeft: text += " have left the kernel"; break;
      case State::kSync: text += " wait in sync at "; break;
      case State::kShuffle: text += " wait in shfl_xor at "; break;
      case State::kClusterWait: text += " wait in cluster_wait at "; break;
    }
    if (crowd.first->state != State::kLeft) text += text_of(crowd.first->place);
    separator = ", ";
  }
  return text;
}

void HostScheduler::report_fault(const void* address, FaultAccess access) {
  if (stacks_.overflowed(address)) return report(who() + ": overflowed its stack");
  const char* what = access == FaultAccess::kWrite  ? ": write "
                     : access == FaultAccess::kRead ? ": read "
                                                    : ": access ";
  for (int rank = 0; launch_->shared_bytes > 0 && rank < launch_->cluster; ++rank) {
    const Block& block = blocks_[static_cast<std::size_t>(rank)];
    if (!block.pages.guards(address)) continue;
    const std::int64_t at = static_cast<const char*>(address) - block.shared;
    const bool own = block.shared == current_->shared;
    return report(who() + what + "at byte " + std::to_string(at) + " of " +
                  std::to_string(launch_->shared_bytes) + " bytes of shared memory" +
                  (own ? "" : " of block " + std::to_string(block.threads->block)));
  }
  report(who() + what, address);
}

}  // namespace rowsmith
