// SPDX-License-Identifier: Apache-2.0
//
// The SQL of the winner store. Every write is one immediate transaction; every read is one
// statement, so that no reader holds a log or a lock for long.
#include "cache/sqlite_store.h"

#include "cache/exchange.h"
#include "cache/record.h"

#include <rowsmith/text.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace rowsmith {
namespace {

using Values = std::vector<SqlValue>;

const std::string kKey = "device_class, op, dtype_in, dtype_out, cols, layout, rows";
// All but the rows, so that a range of rows is one stretch of the index.
const std::string kWhereCols =
    " WHERE device_class = ?1 AND op = 'softmax' AND dtype_in = ?2 AND dtype_out = ?3"
    " AND cols = ?4 AND layout = ?5";
const std::string kWhereKey = kWhereCols + " AND rows = ?6";
const std::string kWinner =
    "SELECT device_class, dtype_in, dtype_out, cols, layout, rows, config, family_digest, evidence"
    " FROM winners";

const std::string kScreening =
    "SELECT device_class, dtype_in, dtype_out, cols, layout, rows, config, median_ns,"
    " default_config, default_ns, family_digest, compiler, driver_version FROM screenings";

Values key_values(const std::string& device_class, const Problem& problem) {
  return {device_class, to_string(problem.in),     to_string(problem.out),
          problem.cols, to_string(problem.layout), problem.rows};
}

// The key in the first six columns; nullopt if another program put it there.
std::optional<RecordKey> read_key(const SqlRow& row) {
  const auto in = parse_dtype(row.text(1)), out = parse_dtype(row.text(2));
  const auto layout = parse_layout(row.text(4));
  if (!in || !out || !layout) return std::nullopt;
  RecordKey key{row.text(0), {*in, *out, row.integer(5), row.integer(3), *layout}};
  if (!why_unstorable(key.device_class, key.problem).empty()) return std::nullopt;
  return key;
}

// A row that cannot be understood is as good as absent: the others still serve.
std::optional<WinnerRecord> read_winner(const SqlRow& row) {
  auto key = read_key(row);
  auto config = parse_config(row.text(6));
  auto evidence = evidence_from_json(row.text(8));
  if (!key || !config || !evidence.ok()) return std::nullopt;
  WinnerRecord record{std::move(key->device_class), key->problem, std::move(*config), row.text(7),
                      std::move(*evidence)};
  if (!why_unstorable(record).empty()) return std::nullopt;
  return record;
}

class SqliteStore final : public WinnerStore {
 public:
  explicit SqliteStore(const StoreFileOptions& options) : file_(options) {}

  Status open(std::string& note) {
    Status status = file_.open();
    note = file_.take_note();
    return status;
  }

  Result<std::optional<WinnerRecord>> find(const std::string& device_class,
                                           const Problem& problem) override {
    std::optional<WinnerRecord> record;
    Status status = read([&](Database& database) {
      return database.query(kWinner + kWhereKey, key_values(device_class, problem),
                            [&](const SqlRow& row) { record = read_winner(row); });
    });
    if (!status.ok()) return status;
    return record;
  }

  Result<std::vector<WinnerRecord>> find_same_cols(const std::string& device_class,
                                                   const Problem& problem) override {
    Values values = key_values(device_class, problem);
    values.pop_back();
    return winners(kWinner + kWhereCols + " ORDER BY rows", values);
  }

  Result<std::vector<WinnerRecord>> list() override {
    auto records = winners(kWinner, {});
    if (records.ok()) {
      std::sort(records->begin(), records->end(),
                [](const auto& a, const auto& b) { return key_of(a) < key_of(b); });
    }
    return records;
  }

  Status put(const WinnerRecord& record) override {
    if (Status status = check(why_unstorable(record), record.problem); !status.ok()) return status;
    const WinnerRecord stored = normalised(record);
    return write([&](Database& database) {
      Status status = replace(database, stored);
      if (!status.ok() || !ends_screening(stored)) return status;
      return database.run("DELETE FROM screenings" + kWhereKey,
                          key_values(stored.device_class, stored.problem));
    });
  }

  Result<bool> merge(const WinnerRecord& record) override {
    if (Status status = check(why_unstorable(record), record.problem); !status.ok()) return status;
    const WinnerRecord challenger = normalised(record);
    bool taken = false;
    Status status = write([&](Database& database) {
      std::optional<WinnerRecord> holder;
      Status found = database.query(kWinner + kWhereKey,
                                    key_values(challenger.device_class, challenger.problem),
                                    [&](const SqlRow& row) { holder = read_winner(row); });
      taken = !holder || supersedes(challenger, *holder);
      return found.ok() && taken ? replace(database, challenger) : found;
    });
    if (!status.ok()) return status;
    return taken;
  }

  Status erase(const std::string& device_class, const Problem& problem) override {
    return write([&](Database& database) { return erase_row(database, device_class, problem); });
  }

