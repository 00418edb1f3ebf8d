// SPDX-License-Identifier: Apache-2.0
//
// Building candidates for the search: compiled on parallel threads, several of a family in one
// program, since the family's text is then parsed once. What is built here is for screening only
// and is never stored; finalists are built alone, through the module table.
#pragma once

#include "runtime/session.h"

#include <functional>
#include <memory>
#include <vector>

namespace rowsmith {

struct BuiltCandidate {
  Status status;  // kNotTuned: the time was up before its turn
  std::shared_ptr<Module> module;
  const Kernel* kernel = nullptr;  // of `module`
};

// One for each config, in order. A program that does not compile is compiled again config by
// config, so that one bad candidate costs its neighbours nothing. `stop` is asked before each
// program but the one that holds config `first`, which goes ahead of the rest.
std::vector<BuiltCandidate> build_candidates(const Session& session, const Problem& problem,
                                             const std::vector<Config>& configs, std::size_t first,
                                             int threads, const std::function<bool()>& stop);

// The configs that a search of at most `cap` tries, in order of rank, and where the default stands
// among them. The best of each family is among them, since ranks of different families are guesses
// of different people; generic only where nothing else is left or it is the default.
struct Candidates {
  std::vector<Config> configs;
  std::size_t default_index = 0;
};
Candidates choose_candidates(const std::vector<Config>& ranked, const Config& standard,
                             std::size_t cap);

}  // namespace rowsmith
