// SPDX-License-Identifier: Apache-2.0
//
// flock on a file that stays: the kernel lets go of it when its holder dies, however it dies.
#include "tuner/tuning_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <thread>

namespace rowsmith {
namespace {

constexpr std::chrono::milliseconds kPause{20};

bool owned_directory(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::getuid();
}

std::string file_name(const std::string& uuid) {
  std::string name = "rowsmith-tuning-" + (uuid.empty() ? std::string("device") : uuid) + ".lock";
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '.'; }, '_');
  return name;
}

}  // namespace

std::string TuningLock::default_directory() {
  const std::string user = std::to_string(::getuid());
  if (owned_directory("/run/user/" + user)) return "/run/user/" + user;
  const std::string own = "/tmp/rowsmith-" + user;
  if (::mkdir(own.c_str(), 0700) != 0 && errno != EEXIST) return "";
  return owned_directory(own) ? own : "";
}

TuningLock::TuningLock(const std::string& directory, const std::string& device_uuid, double wait_s,
                       const std::function<bool()>& give_up) {
  const std::string in = directory.empty() ? default_directory() : directory;
  if (in.empty()) return;
  const std::string path = in + "/" + file_name(device_uuid);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(wait_s);
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    contended_ = errno == EWOULDBLOCK;
    const bool waits = contended_ || errno == EINTR;
    if (!waits || std::chrono::steady_clock::now() >= end || (give_up && give_up())) {
      ::close(fd);
      return;
    }
    std::this_thread::sleep_for(kPause);
  }
  fd_ = fd;
  contended_ = false;
}

TuningLock::~TuningLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace rowsmith
