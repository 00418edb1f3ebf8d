// SPDX-License-Identifier: Apache-2.0
//
// `tune` from start to end on the host device: what is tuned is kept and explained; what cannot be
// tuned is told apart; and another architecture's kernels are compiled ahead.

#include "tests/support/cli_fixture.h"

#include <fstream>
#include <iostream>

namespace rowsmith {
namespace {

class CliHost : public testing::CliFixture {
 protected:
  using json = nlohmann::json;

  // Runs `tune` with the words of `line`; report_ holds the JSON that it wrote.
  int tune(const std::string& line, const std::function<bool()>& stop = nullptr) {
    const int status = CliFixture::tune(line + " --json --cache " + path("cache"), stop);
    report_ = CliFixture::json();
    return status;
  }

  json report_;
};

TEST_F(CliHost, TunesEachProblemOnceAndKeepsIt) {
  const std::string line = "softmax --device host -S 2 -H 33,64 -d f16,f32 --effort quick";
  ASSERT_EQ(tune(line), kExitDone) << report_;
  const json first = report_["problems"];
  ASSERT_EQ(first.size(), 4u);
  for (const json& problem : first) {
    EXPECT_EQ(problem["status"], "tuned");
    EXPECT_GT(problem["median_ns"], 0);
    EXPECT_GT(problem["default_ns"], 0);
    EXPECT_GT(problem["candidates"], 0);
    EXPECT_EQ(problem["restored"], 0);
    EXPECT_LE(problem["error_ratio"], 1.0);
    const std::string verdict = problem["verdict"];
    EXPECT_TRUE(verdict == "winner" || verdict == "tie" || verdict == "default") << verdict;
  }
  ASSERT_EQ(tune(line), kExitDone);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(report_["problems"][i]["status"], "kept");
    EXPECT_EQ(report_["problems"][i]["config"], first[i]["config"]);
  }
  ASSERT_EQ(tune("list"), kExitDone);
  EXPECT_EQ(report_["winners"].size(), 4u);
}

TEST_F(CliHost, BucketsLeaveNoGapBetweenTheListedS) {
  const std::string line = "softmax --device host -S 1,12 -H 33 -d f16 --effort quick --buckets";
  ASSERT_EQ(tune(line + " --explain-search"), kExitDone) << report_;
  const json problems = report_["problems"];
  ASSERT_GE(problems.size(), 2u);
  for (const json& problem : problems) {
    EXPECT_EQ(problem["status"], "tuned");
    EXPECT_EQ(problem["search"].back()["event"], "verdict");
  }
  ASSERT_EQ(tune("list"), kExitDone);
  const json winners = report_["winners"];
  ASSERT_EQ(winners.size(), problems.size());
  EXPECT_EQ(winners.back()["S"], 12);
  EXPECT_GT(winners.back()["below_rows"], 0);
  EXPECT_GT(winners.back()["below_ratio"], 0);
  for (int rows = 1; rows <= 12; ++rows) {
    ASSERT_EQ(tune("why --device host -H 33 -d f16 -S " + std::to_string(rows)), kExitDone);
    EXPECT_TRUE(report_["source"] == "exact" || report_["source"] == "nearest") << report_;
  }
  ASSERT_EQ(tune(line), kExitDone);
  EXPECT_EQ(report_["problems"].size(), 2u);  // no gap is left
}

TEST_F(CliHost, WhyNamesTheRungAndTheConfig) {
  ASSERT_EQ(tune("softmax --device host -S 4 -H 33 -d f16 --effort quick"), kExitDone);
  const json config = report_["problems"][0]["config"];
  ASSERT_EQ(tune("why --device host -S 4 -H 33 -d f16"), kExitDone);
  EXPECT_EQ(report_["source"], "exact");
  EXPECT_EQ(report_["config"], config);
  ASSERT_EQ(tune("why --device host -S 5 -H 33 -d f16"), kExitDone);
  EXPECT_EQ(report_["source"], "nearest");
  EXPECT_EQ(report_["config"], config);
  ASSERT_EQ(tune("why --device host -S 4 -H 34 -d f16"), kExitDone);
  EXPECT_EQ(report_["source"], "default");
  EXPECT_FALSE(report_["reasons"].empty());
}

TEST_F(CliHost, WhyAndSpaceTakeALayout) {
  const std::string odd = "src=2,dst=4,co=1";
  const std::string list = path("list.jsonl");
  std::ofstream(list) << R"({"S": 4, "H": 64, "dtype": "f16", "layout": ")" << odd << "\"}\n";
  ASSERT_EQ(tune("softmax --device host --effort quick --from " + list), kExitDone);
  const std::string problem = " --device host -S 4 -H 64 -d f16";
  ASSERT_EQ(tune("why" + problem + " --layout " + odd), kExitDone);
  EXPECT_EQ(report_["source"], "exact");
  ASSERT_EQ(tune("why" + problem), kExitDone);
  EXPECT_EQ(report_["source"], "default");
  const auto has_whole_packs = [this] {
    return report_["configs"].dump().find("pack=8,start=aligned") != std::string::npos;
  };
  ASSERT_EQ(tune("space" + problem), kExitDone);
  EXPECT_TRUE(has_whole_packs());
  ASSERT_EQ(tune("space" + problem + " --layout " + odd), kExitDone);
  EXPECT_FALSE(has_whole_packs());
}