  Status erase_all(const std::vector<WinnerRecord>& records) override {
    return write([&](Database& database) {
      for (const WinnerRecord& record : records) {
        Status status = erase_row(database, record.device_class, record.problem);
        if (!status.ok()) return status;
      }
      return Status();
    });
  }

  Status put_rejection(const Rejection& rejection) override {
    const std::string why = why_unstorable(rejection.device_class, rejection.problem);
    if (Status status = check(why, rejection.problem); !status.ok()) return status;
    Values values = key_values(rejection.device_class, rejection.problem);
    values.insert(values.end(),
                  {rejection.config, rejection.family_digest,
                   static_cast<std::int64_t>(rejection.code), shortened_reason(rejection.reason)});
    return write([&](Database& database) {
      Status status =
          database.run("INSERT INTO rejections (" + kKey +
                           ", config, family_digest, code, reason)"
                           " VALUES (?1, 'softmax', ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON "
                           "CONFLICT DO UPDATE SET"
                           " family_digest = excluded.family_digest, code = excluded.code,"
                           " reason = excluded.reason",
                       values);
      return status.ok() ? drop_surplus(database, "rejections", "rowid", kMaxRejections) : status;
    });
  }

  Result<std::vector<Rejection>> list_rejections(const std::string& device_class,
                                                 const Problem& problem) override {
    std::vector<Rejection> rejections;
    Status status = read([&](Database& database) {
      return database.query(
          "SELECT config, family_digest, code, reason FROM rejections" + kWhereKey +
              " ORDER BY config",
          key_values(device_class, problem), [&](const SqlRow& row) {
            rejections.push_back({device_class, problem, row.text(0), row.text(1),
                                  static_cast<Code>(row.integer(2)), row.text(3)});
          });
    });
    if (!status.ok()) return status;
    return rejections;
  }

  Status put_screenings(const std::vector<Screening>& screenings) override {
    for (const Screening& it : screenings) {
      if (Status status = check(why_unstorable(it), it.problem); !status.ok()) return status;
    }
    if (screenings.empty()) return {};
    return write([&](Database& database) {
      Status status;
      for (auto it = screenings.begin(); it != screenings.end() && status.ok(); ++it) {
        Values values = key_values(it->device_class, it->problem);
        values.insert(values.end(),
                      {it->config, it->median_ns, it->default_config, it->default_ns,
                       it->family_digest, it->compiler, std::int64_t{it->driver_version}});
        status = database.run(
            "INSERT OR REPLACE INTO screenings (" + kKey +
                ", config, median_ns, default_config, default_ns, family_digest, compiler,"
                " driver_version)"
                " VALUES (?1, 'softmax', ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
            values);
      }
      return status.ok() ? drop_surplus(database, "screenings", "rowid", kMaxScreenings) : status;
    });
  }

  Result<std::vector<Screening>> find_screenings(const std::string& device_class,
                                                 const Problem& problem) override {
    return screenings(kScreening + kWhereKey + " ORDER BY config",
                      key_values(device_class, problem));
  }

  Result<std::vector<Screening>> list_screenings() override { return screenings(kScreening, {}); }

  Status erase_screenings(const std::vector<Screening>& screenings) override {
    return write([&](Database& database) {
      Status status;
      for (auto it = screenings.begin(); it != screenings.end() && status.ok(); ++it) {
        Values values = key_values(it->device_class, it->problem);
        values.push_back(it->config);
        status = database.run("DELETE FROM screenings" + kWhereKey + " AND config = ?7", values);
      }
      return status;
    });
  }

  Status add_misses(const std::string& device_class, const Problem& problem,
                    std::int64_t calls) override {
    const std::string why = why_unstorable(device_class, problem);
    if (Status status = check(why, problem); !status.ok()) return status;
    Values values = key_values(device_class, problem);
    values.push_back(calls);
    return write([&](Database& database) {
      Status status = database.run("INSERT INTO misses (" + kKey +
                                       ", calls) VALUES (?1, 'softmax', ?2, ?3, ?4, ?5, ?6, ?7)"
                                       " ON CONFLICT DO UPDATE SET calls = calls + excluded.calls",
                                   values);
      return status.ok() ? drop_surplus(database, "misses", "calls, rowid", kMaxMisses) : status;
    });
  }

  Result<std::vector<Miss>> list_misses() override {
    std::vector<std::pair<RecordKey, std::int64_t>> found;
    Status status = read([&](Database& database) {
      return database.query(
          "SELECT device_class, dtype_in, dtype_out, cols, layout, rows, calls FROM misses", {},
          [&](const SqlRow& row) {
            if (auto key = read_key(row)) found.emplace_back(std::move(*key), row.integer(6));
          });
    });
    if (!status.ok()) return status;
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    std::vector<Miss> misses;
    for (const auto& [key, calls] : found) {
      misses.push_back({key.device_class, key.problem, calls});
    }
    return misses;
  }

