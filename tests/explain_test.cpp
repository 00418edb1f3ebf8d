// SPDX-License-Identifier: Apache-2.0
//
// `tune softmax --explain-search`: how each decision reads, and that all of them are told in order.
#include "tests/support/cli_fixture.h"
#include "tuner/cli_commands.h"

namespace rowsmith {
namespace {

using Kind = SearchEvent::Kind;
using Rule = SearchEvent::Rule;

SearchEvent event(Kind kind, std::size_t candidate = 3, Rule rule = Rule::kNone) {
  SearchEvent event;
  event.kind = kind;
  event.candidate = candidate;
  event.rule = rule;
  event.config = "warp_rows:lanes=4";
  event.registers = 40;
  event.reason = "compile failed: no such thing";
  event.samples = 2;
  event.ns = 61'200;
  event.limit_ns = 50'000;
  event.rivals = {{3, 61'200}, {0, 90'000, 1.5, 1.25, 1.75}};
  return event;
}

SearchEvent without_figures() {
  SearchEvent compiled = event(Kind::kCompiled);
  compiled.registers = 0;
  return compiled;
}

SearchEvent cut_unscreened() {
  SearchEvent cut = event(Kind::kCut, 3, Rule::kFinalistBand);
  cut.samples = 0;
  return cut;
}

struct Line {
  SearchEvent event;
  const char* text;

  friend void PrintTo(const Line& line, std::ostream* out) { *out << line.text; }
};
class ExplainLine : public ::testing::TestWithParam<Line> {};

TEST_P(ExplainLine, NamesCandidateFiguresAndRule) {
  EXPECT_EQ(explain_line(GetParam().event), GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    Decisions, ExplainLine,
    ::testing::Values(
        Line{event(Kind::kRanked), "  ranked    #3   warp_rows:lanes=4"},
        Line{event(Kind::kCompiled), "  compiled  #3   40 registers, 0 bytes spilled"},
        Line{without_figures(), "  compiled  #3   the device does not say what it costs"},
        Line{event(Kind::kDropped), "  dropped   #3   compile failed: no such thing"},
        Line{event(Kind::kScreened), "  screened  #3   median 61.2 us of 2 samples"},
        Line{event(Kind::kRestored),
             "  restored  #3   61.2 us by the screening of an earlier run, at the default's time "
             "now"},
        Line{cut_unscreened(),
             "  cut       #3   61.2 us in an earlier run: a median beyond the finals' 50 us"},
        Line{event(Kind::kCut, 3, Rule::kLeastSample),
             "  cut       #3   61.2 us in 2 samples: every sample beyond 50 us"},
        Line{event(Kind::kCut, 3, Rule::kFinalistCount),
             "  cut       #3   61.2 us in 2 samples: within the finals' 50 us, but others are "
             "faster"},
        Line{event(Kind::kFinals), "  finals         #3 61.2 us, #0 90 us"},
        Line{event(Kind::kRound),
             "  round          2, against #3: #3 61.2 us, #0 90 us +50.0 % [+25.0, +75.0]"},
        Line{event(Kind::kRestarted),
             "  restarted      compile failed: no such thing: all that stand are screened anew"},
        Line{event(Kind::kStopped), "  stopped        the time is up: the best so far stands"},
        Line{event(Kind::kVerdict, 0, Rule::kDefaultFastest),
             "  verdict   #0   stays: nothing is faster than the default, median 61.2 us of 2 "
             "samples"}));

TEST(ExplainJson, HoldsTheFiguresOfARound) {
  const Json json = explain_json(event(Kind::kRound));
  EXPECT_EQ(json["event"], "round");
  EXPECT_EQ(json["round"], 2);
  EXPECT_EQ(json["fastest"], 3);
  EXPECT_EQ(json["rivals"][1]["candidate"], 0);
  EXPECT_EQ(json["rivals"][1]["low"], 1.25);
  EXPECT_FALSE(json.contains("reason"));
}

// On the host device.
class ExplainSearch : public testing::CliFixture {
 protected:
  std::string explain(const std::string& more) {
    EXPECT_EQ(tune("softmax --device host -S 2 -H 33 -d f16 --effort quick --cache " +
                   path("cache") + " " + more),
              kExitDone)
        << err_;
    return out_;
  }
};

TEST_F(ExplainSearch, PrintsEveryDecisionBeforeTheTable) {
  const std::string text = explain("--explain-search");
  std::size_t at = 0;
  for (const char* word : {"f16 2 x 33\n", "\n  ranked    #0 ", "\n  compiled  #0 ",
                           "\n  screened  #0 ", "\n  finals ", "\n  round          1, ",
                           "\n  round          5, ", "\n  verdict ", "\ndtype "}) {
    at = text.find(word, at);
    ASSERT_NE(at, std::string::npos) << word << "is not in\n" << text;
  }
}

TEST_F(ExplainSearch, IsAnArrayOfEachProblemInJson) {
  const Json report = Json::parse(explain("--explain-search --json"));
  const Json& search = report["problems"][0]["search"];
  ASSERT_FALSE(search.empty());
  EXPECT_EQ(search.front()["event"], "ranked");
  EXPECT_EQ(search.back()["event"], "verdict");
  EXPECT_FALSE(Json::parse(explain("--json"))["problems"][0].contains("search"));
}

}  // namespace
}  // namespace rowsmith
