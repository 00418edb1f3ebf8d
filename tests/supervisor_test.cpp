// SPDX-License-Identifier: Apache-2.0
//
// Tuning in worker processes that fault, hang, babble and lose their device: the candidate goes,
// the problem keeps a winner and the list goes on. The workers are this program, executed again:
// the real worker's loop on a scripted device.
#include "tuner/supervisor.h"

#include "tests/support/cache_fixture.h"
#include "tests/support/scripted_device.h"
#include "tests/support/scripted_worker.h"
#include "tuner/candidates.h"
#include "tuner/effort.h"

#include <set>

namespace rowsmith {
namespace {

using testing::PlantedFault;
using testing::worker_arguments;
using State = TuneOutcome::State;

class Supervisor : public ::testing::Test {
 protected:
  Supervisor() {
    for (const int rows : {4, 8, 16}) {
      what_.request.problems.push_back(problem_of(rows, 100));
    }
    what_.request.effort = Effort::kQuick;
    what_.request.compile_threads = 1;
    what_.program = "/proc/self/exe";
    what_.options.cache_dir = directory_ / "cache";
    what_.shares = {{"0", {0, 1, 2}}};
    what_.note = [this](std::size_t, const std::string& text) { notes_.push_back(text); };
    what_.limit_s = what_.idle_limit_s = [](const Problem&, const std::string&) { return 1e9; };
    store_ = open_store({what_.options.cache_dir, false, {}, 30000}).store;
    what_.remember = [this](const Rejection& rejection) {
      return store_->put_rejection(rejection);
    };
    DeviceFacts facts = testing::scripted_facts();
    facts.l2_bytes = 0;
    class_ = device_class(facts);
    const Problem& first = what_.request.problems[0];
    const Candidates chosen =
        choose_candidates(legal_configs(first, facts), default_config(first, facts),
                          {plan_of(Effort::kQuick, facts).candidates});
    for (std::size_t i = 0; i < chosen.configs.size(); ++i) {
      if (i != chosen.default_index) others_.push_back(to_string(chosen.configs[i]));
    }
  }

  // Supervises workers on which the faults are planted; `fast` would be a winner of the first.
  SupervisedReport run(const std::vector<PlantedFault>& faults, const std::string& fast = "") {
    what_.arguments = worker_arguments(directory_.path(), fast, faults);
    return supervise(what_);
  }
  // A limit that ends once a worker hangs and whatever it told before has been heard.
  std::function<double(const Problem&, const std::string&)> after_a_hang() {
    return [hung = directory_ / "hung", asked = 0](const Problem&, const std::string&) mutable {
      if (!std::filesystem::exists(hung) || ++asked < 2) return 1e9;
      std::filesystem::remove(hung);
      return 0.0;
    };
  }
  static std::vector<State> states(const ShareReport& share) {
    std::vector<State> states;
    for (const TuneOutcome& outcome : share.outcomes) states.push_back(outcome.state);
    return states;
  }
  std::vector<Rejection> stored_rejections(std::size_t problem) {
    return store_->list_rejections(class_, what_.request.problems[problem]).value();
  }
  const Problem& problem_at(std::size_t share, std::size_t place) const {
    return what_.request.problems[what_.shares[share].problems[place]];
  }
  bool noted(const std::string& text) const {
    for (const std::string& note : notes_) {
      if (note.find(text) != std::string::npos) return true;
    }
    return false;
  }
  std::vector<double> budgets() const {
    std::ifstream file(directory_ / "budgets");
    return {std::istream_iterator<double>(file), {}};
  }