TEST_F(CliHost, UnsupportedDtypeFailsAloneAndExitsOne) {
  ASSERT_EQ(tune("softmax --device host -S 2 -H 33 -d f64:f16,f16 --effort quick"),
            kExitSomeFailed);
  const json& failed = report_["problems"][0];
  EXPECT_EQ(failed["status"], "failed");
  for (const char* field : {"verdict", "config", "median_ns", "error_ratio", "max_error_ulp"}) {
    EXPECT_TRUE(failed[field].is_null()) << field;
  }
  EXPECT_FALSE(failed["reason"].get<std::string>().empty());
  EXPECT_EQ(report_["problems"][1]["status"], "tuned");
}

TEST_F(CliHost, TunesDoublesAndFp8) {
  ASSERT_EQ(tune("softmax --device host -S 2 -H 33 -d f64,f8e4m3,f16:f8e5m2 --effort quick"),
            kExitDone);
  for (const json& problem : report_["problems"]) {
    EXPECT_EQ(problem["status"], "tuned") << problem;
    EXPECT_LE(problem["error_ratio"].get<double>(), 1) << problem;
  }
  EXPECT_EQ(report_["problems"].size(), 3u);
}

TEST_F(CliHost, EmptyProblemsAreSkippedAndTheOthersTuned) {
  ASSERT_EQ(tune("softmax --device host -S 0,2 -H 33 -d f16 --effort quick"), kExitSomeFailed);
  EXPECT_EQ(report_["problems"][0]["status"], "skipped");
  EXPECT_NE(report_["problems"][0]["reason"].get<std::string>().find("nothing to compute"),
            std::string::npos);
  EXPECT_EQ(report_["problems"][1]["status"], "tuned");
}

TEST_F(CliHost, TunesExactlyTheListedProblemsAndNumbersTheBrokenLines) {
  const std::string file = path("shapes.csv");
  std::ofstream(file) << "S,H,dtype\n2,33,f16\n2,oops,f16\n0,33,f16\n2,64,f16\n2,33,f16\n";
  ASSERT_EQ(tune("softmax --device host --effort quick --from " + file), kExitSomeFailed);
  ASSERT_EQ(report_["problems"].size(), 3u);
  EXPECT_EQ(report_["problems"][0]["status"], "tuned");
  EXPECT_EQ(report_["problems"][1]["status"], "skipped");
  EXPECT_EQ(report_["problems"][2]["status"], "tuned");
  EXPECT_EQ(report_["broken_lines"], json::parse(R"([{"line": 3, "reason":
            "H: 'oops' is not a whole number"}])"));
  ASSERT_EQ(tune("list"), kExitDone);
  ASSERT_EQ(report_["winners"].size(), 2u);
  EXPECT_EQ(report_["winners"][0]["H"], 33);
  EXPECT_EQ(report_["winners"][1]["H"], 64);
}

TEST_F(CliHost, ProblemsComeFromStandardInputToo) {
  std::istringstream input("{\"S\": 2, \"H\": 33, \"dtype\": \"f16\"}\n");
  std::streambuf* const before = std::cin.rdbuf(input.rdbuf());
  const int status = tune("softmax --device host --effort quick --from -");
  std::cin.rdbuf(before);
  ASSERT_EQ(status, kExitDone) << report_;
  EXPECT_EQ(report_["problems"][0]["H"], 33);
}

TEST_F(CliHost, ShardsTogetherTuneTheListOnce) {
  const std::string line = "softmax --device host --effort quick -S 2 -H 33,64,65 -d f16 --shard ";
  std::size_t tuned = 0;
  for (const char* shard : {"1/2", "2/2"}) {
    ASSERT_EQ(tune(line + shard), kExitDone);
    for (const json& problem : report_["problems"]) tuned += problem["status"] == "tuned";
  }
  EXPECT_EQ(tuned, 3u);
  ASSERT_EQ(tune("softmax --device host -S 2 -H 33 -d f16 --shard 2/2"), kExitDone);
  EXPECT_EQ(report_["problems"], json::array());
}

TEST_F(CliHost, InterruptSkipsWhatIsLeftAndExitsOne) {
  ASSERT_EQ(tune("softmax --device host -S 2 -H 31,33 -d f32", [] { return true; }),
            kExitSomeFailed);
  EXPECT_EQ(report_["interrupted"], true);
  EXPECT_EQ(report_["problems"][1]["status"], "skipped");
}

