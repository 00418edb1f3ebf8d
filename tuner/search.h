// SPDX-License-Identifier: Apache-2.0
//
// Search: which candidate to time next, and which one has won. A state machine that owns no clock
// and no device: it hands out steps and is told times, so that it runs the same on synthetic ones.
//
// Screening. Candidates come in the order of their rank, the default first. Each gets a few
// samples in a row; one far behind the best stops after its first, since a bad config costs up to
// 70 times the best. The best is the smallest *median* of a candidate screened to the end, never a
// single sample: one far-too-fast outlier must not cut everybody else. Once `refine_after`
// candidates are screened the search asks for more of the best so far's kind; they come last.
//
// Earlier runs. Of a candidate that a search before this one screened, its time over the default's
// may be given. The best few of these are screened anew, right after the default, so that what
// stands when the time is up was timed in this run. The others are restored: that ratio, times the
// default's of this run, decides whether they reach the finals, and nothing else.
//
// Finals. The best few, the default and those that are to be compared whatever their screening says
// (winners of other S: what they cost here decides where they may serve) are timed in turn, round
// after round, the order reversed every other round, so that drift of the clock falls on all alike;
// rounds are compared as ratios. A finalist that is slower beyond the noise leaves early.
//
// Verdict. The default stays unless a candidate is faster beyond the noise and the margin. Where
// several are equal within the noise the one of the best rank wins, so that two runs agree.
#pragma once

#include "tuner/statistics.h"

#include <rowsmith/search_event.h>

#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rowsmith {

struct SearchOptions {
  static constexpr auto kNever = std::numeric_limits<std::size_t>::max();
  std::size_t refine_after = kNever;  // candidates screened
  std::size_t screen_samples = 3;
  double first_cut = 2.0;       // behind the best after one sample
  double screen_cut = 1.3;      // behind the best after any further one
  std::size_t finalists = 4;    // beside the default
  double finalist_band = 1.15;  // of the best in screening; the rest do not reach the finals
  std::size_t final_rounds = 15;
  double margin = 0.005;   // differences up to here are ties, however sure
  double tie_band = 0.01;  // differences beyond here are none, however unsure
};

class Search {
 public:
  // Candidates are 0 .. count - 1 by rank. Those in `kept` reach the finals beside the others,
  // unless they fail or are beyond the first cut. Requires default_index < count.
  Search(const SearchOptions& options, std::size_t count, std::size_t default_index,
         const std::vector<std::size_t>& kept = {});

  // A candidate's time over the default's, both by the screening of an earlier run.
  struct Earlier {
    std::size_t candidate = 0;
    double ratio = 1;
  };
  // Before the first step, once. Without effect for the default and for those in `kept`; all is
  // forgotten where the default fails. Requires ratios above 0, one a candidate.
  void restore(const std::vector<Earlier>& known);

  // Is told every decision as it is taken, but for verdicts, which change nothing. May be empty.
  void on_event(std::function<void(SearchEvent)> sink) { sink_ = std::move(sink); }

  // In kRefining the search waits for refine().
  enum class Stage { kScreening, kRefining, kFinals, kDone };
  struct Step {
    Stage stage = Stage::kDone;
    std::size_t candidate = 0;  // to take one sample of, in screening and finals
  };
  // The next sample to take. The same until refine, report, reject or stop is called.
  Step next() const;
  // The time of one call of the candidate that next() named, in ns. Requires a positive time.
  void report(double ns);
  // Adds `count` candidates, maybe none, whose indices follow: they rank behind the others.
  // Requires kRefining, which comes once at most.
  void refine(std::size_t count);
  // The candidate failed: it is out, whatever its times.
  void reject(std::size_t candidate);
  // Takes a rejection back; before restart().
  void readmit(std::size_t candidate) { candidates_[candidate].rejected = false; }
  // Screens all that stand anew: after the rejection of a winner, whose time has cut others. `why`
  // is for the event.
  void restart(std::string why);
  // The time is up: done with what is there.
  void stop();
  bool was_stopped() const { return stopped_; }

