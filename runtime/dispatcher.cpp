// SPDX-License-Identifier: Apache-2.0
#include "kernel_templates/catalog.h"
#include "runtime/dispatcher_class.h"
#include "runtime/log.h"

#include <algorithm>

namespace rowsmith {

Dispatcher::Dispatcher(Session session, const RuntimeOptions& options, TuneOnMiss tune)
    : session_(std::move(session)),
      device_(*session_.device),
      modules_(*session_.modules),
      class_(device_class(device_.facts())),
      on_miss_(options.on_miss),
      budget_ms_(options.tune_budget_ms),
      check_pointers_(options.check_pointers),
      tune_(std::move(tune)),
      misses_(class_) {
  if (options.pin.empty()) return;
  pin_ = parse_config(options.pin);
  if (!pin_) {
    pin_fault_ = Status(Code::kInvalidArgument, "the pin '" + options.pin + "' is not a config");
  }
}

Status Dispatcher::softmax(const SoftmaxCall& given) {
  SoftmaxCall call = given;
  if (!is_plain_call(call)) {
    Status status = check_call(call);
    if (!status.ok() || call.rows == 0 || call.cols == 0) return status;
  }
  if (check_pointers_) {
    Status status = device_.check_access(call.src, "src");
    if (status.ok()) status = device_.check_access(call.dst, "dst");
    if (!status.ok()) return status;
  }
  const Problem problem{call.in, call.out, call.rows, call.cols,
                        layout_of(call.src, call.dst, call.cols, call.src_stride, call.dst_stride,
                                  call.in, call.out)};
  const std::uint64_t key = node_key(problem);
  const Served* served = table_.find(key, call.rows);
  if (served == nullptr) {
    return no_throw("softmax", [&] { return walk(problem, &call); });
  }
  Status status = launch_softmax(device_, served->plan, call);
  if (status.ok()) {
    count(*served);
    return status;
  }
  return launch_failed(call, problem, key, *served, status);
}

Status Dispatcher::prepare(const std::vector<Problem>& problems) {
  Status first;
  for (const Problem& problem : problems) {
    const Status status = no_throw("prepare", [&] { return prepare_one(problem); });
    if (first.ok()) first = status;
  }
  return first;
}

Status Dispatcher::prepare_one(const Problem& problem) {
  if (Status status = check_values(problem); !status.ok()) return status;
  if (problem.rows == 0 || problem.cols == 0) return {};
  if (Status status = walk(problem, nullptr); !status.ok() || pin_) return status;
  // What a capture can always fall back to.
  return modules_.get(problem, generic_config()).status();
}

Stats Dispatcher::stats() const {
  Stats stats;
  stats.exact = exact_.sum();
  stats.calls = std::max(calls_.sum(), stats.exact);  // other threads count meanwhile
  stats.misses = stats.calls - stats.exact;
  stats.compiled = modules_.compiled();
  stats.loaded = modules_.loads();
  stats.tuned = tuned_;
  return stats;
}

void Dispatcher::close_cache() noexcept {
  try {
    misses_.flush(*session().store);
    std::shared_ptr<WinnerStore> memory = make_memory_store();
    const std::lock_guard lock(mutex_);
    session_.store.swap(memory);
  } catch (const std::exception& error) {
    log().warn("closing the cache: {}", error.what());
  }
}

std::unique_ptr<Runtime> make_dispatcher(Session session, const RuntimeOptions& options,
                                         TuneOnMiss tune) {
  return std::make_unique<Dispatcher>(std::move(session), options, std::move(tune));
}

void close_cache(Runtime& runtime) {
  if (auto* dispatcher = dynamic_cast<Dispatcher*>(&runtime)) dispatcher->close_cache();
}

}  // namespace rowsmith
