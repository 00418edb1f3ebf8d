// SPDX-License-Identifier: Apache-2.0
//
// `tune compile`: fills the binary store for architectures that this machine need not have, with
// what a first call there would ask for: generic, default, and every winner known for the columns.

#include "cache/binary_store.h"
#include "kernel_templates/catalog.h"
#include "runtime/devices.h"
#include "runtime/module_table.h"
#include "runtime/nvrtc.h"
#include "tuner/build.h"
#include "tuner/cli_commands.h"
#include "tuner/cli_problem_list.h"
#include "tuner/compiler_processes.h"
#include "tuner/parallel.h"
#include "tuner/tune_cli.h"

#include <rowsmith/text.h>
#include <rowsmith/winner_store.h>

#include <algorithm>
#include <mutex>
#include <ostream>
#include <set>

namespace rowsmith {
namespace {

// One kernel for one architecture.
struct Job {
  std::shared_ptr<Device> device;
  Instance instance;
  std::string source, key;
};

struct Counts {
  std::size_t compiled = 0, kept = 0;
  std::vector<std::string> failures;  // one sentence each
};

// Whether the record was won on that architecture, for these dtypes and columns.
bool applies(const WinnerRecord& record, const Problem& problem, int arch) {
  const std::string prefix = "cuda-sm" + std::to_string(arch) + "-";
  const Family* family = find_family(record.config.family);
  return record.device_class.compare(0, prefix.size(), prefix) == 0 &&
         record.problem.in == problem.in && record.problem.out == problem.out &&
         record.problem.cols == problem.cols && family != nullptr &&
         family->digest() == record.family_digest;
}

// The kernels to be had, each once.
Result<std::vector<Job>> jobs_of(const CliArgs& args, const std::vector<Problem>& problems,
                                 const std::vector<WinnerRecord>& winners) {
  std::vector<Job> jobs;
  for (const int arch : args.archs) {
    DeviceFacts facts = nominal_facts(arch);
    facts.capability = arch;  // where the table has only a neighbour
    const auto device = make_compile_only_device(facts);
    std::set<std::string> seen;
    for (const Problem& problem : problems) {
      if (const Status status = check_supported(problem.in, problem.out); !status.ok()) {
        return status;
      }
      std::vector<Config> configs = {generic_config(), default_config(problem, device->facts())};
      for (const WinnerRecord& record : winners) {
        if (applies(record, problem, arch)) configs.push_back(record.config);
      }
      for (const Config& config : configs) {
        Job job{device, {problem, config}, "", ""};
        if (!seen.insert(entry_name(job.instance)).second) continue;
        job.source = program_text({job.instance});
        job.key = binary_store_key(*device, job.source);
        jobs.push_back(std::move(job));
      }
    }
  }
  return jobs;
}

Status compile_one(const Job& job, CompilerProcesses& compilers, BinaryStore& binaries) {
  const auto binary =
      compilers.compile({to_string(job.instance.config), job.source, {entry_name(job.instance)}},
                        job.device->facts().capability);
  return binary.ok() ? binaries.put(job.key, binary->bytes) : binary.status();
}

// Works the jobs off on all cores; leaves the rest when asked to stop.
Counts compile_all(const std::vector<Job>& jobs, BinaryStore& binaries, Cli& cli) {
  Counts counts;
  std::mutex mutex;
  const int threads = std::min(compile_threads(0), static_cast<int>(jobs.size()));
  CompilerProcesses compilers(cli.program, {"tune", "compiler"}, compiler_count(threads));
  parallel_for(jobs.size(), threads, [&](std::size_t i) {
    if (cli.stop && cli.stop()) return;
    const Job& job = jobs[i];
    const bool kept = binaries.get(job.key).has_value();
    const Status status = kept ? Status() : compile_one(job, compilers, binaries);
    const std::lock_guard lock(mutex);
    if (kept) {
      ++counts.kept;
    } else if (status.ok()) {
      ++counts.compiled;
    } else {
      counts.failures.push_back(arch_name(job.device->facts().capability) + " " +
                                short_name(job.instance.problem) + " " +
                                to_string(job.instance.config) + ": " + status.to_string());
    }
  });
  return counts;
}

// Notes say where NVRTC builds for another architecture. Invalid argument: one that no GPU has.
Result<std::vector<std::string>> check_archs(const std::vector<int>& archs) {
  const auto known = nvrtc_archs();
  if (!known.ok()) return known.status();
  std::vector<std::string> notes;
  for (const int arch : archs) {
    if (const Status status = check_arch(arch); !status.ok()) return status;
    const auto target = choose_target(arch, *known, nvrtc_version());
    if (!target.ok()) return target.status();
    if (!target->note.empty()) notes.push_back(arch_name(arch) + ": " + target->note);
  }
  return notes;
}

}  // namespace

int run_compile(const CliArgs& args, Cli& cli) {
  const auto options = runtime_options(args);
  if (!options.ok()) return fail(args, cli, options.status());
  if (options->read_only || options->cache_dir.empty()) {
    return fail(args, cli, Status(Code::kCacheBusy, "no cache directory that may be written to"));
  }
  auto list = requested_problems(args);
  if (!list.ok()) return fail(args, cli, list.status());
  print_broken(args, *list, cli);
  std::erase_if(list->problems, [](const Problem& p) { return p.rows == 0 || p.cols == 0; });
  const auto notes = check_archs(args.archs);
  if (!notes.ok()) return fail(args, cli, notes.status());
  for (const std::string& note : *notes) cli.err << "tune: " << note << '\n';
  const auto winners = open_noting(*options, cli).store->list();
  if (!winners.ok()) return fail(args, cli, winners.status());
  const auto jobs = jobs_of(args, list->problems, *winners);
  if (!jobs.ok()) return fail(args, cli, jobs.status());

  BinaryStoreOptions store;
  store.directory = options->cache_dir + "/binaries";
  BinaryStore binaries(store);
  const Counts counts = compile_all(*jobs, binaries, cli);
  for (const std::string& failure : counts.failures) cli.err << "tune: " << failure << '\n';
  if (args.json) {
    Json json = {{"compiled", counts.compiled},
                 {"failed", counts.failures.size()},
                 {"kept", counts.kept},
                 {"arch", Json::array()},
                 {"failures", counts.failures},
                 {"notes", *notes},
                 {"broken_lines", broken_json(*list)}};
    for (const int arch : args.archs) json["arch"].push_back(arch_name(arch));
    print_json(cli.out, json);
  }
  cli.err << jobs->size() << " kernels for " << list->problems.size()
          << (list->problems.size() == 1 ? " problem: " : " problems: ") << counts.compiled
          << " compiled, " << counts.kept << " kept, " << counts.failures.size() << " failed, in "
          << store.directory << '\n';
  const bool all_done = counts.compiled + counts.kept == jobs->size() && list->broken.empty();
  return all_done ? kExitDone : kExitSomeFailed;
}

}  // namespace rowsmith
