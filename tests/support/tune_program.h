// SPDX-License-Identifier: Apache-2.0
//
// Where the built `tune` is: beside the test program, as on a GPU machine, or a folder above it, as
// in the build tree.
#pragma once

#include <filesystem>
#include <string>

namespace rowsmith::testing {

inline std::string tune_program() {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const auto beside = folder / "tune";
  return (std::filesystem::exists(beside) ? beside : folder.parent_path() / "tune").string();
}

}  // namespace rowsmith::testing
