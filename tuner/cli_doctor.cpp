// SPDX-License-Identifier: Apache-2.0
//
// `tune doctor`: what rowsmith finds on this machine, and what is wrong with it. Looks only: makes
// no directory, mends no database. A machine without a GPU is not wrong.

#include "cache/directory.h"
#include "runtime/devices.h"
#include "runtime/environment.h"
#include "runtime/nvrtc.h"
#include "tuner/cli_commands.h"
#include "tuner/tune_cli.h"

#include <rowsmith/rowsmith_c.h>
#include <rowsmith/text.h>

#include <link.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <ostream>

namespace rowsmith {
namespace {

// The file of a library that this process has loaded; "" if it has none of that name.
std::string path_of_loaded(const std::string& name) {
  struct Search {
    const std::string& name;
    std::string path;
  } search{name, ""};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        const std::string path = info->dlpi_name;
        if (path.substr(path.rfind('/') + 1).rfind(wanted.name, 0) != 0) return 0;
        wanted.path = path;
        return 1;
      },
      &search);
  return search.path;
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

// The device's clocks at this moment. Throttled, it is a problem; telling nothing, it is none.
Json device_clocks(const std::string& name, Json& problems) {
  const auto device = open_device(name);
  const auto state = device.ok() ? (*device)->state() : Result<DeviceState>(device.status());
  const std::string throttled = state.ok() ? throttle_text(state->throttle) : "";
  if (!throttled.empty()) {
    problems.push_back("device " + name + " is throttled now (" + throttled +
                       "): what is timed on it meanwhile is marked dirty");
  }
  return clocks_json(state);
}

Json devices_json(const DeviceList& list, Json& problems) {
  Json devices = Json::array();
  for (const DeviceFacts& facts : list.devices) {
    const std::string name = facts.kind == "cuda" ? std::to_string(facts.ordinal) : facts.kind;
    devices.push_back({{"device", name},
                       {"name", facts.name},
                       {"capability", facts.capability},
                       {"bus_id", facts.bus_id},
                       {"uuid", facts.uuid},
                       {"sm_count", facts.sm_count},
                       {"memory_bytes", facts.memory_bytes},
                       {"driver_version", facts.driver_version},
                       {"compiler", facts.compiler},
                       {"device_class", device_class(facts)},
                       {"clocks", device_clocks(name, problems)}});
  }
  return devices;
}

Json nvrtc_json() {
  const auto archs = nvrtc_archs();
  Json json = {{"version", nvrtc_version()},
               {"path", text_or_null(path_of_loaded("libnvrtc.so"))},
               {"archs", Json::array()},
               {"reason", archs.ok() ? Json(nullptr) : Json(archs.status().message())}};
  if (archs.ok()) {
    for (const int arch : *archs) json["archs"].push_back(arch_name(arch));
  }
  return json;
}

Json host_json() {
  const auto device = open_device("host");
  Status status = device.status();
  // A compiler that is not there, or is none, shows at the first program only.
  if (device.ok()) status = (*device)->compile({"probe", "int rowsmith_probe;", {}}).status();
  const std::string why = status.message().substr(0, status.message().find('\n'));
  const std::string compiler = device.ok() ? (*device)->facts().compiler : "";
  return {{"compiler", text_or_null(compiler)}, {"reason", text_or_null(why)}};
}

// Empty, or why the winners in the directory, if there are any, are of no use.
std::string why_unread(const std::string& directory) {
  if (access((directory + "/winners.db").c_str(), F_OK) != 0) return {};
  StoreOptions looking;
  looking.directory = directory;
  looking.read_only = true;
  const OpenedStore opened = open_store(looking);
  if (opened.store->location() == "memory") return opened.note;
  const auto winners = opened.store->list();
  return winners.ok() ? std::string() : winners.status().message();
}

// The directory as it stands, with what is wrong added to `problems`.
Json cache_json(const RuntimeOptions& options, Json& problems) {
  const std::string& directory = options.cache_dir;
  Json json = {{"directory", text_or_null(directory)},
               {"exists", false},
               {"mode", nullptr},
               {"writable", nullptr},
               {"winners_bytes", nullptr},
               {"read_only", options.read_only}};
  struct stat info {};
  if (directory.empty()) {
    problems.push_back("no cache directory: winners last as long as the process");
  } else if (stat(directory.c_str(), &info) == 0) {
    const bool writable = access(directory.c_str(), W_OK | X_OK) == 0;
    json["exists"] = true;
    json["mode"] = fmt::format("{:04o}", info.st_mode & 07777);
    json["writable"] = writable;
    if (!writable && !options.read_only) {
      problems.push_back(directory + " cannot be written: " + errno_text(errno));
    }
    std::string why = why_untrusted(directory);
    if (why.empty()) why = why_unread(directory);
    if (!why.empty()) problems.push_back(why);
    const std::string binaries = directory + "/binaries";
    if (stat(binaries.c_str(), &info) == 0 && !S_ISDIR(info.st_mode)) {
      problems.push_back(binaries + " is no directory: compiled kernels are not kept");
    }
    if (!is_on_local_disk(directory)) {
      problems.push_back(directory + " is on a network file system: slower, without WAL");
    }
    std::error_code error;
    const auto bytes = std::filesystem::file_size(directory + "/winners.db", error);
    if (!error) json["winners_bytes"] = bytes;
  } else if (errno != ENOENT) {
    problems.push_back(directory + " cannot be looked at: " + errno_text(errno));
  }
  return json;
}

// The variables that rowsmith, the CUDA driver and the search for NVRTC heed.
Json environment_json() {
  Json json = Json::object();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (name.rfind("ROWSMITH_", 0) == 0 || name == "XDG_CACHE_HOME" || name == "CUDA_HOME" ||
        name == "CUDA_PATH" || name == "CUDA_VISIBLE_DEVICES") {
      json[name] = text.substr(std::min(name.size() + 1, text.size()));
    }
  }
  return json;
}

