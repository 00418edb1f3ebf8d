// SPDX-License-Identifier: Apache-2.0
//
// Small kernels of their own for the host device's tests: text in, loaded kernel out.
#pragma once

#include "runtime/host_device.h"

#include "numeric_text.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rowsmith::testing {

struct Params {
  void* src;
  void* dst;
  long long count;
};

// A program of one kernel "k" with the given body, in lines counted from 1 as "kernel:N".
// `base`: the device text that it may use.
inline std::string text_of(const std::string& body, int threads = 256,
                           std::string_view base = detail::kNumericText) {
  return std::string(base) +
         "using namespace rs;\nstruct Params { char* src; char* dst; i64 count; };\n"
         "ROWSMITH_KERNEL(k, " +
         std::to_string(threads) + ", 1, Params)\n#line 1 \"kernel\"\n" + body;
}

// One compiled kernel on one device.
struct Loaded {
  std::shared_ptr<HostDevice> device;
  std::unique_ptr<Module> module;
  const Kernel* kernel = nullptr;

  Status run(Params params, LaunchShape shape) const {
    return device->run({kernel, shape, &params, sizeof(params)});
  }
};

inline Loaded load(const std::string& body, const HostOptions& options = {},
                   std::string_view base = detail::kNumericText) {
  Loaded loaded{make_host_device(options), nullptr};
  const Result<Binary> binary = loaded.device->compile({"test", text_of(body, 256, base), {"k"}});
  EXPECT_TRUE(binary.ok()) << binary.status().to_string();
  if (!binary.ok()) return loaded;
  Result<std::unique_ptr<Module>> module = loaded.device->load(*binary);
  EXPECT_TRUE(module.ok()) << module.status().to_string();
  if (!module.ok()) return loaded;
  loaded.module = std::move(module).value();
  loaded.kernel = loaded.module->kernel("k").value();
  return loaded;
}

inline LaunchShape shape_of(std::int64_t grid, int block, std::int64_t shared_bytes = 0) {
  return {grid, block, 1, shared_bytes};
}

template <class T>
std::vector<T> values_of(const Buffer& buffer) {
  const T* values = static_cast<const T*>(buffer.data());
  return std::vector<T>(values, values + buffer.bytes() / sizeof(T));
}

// Every schedule with a poison of its own.
inline std::vector<HostOptions> orders() {
  std::vector<HostOptions> all(3);
  all[1].schedule = HostSchedule::kDescending;
  all[1].poison = 0x00;
  all[2].schedule = HostSchedule::kRandom;
  all[2].seed = 7;
  all[2].poison = 0x5a;
  return all;
}

}  // namespace rowsmith::testing