TEST_F(CliHost, CompileFillsTheStoreOnce) {
  const std::string line = "compile -S 16 -H 257 -d f16 --arch sm_90";
  const int status = tune(line);
  if (status == kExitNothingRan) GTEST_SKIP() << report_["error"]["message"];
  ASSERT_EQ(status, kExitDone) << report_;
  EXPECT_EQ(report_["arch"], json::array({"sm_90"}));
  const int compiled = report_["compiled"];
  EXPECT_EQ(compiled, 2);  // generic and default
  ASSERT_EQ(tune(line), kExitDone);
  EXPECT_EQ(report_["compiled"], 0);
  EXPECT_EQ(report_["kept"], compiled);
}

TEST_F(CliHost, CompileTakesAFileOfProblems) {
  const std::string file = path("shapes.csv");
  std::ofstream(file) << "S,H,dtype\n16,257,f16\n16,257,f17\n";
  const int status = tune("compile --arch sm_90 --from " + file);
  if (status == kExitNothingRan) GTEST_SKIP() << report_["error"]["message"];
  EXPECT_EQ(status, kExitSomeFailed) << report_;
  EXPECT_EQ(report_["compiled"], 2);
  EXPECT_EQ(report_["broken_lines"][0]["line"], 3);
}

TEST_F(CliHost, BenchTimesWhatIsStoredAndNamesWhatIsNot) {
  ASSERT_EQ(tune("softmax --device host -S 2 -H 33 -d f16 --effort quick"), kExitDone);
  const json config = report_["problems"][0]["config"];
  tune("bench --device host");  // whether it holds is up to the host's clock
  ASSERT_EQ(report_["winners"].size(), 1u);
  const json winner = report_["winners"][0];
  EXPECT_EQ(winner["config"], config);
  EXPECT_GT(winner["median_ns"], 0);
  EXPECT_GT(winner["default_ns"], 0);
  EXPECT_GT(winner["floor_ns"], 0);
  EXPECT_LE(winner["ratio_low"], winner["ratio_high"]);
  EXPECT_TRUE(winner["status"] == "holds" || winner["status"] == "lost") << winner;
  EXPECT_EQ(tune("bench --device host -S 4 -H 33 -d f16"), kExitSomeFailed);
  EXPECT_EQ(report_["winners"][0]["status"], "absent");
  EXPECT_TRUE(report_["winners"][0]["median_ns"].is_null());
}

TEST_F(CliHost, BenchTellsThatAStoredResultIsInDoubt) {
  ASSERT_EQ(tune("softmax --device host -S 2 -H 33 -d f16 --effort quick"), kExitDone);
  tune("bench --device host");
  EXPECT_TRUE(report_["winners"][0]["stored_dirty"].is_null());
  StoreOptions options;
  options.directory = path("cache");
  const auto store = open_store(options).store;
  WinnerRecord record = store->list()->front();
  record.evidence.contended = true;
  ASSERT_TRUE(store->put(record).ok());
  tune("bench --device host");
  EXPECT_FALSE(report_["winners"][0]["stored_dirty"].is_null());
  EXPECT_TRUE(report_["winners"][0]["dirty"].is_null());
}

TEST_F(CliHost, BenchOfAnInterruptReportsWhatFinished) {
  ASSERT_EQ(tune("softmax --device host -S 2 -H 33 -d f16 --effort quick"), kExitDone);
  EXPECT_EQ(tune("bench --device host", [] { return true; }), kExitSomeFailed);
  EXPECT_EQ(report_["interrupted"], true);
  EXPECT_EQ(report_["winners"], json::array());
}

TEST_F(CliHost, SpaceRefusesAnArchitectureThatNoGpuHas) {
  EXPECT_EQ(tune("space -S 16 -H 257 -d f16 --arch sm_99"), kExitUsage);
  const std::string message = report_["error"]["message"];
  EXPECT_EQ(message.find("--arch: 'sm_99' is not one of sm_75, "), 0u) << message;
  EXPECT_EQ(tune("space -S 16 -H 257 -d f16 --arch sm_90"), kExitDone);
}

TEST_F(CliHost, CompileRefusesAnArchitectureThatNoGpuHas) {
  const int status = tune("compile -S 16 -H 257 -d f16 --arch sm_90,sm_91");
  if (status == kExitNothingRan) GTEST_SKIP() << report_["error"]["message"];
  EXPECT_EQ(status, kExitUsage);
  const std::string message = report_["error"]["message"];
  EXPECT_EQ(message.find("--arch: 'sm_91' is not one of sm_75, "), 0u) << message;
}

}  // namespace
}  // namespace rowsmith
