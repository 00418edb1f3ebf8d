// SPDX-License-Identifier: Apache-2.0
#include "tuner/build.h"

#include "tuner/parallel.h"

#include <rowsmith/text.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace rowsmith {
namespace {

// Beyond four a longer program keeps other threads waiting for longer than it saves.
constexpr std::size_t kMostInOneProgram = 4;

using Batch = std::vector<std::size_t>;

std::vector<Batch> batches_of(const std::vector<Config>& configs, int threads) {
  const std::size_t size = std::clamp<std::size_t>(
      configs.size() / static_cast<std::size_t>(2 * std::max(threads, 1)), 1, kMostInOneProgram);
  std::vector<Batch> batches;
  std::map<std::string, std::size_t> open;  // family -> its batch that still takes configs
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const auto found = open.find(configs[i].family);
    if (found != open.end() && batches[found->second].size() < size) {
      batches[found->second].push_back(i);
      continue;
    }
    open[configs[i].family] = batches.size();
    batches.push_back({i});
  }
  return batches;
}

void build_batch(const Session& session, const Problem& problem, const std::vector<Config>& configs,
                 const Batch& batch, std::vector<BuiltCandidate>& built) {
  std::vector<Instance> instances;
  Program program;
  for (const std::size_t i : batch) {
    instances.push_back({problem, configs[i]});
    program.entries.push_back(entry_name(instances.back()));
  }
  program.name = batch.size() == 1 ? to_string(configs[batch.front()])
                                   : configs[batch.front()].family + " candidates";
  program.source = program_text(instances);
  std::shared_ptr<Module> module;
  Status status;
  if (Result<Binary> binary = session.device->compile(program); !binary.ok()) {
    status = binary.status();
  } else if (auto loaded = session.device->load(*binary); !loaded.ok()) {
    status = loaded.status();
  } else {
    module = std::move(*loaded);
  }
  if (!status.ok() && batch.size() > 1 && status.code() != Code::kDeviceLost) {
    for (const std::size_t i : batch) build_batch(session, problem, configs, {i}, built);
    return;
  }
  for (std::size_t at = 0; at < batch.size(); ++at) {
    BuiltCandidate& candidate = built[batch[at]];
    candidate.status = status;
    if (!status.ok()) continue;
    Result<const Kernel*> kernel = module->kernel(program.entries[at]);
    candidate.status = kernel.status();
    candidate.module = module;
    if (kernel.ok()) candidate.kernel = *kernel;
  }
}

}  // namespace

std::vector<BuiltCandidate> build_candidates(const Session& session, const Problem& problem,
                                             const std::vector<Config>& configs, std::size_t first,
                                             int threads, const std::function<bool()>& stop) {
  std::vector<Batch> batches = batches_of(configs, threads);
  std::stable_partition(batches.begin(), batches.end(), [&](const Batch& batch) {
    return std::find(batch.begin(), batch.end(), first) != batch.end();
  });
  std::vector<BuiltCandidate> built(configs.size());
  parallel_for(batches.size(), threads, [&](std::size_t i) {
    if (i > 0 && stop()) {
      for (const std::size_t at : batches[i]) {
        built[at].status = Status(Code::kNotTuned, "the time was up before it was compiled");
      }
      return;
    }
    build_batch(session, problem, configs, batches[i], built);
  });
  return built;
}

Candidates choose_candidates(const std::vector<Config>& ranked, const Config& standard,
                             std::size_t cap) {
  std::set<std::string> families_left;
  for (const Config& config : ranked) {
    if (config.family != generic_config().family) families_left.insert(config.family);
  }
  families_left.erase(standard.family);
  Candidates chosen;
  std::size_t others = cap > 0 ? cap - 1 : 0;
  bool has_default = false;
  for (const Config& config : ranked) {
    const bool is_default = config == standard;
    const bool first_of_family = families_left.count(config.family) > 0;
    // Places are kept for the families that are still to come.
    const bool fits = first_of_family ? others > 0 : others > families_left.size();
    if (!is_default && !fits) continue;
    if (is_default) {
      has_default = true;
      chosen.default_index = chosen.configs.size();
    } else {
      --others;
    }
    families_left.erase(config.family);
    chosen.configs.push_back(config);
  }
  if (!has_default) {
    chosen.configs.insert(chosen.configs.begin(), standard);
    chosen.default_index = 0;
  }
  return chosen;
}

}  // namespace rowsmith
