// SPDX-License-Identifier: Apache-2.0
//
// ModuleTable: the loaded kernels of one device. Compiles through the binary store; many threads
// that want the same kernel cause one compile.
#pragma once

#include "cache/binary_store.h"
#include "kernel_templates/catalog.h"
#include "runtime/device.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace rowsmith {

// What a program's binary for the device is stored under.
std::string binary_store_key(const Device& device, const std::string& program_text);

// Thread-safe. Kernels live until the table does. A failure is not remembered: a later call
// retries.
class ModuleTable {
 public:
  // `binaries` may be null: then nothing is kept on disk.
  ModuleTable(std::shared_ptr<Device> device, std::shared_ptr<BinaryStore> binaries);

  // The kernel of a config for the problem's dtypes and columns: loaded already, from the binary
  // store, or compiled as a program of its own. Codes of Device::compile and load.
  // `compiled`, if given, is what compiling it so gave elsewhere, and spares doing it again.
  Result<const Kernel*> get(const Problem& problem, const Config& config,
                            const Binary* compiled = nullptr);
  // The same, only if it is loaded already; nullptr otherwise. Never compiles or reads a file.
  const Kernel* loaded(const Problem& problem, const Config& config) const;

  std::uint64_t compiled() const { return compiled_; }
  std::uint64_t loads() const { return loads_; }

 private:
  struct Entry {
    bool loading = true;
    std::unique_ptr<Module> module;
    const Kernel* kernel = nullptr;
    Status failure;  // for those who waited; the entry has left the table
  };
  Result<std::unique_ptr<Module>> load(const Instance& instance, const std::string& entry,
                                       const Binary* compiled);
  Result<std::unique_ptr<Module>> load_and_keep(const Binary& binary, const Program& program,
                                                const std::string& key);

  std::shared_ptr<Device> device_;
  std::shared_ptr<BinaryStore> binaries_;
  mutable std::mutex mutex_;
  std::condition_variable loaded_;
  std::map<std::string, std::shared_ptr<Entry>> entries_;  // by entry name
  std::atomic<std::uint64_t> compiled_{0}, loads_{0};
};

}  // namespace rowsmith
