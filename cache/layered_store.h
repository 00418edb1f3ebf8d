// SPDX-License-Identifier: Apache-2.0
//
// One WinnerStore over several: what this process could not write down, the user's own file, and
// the read-only ones of the site below it.
#pragma once

#include <rowsmith/winner_store.h>

#include <memory>
#include <vector>

namespace rowsmith {

struct StoreLayers {
  std::unique_ptr<WinnerStore> own;
  bool own_read_only = false;                      // then puts stay in memory
  std::vector<std::unique_ptr<WinnerStore>> site;  // nearest first; never written
};

// A nearer layer's record hides that of a farther one. A write that the own layer cannot take now
// is kept in memory for this process, and its Status returned.
std::unique_ptr<WinnerStore> make_layered_store(StoreLayers layers);

}  // namespace rowsmith
