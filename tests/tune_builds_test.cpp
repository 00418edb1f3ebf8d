// SPDX-License-Identifier: Apache-2.0
//
// Candidates that are compiled while others are timed: the order of events on a scripted device,
// what is compiled how often, and that verdicts do not depend on who arrives when.
#include "tests/support/tune_fixture.h"
#include "tuner/build.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <mutex>
#include <set>
#include <tuple>

namespace rowsmith {
namespace {

using testing::Fault;
using testing::kProblem;
using testing::ScriptedDevice;
using testing::TuneTest;
using State = TuneOutcome::State;

class TuneBuildsTest : public TuneTest {
 protected:
  TuneSettings with_threads(int threads) {
    TuneSettings settings = this->settings();
    settings.compile_threads = threads;
    return settings;
  }
  // What was decided, and on what times.
  std::vector<std::tuple<SearchEvent::Kind, std::size_t, double>> decisions(int threads) {
    std::vector<std::tuple<SearchEvent::Kind, std::size_t, double>> seen;
    TuneSettings settings = with_threads(threads);
    settings.explain = [&](const SearchEvent& event) {
      seen.emplace_back(event.kind, event.candidate, event.ns);
    };
    tune_with(settings);
    return seen;
  }
  std::string default_entry() const { return entry(chosen_.default_index); }
};

TEST_F(TuneBuildsTest, TimesTheDefaultBeforeTheOthersAreCompiled) {
  std::promise<void> timed;
  const std::shared_future<void> default_timed = timed.get_future();
  bool told = false;
  const auto cost = device_->script.cost;
  device_->script.cost = [&](const LaunchCall& call) {
    if (ScriptedDevice::entry_of(call) == default_entry() && !std::exchange(told, true)) {
      timed.set_value();
    }
    return cost(call);
  };
  const std::string needed = default_entry();
  device_->script.on_compile = [&, needed](const Program& program) {
    if (program.name == "copy" || program.source.find(needed) != std::string::npos) return Status();
    // The limit is met only by a tuner that waits for all, which would else wait for ever.
    const bool in_time =
        default_timed.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    return in_time ? Status() : Status(Code::kCompileFailed, "compiled before the default's time");
  };
  takes(other(2), 500);
  const TuneOutcome outcome = tune_with(with_threads(2));
  EXPECT_TRUE(outcome.rejections.empty());
  EXPECT_EQ(outcome.record.config, chosen_.configs[other(2)]);
}

TEST_F(TuneBuildsTest, DecidesAlikeHoweverCandidatesArrive) {
  const std::string bad = entry(other(4));
  std::vector<std::vector<std::tuple<SearchEvent::Kind, std::size_t, double>>> runs;
  for (const int threads : {1, 2, 3, 16}) {
    open(kProblem);
    device_->script.on_compile = [bad](const Program& program) {
      return program.source.find(bad) == std::string::npos ? Status()
                                                           : Status(Code::kCompileFailed, "no");
    };
    takes(other(3), 700);
    takes(other(5), 720);
    does(other(1), Fault::kDropsNan);
    runs.push_back(decisions(threads));
  }
  EXPECT_GT(runs[0].size(), 2 * chosen_.configs.size());
  for (const auto& run : runs) EXPECT_EQ(run, runs[0]);
}

TEST_F(TuneBuildsTest, CompilesOnlyFinalistsASecondTimeAndTheDefaultNever) {
  takes(other(3), 700);
  ASSERT_EQ(tune_with(with_threads(16)).state, State::kTuned);
  const std::vector<std::string> compiled = device_->compiled_entries();
  const auto times = [&](std::size_t i) {
    return std::count(compiled.begin(), compiled.end(), entry(i));
  };
  EXPECT_EQ(times(chosen_.default_index), 1);
  for (std::size_t nth = 0; nth + 1 < chosen_.configs.size(); ++nth) {
    EXPECT_LE(times(other(nth)), nth == 3 ? 2 : 1) << nth;  // the only one within the band
  }
  EXPECT_NE(session_.modules->loaded(problem_, chosen_.configs[other(3)]), nullptr);
}

TEST_F(TuneBuildsTest, CompilesNothingMoreOnceStopped) {
  TuneSettings stopping = with_threads(1);
  stopping.stop = [this] { return timed_ > 0; };
  EXPECT_EQ(tune_with(stopping).state, State::kSkipped);
  const std::vector<std::string> compiled = device_->compiled_entries();
  const std::string& of_the_default = chosen_.configs[chosen_.default_index].family;
  for (std::size_t i = 0; i < chosen_.configs.size(); ++i) {
    if (chosen_.configs[i].family == of_the_default) continue;
    EXPECT_EQ(std::count(compiled.begin(), compiled.end(), entry(i)), 0) << i;
  }
}

TEST_F(TuneBuildsTest, FindsAWinnerNearTheBestOfTheFirst) {
  for (const int threads : {1, 16}) {
    open(kProblem);
    const Config& best = chosen_.configs[other(3)];
    const std::vector<Config> near =
        choose_near(legal_configs(problem_, device_->facts()), chosen_.configs, {best}, {1});
    ASSERT_EQ(near.size(), 1u);
    takes(other(3), 640);
    times_[entry_name({problem_, near[0]})] = 600'000;
    const TuneOutcome outcome = tune_with(with_threads(threads));
    ASSERT_EQ(outcome.state, State::kTuned) << outcome.status.to_string();
    EXPECT_EQ(outcome.record.config, near[0]);
    EXPECT_EQ(outcome.record.evidence.candidates, static_cast<std::int64_t>(all_tried()));
  }
}

TEST_F(TuneBuildsTest, BuildsNeighboursAloneWhereTheirProgramDoesNotLoad) {
  const std::string culprit = entry(other(0));
  device_->script.on_load = [culprit](const Binary& binary) {
    return binary.bytes.find(culprit) == std::string::npos
               ? Status()
               : Status(Code::kLaunchFailed, "a broken image");
  };
  const TuneOutcome outcome = tune_with(with_threads(1));  // several a program
  ASSERT_EQ(outcome.state, State::kTuned) << outcome.status.to_string();
  ASSERT_EQ(outcome.rejections.size(), 1u);
  EXPECT_EQ(outcome.rejections[0].config, to_string(chosen_.configs[other(0)]));
}

TEST_F(TuneBuildsTest, CompilesCandidatesByWhatTheSettingsGiveFewerAtOnceTheMoreFrontEndsItHas) {
  // By front ends: what was compiled elsewhere.
  const auto programs = [&](std::size_t front_ends) {
    open(kProblem);
    std::mutex mutex;
    std::vector<Program> elsewhere;
    TuneSettings settings = with_threads(2);
    settings.front_ends = front_ends;
    settings.compile = [&](const Program& program) {
      const std::lock_guard lock(mutex);
      elsewhere.push_back(program);
      return device_->compile(program);
    };
    EXPECT_EQ(tune_with(settings).state, State::kTuned);
    return elsewhere;
  };
  std::set<std::string> entries;
  const std::vector<Program> one = programs(1), many = programs(15);
  for (const Program& program : one) entries.insert(program.entries.begin(), program.entries.end());
  for (std::size_t i = 0; i < chosen_.configs.size(); ++i) {
    EXPECT_EQ(entries.count(entry(i)), 1u) << i;
  }
  EXPECT_LT(one.size(), many.size());
  for (const Program& program : many) EXPECT_EQ(program.entries.size(), 1u) << program.name;
}

TEST(CompileCost, GrowsWithWhatAThreadHolds) {
  const DeviceFacts facts = testing::scripted_facts();
  const auto of_default = [&](std::int64_t rows, std::int64_t cols) {
    const Problem problem = contiguous_problem(DType::kF16, DType::kF16, rows, cols);
    return compile_s(problem, facts, default_config(problem, facts));
  };
  EXPECT_LT(of_default(4096, 100), 0.15);
  EXPECT_GT(of_default(4096, 1000), of_default(4096, 100));
  EXPECT_GT(of_default(16, 262144), 2 * of_default(4096, 1000));
  EXPECT_LT(of_default(64, 100'000'003), 1.0);  // walked, not unrolled
}

}  // namespace
}  // namespace rowsmith