  std::string location() const override { return file_.options().path; }

 private:
  static Status check(const std::string& why, const Problem& problem) {
    if (why.empty()) return {};
    return {Code::kInvalidArgument, "a row for " + to_string(problem) + " is not stored: " + why};
  }

  static Status erase_row(Database& database, const std::string& device_class,
                          const Problem& problem) {
    return database.run("DELETE FROM winners" + kWhereKey, key_values(device_class, problem));
  }

  static Status replace(Database& database, const WinnerRecord& record) {
    const Evidence& evidence = record.evidence;
    Values values = key_values(record.device_class, record.problem);
    values.insert(values.end(), {to_string(record.config), record.config.family,
                                 record.family_digest, evidence.median_ns, evidence.effort,
                                 evidence.tuned_at, evidence_to_json(evidence)});
    Status status = database.run(
        "INSERT OR REPLACE INTO winners (" + kKey +
            ", config, family, family_digest, median_ns, effort, tuned_at, evidence)"
            " VALUES (?1, 'softmax', ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        values);
    if (!status.ok()) return status;
    return database.run(
        "INSERT INTO devices (device_class, uuid, name, compiler, driver_version, tuned_at)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE SET name = excluded.name,"
        " compiler = excluded.compiler, driver_version = excluded.driver_version,"
        " tuned_at = excluded.tuned_at WHERE excluded.tuned_at >= devices.tuned_at",
        {record.device_class, evidence.device_uuid, evidence.device_name, evidence.compiler,
         std::int64_t{evidence.driver_version}, evidence.tuned_at});
  }

  // Keeps at most `limit` rows; the first in `order` go.
  static Status drop_surplus(Database& database, const std::string& table, const std::string& order,
                             std::size_t limit) {
    return database.run("DELETE FROM " + table + " WHERE rowid IN (SELECT rowid FROM " + table +
                            " ORDER BY " + order + " LIMIT max(0, (SELECT count(*) FROM " + table +
                            ") - ?1))",
                        {static_cast<std::int64_t>(limit)});
  }

  Result<std::vector<WinnerRecord>> winners(const std::string& sql, const Values& values) {
    std::vector<WinnerRecord> records;
    Status status = read([&](Database& database) {
      return database.query(sql, values, [&](const SqlRow& row) {
        if (auto record = read_winner(row)) records.push_back(std::move(*record));
      });
    });
    if (!status.ok()) return status;
    return records;
  }

  Result<std::vector<Screening>> screenings(const std::string& sql, const Values& values) {
    std::vector<Screening> found;
    Status status = read([&](Database& database) {
      return database.query(sql, values, [&](const SqlRow& row) {
        auto key = read_key(row);
        if (!key) return;
        Screening screening{std::move(key->device_class),
                            key->problem,
                            row.text(6),
                            row.integer(7),
                            row.text(8),
                            row.integer(9),
                            row.text(10),
                            row.text(11),
                            static_cast<int>(row.integer(12))};
        if (why_unstorable(screening).empty()) found.push_back(std::move(screening));
      });
    });
    if (!status.ok()) return status;
    return found;
  }

  template <typename Body>
  Status read(Body&& body) {
    const std::lock_guard lock(mutex_);
    Status status = file_.ready();
    if (status.ok()) status = body(file_.database());
    return after_damage(std::move(status), [] { return Status(); });
  }

  template <typename Body>
  Status write(Body&& body) {
    const std::lock_guard lock(mutex_);
    if (file_.options().read_only) {
      return {Code::kCacheBusy, file_.options().path + " is open for reading only"};
    }
    const auto in_transaction = [&] {
      return file_.database().write([&] { return body(file_.database()); });
    };
    Status status = file_.ready();
    if (status.ok()) status = in_transaction();
    return after_damage(std::move(status), in_transaction);
  }

  // Where a statement met damage: sets the file aside and does `again` on the new one. Says so
  // once, also where opening it again for this call found the damage.
  template <typename Again>
  Status after_damage(Status status, Again&& again) {
    if (status.code() == Code::kCacheDamaged && !file_.options().read_only) {
      Status recovered = file_.recover(status.message());
      if (recovered.ok()) recovered = again();
      if (!recovered.ok()) return recovered;
    }
    const std::string note = file_.take_note();
    return note.empty() ? status : Status(Code::kCacheDamaged, note);
  }

  std::mutex mutex_;
  StoreFile file_;
};

}  // namespace

Result<OpenedSqlite> open_sqlite_store(const StoreFileOptions& options) {
  auto store = std::make_unique<SqliteStore>(options);
  OpenedSqlite opened;
  if (Status status = store->open(opened.note); !status.ok()) return status;
  opened.store = std::move(store);
  return opened;
}

}  // namespace rowsmith
