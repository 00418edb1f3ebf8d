// SPDX-License-Identifier: Apache-2.0
//
// Where an NVRTC library may lie that the loader does not know of.
#pragma once

#include <string>
#include <vector>

namespace rowsmith {

// The names of the library, newest first.
inline constexpr const char* kNvrtcNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

// Library folders of the toolkit that CUDA_HOME or CUDA_PATH names, of the usual prefix, and of
// pip's NVIDIA wheels in the site-packages of this process or of VIRTUAL_ENV: those that hold a
// library of one of the names, in the order of trial.
std::vector<std::string> nvrtc_files();

// The files among `directories`/`names`, grouped by name: the newest version wins over the order of
// folders.
std::vector<std::string> existing_files(const std::vector<std::string>& directories);

}  // namespace rowsmith
