// SPDX-License-Identifier: Apache-2.0
//
// open_store: which files may be used and how, and what is said where they may not.
#include "cache/directory.h"
#include "cache/layered_store.h"
#include "cache/sqlite_store.h"

#include <rowsmith/winner_store.h>

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace rowsmith {
namespace {

constexpr const char* kFileName = "/winners.db";

// Collects what people should know into one sentence.
class Notes {
 public:
  void add(const std::string& note) {
    if (note.empty()) return;
    if (!text_.empty()) text_ += "; ";
    text_ += note;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

bool exists(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

// Empty, or why the directory and the file in it cannot be written.
std::string why_unwritable(const std::string& directory, const std::string& path) {
  for (const std::string& entry : {directory, path}) {
    if (access(entry.c_str(), W_OK) != 0 && errno != ENOENT) {
      return entry + " cannot be written (" + errno_text(errno) + ")";
    }
  }
  return {};
}

std::string why_directory_untrusted(const std::string& directory, const std::string& path) {
  std::string why = why_untrusted(directory);
  return why.empty() ? why_untrusted(path) : why;
}

std::string in_memory(const std::string& directory, const std::string& why) {
  return "winners are kept in memory for this process only, not in '" + directory + "': " + why +
         " (ROWSMITH_CACHE_DIR names another directory)";
}

// The user's own layer; nullptr, with a note, where no file can serve.
std::unique_ptr<WinnerStore> open_own(const StoreOptions& options, bool& read_only, Notes& notes) {
  const std::string& directory = options.directory;
  StoreFileOptions file{directory + kFileName, read_only, true, options.busy_timeout_ms};
  const auto give_up = [&](const std::string& why) {
    notes.add(in_memory(directory, why));
    return nullptr;
  };
  if (!read_only) {
    // A read-only disk may well hold the directory: only an absent one is a reason to give up.
    Status made = make_private_directory(directory);
    if (!made.ok() && !exists(file.path)) return give_up(made.message());
  }
  const std::string untrusted = why_directory_untrusted(directory, file.path);
  if (!untrusted.empty()) return give_up(untrusted);
  if (const std::string why = why_unwritable(directory, file.path); !read_only && !why.empty()) {
    if (!exists(file.path)) return give_up(why);
    notes.add(why + "; it is read, and new winners are kept in memory for this process only");
    file.read_only = read_only = true;
  }
  if (read_only && !exists(file.path)) return give_up("there is no " + file.path + " to read");
  file.wal = is_on_local_disk(directory);
  auto opened = open_sqlite_store(file);
  if (!opened.ok()) return give_up(opened.status().message());
  notes.add(opened->note);
  return std::move(opened->store);
}

std::unique_ptr<WinnerStore> open_site(const std::string& directory, int busy_timeout_ms,
                                       Notes& notes) {
  const StoreFileOptions file{directory + kFileName, true, true, busy_timeout_ms};
  const std::string untrusted = why_directory_untrusted(directory, file.path);
  if (untrusted.empty()) {
    auto opened = open_sqlite_store(file);
    if (opened.ok()) return std::move(opened->store);
    notes.add("the site cache '" + directory + "' is not used: " + opened.status().message());
  } else {
    notes.add("the site cache '" + directory + "' is not used: " + untrusted);
  }
  return nullptr;
}

}  // namespace

OpenedStore open_store(const StoreOptions& options) {
  Notes notes;
  StoreLayers layers;
  layers.own_read_only = options.read_only;
  if (!options.directory.empty()) layers.own = open_own(options, layers.own_read_only, notes);
  if (!layers.own) {
    layers.own = make_memory_store();
    layers.own_read_only = false;
  }
  for (const std::string& directory : options.site) {
    auto site = open_site(directory, options.busy_timeout_ms, notes);
    if (site) layers.site.push_back(std::move(site));
  }
  return {make_layered_store(std::move(layers)), notes.text()};
}

}  // namespace rowsmith
