// SPDX-License-Identifier: Apache-2.0
#include "runtime/process_runtime.h"

#include "runtime/devices.h"
#include "runtime/dispatcher.h"

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>

namespace rowsmith {
namespace {

// A list that only grows, so that finding takes no lock. Several names may mean one runtime: ""
// and the first GPU's number.
struct Node {
  std::string device;
  Runtime* runtime;
  Node* next;
};

struct ProcessRuntimes {
  std::atomic<Node*> first{nullptr};
  std::atomic<bool> on_host{false};  // the environment says so: no stream is asked
  std::mutex opening;

  Runtime* find(const std::string& device) const {
    for (Node* node = first.load(std::memory_order_acquire); node; node = node->next) {
      if (node->device == device) return node->runtime;
    }
    return nullptr;
  }
  void add(std::string device, Runtime* runtime) {
    first.store(new Node{std::move(device), runtime, first.load(std::memory_order_relaxed)},
                std::memory_order_release);
  }
};

ProcessRuntimes& runtimes() {
  static ProcessRuntimes& all = *new ProcessRuntimes;
  return all;
}

void close_caches() {
  for (Node* node = runtimes().first.load(std::memory_order_acquire); node; node = node->next) {
    close_cache(*node->runtime);
  }
}

// The name that device_of_stream gives a runtime's device.
std::string canonical_name(const DeviceFacts& facts) {
  return facts.kind == "cuda" ? std::to_string(facts.ordinal) : facts.kind;
}

Result<Runtime*> open_for(const std::string& device, RuntimeOptions options) {
  ProcessRuntimes& all = runtimes();
  const std::lock_guard lock(all.opening);
  if (Runtime* runtime = all.find(device)) return runtime;
  if (!device.empty()) options.device = device;
  options.check_pointers = true;
  Result<std::unique_ptr<Runtime>> opened = Runtime::open(options);
  if (!opened.ok()) return opened.status();
  const std::string canonical = canonical_name((*opened)->device());
  Runtime* runtime = all.find(canonical);
  if (runtime == nullptr) {
    // Registered once the store is open, so that it runs before what the store stands on ends.
    static const int registered = std::atexit(close_caches);
    static_cast<void>(registered);
    runtime = opened->release();
    all.add(canonical, runtime);
  }
  if (device != canonical) all.add(device, runtime);
  if (canonical == "host") all.on_host.store(true, std::memory_order_release);
  return runtime;
}

}  // namespace

Result<Runtime*> process_runtime(CUstream_st* stream) {
  const ProcessRuntimes& all = runtimes();
  std::string device = "host";
  if (!all.on_host.load(std::memory_order_acquire)) {
    Result<std::string> of_stream = device_of_stream(stream);
    if (!of_stream.ok()) return of_stream.status();
    device = std::move(*of_stream);
  }
  if (Runtime* runtime = all.find(device)) return runtime;

  Result<RuntimeOptions> options = RuntimeOptions::from_environment();
  if (!options.ok()) return options.status();
  if (options->device == "host") device = "host";
  return open_for(device, std::move(*options));
}

}  // namespace rowsmith
