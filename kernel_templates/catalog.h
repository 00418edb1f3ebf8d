// SPDX-License-Identifier: Apache-2.0
//
// The families, and what is asked of them all together.
#pragma once

#include "kernel_templates/family.h"

#include <string>
#include <vector>

namespace rowsmith {

// Every family, best first, generic last.
const std::vector<const Family*>& catalog();
// nullptr where there is no such family.
const Family* find_family(std::string_view name);

// The legal configs of all families, expected best first; never empty for a supported problem,
// since generic closes it.
std::vector<Config> legal_configs(const Problem& problem, const DeviceFacts& facts);
// Empty if legal, else why not ("no family 'x'", "block_row: pack=8 needs ...").
std::string why_illegal(const Problem& problem, const DeviceFacts& facts, const Config& config);
// The config chosen without measurements: the first of legal_configs that no context refuses.
Config default_config(const Problem& problem, const DeviceFacts& facts);
// The same, of what legal_configs has answered.
Config default_of(const std::vector<Config>& legal);
// The config that is legal for every layout and any H.
Config generic_config();
// Unsupported, naming the dtypes, if no family serves them.
Status check_supported(DType in, DType out);

// One kernel to be compiled: entry name and text depend on family, dtypes, cols and config only.
struct Instance {
  Problem problem;
  Config config;
};
// "rowsmith_<16 hex digits>": a digest of family digest, dtypes, cols (exact families) and config.
std::string entry_name(const Instance& instance);
// The text of a program that holds these instances. Requires: all of one family, all legal.
std::string program_text(const std::vector<Instance>& instances);

}  // namespace rowsmith
