// SPDX-License-Identifier: Apache-2.0
//
// From instances to device text: the family's text once, then a traits struct and an entry each.
#include "kernel_templates/catalog.h"

#include <rowsmith/text.h>

#include <xxhash.h>

#include <cassert>

namespace rowsmith {

std::string entry_name(const Instance& instance) {
  const Family* family = find_family(instance.config.family);
  assert(family != nullptr);
  std::string key(family->digest());
  key += '|' + dtypes_to_string(instance.problem.in, instance.problem.out);
  key += '|' + (family->exact() ? std::to_string(instance.problem.cols) : std::string("any"));
  key += '|' + to_string(instance.config);
  const XXH64_hash_t digest = XXH3_64bits(key.data(), key.size());
  constexpr char kDigits[] = "0123456789abcdef";
  std::string name = "rowsmith_";
  for (int shift = 60; shift >= 0; shift -= 4) name += kDigits[digest >> shift & 15];
  return name;
}

std::string program_text(const std::vector<Instance>& instances) {
  assert(!instances.empty());
  const Family* family = find_family(instances.front().config.family);
  assert(family != nullptr);
  std::string text(family->text());
  text += "#line 1 \"instances\"\n";
  const char* params = family->exact() ? "RowsParams" : "GenericParams";
  for (const Instance& instance : instances) {
    assert(instance.config.family == family->name());
    const std::string entry = entry_name(instance);
    const std::string traits = "Traits_" + entry;
    // The config stands in the text, so that a stored program explains itself.
    text += "// " + to_string(instance.config) + "\nnamespace rs {\nstruct " + traits + " {\n" +
            family->traits(instance.problem, instance.config) + "};\n}  // namespace rs\n";
    text += "ROWSMITH_KERNEL(" + entry + ", rs::" + traits + "::kThreads, rs::" + traits +
            "::kMinBlocks, rowsmith_params::" + params +
            ") {\n  rs::" + std::string(family->name()) + "<rs::" + traits + ">(p);\n}\n";
  }
  return text;
}

}  // namespace rowsmith
