// SPDX-License-Identifier: Apache-2.0
#include "runtime/host_module.h"

#include "runtime/host_scheduler.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

namespace rowsmith {
namespace {

class HostModule final : public Module {
 public:
  explicit HostModule(void* library) : library_(library) {}
  ~HostModule() override { dlclose(library_); }

  Result<const Kernel*> kernel(const std::string& name) override {
    const std::lock_guard lock(mutex_);
    const auto known = kernels_.find(name);
    if (known != kernels_.end()) return static_cast<const Kernel*>(known->second.get());
    void* entry = dlsym(library_, name.c_str());
    void* bounds = dlsym(library_, (name + "_bounds").c_str());
    if (entry == nullptr || bounds == nullptr) {
      return Status(Code::kLaunchFailed, "the loaded program has no kernel '" + name + "'");
    }
    auto kernel = std::make_unique<HostKernel>(name, reinterpret_cast<HostKernel::Entry>(entry),
                                               *static_cast<rowsmith_host::Bounds*>(bounds));
    return static_cast<const Kernel*>((kernels_[name] = std::move(kernel)).get());
  }

 private:
  void* const library_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<HostKernel>> kernels_;
};

bool write_all(int file, const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t wrote = write(file, bytes.data() + done, bytes.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    done += static_cast<std::size_t>(wrote);
  }
  return true;
}

// A path to the open file that no earlier load used: the loader takes equal paths for equal files,
// and descriptor numbers come again. A serial number is spelt in "/" and "./", which mean nothing.
std::string unique_path(int file) {
  static std::atomic<std::uint32_t> loads{0};
  const std::uint32_t serial = loads++;
  std::string path = "/proc/self/fd/";
  for (int bit = 31; bit >= 0; --bit) path += serial >> bit & 1 ? "./" : "/";
  return path + std::to_string(file);
}

}  // namespace

Result<std::unique_ptr<Module>> load_host_module(const std::string& bytes) {
  // From memory: a directory for temporary files may forbid execution.
  const int file = memfd_create("rowsmith kernel", MFD_CLOEXEC);
  if (file < 0 || !write_all(file, bytes)) {
    const std::string why = std::strerror(errno);
    if (file >= 0) close(file);
    return Status(Code::kOutOfMemory, "no memory to load a program into: " + why);
  }
  void* library = dlopen(unique_path(file).c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* error = library == nullptr ? dlerror() : nullptr;
  close(file);
  if (library == nullptr) {
    return Status(Code::kLaunchFailed, std::string("cannot load the compiled program: ") +
                                           (error != nullptr ? error : "unknown reason"));
  }
  auto module = std::make_unique<HostModule>(library);
  using Bind = bool(const rowsmith_host::Table*);
  auto* bind = reinterpret_cast<Bind*>(dlsym(library, "rowsmith_host_bind"));
  if (bind == nullptr || !bind(&HostScheduler::table())) {
    return Status(Code::kLaunchFailed,
                  "the compiled program was made for another version of the host device");
  }
  return std::unique_ptr<Module>(std::move(module));
}

std::string machine_name() {
  utsname machine = {};
  return uname(&machine) == 0 ? machine.machine : "unknown";
}

}  // namespace rowsmith
