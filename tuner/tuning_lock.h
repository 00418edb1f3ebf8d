// SPDX-License-Identifier: Apache-2.0
//
// TuningLock: one advisory lock a device, so that two processes of a user do not time on it at
// once. Advisory in both senses: nothing is refused for want of it, the result is marked instead.
#pragma once

#include <functional>
#include <string>

namespace rowsmith {

class TuningLock {
 public:
  // Waits up to `wait_s` for the device's lock in `directory` ("" = default_directory()), asking
  // `give_up` (may be empty) meanwhile. Never fails.
  TuningLock(const std::string& directory, const std::string& device_uuid, double wait_s,
             const std::function<bool()>& give_up);
  ~TuningLock();
  TuningLock(const TuningLock&) = delete;
  TuningLock& operator=(const TuningLock&) = delete;

  bool held() const { return fd_ >= 0; }
  // Another held it to the end of the wait. (Where no lock file can be made nobody can tell.)
  bool contended() const { return contended_; }

  // /run/user/<uid>, else /tmp/rowsmith-<uid>, made with mode 0700; "" where neither is ours. Not
  // the cache directory: two caches may serve one device.
  static std::string default_directory();

 private:
  int fd_ = -1;
  bool contended_ = false;
};

}  // namespace rowsmith