  TemporaryDirectory directory_;
  Supervision what_;
  std::unique_ptr<WinnerStore> store_;
  std::string class_;
  std::vector<std::string> others_;  // candidates of the first problem beside the default
  std::vector<std::string> notes_;
};

const std::vector<State> kAllTuned(3, State::kTuned);

TEST_F(Supervisor, TunesTheListInOneWorkerWhereNothingGoesWrong) {
  const SupervisedReport report = run({}, others_[1]);
  EXPECT_EQ(states(report.shares[0]), kAllTuned);
  EXPECT_EQ(to_string(report.shares[0].outcomes[0].record.config), others_[1]);
  EXPECT_EQ(report.shares[0].started, 1);
  EXPECT_EQ(report.shares[0].died, 0);
  EXPECT_EQ(report.shares[0].start_s, 0.25);
  EXPECT_FALSE(report.interrupted);
  EXPECT_EQ(store_->list().value().size(), 3u);
  EXPECT_TRUE(notes_.empty());
}

struct Killer {
  const char* fault;
  const char* words;
  friend void PrintTo(const Killer& killer, std::ostream* out) { *out << killer.fault; }
};
class SupervisorKiller : public Supervisor, public ::testing::WithParamInterface<Killer> {};

TEST_P(SupervisorKiller, IsRejectedAndTuningGoesOn) {
  what_.limit_s = after_a_hang();
  const SupervisedReport report = run({{others_[1], GetParam().fault}}, others_[1]);
  const ShareReport& share = report.shares[0];
  EXPECT_EQ(states(share), kAllTuned);
  EXPECT_NE(to_string(share.outcomes[0].record.config), others_[1]) << "fast, but fatal";
  EXPECT_EQ(share.started, 2);
  EXPECT_EQ(share.died, 1);
  ASSERT_EQ(stored_rejections(0).size(), 1u);
  const Rejection rejection = stored_rejections(0)[0];
  EXPECT_EQ(rejection.config, others_[1]);
  EXPECT_EQ(rejection.code, Code::kDeviceLost);
  EXPECT_NE(rejection.reason.find(GetParam().words), std::string::npos) << rejection.reason;
  ASSERT_EQ(share.outcomes[0].rejections.size(), 1u);
  EXPECT_EQ(share.outcomes[0].rejections[0].reason, rejection.reason);
  EXPECT_TRUE(noted(others_[1] + ": " + rejection.reason));
}

INSTANTIATE_TEST_SUITE_P(
    Faults, SupervisorKiller,
    ::testing::Values(
        Killer{"segv", "the worker died of signal 11 (SIGSEGV) while it ran this candidate"},
        Killer{"kill", "the worker died of signal 9 (SIGKILL) while it ran this candidate"},
        Killer{"exit", "the worker exited with status 3 while it ran this candidate"},
        Killer{"hang", "the worker was silent for 0 s while it ran this candidate"},
        Killer{"garbage", "the worker wrote what is no message (a worker's message: "},
        Killer{"lost", "the worker lost the device ("}));

TEST_F(Supervisor, BlamesAGenericThatKillsInTheLastComparisonAndNotTheWinner) {
  const std::string generic = to_string(generic_config());
  const SupervisedReport report = run({{generic, "segv"}}, others_[1]);
  EXPECT_EQ(states(report.shares[0]), kAllTuned);
  EXPECT_EQ(to_string(report.shares[0].outcomes[0].record.config), others_[1]);
  ASSERT_EQ(stored_rejections(0).size(), 1u);
  EXPECT_EQ(stored_rejections(0)[0].config, generic);
}

TEST_F(Supervisor, TheNextWorkerGoesOnWithTheSearchOfAllConfigs) {
  what_.request.effort = Effort::kThorough;
  what_.request.families = {"warp_rows"};
  what_.shares = {{"0", {0}}};
  DeviceFacts facts = testing::scripted_facts();
  facts.l2_bytes = 0;
  std::vector<std::string> configs;
  for (const Config& config : legal_configs(what_.request.problems[0], facts)) {
    if (config.family == "warp_rows") configs.push_back(to_string(config));
  }
  std::size_t restored = 0;
  what_.progress = [&](std::size_t, const TuneProgress& progress) { restored = progress.restored; };
  const SupervisedReport report = run({{configs.at(200), "segv"}}, configs.at(300));
  const TuneOutcome& outcome = report.shares[0].outcomes[0];
  ASSERT_EQ(outcome.state, State::kTuned) << outcome.status.to_string();
  EXPECT_EQ(to_string(outcome.record.config), configs[300]);
  EXPECT_GE(outcome.restored, 100u) << "all that the first worker had saved but the best";
  EXPECT_EQ(restored, outcome.restored);
  EXPECT_EQ(report.shares[0].started, 2);
  EXPECT_FALSE(store_->list_screenings()->empty()) << "of some families: a whole search has use";
}

TEST_F(Supervisor, GivesAProblemUpAfterThreeDeathsAndGoesOnWithTheRest) {
  const SupervisedReport report =
      run({{others_[0], "segv"}, {others_[1], "exit"}, {others_[2], "lost"}});
  const ShareReport& share = report.shares[0];
  EXPECT_EQ(states(share), (std::vector<State>{State::kFailed, State::kTuned, State::kTuned}));
  EXPECT_EQ(share.died, 3);
  const TuneOutcome& failed = share.outcomes[0];
  EXPECT_EQ(failed.status.message().find("3 workers died on it, the last on " + others_[2]), 0u)
      << failed.status.message();
  EXPECT_EQ(failed.problem, what_.request.problems[0]);
  EXPECT_EQ(failed.rejections.size(), 3u);
  EXPECT_EQ(stored_rejections(0).size(), 3u);
}

TEST_F(Supervisor, FailsAProblemWhoseWorkerDiesWithNoCandidateOnTheDevice) {
  const SupervisedReport report = run({{"floor", "segv"}});
  const ShareReport& share = report.shares[0];
  EXPECT_EQ(states(share), (std::vector<State>{State::kFailed, State::kTuned, State::kTuned}));
  EXPECT_EQ(share.outcomes[0].status.message(),
            "the worker died of signal 11 (SIGSEGV) while no candidate was on the device");
  EXPECT_TRUE(stored_rejections(0).empty());
}

TEST_F(Supervisor, FailsAProblemWhoseWorkerHangsWithNoCandidateOnTheDevice) {
  what_.idle_limit_s = after_a_hang();
  const SupervisedReport report = run({{"floor", "hang"}});
  const ShareReport& share = report.shares[0];
  EXPECT_EQ(states(share), (std::vector<State>{State::kFailed, State::kTuned, State::kTuned}));
  EXPECT_EQ(share.outcomes[0].status.message(),
            "the worker hangs (silent for 0 s) while no candidate was on the device");
  EXPECT_EQ(share.started, 2);
  EXPECT_TRUE(stored_rejections(0).empty());
}

TEST_F(Supervisor, TriesOnceMoreWhereAWorkerHangsBeforeItsDeviceIsOpen) {
  what_.idle_limit_s = after_a_hang();
  EXPECT_EQ(states(run({{"start", "hang"}}).shares[0]), kAllTuned);
  EXPECT_TRUE(noted("a worker process hangs (silent for 0 s) before it had opened its device"));
}

TEST_F(Supervisor, FailsAProblemThatLosesTheDeviceWithNoCandidateOnIt) {
  const SupervisedReport report = run({{"floor", "lost"}});
  const ShareReport& share = report.shares[0];
  EXPECT_EQ(states(share), (std::vector<State>{State::kFailed, State::kTuned, State::kTuned}));
  EXPECT_EQ(share.outcomes[0].status.code(), Code::kDeviceLost);
  EXPECT_NE(share.outcomes[0].status.message().find("illegal address"), std::string::npos);
  EXPECT_EQ(share.started, 2);
}

TEST_F(Supervisor, TriesOnceMoreWhereAWorkerDiesBeforeItsDeviceIsOpen) {
  const SupervisedReport report = run({{"start", "segv"}});
  EXPECT_EQ(states(report.shares[0]), kAllTuned);
  EXPECT_TRUE(report.shares[0].never_ran.ok());
  EXPECT_TRUE(noted("died of signal 11 (SIGSEGV) before it had opened its device"));
}

TEST_F(Supervisor, GivesUpWhereThatHappensTwiceInARow) {
  const SupervisedReport report = run({{"start", "segv"}, {"start", "exit"}});
  const ShareReport& share = report.shares[0];
  EXPECT_EQ(share.never_ran.message(),
            "a worker process exited with status 3 before it had opened its device");
  EXPECT_EQ(states(share), std::vector<State>(3, State::kFailed));
  EXPECT_EQ(share.started, 2);
}

TEST_F(Supervisor, TellsAtOnceWhyADeviceCannotBeOpened) {
  const SupervisedReport report = run({{"start", "refuse"}});
  EXPECT_EQ(report.shares[0].never_ran.to_string(), "no device: no GPU of that name");
  EXPECT_EQ(report.shares[0].started, 1);
  EXPECT_EQ(report.shares[0].died, 0);
}

TEST_F(Supervisor, CountsTheBudgetOnceOverAllWorkers) {
  double now_s = 100;
  what_.now_s = [&] { return now_s; };
  what_.note = [&](std::size_t, const std::string&) { now_s += 400; };
  what_.request.budget_s = 1000;
  const SupervisedReport report = run({{others_[1], "segv"}});
  EXPECT_EQ(states(report.shares[0]), kAllTuned);
  // The second worker counts from its own start, which takes as long as the first one's.
  EXPECT_EQ(budgets(), (std::vector<double>{1000, 1000 - 400 - 0.25}));
}

TEST_F(Supervisor, SkipsWhatIsLeftWhereADeathHasSpentTheBudget) {
  double now_s = 100;
  what_.now_s = [&] { return now_s; };
  what_.note = [&](std::size_t, const std::string&) { now_s += 2000; };
  what_.request.budget_s = 1000;
  const SupervisedReport report = run({{others_[1], "segv"}});
  EXPECT_EQ(states(report.shares[0]), std::vector<State>(3, State::kSkipped));
  EXPECT_EQ(report.shares[0].outcomes[0].status.message(), "the budget was spent");
  EXPECT_EQ(report.shares[0].started, 1);
}

TEST_F(Supervisor, AnInterruptKeepsWhatFinishedAndSkipsTheRest) {
  what_.stop = [this] { return !store_->list().value().empty(); };
  const SupervisedReport report = run({});
  EXPECT_TRUE(report.interrupted);
  EXPECT_EQ(report.shares[0].outcomes[0].state, State::kTuned);
  EXPECT_EQ(report.shares[0].died, 0);
  std::size_t tuned = 0;
  for (const State state : states(report.shares[0])) tuned += state == State::kTuned;
  EXPECT_EQ(tuned, store_->list().value().size());
}

TEST_F(Supervisor, StartsNoWorkerWhereItIsInterruptedBefore) {
  what_.stop = [] { return true; };
  const SupervisedReport report = run({});
  EXPECT_TRUE(report.interrupted);
  EXPECT_EQ(states(report.shares[0]), std::vector<State>(3, State::kSkipped));
  EXPECT_EQ(report.shares[0].started, 0);
}

TEST_F(Supervisor, TakesATerminatedWorkerForAnInterruptAndBlamesNoCandidate) {
  const SupervisedReport report = run({{others_[1], "term"}});
  EXPECT_TRUE(report.interrupted);
  EXPECT_EQ(states(report.shares[0]), std::vector<State>(3, State::kSkipped));
  EXPECT_TRUE(stored_rejections(0).empty());
}

TEST_F(Supervisor, SharesWorkSideBySide) {
  what_.shares = {{"0", {0, 2}}, {"1", {1}}};
  std::set<std::pair<std::size_t, std::int64_t>> seen;
  what_.progress = [&](std::size_t share, const TuneProgress& progress) {
    seen.insert({share, progress.in_hand.rows});
    EXPECT_EQ(progress.in_hand, problem_at(share, progress.problem));
  };
  const SupervisedReport report = run({});
  ASSERT_EQ(report.shares.size(), 2u);
  ASSERT_EQ(report.shares[0].outcomes.size(), 2u);
  EXPECT_EQ(report.shares[0].outcomes[1].problem, what_.request.problems[2]);
  EXPECT_EQ(report.shares[1].outcomes[0].problem, what_.request.problems[1]);
  using Seen = std::set<std::pair<std::size_t, std::int64_t>>;
  EXPECT_EQ(seen, (Seen{{0, 4}, {0, 16}, {1, 8}}));
}

TEST_F(Supervisor, AShareThatCannotStartLeavesTheOthersAlone) {
  what_.shares = {{"0", {0, 2}}, {"1", {1}}};
  const SupervisedReport report = run({{"start", "refuse"}});
  const bool first_failed = !report.shares[0].never_ran.ok();
  const ShareReport& failed = report.shares[first_failed ? 0 : 1];
  const ShareReport& well = report.shares[first_failed ? 1 : 0];
  EXPECT_EQ(failed.outcomes[0].status.message(), "no GPU of that name");
  EXPECT_TRUE(well.never_ran.ok());
  for (const State state : states(well)) EXPECT_EQ(state, State::kTuned);
}

TEST_F(Supervisor, ADeathAmongWhatBucketsAddLosesNoneOfThem) {
  what_.request.problems = {problem_of(2, 100), problem_of(64, 100)};
  what_.request.buckets = true;
  what_.shares = {{"0", {0, 1}}};
  what_.arguments =
      worker_arguments(directory_.path(), others_[1], {{others_[3] + "@11", "segv"}}, others_[2]);
  const SupervisedReport report = supervise(what_);
  std::vector<std::int64_t> rows;
  for (const TuneOutcome& outcome : report.shares[0].outcomes) {
    EXPECT_EQ(outcome.state, State::kTuned) << outcome.status.to_string();
    rows.push_back(outcome.problem.rows);
  }
  EXPECT_EQ(rows, (std::vector<std::int64_t>{2, 64, 11, 26, 16}));
  EXPECT_EQ(report.shares[0].started, 2);
  const auto rejections = store_->list_rejections(class_, problem_of(11, 100)).value();
  ASSERT_EQ(rejections.size(), 1u);
  EXPECT_EQ(rejections[0].config, others_[3]);
}

TEST_F(Supervisor, TellsDecisionsAndThatADeathBeganThemAnew) {
  std::vector<SearchEvent> events;
  what_.shares = {{"0", {2}}};
  what_.explain = [&](std::size_t, const SearchEvent& event) { events.push_back(event); };
  run({{others_[1], "segv"}});
  using Kind = SearchEvent::Kind;
  ASSERT_FALSE(events.empty());
  std::size_t restarts = 0, verdicts = 0;
  for (const SearchEvent& event : events) {
    EXPECT_EQ(event.problem, 0u) << "of the share";
    EXPECT_EQ(event.in_hand, what_.request.problems[2]);
    verdicts += event.kind == Kind::kVerdict;
    if (event.kind != Kind::kRestarted) continue;
    ++restarts;
    EXPECT_EQ(event.reason.find(others_[1] + ": the worker died of signal 11"), 0u);
  }
  EXPECT_EQ(events.front().kind, Kind::kRanked);
  EXPECT_EQ(restarts, 1u);
  EXPECT_EQ(verdicts, 1u);
}

}  // namespace
}  // namespace rowsmith

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == rowsmith::testing::kWorkerFlag) {
    return rowsmith::testing::scripted_worker_main({argv, argv + argc});
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
