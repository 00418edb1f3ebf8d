// SPDX-License-Identifier: Apache-2.0
//
// The small language of the dispatcher's tests: a scripted device, a store in memory, a dispatcher
// over both, and calls on buffers that nothing touches.
#pragma once

#include "kernel_templates/catalog.h"
#include "runtime/dispatcher.h"
#include "tests/support/scripted_device.h"

#include <rowsmith/text.h>

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace rowsmith::testing {

class DispatchFixture : public ::testing::Test {
 protected:
  static constexpr std::int64_t kCols = 1000;

  DispatchFixture() { session_ = make_session(device_, RuntimeOptions{}); }

  static Problem problem(std::int64_t rows, std::int64_t cols = kCols) {
    return contiguous_problem(DType::kF32, DType::kF32, rows, cols);
  }
  static SoftmaxCall call(std::int64_t rows, std::int64_t cols = kCols) {
    SoftmaxCall value;
    value.src = reinterpret_cast<const void*>(std::uintptr_t{4096});
    value.dst = reinterpret_cast<void*>(std::uintptr_t{1} << 60);
    value.rows = rows;
    value.cols = cols;
    return value;
  }
  // The legal configs; 0 is the default.
  static Config config(std::size_t index) {
    static const std::vector<Config> legal = legal_configs(problem(4), scripted_facts());
    return legal.at(index);
  }

  void open(OnMiss on_miss = OnMiss::kDefault, TuneOnMiss tune = {}, std::string pin = {}) {
    RuntimeOptions options;
    options.on_miss = on_miss;
    options.pin = std::move(pin);
    runtime_ = make_dispatcher(session_, options, std::move(tune));
  }
  // A tuner that makes the config of `index` the winner of whatever it is asked.
  TuneOnMiss tune_to(std::size_t index) {
    return [this, index](const Session&, const Problem& asked, int) {
      ++tunings_;
      return store_winner(asked.rows, index, asked.cols);
    };
  }
  Status store_winner(std::int64_t rows, std::size_t index, std::int64_t cols = kCols,
                      const std::string& throttled = "") {
    WinnerRecord record;
    record.device_class = device_class(device_->facts());
    record.problem = problem(rows, cols);
    record.config = config(index);
    record.family_digest = std::string(find_family(record.config.family)->digest());
    record.evidence.median_ns = 1000;
    record.evidence.throttled = throttled;
    return session_.store->put(record);
  }

  Status softmax(std::int64_t rows, std::int64_t cols = kCols) {
    return runtime_->softmax(call(rows, cols));
  }
  // The entry of a config, and of the last launch.
  static std::string entry(const Config& config, std::int64_t cols = kCols) {
    return entry_name({problem(4, cols), config});
  }
  std::string launched() const {
    const auto launches = device_->launches();
    return launches.empty() ? "" : launches.back().entry;
  }
  // Serves the rows and answers which entry did.
  std::string serve(std::int64_t rows, std::int64_t cols = kCols) {
    const Status status = softmax(rows, cols);
    EXPECT_TRUE(status.ok()) << status.to_string();
    return launched();
  }
  Source source(std::int64_t rows) {
    const Result<Explanation> answer = runtime_->explain(problem(rows));
    EXPECT_TRUE(answer.ok()) << answer.status().to_string();
    return answer.ok() ? answer.value().source : Source::kGeneric;
  }
  // Makes the entry fail: compiling it, or launching it.
  void break_compile(const std::string& broken) {
    device_->script.on_compile = [broken](const Program& program) {
      return program.entries.front() == broken ? Status(Code::kCompileFailed, "scripted compile")
                                               : Status();
    };
  }
  void break_launch(const std::string& broken, Code code = Code::kLaunchFailed) {
    device_->script.on_launch = [broken, code](const LaunchCall& launch) {
      return ScriptedDevice::entry_of(launch) == broken ? Status(code, "scripted launch")
                                                        : Status();
    };
  }

  std::shared_ptr<ScriptedDevice> device_ = std::make_shared<ScriptedDevice>();
  Session session_;
  std::unique_ptr<Runtime> runtime_;
  std::atomic<int> tunings_{0};
};

}  // namespace rowsmith::testing
