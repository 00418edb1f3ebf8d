// SPDX-License-Identifier: Apache-2.0
#include "tests/support/scripted_worker.h"

#include "kernel_templates/catalog.h"
#include "kernel_templates/copy.h"
#include "kernel_templates/params.cuh"
#include "tests/support/emulated_softmax.h"
#include "tests/support/scripted_device.h"
#include "tuner/worker.h"

#include <rowsmith/text.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <optional>

namespace rowsmith::testing {
namespace {

// What the command line says, beside what the request does.
struct Script {
  std::string directory, fast, fast_below;
  std::vector<PlantedFault> faults;
};

Script script_of(const std::vector<std::string>& arguments) {
  Script script{arguments.at(2), arguments.at(3), arguments.at(4), {}};
  for (std::size_t i = 5; i + 1 < arguments.size(); i += 2) {
    script.faults.push_back({arguments[i], arguments[i + 1]});
  }
  return script;
}

// The fault planted at the place, unless it has happened.
std::optional<std::string> fault_at(const Script& script, const std::string& at) {
  for (std::size_t i = 0; i < script.faults.size(); ++i) {
    if (script.faults[i].at != at) continue;
    const std::string mark = script.directory + "/fired-" + std::to_string(i);
    const int fd = ::open(mark.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) continue;
    ::close(fd);
    return script.faults[i].what;
  }
  return {};
}

Status commit(const Script& script, const std::string& what) {
  if (what == "segv") {
    std::signal(SIGSEGV, SIG_DFL);  // a sanitizer would exit instead
    ::raise(SIGSEGV);
  }
  if (what == "kill") ::raise(SIGKILL);
  if (what == "term") ::raise(SIGTERM);
  if (what == "exit") ::_exit(3);
  if (what == "hang") {
    std::ofstream(script.directory + "/hung").flush();
    while (true) ::pause();
  }
  if (what == "garbage") {
    const std::string line = "a library says hello\n";
    if (::write(STDOUT_FILENO, line.data(), line.size()) > 0) ::pause();
  }
  if (what == "lost") return Status(Code::kDeviceLost, "illegal address");
  std::abort();
}

// By entry: the config's text, for every config legal in a problem.
std::map<std::string, std::string> configs_by_entry(const std::vector<Problem>& problems,
                                                    const DeviceFacts& facts) {
  std::map<std::string, std::string> configs;
  for (const Problem& problem : problems) {
    for (const Config& config : legal_configs(problem, facts)) {
      configs[entry_name({problem, config})] = to_string(config);
    }
  }
  return configs;
}

// Both exact and generic kernels begin their parameters so.
std::int64_t rows_of(const LaunchCall& call) {
  rowsmith_params::RowsParams params{};
  std::memcpy(&params, call.params, std::min(sizeof params, call.param_bytes));
  return params.rows;
}

std::shared_ptr<ScriptedDevice> device_for(const Script& script, const TuneRequest& request) {
  DeviceFacts facts = scripted_facts();
  facts.l2_bytes = 0;
  auto device = std::make_shared<ScriptedDevice>(facts);
  const auto configs = configs_by_entry(request.problems, facts);
  const auto config_of = [configs](const LaunchCall& call) {
    const auto found = configs.find(ScriptedDevice::entry_of(call));
    return found == configs.end() ? std::string() : found->second;
  };
  device->script.effect = emulated_softmax(request.problems.front(), {});
  device->script.cost = [=](const LaunchCall& call) {
    const std::string config = config_of(call);
    const bool few = !script.fast_below.empty() && rows_of(call) <= 12;
    return Result<double>(
        !config.empty() && config == (few ? script.fast_below : script.fast) ? 1e4 : 1e6);
  };
  const auto lost = std::make_shared<bool>(false);
  device->script.on_launch = [=](const LaunchCall& call) {
    const bool copies = call.param_bytes == sizeof(rowsmith_params::CopyParams);
    const std::string at = copies ? "floor" : config_of(call);
    auto fault = fault_at(script, at);
    if (!fault && !copies) fault = fault_at(script, at + "@" + std::to_string(rows_of(call)));
    const Status status = fault ? commit(script, *fault) : Status();
    *lost = *lost || !status.ok();
    return *lost && status.ok() ? Status(Code::kDeviceLost, "lost before") : status;
  };
  return device;
}

}  // namespace

std::vector<std::string> worker_arguments(const std::string& directory, const std::string& fast,
                                          const std::vector<PlantedFault>& faults,
                                          const std::string& fast_below) {
  std::vector<std::string> arguments = {"scripted_worker", kWorkerFlag, directory, fast,
                                        fast_below};
  for (const PlantedFault& fault : faults) {
    arguments.push_back(fault.at);
    arguments.push_back(fault.what);
  }
  return arguments;
}

int scripted_worker_main(const std::vector<std::string>& arguments) {
  const Script script = script_of(arguments);
  const auto request = read_worker_request(STDIN_FILENO);
  if (!request.ok()) return 2;
  std::ofstream(script.directory + "/budgets", std::ios::app) << request->request.budget_s << '\n';
  if (const auto fault = fault_at(script, "start"); fault && *fault == "refuse") {
    const Status why(Code::kNoDevice, "no GPU of that name");
    return write_worker_message(STDOUT_FILENO, WorkerCannotStart{why}) ? 3 : 4;
  } else if (fault) {
    return commit(script, *fault).ok() ? 0 : 3;
  }
  const Session session = make_session(device_for(script, request->request), request->options);
  TuneSettings around;
  around.lock_directory = script.directory;
  around.lock_wait_s = 0;
  serve_request(session, *request, STDIN_FILENO, STDOUT_FILENO, 0.25, {}, around);
  return 0;
}

}  // namespace rowsmith::testing
