// SPDX-License-Identifier: Apache-2.0
//
// What both stores ask of the file system: private directories, trust, locks between processes,
// and whether a disk is local.
#pragma once

#include <rowsmith/status.h>

#include <cerrno>
#include <cstdint>
#include <string>

namespace rowsmith {

// Makes the directory (mode 0700) and its parents. Ok if it is there already. Cache busy: why not.
Status make_private_directory(const std::string& directory);

// Empty, or why its content must not be believed: it belongs to neither this user nor root, or
// others may write to it. Empty too for a path that does not exist.
std::string why_untrusted(const std::string& path);

// WAL needs memory shared between all users of a file, which no network file system gives.
bool is_network_filesystem(std::uint64_t statfs_type);
bool is_on_local_disk(const std::string& path);

// An exclusive lock between processes on a file of that name, freed even if its holder dies. On
// file systems without locks it holds nothing, and callers publish by rename all the same.
class FileLock {
 public:
  // Cache busy: another process kept it past the timeout.
  static Result<FileLock> take(const std::string& path, int timeout_ms);
  FileLock(FileLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_;
};

// A call of the file system again where a network disk answers "busy" or "stale" for a moment.
template <typename Call>
int retrying(Call&& call) {
  int result = call();
  for (int i = 0; i < 3 && result < 0 && (errno == EINTR || errno == ESTALE || errno == EBUSY);
       ++i) {
    result = call();
  }
  return result;
}

// errno as text: "No space left on device".
std::string errno_text(int number);

// A name beside `path` that no other thread or process uses.
std::string unique_sibling(const std::string& path, const char* suffix);

}  // namespace rowsmith
