// SPDX-License-Identifier: Apache-2.0
//
// The language of the tuner's tests: a session on a scripted device with synthetic times by entry
// name, planted faults, and a clock that the test moves.
#pragma once

#include "tests/support/emulated_softmax.h"
#include "tests/support/scripted_device.h"
#include "tuner/candidates.h"
#include "tuner/effort.h"
#include "tuner/tune.h"

#include <rowsmith/text.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

namespace rowsmith::testing {

inline const Problem kProblem = contiguous_problem(DType::kF16, DType::kF16, 4, 100);

// A session on a scripted device whose candidates have the times and faults that a case gives them.
class TuneTest : public ::testing::Test {
 protected:
  TuneTest() {
    char pattern[] = "/tmp/rowsmith-tune-test-XXXXXX";
    directory_ = ::mkdtemp(pattern);
    open(kProblem);
  }
  ~TuneTest() override { std::filesystem::remove_all(directory_); }

  void open(const Problem& problem) {
    problem_ = problem;
    DeviceFacts facts = scripted_facts();
    facts.l2_bytes = 0;
    device_ = std::make_shared<ScriptedDevice>(facts);
    device_->script.effect = emulated_softmax(problem, [this](const std::string& entry) {
      const auto found = faults_.find(entry);
      return found == faults_.end() ? Fault::kNone : found->second;
    });
    device_->script.cost = [this](const LaunchCall& call) {
      ++timed_;
      clock_ += 0.001;
      const auto found = times_.find(ScriptedDevice::entry_of(call));
      return Result<double>(found == times_.end() ? 1e6 : found->second);
    };
    session_ = make_session(device_, RuntimeOptions());
    const std::vector<Config> ranked = legal_configs(problem, facts);
    chosen_ = choose_candidates(ranked, default_config(problem, facts),
                                {plan_of(Effort::kQuick, facts).candidates});
  }
  // How many configs a tuning tries: those chosen, and as many near the best as there may be.
  std::size_t all_tried() const {
    return chosen_.configs.size() + plan_of(Effort::kQuick, device_->facts()).near;
  }
  std::string entry(std::size_t candidate) const {
    return entry_name({problem_, chosen_.configs[candidate]});
  }
  // A candidate that is not the default.
  std::size_t other(std::size_t nth) const { return nth < chosen_.default_index ? nth : nth + 1; }
  // Microseconds, where all others take 1000.
  void takes(std::size_t candidate, double us) { times_[entry(candidate)] = us * 1000; }
  void does(std::size_t candidate, Fault fault) { faults_[entry(candidate)] = fault; }

  TuneSettings settings() {
    TuneSettings settings;
    settings.effort = Effort::kQuick;
    settings.compile_threads = 2;
    settings.lock_directory = directory_;
    settings.lock_wait_s = 0;
    settings.now_s = [this] { return clock_; };
    return settings;
  }
  TuneOutcome tune() { return tune_with(settings()); }
  TuneOutcome tune_with(const TuneSettings& settings) {
    FloorMeter floor;
    return tune_problem(session_, problem_, settings, floor);
  }
  std::optional<WinnerRecord> stored(const Problem& problem) {
    return session_.store->find(device_class(device_->facts()), problem).value();
  }
  std::vector<Rejection> stored_rejections() {
    return session_.store->list_rejections(device_class(device_->facts()), problem_).value();
  }
  // As `tune` remembers a config that a worker died on.
  void remember_killer(const Config& config, const std::string& digest = "") {
    const std::string own(find_family(config.family)->digest());
    const Rejection rejection{device_class(device_->facts()), problem_,          to_string(config),
                              digest.empty() ? own : digest,  Code::kDeviceLost, "the worker died"};
    ASSERT_TRUE(session_.store->put_rejection(rejection).ok());
  }
  bool was_launched(const Config& config) const {
    const auto launches = device_->launches();
    return std::any_of(launches.begin(), launches.end(), [&](const auto& launched) {
      return launched.entry == entry_name({problem_, config});
    });
  }
  std::string directory_;
  Problem problem_;
  std::shared_ptr<ScriptedDevice> device_;
  Session session_;
  Candidates chosen_;
  std::map<std::string, double> times_;
  std::map<std::string, Fault> faults_;
  double clock_ = 0;
  int timed_ = 0;
};

}  // namespace rowsmith::testing