// What of the environment leads nowhere: libraries, compilers and devices that are not there.
void add_environment_problems(const CliArgs& args, const Result<RuntimeOptions>& options,
                              const Json& report, Json& problems) {
  const Json& environment = report["environment"];
  const auto set = [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->get<std::string>();
  };
  const auto led_nowhere = [&](const char* name, const Json& reason) {
    if (set(name).empty() || reason.is_null()) return;
    const auto why = reason.get<std::string>();
    const std::string what = std::string(name) + "='" + set(name) + "'";
    problems.push_back(why.find(what) == 0 ? why : what + ": " + why);
  };
  // A library that this process has loaded already tells nothing of the variable.
  const auto nvrtc = nvrtc_from_environment();
  led_nowhere("ROWSMITH_NVRTC",
              nvrtc.ok() ? report["nvrtc"]["reason"] : Json(nvrtc.status().message()));
  led_nowhere("ROWSMITH_CXX", report["host"]["reason"]);
  if (options.ok() && !options->device.empty()) {
    const auto device = open_device(options->device);
    led_nowhere("ROWSMITH_DEVICE", device.ok() ? Json(nullptr) : Json(device.status().message()));
    if (options->device == "host") led_nowhere("ROWSMITH_DEVICE", report["host"]["reason"]);
  }
  if (options.ok()) {
    for (const std::string& site : options->site_cache) {
      led_nowhere("ROWSMITH_SITE_CACHE", access((site + "/winners.db").c_str(), R_OK) == 0
                                             ? Json(nullptr)
                                             : Json("there is no " + site + "/winners.db"));
    }
  }
  const std::string xdg = set("XDG_CACHE_HOME");
  if (args.cache.empty() && set("ROWSMITH_CACHE_DIR").empty() && !xdg.empty() &&
      xdg.front() != '/') {
    problems.push_back("XDG_CACHE_HOME='" + xdg + "' is not an absolute path and counts as unset");
  }
}

std::string text_of(const Json& json) {
  return json.is_string() ? json.get<std::string>() : json.dump();
}

