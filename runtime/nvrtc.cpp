// SPDX-License-Identifier: Apache-2.0
//
// The one file that includes nvrtc.h. Finds and opens the library on first need, keeps it for the
// life of the process, and compiles with one fixed set of options.
#include "runtime/nvrtc.h"

#include "runtime/environment.h"
#include "runtime/nvrtc_search.h"

#include <dlfcn.h>
#include <nvrtc.h>

#include <algorithm>
#include <mutex>

namespace rowsmith {
namespace {

struct Library {
  decltype(&nvrtcVersion) version;
  decltype(&nvrtcGetErrorString) error_string;
  decltype(&nvrtcGetNumSupportedArchs) arch_count;
  decltype(&nvrtcGetSupportedArchs) archs;
  decltype(&nvrtcCreateProgram) create;
  decltype(&nvrtcDestroyProgram) destroy;
  decltype(&nvrtcCompileProgram) compile;
  decltype(&nvrtcGetProgramLogSize) log_size;
  decltype(&nvrtcGetProgramLog) log;
  decltype(&nvrtcGetCUBINSize) cubin_size;
  decltype(&nvrtcGetCUBIN) cubin;
  decltype(&nvrtcGetPTXSize) ptx_size;
  decltype(&nvrtcGetPTX) ptx;

