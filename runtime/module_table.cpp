// SPDX-License-Identifier: Apache-2.0
#include "runtime/module_table.h"

#include "runtime/log.h"

#include <rowsmith/text.h>

#include <exception>
#include <new>
#include <optional>
#include <utility>

namespace rowsmith {

std::string binary_store_key(const Device& device, const std::string& program_text) {
  return digest_of({device.binary_key(), program_text});
}

ModuleTable::ModuleTable(std::shared_ptr<Device> device, std::shared_ptr<BinaryStore> binaries)
    : device_(std::move(device)), binaries_(std::move(binaries)) {}

Result<const Kernel*> ModuleTable::get(const Problem& problem, const Config& config,
                                       const Binary* compiled) {
  const Instance instance{problem, config};
  const std::string name = entry_name(instance);
  std::shared_ptr<Entry> entry;
  {
    std::unique_lock lock(mutex_);
    const auto found = entries_.find(name);
    if (found != entries_.end()) {
      // Held by value: a failed load takes the entry out of the table while others still wait.
      entry = found->second;
      loaded_.wait(lock, [&] { return !entry->loading; });
      if (entry->kernel != nullptr) return entry->kernel;
      return entry->failure;
    }
    entry = std::make_shared<Entry>();
    entries_.emplace(name, entry);
  }

  Status failure;
  std::unique_ptr<Module> module;
  const Kernel* kernel = nullptr;
  try {
    Result<std::unique_ptr<Module>> loaded = load(instance, name, compiled);
    if (loaded.ok()) {
      module = std::move(*loaded);
      Result<const Kernel*> found = module->kernel(name);
      if (found.ok()) kernel = *found;
      failure = found.status();
    } else {
      failure = loaded.status();
    }
  } catch (const std::bad_alloc&) {
    failure = Status(Code::kOutOfMemory, "host memory, while loading " + name);
  } catch (const std::exception& error) {
    failure = Status(Code::kInternal, "loading " + name + ": " + error.what());
  }

  if (!failure.ok()) failure = failure.with_context(to_string(config));
  const std::lock_guard lock(mutex_);
  entry->loading = false;
  entry->failure = failure;
  if (failure.ok()) {
    entry->module = std::move(module);
    entry->kernel = kernel;
    ++loads_;
  } else {
    entries_.erase(name);
  }
  loaded_.notify_all();
  if (!failure.ok()) return failure;
  return kernel;
}

const Kernel* ModuleTable::loaded(const Problem& problem, const Config& config) const {
  const std::string name = entry_name({problem, config});
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : found->second->kernel;
}

Result<std::unique_ptr<Module>> ModuleTable::load(const Instance& instance,
                                                  const std::string& entry,
                                                  const Binary* compiled) {
  const Program program{to_string(instance.config), program_text({instance}), {entry}};
  const std::string key = binaries_ ? binary_store_key(*device_, program.source) : "";
  if (compiled != nullptr) return load_and_keep(*compiled, program, key);
  if (binaries_) {
    std::optional<std::string> bytes = binaries_->get(key);
    for (const std::string& note : binaries_->take_notes()) log().warn("{}", note);
    if (bytes) {
      Result<std::unique_ptr<Module>> module = device_->load({std::move(*bytes), "", ""});
      // Only a bad image is the file's fault: compiling again would not mend the others.
      if (module.ok() || module.status().code() != Code::kLaunchFailed) return module;
      log().info("stored binary {} of {} does not load and is made anew: {}", key, program.name,
                 module.status().message());
    }
  }
  Result<Binary> binary = device_->compile(program);
  if (!binary.ok()) return binary.status();
  ++compiled_;
  return load_and_keep(*binary, program, key);
}

Result<std::unique_ptr<Module>> ModuleTable::load_and_keep(const Binary& binary,
                                                           const Program& program,
                                                           const std::string& key) {
  if (!binary.note.empty()) log().info("{}: {}", program.name, binary.note);
  Result<std::unique_ptr<Module>> module = device_->load(binary);
  if (module.ok() && binaries_) {
    const Status stored = binaries_->put(key, binary.bytes);
    if (!stored.ok()) log().info("{} is not kept on disk: {}", program.name, stored.message());
  }
  return module;
}

}  // namespace rowsmith
