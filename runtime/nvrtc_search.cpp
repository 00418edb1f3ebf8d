// SPDX-License-Identifier: Apache-2.0
#include "runtime/nvrtc_search.h"

#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace rowsmith {
namespace {

namespace fs = std::filesystem;

void add_toolkit(std::vector<std::string>& directories, const char* prefix) {
  if (!prefix || !*prefix) return;
  directories.push_back(std::string(prefix) + "/lib64");
  directories.push_back(std::string(prefix) + "/lib");
}

// nvidia/cuda_nvrtc/lib (CUDA 12's wheels), nvidia/cu13/lib (CUDA 13's).
void add_wheels(std::vector<std::string>& directories, const fs::path& site_packages) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(site_packages / "nvidia", error)) {
    directories.push_back(entry.path() / "lib");
  }
}

// The site-packages folders that this process has loaded libraries from: extension modules of the
// Python that it runs, if it does.
std::vector<std::string> loaded_site_packages() {
  std::vector<std::string> found;
  const auto visit = [](dl_phdr_info* info, std::size_t, void* data) {
    auto& list = *static_cast<std::vector<std::string>*>(data);
    const std::string path = info->dlpi_name;
    const std::string folder = "/site-packages/";
    const std::size_t at = path.find(folder);
    if (at == std::string::npos) return 0;
    const std::string site = path.substr(0, at + folder.size());
    if (std::find(list.begin(), list.end(), site) == list.end()) list.push_back(site);
    return 0;
  };
  dl_iterate_phdr(visit, &found);
  return found;
}

void add_virtual_env(std::vector<std::string>& directories) {
  const char* prefix = std::getenv("VIRTUAL_ENV");
  if (!prefix || !*prefix) return;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(prefix) / "lib", error)) {
    add_wheels(directories, entry.path() / "site-packages");
  }
}

}  // namespace

std::vector<std::string> existing_files(const std::vector<std::string>& directories) {
  std::vector<std::string> files;
  for (const char* name : kNvrtcNames) {
    for (const std::string& directory : directories) {
      const std::string file = directory + "/" + name;
      std::error_code error;
      if (fs::exists(file, error)) files.push_back(file);
    }
  }
  return files;
}

std::vector<std::string> nvrtc_files() {
  std::vector<std::string> toolkits;
  add_toolkit(toolkits, std::getenv("CUDA_HOME"));
  add_toolkit(toolkits, std::getenv("CUDA_PATH"));
  add_toolkit(toolkits, "/usr/local/cuda");
  std::vector<std::string> wheels;
  for (const std::string& site : loaded_site_packages()) add_wheels(wheels, site);
  add_virtual_env(wheels);
  std::vector<std::string> files = existing_files(toolkits);
  for (std::string& file : existing_files(wheels)) files.push_back(std::move(file));
  return files;
}

}  // namespace rowsmith
