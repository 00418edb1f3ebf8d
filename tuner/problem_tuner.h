// SPDX-License-Identifier: Apache-2.0
//
// ProblemTuner: the work behind tune_problem. Times come from measure.h, decisions from search.h;
// here they meet candidates, and every failure finds its place: a candidate's own is a recorded
// rejection, the device's or the memory's ends the problem or the candidate and marks nothing.
#pragma once

#include "tuner/build.h"
#include "tuner/candidates.h"
#include "tuner/effort.h"
#include "tuner/floor.h"
#include "tuner/tune_problem.h"
#include "tuner/tuning_lock.h"
#include "tuner/verify.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rowsmith {

class ProblemTuner {
 public:
  ProblemTuner(const Session& session, const Problem& problem, const TuneSettings& settings,
               FloorMeter& floor);
  TuneOutcome run();

 private:
  // A candidate, once it is built with its plan, and with its stopwatch while it is being timed.
  struct Candidate {
    std::optional<std::size_t> build;  // its place among the builds; restored ones have none
    bool built = false;
    bool verified = false;
    LaunchPlan plan;
    std::optional<Stopwatch> watch;
  };

  bool settled_before_search();
  void begin_builds(std::vector<Config> legal);
  void start_builds();
  bool keeps_screenings() const { return settings_.effort == Effort::kThorough; }
  void restore_screenings();
  void keep_screening(std::size_t i);
  void save_screenings();
  void forget_screening(std::size_t i);
  void end_screenings();
  bool prepare();
  bool settle_clocks();
  bool measure_floor();
  void search_best();
  void take_samples();
  Room room_for(std::size_t places) const;
  void refine();
  void take_sample(const Search::Step& step);
  void verify_leader();
  bool verify(std::size_t i);
  Status take_build(std::size_t i);
  bool spills(std::size_t i) const;
  Status why_dropped(std::size_t spiller) const;
  void drop_spiller(std::size_t i);
  bool readmit_spillers();
  void search_again(std::string why);
  Status start_watch(std::size_t i);
  void enter_finals();
  Status build_alone(std::size_t i);
  bool confirm(std::size_t i);
  Status compare_in_full(std::size_t i);
  void conclude();
  Status why_none_stands() const;
  void record(const Search::Verdict& verdict);
  bool keeps_earlier(const std::string& dirty);
  void log_candidates() const;
  void fill_evidence(Evidence& evidence, const Search::Verdict& verdict) const;
  Reuse reuse_of(const std::optional<WinnerRecord>& neighbour, std::size_t winner) const;
  std::string policy() const;

  void reject(std::size_t i, const Status& why);
  void drop(std::size_t i, const Status& why);
  void reject_generic(const Status& why);
  void remember_rejection(const Config& config, const Status& why);
  bool end_with(TuneOutcome::State state, Status why);
  bool stopped() const { return settings_.stop && settings_.stop(); }
  bool time_is_up() const { return stopped() || (deadline_ > 0 && now() >= deadline_); }
  double now() const;
  double median_ns(std::size_t i) const { return median(search_->samples(i)); }
  void on_device(std::optional<std::size_t> i);
  void show_progress() const;
  void explain(SearchEvent event) const;
  void explain_ranks(std::size_t first) const;
  void explain_build(std::size_t i) const;
  void explain_verdict(const Search::Verdict& verdict) const;

  const Session& session_;
  const TuneSettings& settings_;
  FloorMeter& floor_;
  const DeviceFacts& facts_;
  const std::string class_;
  const EffortPlan plan_;
  const double deadline_;
  const int threads_;
  TuneOutcome outcome_;
  bool ended_ = false;
  Neighbours neighbours_;
  std::vector<Config> ranked_;  // what may be tried
  Candidates chosen_;
  std::optional<std::size_t> generic_;  // among the builds, unless it is loaded already
  std::optional<CandidateBuilds> builds_;
  std::vector<Candidate> candidates_;
  std::optional<TuningLock> lock_;
  std::optional<Arena> arena_;
  std::optional<Verifier> verifier_;
  std::optional<Search> search_;
  std::vector<Screening> unsaved_;  // screened, and not yet in the store
  std::set<std::string> saved_;     // configs whose screenings are in the store
  double saved_s_ = 0;              // when the store last took some
  std::int64_t floor_ns_ = 0;
  ClockWatch clocks_;
  bool finals_begun_ = false;
  std::optional<std::size_t> on_device_;  // as last told to settings_.trying
  std::vector<std::size_t> spillers_;     // dropped untimed
  bool spillers_admitted_ = false;
  Status memory_failure_;  // of the last candidate that found no memory
  Status passed_over_;     // why the last candidate was that the device does not support
  Accuracy accuracy_;
  std::string compared_;
};

}  // namespace rowsmith
