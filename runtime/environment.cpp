// SPDX-License-Identifier: Apache-2.0
#include "runtime/environment.h"

#include "kernel_templates/catalog.h"
#include "runtime/log.h"

#include <rowsmith/text.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace rowsmith {
namespace {

constexpr int kMaxBudgetMs = 3'600'000;

const char* read_process(const char* name) {
  return std::getenv(name);
}

std::string text_of(const ReadVariable& read, const char* name) {
  const char* text = read(name);
  return text == nullptr ? std::string() : std::string(text);
}

Status wrong(const char* name, const std::string& value, const std::string& allowed) {
  return {Code::kInvalidArgument,
          std::string(name) + "='" + value + "' is not allowed: set it to " + allowed};
}

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// An absolute directory without its trailing slashes; it need not exist.
Result<std::string> directory(const char* name, const std::string& value,
                              const std::string& piece) {
  if (piece.find_first_not_of(" \t") == std::string::npos) {
    return wrong(name, value, "an absolute directory, not blanks");
  }
  if (piece.front() != '/') return wrong(name, value, "an absolute directory");
  std::error_code error;
  const bool exists = std::filesystem::exists(piece, error);
  if (exists && !std::filesystem::is_directory(piece, error)) {
    return wrong(name, value, "a directory; this is a file");
  }
  const std::size_t last = piece.find_last_not_of('/');
  return last == std::string::npos ? std::string("/") : piece.substr(0, last + 1);
}

// Where winners and binaries live when ROWSMITH_CACHE_DIR does not say. As the XDG specification
// asks, a relative XDG_CACHE_HOME counts as unset.
std::string default_cache_dir(const ReadVariable& read) {
  const std::string xdg = text_of(read, "XDG_CACHE_HOME");
  if (!xdg.empty() && xdg.front() == '/') return xdg + "/rowsmith";
  const std::string home = text_of(read, "HOME");
  if (!home.empty() && home.front() == '/') return home + "/.cache/rowsmith";
  return {};
}

Status read_cache(const ReadVariable& read, EnvironmentOptions& out) {
  const std::string value = text_of(read, "ROWSMITH_CACHE_DIR");
  if (value.empty()) {
    out.options.cache_dir = default_cache_dir(read);
    if (out.options.cache_dir.empty()) {
      out.note =
          "neither ROWSMITH_CACHE_DIR nor XDG_CACHE_HOME nor HOME names an absolute directory: "
          "winners and kernels are kept in memory for this process only";
    }
  } else {
    Result<std::string> path = directory("ROWSMITH_CACHE_DIR", value, value);
    if (!path.ok()) return path.status();
    out.options.cache_dir = *path;
  }

  const std::string sites = text_of(read, "ROWSMITH_SITE_CACHE");
  Status status;
  if (!sites.empty()) {
    detail::for_each_piece(sites, ':', [&](std::string_view piece) {
      Result<std::string> path = directory("ROWSMITH_SITE_CACHE", sites, std::string(piece));
      if (path.ok()) out.options.site_cache.push_back(*path);
      status = path.status();
      return path.ok();
    });
  }
  if (!status.ok()) return status;

  const std::string read_only = text_of(read, "ROWSMITH_READONLY");
  if (!read_only.empty() && read_only != "0" && read_only != "1") {
    return wrong("ROWSMITH_READONLY", read_only, "0 or 1");
  }
  out.options.read_only = read_only == "1";
  return {};
}

Status read_device(const ReadVariable& read, RuntimeOptions& options) {
  const std::string value = text_of(read, "ROWSMITH_DEVICE");
  const bool by_uuid = value.rfind("GPU-", 0) == 0 && value.size() > 4;
  if (!value.empty() && value != "host" && !by_uuid && !is_number(value)) {
    return wrong("ROWSMITH_DEVICE", value, "a GPU's number, GPU-<uuid> or host");
  }
  options.device = value;
  return {};
}

Status read_policy(const ReadVariable& read, RuntimeOptions& options) {
  const std::string policy = text_of(read, "ROWSMITH_ON_MISS");
  if (policy == "default") {
    options.on_miss = OnMiss::kDefault;
  } else if (policy == "error") {
    options.on_miss = OnMiss::kError;
  } else if (!policy.empty() && policy != "tune") {
    return wrong("ROWSMITH_ON_MISS", policy, "tune, default or error");
  }

  const std::string budget = text_of(read, "ROWSMITH_TUNE_BUDGET_MS");
  if (!budget.empty()) {
    const auto [end, error] =
        std::from_chars(budget.data(), budget.data() + budget.size(), options.tune_budget_ms);
    if (!is_number(budget) || error != std::errc() || end != budget.data() + budget.size() ||
        options.tune_budget_ms < 1 || options.tune_budget_ms > kMaxBudgetMs) {
      return wrong("ROWSMITH_TUNE_BUDGET_MS", budget,
                   "a number of milliseconds from 1 to " + std::to_string(kMaxBudgetMs));
    }
  }

  const std::string pin = text_of(read, "ROWSMITH_PIN");
  if (pin.empty()) return {};
  const std::optional<Config> config = parse_config(pin);
  if (!config) return wrong("ROWSMITH_PIN", pin, "a config such as " + to_string(generic_config()));
  if (find_family(config->family) == nullptr) {
    std::string names;
    for (const Family* family : catalog()) names.append(" ").append(family->name());
    return wrong("ROWSMITH_PIN", pin, "a config of one of these families:" + names);
  }
  options.pin = pin;
  return {};
}

}  // namespace

Result<EnvironmentOptions> read_environment(const ReadVariable& read) {
  EnvironmentOptions out;
  if (Status status = read_cache(read, out); !status.ok()) return status;
  if (Status status = read_device(read, out.options); !status.ok()) return status;
  if (Status status = read_policy(read, out.options); !status.ok()) return status;
  Result<std::string> level = log_level_from_environment(read);
  if (!level.ok()) return level.status();
  out.log_level = *level;
  return out;
}

Result<std::string> log_level_from_environment(const ReadVariable& read) {
  const std::string value = text_of(read, "ROWSMITH_LOG");
  if (value.empty()) return std::string("warn");
  for (const char* level : {"trace", "debug", "info", "warn", "error", "off"}) {
    if (value == level) return value;
  }
  return wrong("ROWSMITH_LOG", value, "trace, debug, info, warn, error or off");
}

Result<std::string> nvrtc_from_environment() {
  const std::string value = text_of(read_process, "ROWSMITH_NVRTC");
  std::error_code error;
  if (!value.empty() && (value.front() != '/' || !std::filesystem::exists(value, error))) {
    return wrong("ROWSMITH_NVRTC", value, "the absolute path of libnvrtc.so, a file that exists");
  }
  return value;
}

Result<std::string> cxx_from_environment() {
  const std::string value = text_of(read_process, "ROWSMITH_CXX");
  if (!value.empty() && value.find_first_not_of(" \t") == std::string::npos) {
    return wrong("ROWSMITH_CXX", value, "a C++ compiler's name or path");
  }
  return value;
}

Result<RuntimeOptions> RuntimeOptions::from_environment() {
  Result<EnvironmentOptions> read = read_environment(read_process);
  if (!read.ok()) return read.status();
  set_log_level(read->log_level);
  if (!read->note.empty()) {
    static const bool said = (log().warn("{}", read->note), true);
    (void)said;
  }
  return read->options;
}

}  // namespace rowsmith
