// SPDX-License-Identifier: Apache-2.0
#include "runtime/dispatcher_class.h"
#include "runtime/killers.h"

#include <algorithm>

namespace rowsmith {
namespace {

constexpr std::size_t kNearMissesTold = 5;

// Empty, or which of the tools that made the winner are others than those at hand.
std::string why_other_tools(const Evidence& evidence, const DeviceFacts& facts) {
  std::string why;
  if (evidence.driver_version > 0 && evidence.driver_version != facts.driver_version) {
    why = "driver " + std::to_string(evidence.driver_version) + ", now " +
          std::to_string(facts.driver_version);
  }
  if (!evidence.compiler.empty() && evidence.compiler != facts.compiler) {
    why += (why.empty() ? "" : "; ") + evidence.compiler + ", now " + facts.compiler;
  }
  return why;
}

// Says so where the winner of S = `rows` is from a dirty run or was made with other tools.
void tell_doubts(const std::vector<WinnerRecord>& winners, std::int64_t rows,
                 const DeviceFacts& facts, std::vector<std::string>& reasons) {
  const auto serving =
      std::find_if(winners.begin(), winners.end(),
                   [&](const WinnerRecord& winner) { return winner.problem.rows == rows; });
  if (serving == winners.end()) return;
  const std::string dirty = why_dirty(serving->evidence);
  if (!dirty.empty()) {
    reasons.push_back("its times are in doubt (" + dirty + "): tuning replaces it");
  }
  const std::string tools = why_other_tools(serving->evidence, facts);
  if (!tools.empty()) {
    reasons.push_back("it was tuned with other tools (" + tools +
                      "): `tune bench` tells whether it still wins");
  }
}

}  // namespace

Result<Explanation> Dispatcher::explain(const Problem& problem) {
  return no_throw("explain", [&]() -> Result<Explanation> {
    if (Status status = check_values(problem); !status.ok()) return status;
    if (!pin_fault_.ok()) return pin_fault_;
    if (problem.rows == 0 || problem.cols == 0) {
      return Status(Code::kInvalidArgument,
                    "nothing serves " + to_string(problem) + ": an empty call launches no kernel");
    }
    Walk walk{problem, node_key(problem), nullptr, false, false, {}, {}, {}};
    std::string fault;
    if (!pin_) {
      walk.winners = read_winners(problem, walk.key, &fault);
      walk.killers = known_killers(session(), problem);
    }
    Result<Choice> choice = choose_for(walk);
    if (!choice.ok()) return choice.status();
    if (choice->config.empty()) return nothing_left(problem, *choice);
    Explanation answer{choice->source, std::move(choice->config), std::move(choice->reasons),
                       choice->median_ns};
    tell_doubts(walk.winners, choice->winner_rows, device_.facts(), answer.reasons);
    if (!fault.empty()) answer.reasons.push_back("the cache could not be read: " + fault);
    if (answer.source == Source::kDefault || answer.source == Source::kGeneric) {
      tell_near_misses(problem, answer.reasons);
      if (on_miss_ == OnMiss::kTune && tune_) {
        answer.reasons.push_back("a call would tune this problem first (policy tune)");
      }
      if (on_miss_ == OnMiss::kError) {
        answer.reasons.push_back("a call would answer `not tuned` (policy error)");
      }
    }
    return answer;
  });
}

// The stored winners of the same H that differ in another part of the key.
void Dispatcher::tell_near_misses(const Problem& problem, std::vector<std::string>& reasons) {
  const Result<std::vector<WinnerRecord>> all = session().store->list();
  if (!all.ok()) return;
  std::size_t told = 0;
  for (const WinnerRecord& winner : all.value()) {
    const Problem& other = winner.problem;
    if (other.cols != problem.cols || told == kNearMissesTold) continue;
    std::string differs;
    if (winner.device_class != class_) {
      differs += ", device class " + winner.device_class + " is not " + class_;
    }
    if (other.in != problem.in || other.out != problem.out) {
      differs += ", dtype " + dtypes_to_string(other.in, other.out);
    }
    if (other.layout != problem.layout) differs += ", layout " + to_string(other.layout);
    if (differs.empty()) continue;
    reasons.push_back("a winner of S=" + std::to_string(other.rows) +
                      " of this H differs: " + differs.substr(2));
    ++told;
  }
}

}  // namespace rowsmith
