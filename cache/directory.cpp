// SPDX-License-Identifier: Apache-2.0
//
// File system questions of the stores, on POSIX and Linux calls.
#include "cache/directory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <random>
#include <system_error>
#include <thread>

namespace rowsmith {

std::string errno_text(int number) {
  return std::generic_category().message(number);
}

Status make_private_directory(const std::string& directory) {
  std::error_code error;
  const std::filesystem::path path(directory);
  const auto parent = (path.has_filename() ? path : path.parent_path()).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (!error && mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    error.assign(errno, std::generic_category());
  }
  if (!error && !std::filesystem::is_directory(path, error) && !error) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (!error) return {};
  return {Code::kCacheBusy, "cannot make the directory " + directory + ": " + error.message()};
}

std::string why_untrusted(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return {};
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    return path + " belongs to another user (uid " + std::to_string(info.st_uid) + ")";
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return path + " can be written by others (run: chmod go-w '" + path + "')";
  }
  return {};
}

bool is_network_filesystem(std::uint64_t statfs_type) {
  switch (statfs_type & 0xffffffff) {
    case NFS_SUPER_MAGIC:
    case SMB_SUPER_MAGIC:
    case CIFS_SUPER_MAGIC:
    case SMB2_SUPER_MAGIC:
    case FUSE_SUPER_MAGIC:
    case V9FS_MAGIC:
    case AFS_SUPER_MAGIC:
    case AFS_FS_MAGIC:
    case CODA_SUPER_MAGIC:
    case CEPH_SUPER_MAGIC:
    case OCFS2_SUPER_MAGIC:
    case 0x01161970:  // GFS2
    case 0x0bd00bd0:  // Lustre
    case 0x47504653:  // GPFS
    case 0x19830326:  // BeeGFS
    case 0xaad7aaea:  // PanFS
      return true;
    default: return false;
  }
}

bool is_on_local_disk(const std::string& path) {
  struct statfs info;
  return statfs(path.c_str(), &info) == 0 &&
         !is_network_filesystem(static_cast<std::uint64_t>(info.f_type));
}

Result<FileLock> FileLock::take(const std::string& path, int timeout_ms) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return Status(Code::kCacheBusy, "cannot open " + path + ": " + errno_text(errno));
  }
  FileLock lock(fd);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) break;
    if (std::chrono::steady_clock::now() >= deadline) {
      return Status(Code::kCacheBusy, path + " stayed locked by another process");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return lock;
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

std::string unique_sibling(const std::string& path, const char* suffix) {
  static const unsigned salt = std::random_device{}();
  static std::atomic<unsigned> count{0};
  return path + "." + std::to_string(getpid()) + "-" + std::to_string(salt) + "-" +
         std::to_string(count++) + suffix;
}

}  // namespace rowsmith
