// SPDX-License-Identifier: Apache-2.0
//
// The memory of tuning: which config won for a problem on a class of device, on what evidence.
// Implementations: SQLite (winners.db) and plain memory; both obey tests/store_contract_test.cpp.
#pragma once

#include <rowsmith/status.h>
#include <rowsmith/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rowsmith {

// What the winner of another S would cost here, had it to serve this problem.
struct Reuse {
  std::int64_t rows = 0;  // the other S; 0 = none was stored
  std::string config;     // its winner's when this was measured
  double ratio = 0;       // the time of that config here over the winner's; 0 = not measured
};

// What was measured, and how sure it is. Times are whole nanoseconds a call; 0 = not measured.
struct Evidence {
  std::int64_t median_ns = 0;  // the winner; always > 0 in a stored record
  std::int64_t spread_ns = 0;  // median absolute deviation of its samples
  std::int64_t samples = 0;
  std::string default_config;  // chosen without measurements, measured in the same run
  std::int64_t default_ns = 0;
  // The default's time over the winner's, the interval that its median lies in (statistics.h); 0 =
  // the default won, or has no time.
  double speedup_low = 0, speedup_high = 0;
  std::string runner_up;  // empty where only one candidate survived
  std::int64_t runner_up_ns = 0;
  std::int64_t floor_ns = 0;    // best plain copy of the same bytes
  std::string verdict;          // "winner", "tie" or "default"
  std::int64_t candidates = 0;  // tried
  bool cut = false;             // the time ran out before the search ended
  // "split_row,warp_rows": no others were tried, but for the default; "" = all.
  std::string families;
  std::int64_t timed = 0;     // of the candidates, where the search was cut or not of all families
  std::int64_t rejected = 0;  // failed to compile, to launch or to be right
  double error_ratio = 0;     // largest distance over the accuracy bound; <= 1
  double max_error_ulp = 0;   // in units of the last place of the output dtype
  std::string policy;         // how it was timed: "cold L2, graph replay"
  std::string effort;         // "quick", "standard", "thorough"
  bool contended = false;     // another process may have used the device meanwhile
  // Read of the device before, amid and after the samples; 0 = not known.
  std::int64_t sm_clock_mhz = 0, sm_clock_high_mhz = 0;  // the lowest and the highest
  std::int64_t memory_clock_mhz = 0;                     // the lowest
  std::string throttled;  // what held the clocks down, "power cap, thermal"; "" = nothing seen
  std::string device_name, device_uuid, compiler, tool_version;
  int driver_version = 0;
  std::int64_t tuned_at = 0;  // seconds since 1970, UTC
  Reuse below, above;         // of the winners stored nearest in S, H and all else being equal
};

// Empty, or why the record is in doubt: its search was cut or not of all families, or its times may
// not be those that the device has by itself (contended, throttled, or the SM clock moved by more
// than 5 %). Such a record serves, and the next tuning replaces it.
std::string why_dirty(const Evidence& evidence);

struct WinnerRecord {
  std::string device_class;  // device_class(facts)
  Problem problem;
  Config config;
  std::string family_digest;  // of the family that gave the config: a changed family drops its rows
  Evidence evidence;
  std::string
      site;  // the site's file that a store found it in; "" = the user's own; not kept by puts
};

// A candidate that failed: kept apart from times, so that no magic number stands for a failure.
struct Rejection {
  std::string device_class;
  Problem problem;
  std::string config;
  std::string family_digest;
  Code code = Code::kInternal;
  std::string reason;
};

// What a candidate took in the screening of a search that has not ended: a later one may take it
// over, its time brought to that day's clocks by the default's.
struct Screening {
  std::string device_class;
  Problem problem;
  std::string config;
  std::int64_t median_ns = 0;
  std::string default_config;   // the same run's, and
  std::int64_t default_ns = 0;  // its median
  // What the time holds for.
  std::string family_digest, compiler;
  int driver_version = 0;
};

// Abstract. Every method is safe from any thread; other processes may use the same file. Absent is
// not an error. Codes: cache busy, cache damaged, invalid argument (a record without a time or with
// an empty config).
class WinnerStore {
 public:
  virtual ~WinnerStore() = default;

  // The record for exactly this problem and device class, if there is one.
  virtual Result<std::optional<WinnerRecord>> find(const std::string& device_class,
                                                   const Problem& problem) = 0;
  // All records of the device class that differ from `problem` in rows at most, by ascending rows.
  virtual Result<std::vector<WinnerRecord>> find_same_cols(const std::string& device_class,
                                                           const Problem& problem) = 0;
  // Every record, ordered by (device class, in, out, cols, rows, layout).
  virtual Result<std::vector<WinnerRecord>> list() = 0;
  // Adds or replaces the record of its key. Returns once it is durable for this process's readers.
  // Cache damaged, here and from every call that writes: the file was found to be damaged, was set
  // aside with all it held, and what was to be written is in the one that was begun in its place.
  // A record of a thorough search of all families that was not cut ends that search: its screenings
  // go.
  virtual Status put(const WinnerRecord& record) = 0;
  // Joins a record from elsewhere: of two for one key the greater (effort, tuned_at, digest of the
  // record) stays, so merging is commutative, associative and idempotent. True if it was taken.
  virtual Result<bool> merge(const WinnerRecord& record) = 0;
  virtual Status erase(const std::string& device_class, const Problem& problem) = 0;
  // The records of all these keys at once: where it fails, none is gone.
  virtual Status erase_all(const std::vector<WinnerRecord>& records) = 0;

  virtual Status put_rejection(const Rejection& rejection) = 0;
  virtual Result<std::vector<Rejection>> list_rejections(const std::string& device_class,
                                                         const Problem& problem) = 0;

  // Screenings are a machine's own: never exported, imported or read from a site. All at once, each
  // replacing the one of its key and config. Invalid argument also for one without times.
  virtual Status put_screenings(const std::vector<Screening>& screenings) = 0;
  // Of one problem, by config.
  virtual Result<std::vector<Screening>> find_screenings(const std::string& device_class,
                                                         const Problem& problem) = 0;
  virtual Result<std::vector<Screening>> list_screenings() = 0;
  virtual Status erase_screenings(const std::vector<Screening>& screenings) = 0;

  // Adds to the number of calls that found no exact winner.
  virtual Status add_misses(const std::string& device_class, const Problem& problem,
                            std::int64_t calls) = 0;
  struct Miss {
    std::string device_class;
    Problem problem;
    std::int64_t calls = 0;
  };
  // Most calls first.
  virtual Result<std::vector<Miss>> list_misses() = 0;

  // Where it lives, for people: a file name, or "memory".
  virtual std::string location() const = 0;
};

// A store that ends with the process.
std::unique_ptr<WinnerStore> make_memory_store();

struct StoreOptions {
  std::string directory;          // made with mode 0700 if absent
  bool read_only = false;         // never writes; puts go to memory for this process
  std::vector<std::string> site;  // further read-only directories, nearest first
  int busy_timeout_ms = 5000;
};

// The store in `directory`/winners.db. Never fails: a missing, full or read-only disk, a foreign
// file or a damaged one (set aside under another name) leave a store that works in memory, and
// `note` says so in one sentence (empty when all is well).
struct OpenedStore {
  std::unique_ptr<WinnerStore> store;
  std::string note;
};
OpenedStore open_store(const StoreOptions& options);

}  // namespace rowsmith
