// SPDX-License-Identifier: Apache-2.0
//
// `tune softmax --explain-search`: how a decision of the search reads, in words and as JSON.

#include "tuner/cli_commands.h"
#include "tuner/progress.h"

#include <spdlog/fmt/fmt.h>

#include <cmath>

namespace rowsmith {
namespace {

using Kind = SearchEvent::Kind;
using Rule = SearchEvent::Rule;

std::string time_text(double ns) {
  return duration_to_string(std::llround(ns));
}

std::string samples_text(std::size_t count) {
  return fmt::format("{} {}", count, count == 1 ? "sample" : "samples");
}

// "-12.3 % [-12.9, -11.8]": how much less time it takes than what it is compared with.
std::string difference(const SearchEvent::Rival& rival) {
  const auto percent = [](double ratio) { return (ratio - 1) * 100; };
  return fmt::format("{:+.1f} % [{:+.1f}, {:+.1f}]", percent(rival.ratio), percent(rival.low),
                     percent(rival.high));
}

std::string cut_text(const SearchEvent& event) {
  const std::string limit = time_text(event.limit_ns);
  switch (event.rule) {
    case Rule::kFirstSample: return "a first sample beyond " + limit;
    case Rule::kLeastSample: return "every sample beyond " + limit;
    case Rule::kFinalistBand: return "a median beyond the finals' " + limit;
    case Rule::kFinalistCount: return "within the finals' " + limit + ", but others are faster";
    default: return "";
  }
}

std::string verdict_text(const SearchEvent& event) {
  const std::string gain = event.rivals.empty() ? ""
                                                : fmt::format(", #{} against the default: {}",
                                                              event.rivals.front().candidate,
                                                              difference(event.rivals.front()));
  switch (event.rule) {
    case Rule::kFaster: return "wins: faster than the default" + gain;
    case Rule::kTie: return "wins: the best in rank of equals" + gain;
    case Rule::kDefaultFastest: return "stays: nothing is faster than the default";
    case Rule::kGainInNoise: return "stays: a gain within the noise or the margin" + gain;
    case Rule::kNoDefault: return "wins: the default does not stand";
    default: return "";
  }
}

std::string finals_text(const SearchEvent& event) {
  std::string text;
  for (const SearchEvent::Rival& rival : event.rivals) {
    text += fmt::format("{}#{} {}", text.empty() ? "" : ", ", rival.candidate, time_text(rival.ns));
    if (event.kind == Kind::kRound && rival.candidate != event.candidate) {
      text += " " + difference(rival);
    }
  }
  return text;
}

std::string details(const SearchEvent& event) {
  switch (event.kind) {
    case Kind::kRanked: return event.config + (event.is_default ? " (the default)" : "");
    case Kind::kCompiled:
      // The host device cannot say.
      if (event.registers == 0) return "the device does not say what it costs";
      return fmt::format("{} registers, {} bytes spilled", event.registers, event.spill_bytes);
    case Kind::kDropped: return event.reason;
    case Kind::kRestored:
      return time_text(event.ns) + " by the screening of an earlier run, at the default's time now";
    case Kind::kScreened:
      return fmt::format("median {} of {}", time_text(event.ns), samples_text(event.samples));
    case Kind::kCut:
      return fmt::format(
          "{} {}: {}", time_text(event.ns),
          event.samples == 0 ? "in an earlier run" : "in " + samples_text(event.samples),
          cut_text(event));
    case Kind::kFinals: return finals_text(event);
    case Kind::kRound:
      return fmt::format("{}, against #{}: {}", event.samples, event.candidate, finals_text(event));
    case Kind::kLeft: return "the finals: slower, " + difference(event.rivals.front());
    case Kind::kRestarted: return event.reason + ": all that stand are screened anew";
    case Kind::kStopped: return "the time is up: the best so far stands";
    case Kind::kVerdict:
      return fmt::format("{}, median {} of {}", verdict_text(event), time_text(event.ns),
                         samples_text(event.samples));
  }
  return "";
}

// Whether the event is one candidate's.
bool names_candidate(Kind kind) {
  return kind != Kind::kFinals && kind != Kind::kRound && kind != Kind::kRestarted &&
         kind != Kind::kStopped;
}

}  // namespace

std::string explain_line(const SearchEvent& event) {
  const std::string who = names_candidate(event.kind) ? fmt::format("#{}", event.candidate) : "";
  return fmt::format("  {:<9} {:<4} {}", to_string(event.kind), who, details(event));
}

Json explain_json(const SearchEvent& event) {
  Json json = {{"event", to_string(event.kind)}};
  if (names_candidate(event.kind)) json["candidate"] = event.candidate;
  switch (event.kind) {
    case Kind::kRanked:
      json["config"] = event.config;
      json["default"] = event.is_default;
      break;
    case Kind::kCompiled:
      json["registers"] = event.registers;
      json["spill_bytes"] = event.spill_bytes;
      break;
    case Kind::kDropped:
    case Kind::kRestarted: json["reason"] = event.reason; break;
    case Kind::kRound:
      json["round"] = event.samples;
      json["fastest"] = event.candidate;
      break;
    case Kind::kRestored: json["ns"] = event.ns; break;
    case Kind::kScreened:
    case Kind::kCut:
    case Kind::kVerdict:
      json["samples"] = event.samples;
      json["ns"] = event.ns;
      if (event.limit_ns > 0) json["limit_ns"] = event.limit_ns;
      break;
    default: break;
  }
  if (event.rule != Rule::kNone) json["rule"] = to_string(event.rule);
  for (const SearchEvent::Rival& rival : event.rivals) {
    json["rivals"].push_back({{"candidate", rival.candidate},
                              {"ns", rival.ns},
                              {"ratio", rival.ratio},
                              {"low", rival.low},
                              {"high", rival.high}});
  }
  return json;
}

}  // namespace rowsmith
