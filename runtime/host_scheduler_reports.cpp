// SPDX-License-Identifier: Apache-2.0
//
// What the scheduler says of a cluster that it gives up: who did it, where, and where all others
// stand; and what it finds in shared memory that no kernel may leave there.
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

std::string HostScheduler::name_of(const rowsmith_host::Thread& thread) {
  return "block " + std::to_string(thread.block) + ", thread " + std::to_string(thread.index);
}

bool HostScheduler::is_own(const void* address, std::size_t bytes) const {
  if (launch_->shared_bytes == 0) return false;
  const auto at = reinterpret_cast<std::uintptr_t>(address) -
                  reinterpret_cast<std::uintptr_t>(current_->shared);  // huge where it is below
  return at <= launch_->shared_bytes && bytes <= launch_->shared_bytes - at;
}

// No text may live in a frame that is abandoned: callers abandon, these do not.
bool HostScheduler::may_peer(const void* address, int bytes, int rank, Place place) {
  const char* why = nullptr;
  if (!current_->waited) {
    why = " before a cluster_wait";
  } else if (rank < 0 || rank >= launch_->cluster) {
    why = " where the cluster has no such block";
  } else if (!is_own(address, static_cast<std::size_t>(bytes))) {
    why = " with an address outside of its own shared memory";
  } else if (blocks_[static_cast<std::size_t>(rank)].left > 0) {
    why = " after threads of that block have left the kernel";
  }
  if (why == nullptr) return true;
  report(who() + ": peer_store to rank " + std::to_string(rank) + " at " + text_of(place) + why);
  return false;
}

bool HostScheduler::may_copy(const Copy& copy) {
  if (is_own(copy.dst, copy.bytes)) return true;
  report(who() + ": bulk_read at " + text_of(copy.place) + " to outside of its own shared memory");
  return false;
}

std::string HostScheduler::name_of_cluster() const {
  if (launch_->cluster == 1) return "block " + std::to_string(first_block_);
  return "blocks " + std::to_string(first_block_) + " to " +
         std::to_string(first_block_ + launch_->cluster - 1);
}

std::string HostScheduler::misuse_of_shared() const {
  if (!copies_.empty()) {
    return name_of(*copies_[0].by) + ": bulk_read at " + text_of(copies_[0].place) +
           " that no thread has waited for";
  }
  const auto holds = [](const unsigned char* from, const unsigned char* to, unsigned char value) {
    return std::all_of(from, to, [value](unsigned char byte) { return byte == value; });
  };
  for (int rank = 0; rank < launch_->cluster; ++rank) {
    const Block& block = blocks_[static_cast<std::size_t>(rank)];
    const auto* begin = reinterpret_cast<const unsigned char*>(block.shared);
    const unsigned char* end = begin + launch_->shared_bytes;
    const bool slack_whole = holds(end, block.pages.end(), kSharedSlack);
    // It was poisoned anew as the last thread of a cluster's block left.
    if (slack_whole && (launch_->cluster == 1 || holds(begin, end, launch_->poison))) continue;
    return "block " + std::to_string(block.threads->block) +
           (slack_whole ? ": write to its shared memory after all its threads have left the kernel"
                        : ": write past the end of the " + std::to_string(launch_->shared_bytes) +
                              " bytes of shared memory");
  }
  return {};
}

// Apart from leave(), which every thread of every launch passes through.
void HostScheduler::abandon_unwaited() {
  report(who() + ": left the kernel without a cluster_wait after the cluster_arrive at " +
         text_of(arrival_of(*current_)));
  abandon();
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
      case State::kShuffle: text += " wait in a warp exchange at "; break;
      case State::kClusterWait: text += " wait in cluster_wait at "; break;
      case State::kAwait: text += " wait in arrival_wait at "; break;
      case State::kPause: text += " wait for a word in memory at "; break;
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
  if (copying_ != nullptr) {
    return report(name_of(*copying_->by) + ": bulk_read at " + text_of(copying_->place) + what,
                  address);
  }
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
