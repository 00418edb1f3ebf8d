// SPDX-License-Identifier: Apache-2.0
#include "runtime/session.h"

#include "runtime/devices.h"
#include "runtime/log.h"

#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace rowsmith {
namespace {

// Every runtime of the process meets the same directory: its fault is said once.
void warn_once(const std::string& note) {
  static std::mutex mutex;
  static std::set<std::string>& said = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  if (said.insert(note).second) log().warn("{}", note);
}

std::string binaries_in(const std::string& directory) {
  return directory + "/binaries";
}

std::shared_ptr<WinnerStore> open_winners(const RuntimeOptions& options) {
  if (options.cache_dir.empty() && options.site_cache.empty()) return make_memory_store();
  StoreOptions store;
  store.directory = options.cache_dir;
  store.read_only = options.read_only || options.cache_dir.empty();
  store.site = options.site_cache;
  OpenedStore opened = open_store(store);
  if (!opened.note.empty()) warn_once(opened.note);
  return std::move(opened.store);
}

std::shared_ptr<BinaryStore> open_binaries(const RuntimeOptions& options) {
  BinaryStoreOptions store;
  if (!options.cache_dir.empty()) store.directory = binaries_in(options.cache_dir);
  for (const std::string& site : options.site_cache) store.site.push_back(binaries_in(site));
  store.read_only = options.read_only;
  return std::make_shared<BinaryStore>(std::move(store));
}

}  // namespace

Result<Session> open_session(const RuntimeOptions& options) {
  Result<std::shared_ptr<Device>> device = open_device(options.device);
  if (!device.ok()) return device.status();
  return make_session(*device, options);
}

Session make_session(std::shared_ptr<Device> device, const RuntimeOptions& options) {
  Session session;
  session.store = open_winners(options);
  session.binaries = open_binaries(options);
  session.modules = std::make_shared<ModuleTable>(device, session.binaries);
  session.device = std::move(device);
  return session;
}

}  // namespace rowsmith