  // The candidates that take part in the finals, default included; empty while screening.
  const std::vector<std::size_t>& finalists() const { return finalists_; }
  // Whose time the cuts are relative to: the best that was screened to the end and stands.
  std::optional<std::size_t> leader() const { return leader_; }
  // The best `count` of those screened to the end that stand, or as many as there are, fastest
  // first.
  std::vector<std::size_t> best(std::size_t count) const;
  // Screened to the end, cut, rejected or restored.
  std::size_t screened() const;
  bool is_restored(std::size_t candidate) const { return candidates_[candidate].restored; }
  // How many are; 0 before the default has its time.
  std::size_t restored() const;
  // Whether the best of an earlier run are screened: until then this one knows less than that.
  bool has_caught_up() const;
  // The time of the best so far, for progress: cheap at any time, unlike verdict(). nullopt before
  // the first candidate is screened to the end.
  std::optional<double> best_ns() const;
  // Samples of the candidate: of the finals where it was in them, else of the screening.
  const std::vector<double>& samples(std::size_t candidate) const;

  // The time of `a` over that of `b`: by the rounds of the finals that both have, or, of a
  // candidate that was cut before, by the screening. nullopt = not measured.
  std::optional<double> ratio(std::size_t a, std::size_t b) const;

  struct Verdict {
    std::size_t winner = 0;
    std::optional<std::size_t> runner_up;
    std::string_view kind;  // "winner", "tie" or "default"
    SearchEvent::Rule rule = SearchEvent::Rule::kNone;
    // The fastest, and how it compares with the default where both have samples.
    std::size_t fastest = 0;
    std::optional<PairedComparison> against_default;
  };
  // nullopt where no candidate that stands has a sample. May be asked at any time.
  std::optional<Verdict> verdict() const;

 private:
  struct Candidate {
    std::vector<double> screening, finals;
    bool kept = false;
    bool rejected = false;
    bool out = false;  // cut, or dropped from the finals
    bool restored = false;
    double earlier_ratio = 0;  // to the default; 0 = not known
  };
  bool stands(std::size_t candidate) const;
  bool beyond_cut(const Candidate& candidate) const;
  bool default_is_timed() const { return screened_whole(candidates_[default_index_]); }
  void forget_earlier();
  // The median, or what an earlier run makes expected.
  double screening_ns(const Candidate& candidate) const;
  void end_screening_of_current();
  bool screened_whole(const Candidate& candidate) const;
  void find_leader();
  double leading_ns() const;  // the leader's screening median; 0 before the first
  std::vector<std::size_t> by_screening(std::vector<std::size_t> candidates) const;
  void settle_screening();
  void start_finals();
  void settle_finals();
  void end_round();
  void drop_slow_finalists(std::size_t leader);
  // The candidate of the finals whose turn it is: odd rounds go backwards.
  std::size_t turn() const;
  bool finals_count() const;
  std::vector<std::size_t> contenders() const;
  std::size_t fastest(const std::vector<std::size_t>& of) const;
  double limit(const Candidate& candidate) const;

  void tell(SearchEvent event) const;
  void tell_restored() const;
  void tell_cut(std::size_t candidate, SearchEvent::Rule rule, double ns, double limit_ns) const;
  void tell_finals() const;
  void tell_round(std::size_t leader) const;

  SearchOptions options_;
  std::function<void(SearchEvent)> sink_;
  std::vector<Candidate> candidates_;
  std::size_t default_index_;
  Stage stage_ = Stage::kScreening;
  bool stopped_ = false;
  std::vector<std::size_t> order_;  // of the screening: the default, the best known, the rest
  std::size_t best_known_ = 0;      // by earlier runs, in order_
  std::size_t restored_ = 0;        // not in order_
  std::size_t position_ = 0;        // in order_, then in finalists_
  std::size_t round_ = 0;
  std::optional<std::size_t> leader_;
  std::vector<std::size_t> finalists_;
};

}  // namespace rowsmith
