// SPDX-License-Identifier: Apache-2.0
//
// Status and Result<T>: how rowsmith reports failure. Errors are values; nothing throws across the
// public boundary (std::bad_alloc excepted).
#pragma once

#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace rowsmith {

// The kinds of failure. The numbers are frozen: the C API returns them as they stand.
enum class Code {
  kOk = 0,
  kInvalidArgument = 1,  // the caller's values are wrong; the message names which
  kUnsupported = 2,      // legal input that this build or device cannot serve
  kNoDevice = 3,         // no usable device; the message says why and what to set
  kDeviceLost = 4,       // the context is unusable from here on
  kCompileFailed = 5,    // the message holds the options and the compiler's log
  kLaunchFailed = 6,     // the kernel could not be loaded or launched
  kOutOfMemory = 7,      // device or host memory
  kAccuracyFailed = 8,   // a candidate's result was outside the bound of docs/architecture.md
  kNotTuned = 9,         // policy `error` and no stored winner for the problem
  kNotPrepared = 10,     // nothing is loaded and nothing may be compiled now (stream capture)
  kCacheBusy = 11,       // the cache stayed locked past its timeout
  kCacheDamaged = 12,    // the cache could not be read; it was set aside
  kInternal = 13,        // a fault of rowsmith itself
};

// The code's name in words, as the messages print it ("invalid argument").
inline const char* to_string(Code code) noexcept {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kInvalidArgument: return "invalid argument";
    case Code::kUnsupported: return "unsupported";
    case Code::kNoDevice: return "no device";
    case Code::kDeviceLost: return "device lost";
    case Code::kCompileFailed: return "compile failed";
    case Code::kLaunchFailed: return "launch failed";
    case Code::kOutOfMemory: return "out of memory";
    case Code::kAccuracyFailed: return "accuracy failed";
    case Code::kNotTuned: return "not tuned";
    case Code::kNotPrepared: return "not prepared";
    case Code::kCacheBusy: return "cache busy";
    case Code::kCacheDamaged: return "cache damaged";
    case Code::kInternal: return "internal";
  }
  return "unknown";
}

// A code and, on failure, one message that names the thing, the call and the cause. An ok Status
// allocates nothing. Copies share the message. Thread-compatible.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(Code code, std::string message)
      : code_(code), message_(std::make_shared<const std::string>(std::move(message))) {
    assert(code != Code::kOk);
  }

  bool ok() const noexcept { return code_ == Code::kOk; }
  Code code() const noexcept { return code_; }
  // Empty when ok.
  const std::string& message() const noexcept {
    static const std::string empty;
    return message_ ? *message_ : empty;
  }
  // "ok", or "<code>: <message>".
  std::string to_string() const {
    return ok() ? "ok" : std::string(rowsmith::to_string(code_)) + ": " + message();
  }
  // The same failure with what was being done put in front; ok stays ok.
  Status with_context(const std::string& doing) const {
    return ok() ? *this : Status(code_, doing + ": " + message());
  }

 private:
  Code code_ = Code::kOk;
  std::shared_ptr<const std::string> message_;
};

// A value, or the Status that says why there is none. Never ok without a value.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    assert(!status_.ok());
  }

  bool ok() const noexcept { return value_.has_value(); }
  const Status& status() const noexcept { return status_; }

  // Requires ok().
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace rowsmith