void print_report(const Json& report, std::ostream& out) {
  out << "rowsmith " << text_of(report["version"]) << "\n\ndevices\n";
  bool on_host = false;
  for (const Json& device : report["devices"]) {
    out << "  " << text_of(device["device"]) << "  " << text_of(device["name"]);
    on_host = on_host || device["device"] == "host";
    if (device["device"] == "host") {
      out << ", chosen by ROWSMITH_DEVICE\n";
      continue;
    }
    out << ", bus " << text_of(device["bus_id"]) << ", " << text_of(device["uuid"]) << ", driver "
        << text_of(device["driver_version"]) << "\n     " << text_of(device["device_class"])
        << "\n     " << clocks_text(device["clocks"]) << '\n';
  }
  if (!report["why_no_gpu"].is_null()) {
    out << "  no GPU: " << text_of(report["why_no_gpu"]);
    out << (on_host ? "" : std::string("; ") + kUseHost) << '\n';
  }
  for (const char* part : {"driver", "nvrtc", "host", "cache", "environment"}) {
    out << '\n' << part << '\n';
    bool told = false;
    for (const auto& [name, value] : report[part].items()) {
      if (value.is_null()) continue;
      out << "  " << name << ": " << text_of(value) << '\n';
      told = true;
    }
    if (!told) out << "  none\n";
  }
  out << "\nproblems\n";
  for (const Json& problem : report["problems"]) out << "  " << text_of(problem) << '\n';
  if (report["problems"].empty()) out << "  none\n";
}

}  // namespace

Json clocks_json(const Result<DeviceState>& state) {
  if (!state.ok()) return {{"reason", state.status().message()}};
  const auto known = [](int figure) { return figure > 0 ? Json(figure) : Json(nullptr); };
  return {{"sm_mhz", known(state->sm_clock_mhz)},
          {"memory_mhz", known(state->memory_clock_mhz)},
          {"temperature_c", known(state->temperature_c)},
          {"throttled", throttle_text(state->throttle)},
          {"reason", nullptr}};
}

std::string clocks_text(const Json& clocks) {
  if (!clocks["reason"].is_null()) {
    return "clocks: not known: " + clocks["reason"].get<std::string>();
  }
  const auto figure = [&](const char* name, const char* unit) {
    return clocks[name].is_null() ? std::string("?") : clocks[name].dump() + unit;
  };
  const auto throttled = clocks["throttled"].get<std::string>();
  return "clocks: SM " + figure("sm_mhz", " MHz") + ", memory " + figure("memory_mhz", " MHz") +
         ", " + figure("temperature_c", " C") + ", " +
         (throttled.empty() ? "not throttled" : "throttled: " + throttled);
}

int run_doctor(const CliArgs& args, Cli& cli) {
  DeviceList list = list_devices();
  const bool has_gpu = !list.devices.empty();
  const auto options = runtime_options(args);
  if (options.ok() && options->device == "host") {
    if (const auto host = open_device("host"); host.ok()) list.devices.push_back((*host)->facts());
  }
  Json problems = Json::array();
  if (!options.ok()) problems.push_back(options.status().message());
  Json report = {{"version", rowsmith_version()},
                 {"devices", devices_json(list, problems)},
                 {"why_no_gpu", text_or_null(list.why_no_gpu)},
                 {"driver", {{"path", text_or_null(path_of_loaded("libcuda.so"))}}},
                 {"nvrtc", nvrtc_json()},
                 {"host", host_json()}};
  report["cache"] = options.ok() ? cache_json(*options, problems) : Json::object();
  report["environment"] = environment_json();
  add_environment_problems(args, options, report, problems);
  if (has_gpu && report["nvrtc"]["path"].is_null()) {
    problems.push_back("a GPU without NVRTC compiles nothing: " +
                       text_of(report["nvrtc"]["reason"]));
  }
  report["problems"] = problems;
  if (args.json) {
    print_json(cli.out, report);
  } else {
    print_report(report, cli.out);
  }
  return problems.empty() ? kExitDone : kExitSomeFailed;
}

}  // namespace rowsmith
