// SPDX-License-Identifier: Apache-2.0
//
// Reads ask the layers from near to far; writes go to the own one, else to memory.
#include "cache/layered_store.h"

#include "cache/record.h"

#include <algorithm>
#include <map>
#include <utility>

namespace rowsmith {
namespace {

class LayeredStore final : public WinnerStore {
 public:
  explicit LayeredStore(StoreLayers layers)
      : layers_(std::move(layers)), overlay_(make_memory_store()) {
    reads_ = {overlay_.get(), layers_.own.get()};
    for (const auto& site : layers_.site) reads_.push_back(site.get());
  }

  Result<std::optional<WinnerRecord>> find(const std::string& device_class,
                                           const Problem& problem) override {
    // A layer that fails does not hide what the next one knows.
    Status failure;
    for (WinnerStore* layer : reads_) {
      auto found = layer->find(device_class, problem);
      if (found.ok() && found->has_value()) {
        (*found)->site = site_of(*layer);
        return found;
      }
      if (!found.ok() && failure.ok()) failure = found.status();
    }
    if (!failure.ok()) return failure;
    return std::optional<WinnerRecord>();
  }

  Result<std::vector<WinnerRecord>> find_same_cols(const std::string& device_class,
                                                   const Problem& problem) override {
    return joined([&](WinnerStore& layer) { return layer.find_same_cols(device_class, problem); });
  }

  Result<std::vector<WinnerRecord>> list() override {
    return joined([](WinnerStore& layer) { return layer.list(); });
  }

  Status put(const WinnerRecord& record) override {
    Status status = write([&](WinnerStore& layer) { return layer.put(record); });
    if (status.ok() && !layers_.own_read_only) {
      return overlay_->erase(record.device_class, record.problem);
    }
    return status;
  }

  Result<bool> merge(const WinnerRecord& record) override {
    bool taken = false;
    Status status = write([&](WinnerStore& layer) -> Status {
      if (&layer == overlay_.get()) {
        const auto held = layers_.own->find(record.device_class, record.problem);
        if (held.ok() && held->has_value() && !supersedes(normalised(record), **held)) return {};
      }
      auto merged = layer.merge(record);
      taken = merged.ok() && *merged;
      return merged.status();
    });
    if (!status.ok()) return status;
    return taken;
  }

  Status erase(const std::string& device_class, const Problem& problem) override {
    Status status = overlay_->erase(device_class, problem);
    if (!layers_.own_read_only) status = layers_.own->erase(device_class, problem);
    return status;
  }

  Status erase_all(const std::vector<WinnerRecord>& records) override {
    if (!layers_.own_read_only) {
      if (Status status = layers_.own->erase_all(records); !status.ok()) return status;
    }
    return overlay_->erase_all(records);
  }

  Status put_rejection(const Rejection& rejection) override {
    return write([&](WinnerStore& layer) { return layer.put_rejection(rejection); });
  }

  Result<std::vector<Rejection>> list_rejections(const std::string& device_class,
                                                 const Problem& problem) override {
    std::map<std::string, Rejection> nearest;
    for (WinnerStore* layer : reads_) {
      auto rejections = layer->list_rejections(device_class, problem);
      if (!rejections.ok()) return rejections;
      for (Rejection& rejection : *rejections) {
        nearest.try_emplace(rejection.config, std::move(rejection));
      }
    }
    std::vector<Rejection> result;
    for (auto& [config, rejection] : nearest) result.push_back(std::move(rejection));
    return result;
  }

  // Times of the user's own runs alone.
  Status put_screenings(const std::vector<Screening>& screenings) override {
    return write([&](WinnerStore& layer) { return layer.put_screenings(screenings); });
  }

  Result<std::vector<Screening>> find_screenings(const std::string& device_class,
                                                 const Problem& problem) override {
    return of_own([&](WinnerStore& layer) { return layer.find_screenings(device_class, problem); });
  }

  Result<std::vector<Screening>> list_screenings() override {
    return of_own([](WinnerStore& layer) { return layer.list_screenings(); });
  }

  Status erase_screenings(const std::vector<Screening>& screenings) override {
    Status status = overlay_->erase_screenings(screenings);
    if (!layers_.own_read_only) status = layers_.own->erase_screenings(screenings);
    return status;
  }

  Status add_misses(const std::string& device_class, const Problem& problem,
                    std::int64_t calls) override {
    return write(
        [&](WinnerStore& layer) { return layer.add_misses(device_class, problem, calls); });
  }

  // Of the user's own calls: a site's counts are not theirs.
  Result<std::vector<Miss>> list_misses() override {
    std::map<RecordKey, std::int64_t> sums;
    for (WinnerStore* layer : {overlay_.get(), layers_.own.get()}) {
      const auto misses = layer->list_misses();
      if (!misses.ok()) return misses;
      for (const Miss& miss : *misses) sums[{miss.device_class, miss.problem}] += miss.calls;
    }
    std::vector<Miss> result;
    for (const auto& [key, calls] : sums) result.push_back({key.device_class, key.problem, calls});
    std::stable_sort(result.begin(), result.end(),
                     [](const Miss& a, const Miss& b) { return a.calls > b.calls; });
    return result;
  }

  std::string location() const override { return layers_.own->location(); }

 private:
  std::string site_of(const WinnerStore& layer) const {
    const bool own = &layer == overlay_.get() || &layer == layers_.own.get();
    return own ? std::string() : layer.location();
  }

  // `body` on the own layer, and on memory where that cannot take it. Cache damaged means that the
  // own layer has begun anew and taken it.
  template <typename Body>
  Status write(Body&& body) {
    if (layers_.own_read_only) return body(*overlay_);
    Status status = body(*layers_.own);
    const Code code = status.code();
    if (status.ok() || code == Code::kInvalidArgument || code == Code::kCacheDamaged) return status;
    Status kept = body(*overlay_);
    return kept.ok() ? status.with_context("kept in memory for this process only") : kept;
  }

  // What memory holds, then what the own layer does unless it is only read: a search that cannot be
  // written down is not gone on with either.
  template <typename List>
  Result<std::vector<Screening>> of_own(List&& list) {
    auto screenings = list(*overlay_);
    if (layers_.own_read_only || !screenings.ok()) return screenings;
    auto own = list(*layers_.own);
    if (own.ok()) screenings->insert(screenings->end(), own->begin(), own->end());
    return own.ok() ? screenings : own;
  }

  // The nearest record of each key, in key order, from the layers' lists.
  template <typename List>
  Result<std::vector<WinnerRecord>> joined(List&& list) {
    std::map<RecordKey, WinnerRecord> nearest;
    for (WinnerStore* layer : reads_) {
      auto records = list(*layer);
      if (!records.ok()) return records;
      for (WinnerRecord& record : *records) {
        record.site = site_of(*layer);
        nearest.try_emplace(key_of(record), std::move(record));
      }
    }
    std::vector<WinnerRecord> result;
    for (auto& [key, record] : nearest) result.push_back(std::move(record));
    return result;
  }

  StoreLayers layers_;
  std::unique_ptr<WinnerStore> overlay_;
  std::vector<WinnerStore*> reads_;  // nearest first
};

}  // namespace

std::unique_ptr<WinnerStore> make_layered_store(StoreLayers layers) {
  return std::make_unique<LayeredStore>(std::move(layers));
}

}  // namespace rowsmith
