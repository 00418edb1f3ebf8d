// SPDX-License-Identifier: Apache-2.0
//
// WinnerStore in plain maps: for tests, for caches that cannot be written, and for runs that ask
// for no disk. Obeys the same contract and the same bounds as the one on SQLite.
#include "cache/record.h"

#include <rowsmith/text.h>
#include <rowsmith/winner_store.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

namespace rowsmith {
namespace {

Status invalid(const std::string& what, const Problem& problem, const std::string& why) {
  return {Code::kInvalidArgument, what + " for " + to_string(problem) + " is not stored: " + why};
}

class MemoryStore final : public WinnerStore {
 public:
  Result<std::optional<WinnerRecord>> find(const std::string& device_class,
                                           const Problem& problem) override {
    const std::lock_guard lock(mutex_);
    const auto found = winners_.find({device_class, problem});
    if (found == winners_.end()) return std::optional<WinnerRecord>();
    return std::optional<WinnerRecord>(found->second);
  }

  Result<std::vector<WinnerRecord>> find_same_cols(const std::string& device_class,
                                                   const Problem& problem) override {
    const std::lock_guard lock(mutex_);
    std::vector<WinnerRecord> records;
    RecordKey first{device_class, problem};
    first.problem.rows = 0;
    for (auto it = winners_.lower_bound(first); it != winners_.end(); ++it) {
      Problem same = it->first.problem;
      if (it->first.device_class != device_class || same.cols != problem.cols) break;
      same.rows = problem.rows;
      if (same == problem) records.push_back(it->second);
    }
    return records;
  }

  Result<std::vector<WinnerRecord>> list() override {
    const std::lock_guard lock(mutex_);
    std::vector<WinnerRecord> records;
    for (const auto& [key, record] : winners_) records.push_back(record);
    return records;
  }

  Status put(const WinnerRecord& record) override {
    const std::string why = why_unstorable(record);
    if (!why.empty()) return invalid("the winner", record.problem, why);
    const std::lock_guard lock(mutex_);
    winners_[key_of(record)] = normalised(record);
    if (ends_screening(record)) {
      auto [it, last] = screenings_of(key_of(record));
      while (it != last) drop_screening(it++);
    }
    return {};
  }

  Result<bool> merge(const WinnerRecord& record) override {
    const std::string why = why_unstorable(record);
    if (!why.empty()) return invalid("the winner", record.problem, why);
    const std::lock_guard lock(mutex_);
    WinnerRecord challenger = normalised(record);
    const auto [held, added] = winners_.try_emplace(key_of(record), challenger);
    if (added) return true;
    const bool taken = supersedes(challenger, held->second);
    if (taken) held->second = std::move(challenger);
    return taken;
  }

  Status erase(const std::string& device_class, const Problem& problem) override {
    const std::lock_guard lock(mutex_);
    winners_.erase({device_class, problem});
    return {};
  }

  Status erase_all(const std::vector<WinnerRecord>& records) override {
    const std::lock_guard lock(mutex_);
    for (const WinnerRecord& record : records) winners_.erase(key_of(record));
    return {};
  }

  Status put_rejection(const Rejection& rejection) override {
    const std::string why = why_unstorable(rejection.device_class, rejection.problem);
    if (!why.empty()) return invalid("the rejection", rejection.problem, why);
    const std::lock_guard lock(mutex_);
    const ConfigKey key{{rejection.device_class, rejection.problem}, rejection.config};
    const auto [held, added] = rejections_.insert_or_assign(key, rejection);
    held->second.reason = shortened_reason(rejection.reason);
    if (added) rejection_age_.push_back(key);
    if (rejection_age_.size() > kMaxRejections) {
      rejections_.erase(rejection_age_.front());
      rejection_age_.pop_front();
    }
    return {};
  }

  Result<std::vector<Rejection>> list_rejections(const std::string& device_class,
                                                 const Problem& problem) override {
    const std::lock_guard lock(mutex_);
    std::vector<Rejection> rejections;
    const RecordKey key{device_class, problem};
    for (auto it = rejections_.lower_bound({key, ""}); it != rejections_.end(); ++it) {
      if (key < it->first.first) break;
      rejections.push_back(it->second);
    }
    return rejections;
  }

