// SPDX-License-Identifier: Apache-2.0
#include "kernel_templates/copy.h"

#include "copy_text.h"
#include "kernel_templates/space.h"

#include <algorithm>

namespace rowsmith {

std::string CopyVariant::entry() const {
  return "copy_t" + std::to_string(threads) + "_p" + std::to_string(packs) + "_" +
         std::string(load) + "_" + std::string(store);
}

std::int64_t CopyVariant::blocks(std::int64_t bytes) const {
  const std::int64_t per_block = std::int64_t{16} * threads * packs;
  return std::max<std::int64_t>(1, (bytes / 16 * 16 + per_block - 1) / per_block);
}

const std::vector<CopyVariant>& copy_variants() {
  static const std::vector<CopyVariant> variants{
      {256, 1, "nc", "cs"},      {256, 2, "nc", "cs"},      {256, 4, "nc", "cs"},
      {512, 4, "nc", "cs"},      {1024, 1, "nc", "cs"},     {256, 1, "nc", "default"},
      {256, 4, "nc", "default"}, {512, 2, "nc", "default"}, {64, 4, "nc", "default"},
      {128, 4, "nc", "cs"},
  };
  return variants;
}

std::string copy_program_text() {
  std::string text(detail::kCopyText);
  text += "#line 1 \"instances\"\n";
  for (const CopyVariant& variant : copy_variants()) {
    const std::string entry = variant.entry(), traits = "Traits_" + entry;
    text += "namespace rs {\nstruct " + traits + " {\n" + int_trait("kThreads", variant.threads) +
            int_trait("kMinBlocks", 1) + int_trait("kPacks", variant.packs) +
            int_trait("kLoad", variant.load == "nc" ? 1 : 0) +
            int_trait("kStore", variant.store == "cs" ? 1 : 0) + "};\n}  // namespace rs\n";
    text += "ROWSMITH_KERNEL(" + entry + ", rs::" + traits + "::kThreads, 1, " +
            "rowsmith_params::CopyParams) {\n  rs::copy<rs::" + traits + ">(p);\n}\n";
  }
  return text;
}

}  // namespace rowsmith