  int release = 0;     // 13000 for 13.0
  std::string name;    // "nvrtc 13.0"
  std::string folder;  // where it was loaded from
  std::vector<int> known;
};

std::string dl_error() {
  const char* text = dlerror();
  return text ? text : "unknown error";
}

Status unsupported(const std::string& why) {
  return Status(Code::kUnsupported, why);
}

// In the order: ROWSMITH_NVRTC, already loaded, loader path, toolkit and wheel folders.
Result<void*> open_library() {
  const Result<std::string> asked = nvrtc_from_environment();
  if (!asked.ok()) return asked.status();
  if (!asked->empty()) {
    if (void* library = dlopen(asked->c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    return unsupported("ROWSMITH_NVRTC: " + dl_error());
  }
  for (const char* name : kNvrtcNames) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) return library;
  }
  for (const char* name : kNvrtcNames) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  std::string tried;
  for (const std::string& file : nvrtc_files()) {
    if (void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    tried += "; " + dl_error();
  }
  return unsupported(
      "no NVRTC library: none is loaded, in the loader's path (libnvrtc.so.13, .12), under "
      "CUDA_HOME or in a pip wheel" +
      tried + ". Install the CUDA toolkit or nvidia-cuda-nvrtc, or set ROWSMITH_NVRTC");
}

template <typename Function>
void bind(void* library, const char* symbol, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (!function && missing.empty()) missing = symbol;
}

Status bind_all(void* handle, Library& library) {
  std::string missing;
  bind(handle, "nvrtcVersion", library.version, missing);
  bind(handle, "nvrtcGetErrorString", library.error_string, missing);
  bind(handle, "nvrtcGetNumSupportedArchs", library.arch_count, missing);
  bind(handle, "nvrtcGetSupportedArchs", library.archs, missing);
  bind(handle, "nvrtcCreateProgram", library.create, missing);
  bind(handle, "nvrtcDestroyProgram", library.destroy, missing);
  bind(handle, "nvrtcCompileProgram", library.compile, missing);
  bind(handle, "nvrtcGetProgramLogSize", library.log_size, missing);
  bind(handle, "nvrtcGetProgramLog", library.log, missing);
  bind(handle, "nvrtcGetCUBINSize", library.cubin_size, missing);
  bind(handle, "nvrtcGetCUBIN", library.cubin, missing);
  bind(handle, "nvrtcGetPTXSize", library.ptx_size, missing);
  bind(handle, "nvrtcGetPTX", library.ptx, missing);
  if (missing.empty()) return Status();
  return unsupported("the NVRTC library lacks " + missing + "; CUDA 11.2 or later is needed");
}

// NVRTC opens its builtins by bare name at the first compile, blind to how it was found itself; a
// library of that name that is loaded already satisfies it.
void open_builtins(Library& library) {
  Dl_info place{};
  if (!dladdr(reinterpret_cast<void*>(library.version), &place) || !place.dli_fname) return;
  const std::string file = place.dli_fname;
  library.folder = file.substr(0, file.rfind('/') + 1);
  const std::string builtins = library.folder + "libnvrtc-builtins.so." +
                               std::to_string(library.release / 1000) + "." +
                               std::to_string(library.release % 1000 / 10);
  dlopen(builtins.c_str(), RTLD_NOW | RTLD_LOCAL);
}

Result<Library> load_library() {
  const Result<void*> handle = open_library();
  if (!handle.ok()) return handle.status();
  Library library{};
  Status bound = bind_all(*handle, library);
  if (!bound.ok()) return bound;
  int major = 0, minor = 0, count = 0;
  nvrtcResult result = library.version(&major, &minor);
  if (result == NVRTC_SUCCESS) result = library.arch_count(&count);
  library.known.resize(static_cast<std::size_t>(count));
  if (result == NVRTC_SUCCESS) result = library.archs(library.known.data());
  if (result != NVRTC_SUCCESS) {
    return unsupported(std::string("asking NVRTC for its version and architectures: ") +
                       library.error_string(result));
  }
  std::sort(library.known.begin(), library.known.end());
  library.release = major * 1000 + minor * 10;
  library.name = "nvrtc " + std::to_string(major) + "." + std::to_string(minor);
  open_builtins(library);
  return library;
}

// The process's library; a failure is tried anew by the next call.
Result<const Library*> library() {
  static std::mutex mutex;
  static const Library* loaded = nullptr;
  const std::lock_guard lock(mutex);
  if (!loaded) {
    Result<Library> found = load_library();
    if (!found.ok()) return found.status();
    // Never freed: compiles may run while the process exits.
    loaded = new Library(std::move(*found));
  }
  return loaded;
}

// Contraction is off because the text says where it wants an FMA; flushing is on because section
// "Numbers" allows results below the smallest normal to be 0 and the ex2 of the text flushes too.
std::vector<std::string> options_for(const Library& library, const CompileTarget& target) {
  std::vector<std::string> options = {target.option(),     "--std=c++17",     "--fmad=false",
                                      "--ftz=true",        "--prec-div=true", "--prec-sqrt=true",
                                      "--ptxas-options=-v"};
  if (library.release >= 12090) options.push_back("--no-cache");
  if (library.release >= 13000) options.push_back("--minimal");
  return options;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text.append(text.empty() ? "" : " ").append(part);
  return text;
}

// Frees itself on every path.
class NvrtcProgram {
 public:
  explicit NvrtcProgram(const Library& library) : library_(library) {}
  ~NvrtcProgram() {
    if (program_) library_.destroy(&program_);
  }
  NvrtcProgram(const NvrtcProgram&) = delete;
  NvrtcProgram& operator=(const NvrtcProgram&) = delete;

  nvrtcResult create(const Program& program) {
    return library_.create(&program_, program.source.c_str(), program.name.c_str(), 0, nullptr,
                           nullptr);
  }
  nvrtcResult compile(const std::vector<std::string>& options) {
    std::vector<const char*> pointers;
    for (const std::string& option : options) pointers.push_back(option.c_str());
    return library_.compile(program_, static_cast<int>(pointers.size()), pointers.data());
  }
  std::string log() const {
    std::size_t bytes = 0;
    if (library_.log_size(program_, &bytes) != NVRTC_SUCCESS || bytes == 0) return {};
    std::string text(bytes, '\0');
    if (library_.log(program_, text.data()) != NVRTC_SUCCESS) return {};
    text.resize(bytes - 1);  // counts the closing NUL
    return text;
  }
  nvrtcResult output(bool ptx, std::string& bytes) const {
    std::size_t size = 0;
    const nvrtcResult result =
        ptx ? library_.ptx_size(program_, &size) : library_.cubin_size(program_, &size);
    if (result != NVRTC_SUCCESS) return result;
    bytes.resize(size);
    return ptx ? library_.ptx(program_, bytes.data()) : library_.cubin(program_, bytes.data());
  }

 private:
  const Library& library_;
  nvrtcProgram program_ = nullptr;
};

Status compile_failed(const Library& library, const Program& program, nvrtcResult result,
                      const std::vector<std::string>& options, const std::string& log) {
  std::string message = "program " + program.name + ", " + library.name + ", options [" +
                        joined(options) + "]: " + library.error_string(result);
  if (result == NVRTC_ERROR_BUILTIN_OPERATION_FAILURE) {
    message += " (its libnvrtc-builtins was not found in " + library.folder +
               " or the loader's path; put it beside NVRTC or set LD_LIBRARY_PATH)";
  }
  if (!log.empty()) message += "\n" + log;
  const Code code = result == NVRTC_ERROR_OUT_OF_MEMORY ? Code::kOutOfMemory : Code::kCompileFailed;
  return Status(code, std::move(message));
}

std::string sm(int arch) {
  return "sm_" + std::to_string(arch);
}

}  // namespace

std::string CompileTarget::option() const {
  return (ptx ? "--gpu-architecture=compute_" : "--gpu-architecture=sm_") + std::to_string(arch);
}

Result<CompileTarget> choose_target(int capability, const std::vector<int>& known,
                                    const std::string& compiler) {
  CompileTarget target;
  for (const int arch : known) {
    if (arch <= capability) target.arch = std::max(target.arch, arch);
  }
  if (target.arch == capability) return target;
  if (target.arch == 0) {
    return unsupported(compiler + " does not know " + sm(capability) +
                       (known.empty() ? ""
                                      : "; its oldest architecture is " +
                                            sm(*std::min_element(known.begin(), known.end()))));
  }
  target.ptx = target.arch / 10 != capability / 10;
  target.note = (target.ptx ? "PTX of compute_" + std::to_string(target.arch)
                            : "cubin of " + sm(target.arch)) +
                " for " + sm(capability) + ": " + compiler + " does not know " + sm(capability);
  return target;
}

std::string nvrtc_version() {
  const Result<const Library*> nvrtc = library();
  return nvrtc.ok() ? (*nvrtc)->name : "nvrtc not found";
}

Result<std::vector<int>> nvrtc_archs() {
  const Result<const Library*> nvrtc = library();
  if (!nvrtc.ok()) return nvrtc.status();
  return (*nvrtc)->known;
}

std::string nvrtc_key(int capability) {
  const Result<const Library*> nvrtc = library();
  if (!nvrtc.ok()) return "nvrtc not found";
  const Result<CompileTarget> target = choose_target(capability, (*nvrtc)->known, (*nvrtc)->name);
  if (!target.ok()) return (*nvrtc)->name + " without " + sm(capability);
  return (*nvrtc)->name + " " + joined(options_for(**nvrtc, *target));
}

Result<Binary> nvrtc_compile(const Program& program, int capability) {
  const Result<const Library*> found = library();
  if (!found.ok()) return found.status();
  const Library& nvrtc = **found;
  const Result<CompileTarget> target = choose_target(capability, nvrtc.known, nvrtc.name);
  if (!target.ok()) return target.status();
  const std::vector<std::string> options = options_for(nvrtc, *target);
  NvrtcProgram compiled(nvrtc);
  nvrtcResult result = compiled.create(program);
  if (result != NVRTC_SUCCESS) return compile_failed(nvrtc, program, result, options, "");
  result = compiled.compile(options);
  Binary binary;
  binary.log = compiled.log();
  binary.note = target->note;
  if (result == NVRTC_SUCCESS) result = compiled.output(target->ptx, binary.bytes);
  if (result != NVRTC_SUCCESS) {
    return compile_failed(nvrtc, program, result, options, binary.log);
  }
  if (binary.bytes.empty()) {
    return Status(Code::kCompileFailed, "program " + program.name + ": " + nvrtc.name +
                                            " gave an empty binary for options [" +
                                            joined(options) + "]");
  }
  return binary;
}

}  // namespace rowsmith