  Status put_screenings(const std::vector<Screening>& screenings) override {
    for (const Screening& it : screenings) {
      const std::string why = why_unstorable(it);
      if (!why.empty()) return invalid("the screening", it.problem, why);
    }
    const std::lock_guard lock(mutex_);
    for (const Screening& it : screenings) {
      drop_screening(screenings_.find(config_key(it)));
      const auto added =
          screenings_.try_emplace(config_key(it), AgedScreening{it, next_age_}).first;
      screening_age_[next_age_++] = added;
    }
    while (screenings_.size() > kMaxScreenings) drop_screening(screening_age_.begin()->second);
    return {};
  }

  Result<std::vector<Screening>> find_screenings(const std::string& device_class,
                                                 const Problem& problem) override {
    const std::lock_guard lock(mutex_);
    const auto [first, last] = screenings_of({device_class, problem});
    std::vector<Screening> found;
    for (auto it = first; it != last; ++it) found.push_back(it->second.screening);
    return found;
  }

  Result<std::vector<Screening>> list_screenings() override {
    const std::lock_guard lock(mutex_);
    std::vector<Screening> found;
    for (const auto& [key, held] : screenings_) found.push_back(held.screening);
    return found;
  }

  Status erase_screenings(const std::vector<Screening>& screenings) override {
    const std::lock_guard lock(mutex_);
    for (const Screening& it : screenings) drop_screening(screenings_.find(config_key(it)));
    return {};
  }

  Status add_misses(const std::string& device_class, const Problem& problem,
                    std::int64_t calls) override {
    const std::string why = why_unstorable(device_class, problem);
    if (!why.empty()) return invalid("the miss", problem, why);
    const std::lock_guard lock(mutex_);
    misses_[{device_class, problem}] += calls;
    if (misses_.size() > kMaxMisses) {
      misses_.erase(std::min_element(misses_.begin(), misses_.end(),
                                     [](auto& a, auto& b) { return a.second < b.second; }));
    }
    return {};
  }

  Result<std::vector<Miss>> list_misses() override {
    const std::lock_guard lock(mutex_);
    std::vector<Miss> misses;
    for (const auto& [key, calls] : misses_) {
      misses.push_back({key.device_class, key.problem, calls});
    }
    std::stable_sort(misses.begin(), misses.end(),
                     [](const Miss& a, const Miss& b) { return a.calls > b.calls; });
    return misses;
  }

  std::string location() const override { return "memory"; }

 private:
  using ConfigKey = std::pair<RecordKey, std::string>;  // and config
  struct AgedScreening {
    Screening screening;
    std::uint64_t age = 0;
  };
  using Screenings = std::map<ConfigKey, AgedScreening>;

  static ConfigKey config_key(const Screening& it) {
    return {{it.device_class, it.problem}, it.config};
  }
  std::pair<Screenings::iterator, Screenings::iterator> screenings_of(const RecordKey& key) {
    const auto first = screenings_.lower_bound({key, ""});
    const auto last = std::find_if(first, screenings_.end(),
                                   [&](const auto& it) { return key < it.first.first; });
    return {first, last};
  }

  void drop_screening(Screenings::iterator it) {
    if (it == screenings_.end()) return;
    screening_age_.erase(it->second.age);
    screenings_.erase(it);
  }

  std::mutex mutex_;
  std::map<RecordKey, WinnerRecord> winners_;
  std::map<ConfigKey, Rejection> rejections_;
  std::deque<ConfigKey> rejection_age_;  // oldest first
  Screenings screenings_;
  std::map<std::uint64_t, Screenings::iterator> screening_age_;  // oldest first
  std::uint64_t next_age_ = 0;
  std::map<RecordKey, std::int64_t> misses_;
};

}  // namespace

std::unique_ptr<WinnerStore> make_memory_store() {
  return std::make_unique<MemoryStore>();
}

}  // namespace rowsmith
