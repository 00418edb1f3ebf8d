// SPDX-License-Identifier: Apache-2.0
//
// `tune` without a GPU or a compiler: arguments, exit statuses, and the commands that only look.

#include "tests/support/cli_fixture.h"
#include "tuner/cli_commands.h"
#include "tuner/cli_problem_list.h"
#include "tuner/tune_cli.h"

#include <rowsmith/text.h>
#include <rowsmith/winner_store.h>

#include "kernel_templates/catalog.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

namespace rowsmith {
namespace {

class Cli : public testing::CliFixture {};

TEST_F(Cli, PrintsHelpAndVersion) {
  EXPECT_EQ(tune("--help"), kExitDone);
  for (const char* command : {"softmax", "bench", "list", "misses", "why", "space", "compile",
                              "export", "import", "prune", "doctor"}) {
    EXPECT_NE(out_.find(command), std::string::npos) << command;
  }
  for (const char* hidden : {"  worker", "  compiler"}) {
    EXPECT_EQ(out_.find(hidden), std::string::npos) << hidden << " is not for people";
  }
  EXPECT_EQ(tune("--version"), kExitDone);
  EXPECT_EQ(out_.rfind("tune ", 0), 0u);
}

struct Misuse {
  const char* line;
  const char* message;

  friend void PrintTo(const Misuse& misuse, std::ostream* out) { *out << "tune " << misuse.line; }
};

class CliMisuse : public Cli, public ::testing::WithParamInterface<Misuse> {};

TEST_P(CliMisuse, ExitsTwoNamingTheOptionAndTheValue) {
  EXPECT_EQ(tune(GetParam().line), kExitUsage);
  EXPECT_TRUE(said(GetParam().message)) << err_;
  EXPECT_EQ(out_, "");
}

INSTANTIATE_TEST_SUITE_P(
    Lines, CliMisuse,
    ::testing::Values(
        Misuse{"", "A command is required"}, Misuse{"frobnicate", "frobnicate"},
        Misuse{"softmax -H 8 -d f32", "--rows is required"},
        Misuse{"softmax -S 1-1000 -H 1-1000 -d f32", "name 1000000 problems; at most 100000"},
        Misuse{"softmax --from /", "/ cannot be read: it is a directory"},
        Misuse{"space -S 1 -H 8 -d f32 --arch sm_61", "'sm_61' is older than sm_75"},
        Misuse{"softmax -S 0 -H 8 -d f32", "-S: '0' is outside 1 to 9223372036854775807"},
        Misuse{"softmax -S 10 -H 0 -d f32", "-H: '0' is outside 1 to 2147483647"},
        Misuse{"softmax -S 1 -H 2147483648 -d f32", "-H: '2147483648' is outside"},
        Misuse{"softmax -S 1,x -H 8 -d f32", "-S: 'x' is not a whole number"},
        Misuse{"softmax -S 1,,2 -H 8 -d f32", "-S: item 2 of '1,,2' is empty"},
        Misuse{"softmax -S 1 -H ,8 -d f32", "-H: item 1 of ',8' is empty"},
        Misuse{"softmax -S 1 -H 8 -d f16,", "-d: item 2 of 'f16,' is empty"},
        Misuse{"softmax -S 1 -H 8 -d f16 --family block_row,,", "--family: item 2 of"},
        Misuse{"softmax -S 1 -H 8 -d f16 --family nope", "'nope' is not one of warp_rows, "},
        Misuse{"prune --device-class host,, --dry-run", "--device-class: item 2 of"},
        Misuse{"compile -S 1 -H 8 -d f16 --arch sm_90,", "--arch: item 2 of 'sm_90,' is empty"},
        Misuse{"softmax -S 1 -H 8 -d f16 -d f32", "--dtype: given twice, as 'f16' and as 'f32'"},
        Misuse{"softmax -S 1 --rows 1 -H 8 -d f16", "--rows: given twice, as '1' and as '1'"},
        Misuse{"softmax -S 1 -H 9-8 -d f32", "-H: '9-8' runs backwards"},
        Misuse{"softmax -S 1 -H 8 -d f33", "-d: 'f33' is not one of"},
        Misuse{"softmax -S 1 -H 8 -d f16:", "-d: 'f16:' is not one of"},
        Misuse{"softmax --from shapes.csv -H 8", "excludes --from"},
        Misuse{"softmax --from /no/such/file", "--from: /no/such/file cannot be read: No such"},
        Misuse{"softmax -S 1 -H 8 -d f32 --shard 0/4", "--shard: shard i/n: '0' is outside 1 to 4"},
        Misuse{"softmax -S 1 -H 8 -d f32 --shard 5/4", "--shard: shard i/n: '5' is outside 1 to 4"},
        Misuse{"softmax -S 1 -H 8 -d f32 --shard 1/0", "'0' is outside 1 to 100000"},
        Misuse{"softmax -S 1 -H 8 -d f32 --shard 2", "--shard: '2' is not a shard such as 3/8"},
        Misuse{"softmax -S 1 -H 8 -d f32 --buckets --shard 1/2", "--shard excludes --buckets"},
        Misuse{"softmax -S 1 -H 8 -d f32 --effort hard", "--effort: 'hard' is not quick"},
        Misuse{"softmax -S 1 -H 8 -d f32 --budget 30", "--budget: '30' is not a time"},
        Misuse{"softmax -S 1 -H 8 -d f32 --budget 0s", "--budget: '0s' is not above zero"},
        Misuse{"softmax -S 4611686018427387904 -H 8 -d f32", "2^63 bytes or more"},
        Misuse{"space -S 1 -H 8 -d f32 --arch 90", "--arch: '90' is not an architecture"},
        Misuse{"space -S 1 -H 8 -d f32 --arch sm_90a", "--arch: 'sm_90a' is not"},
        Misuse{"space -S 1 -H 8 -d f32 --arch sm_90 --device host", "--device"},
        Misuse{"space -S 1 -H 8 -d f32 --arch sm_80,sm_90", "space takes one architecture"},
        Misuse{"--cache x list", "'--cache' stands before the command"},
        Misuse{"why -S 1,2 -H 8 -d f32", "-S, -H and -d name 2"},
        Misuse{"why -S 1 -H 8 -d f32 --layout src=4", "--layout: 'src=4' is not a layout such as"},
        Misuse{"space -S 1 -H 8 -d f32 --arch sm_90 --layout src=2,dst=4,co=1", "layout"},
        Misuse{"prune --max-size 1GB", "--max-size: '1GB' is not a size such as"},
        Misuse{"misses --format xml", "--format: 'xml' is not table or csv"},
        Misuse{"bench -S 1", "--cols is required, or --from"},
        Misuse{"compile -S 1 -H 8 -d f32", "--arch is required"},
        Misuse{"import /no/such/file", "/no/such/file cannot be read: No such file"},
        Misuse{"list --cache /dev/null", "--cache: '/dev/null' is not a directory"}));

TEST_F(Cli, WhereThereIsNoCacheThatIsSaidAndNoPlaceIsNamed) {
  for (const std::string command : {"list", "misses"}) {
    EXPECT_EQ(tune(command + " --cache " + path("none")), kExitDone);
    EXPECT_NE(err_.find("there is no "), std::string::npos) << err_;
    EXPECT_EQ(err_.find("memory"), std::string::npos) << err_;
    EXPECT_FALSE(std::filesystem::exists(path("none")));
  }
}

TEST_F(Cli, ListNamesTheSiteThatAWinnerIsFrom) {
  store_winner("own", 4, 1);
  store_winner("site", 8, 1);
  ASSERT_EQ(tune("list --cache " + path("own")), kExitDone);
  EXPECT_EQ(out_.find("site"), std::string::npos);
  setenv("ROWSMITH_SITE_CACHE", path("site").c_str(), 1);
  EXPECT_EQ(tune("list --cache " + path("own")), kExitDone);
  EXPECT_NE(out_.find(path("site/winners.db")), std::string::npos) << out_;
  EXPECT_EQ(tune("list --json --cache " + path("own")), kExitDone);
  unsetenv("ROWSMITH_SITE_CACHE");
  EXPECT_EQ(json()["winners"][0]["site"], nullptr);
  EXPECT_EQ(json()["winners"][1]["site"], path("site/winners.db"));
}

TEST_F(Cli, AnEmptyCacheNameIsRefused) {
  std::ostringstream out, err;
  EXPECT_EQ(tune_cli({"list", "--cache", ""}, out, err, nullptr, ""), kExitUsage);
  EXPECT_NE(err.str().find("--cache: '' is not a directory"), std::string::npos) << err.str();
}

TEST_F(Cli, WrongVariableExitsTwoNamingIt) {
  setenv("ROWSMITH_ON_MISS", "maybe", 1);
  const int status = tune("list --cache " + path("cache"));
  unsetenv("ROWSMITH_ON_MISS");
  EXPECT_EQ(status, kExitUsage);
  EXPECT_TRUE(said("ROWSMITH_ON_MISS")) << err_;
}

TEST_F(Cli, AbsentDeviceExitsThreeWithAJsonError) {
  EXPECT_EQ(tune("softmax -S 1 -H 8 -d f32 --json --device 99 --cache " + path("cache")),
            kExitNothingRan);
  EXPECT_EQ(json()["error"]["code"], "no device");
  EXPECT_FALSE(err_.empty());
}

TEST_F(Cli, ACompilerThatDoesNotRunExitsThreeNamingIt) {
  store_winner("cache", 4, 10);
  setenv("ROWSMITH_CXX", "no-such-compiler", 1);
  for (const std::string line : {"softmax -S 1 -H 8 -d f32", "bench"}) {
    EXPECT_EQ(tune(line + " --json --device host --cache " + path("cache")), kExitNothingRan);
    EXPECT_EQ(json()["error"]["code"], "no device");
    EXPECT_TRUE(said("the C++ compiler 'no-such-compiler' does not run")) << err_;
  }
  unsetenv("ROWSMITH_CXX");
}

TEST_F(Cli, AWorkerThatCannotBeStartedExitsThreeNamingTheProgram) {
  std::ostringstream out, err;
  EXPECT_EQ(tune_cli({"softmax", "-S", "1", "-H", "8", "-d", "f32", "--device", "host", "--cache",
                      path("cache")},
                     out, err, nullptr, "/no/such/program"),
            kExitNothingRan);
  EXPECT_NE(err.str().find("(/no/such/program) cannot be started: No such file"), std::string::npos)
      << err.str();
}

TEST_F(Cli, ReadOnlyCacheRefusesToTune) {
  setenv("ROWSMITH_READONLY", "1", 1);
  const int status = tune("softmax -S 1 -H 8 -d f32 --device host --cache " + path("cache"));
  unsetenv("ROWSMITH_READONLY");
  EXPECT_EQ(status, kExitNothingRan);
  EXPECT_TRUE(said("ROWSMITH_READONLY is set")) << err_;
}

TEST_F(Cli, SpaceOfAnArchitectureNeedsNoGpu) {
  ASSERT_EQ(tune("space -S 4096 -H 1000 -d f16 --arch sm_90 --json"), kExitDone);
  const auto space = json();
  ASSERT_EQ(space["count"], space["configs"].size());
  ASSERT_GT(space["count"], 10);
  for (const auto& entry : space["configs"]) {
    const auto config = parse_config(entry["config"].get<std::string>());
    ASSERT_TRUE(config.has_value());
    EXPECT_EQ(entry["family"], config->family);
  }
  EXPECT_EQ(space["configs"].back()["family"], generic_config().family);
}

TEST_F(Cli, ListOfAnEmptyCacheIsEmpty) {
  ASSERT_EQ(tune("list --json --cache " + path("cache")), kExitDone);
  EXPECT_EQ(json()["winners"], nlohmann::json::array());
}

TEST_F(Cli, CommandsThatLookMakeNoCache) {
  for (const std::string line :
       {"list", "misses", "doctor", "prune", "why --device host -S 1 -H 8 -d f32"}) {
    EXPECT_EQ(tune(line + " --cache " + path("absent")), kExitDone) << line << ": " << err_;
    EXPECT_FALSE(std::filesystem::exists(path("absent"))) << line;
  }
  // What a job script relies on does not pass for done where --cache is mistyped.
  for (const std::string line : {"export -", "bench --device host"}) {
    EXPECT_EQ(tune(line + " --json --cache " + path("absent")), kExitNothingRan) << line;
    EXPECT_TRUE(json()["error"].is_object()) << out_;
    EXPECT_FALSE(std::filesystem::exists(path("absent"))) << line;
  }
  EXPECT_EQ(tune("list --cache " + path("absent")), kExitDone);
  EXPECT_TRUE(said("there is no " + path("absent") + "/winners.db")) << err_;
}

TEST_F(Cli, OutputThatIsLostIsNoSuccess) {
  store_winner("cache", 4, 1);
  for (const char* command : {"list", "list --json", "export -", "--help"}) {
    std::istringstream words(std::string(command) +
                             (*command == '-' ? "" : " --cache " + path("cache")));
    const std::vector<std::string> args{std::istream_iterator<std::string>(words), {}};
    std::ofstream full("/dev/full");
    std::ostringstream err;
    EXPECT_EQ(tune_cli(args, full, err, {}, ""), kExitSomeFailed) << command;
    EXPECT_NE(err.str().find("the output cannot be written"), std::string::npos) << err.str();
  }
}

TEST_F(Cli, MissesComeWithTheMostCallsFirst) {
  count_misses("cache", 4, 10);
  count_misses("cache", 8, 30);
  count_misses("cache", 16, 20, "host");
  ASSERT_EQ(tune("misses --json --cache " + path("cache")), kExitDone);
  const auto misses = json()["misses"];
  ASSERT_EQ(misses.size(), 3u);
  EXPECT_EQ(misses[0]["S"], 8);
  EXPECT_EQ(misses[0]["H"], 257);
  EXPECT_EQ(misses[0]["dtype"], "f16");
  EXPECT_EQ(misses[0]["calls"], 30);
  EXPECT_EQ(misses[1]["device_class"], "host");
  EXPECT_EQ(misses[2]["S"], 4);
  ASSERT_EQ(tune("misses --json --device-class host --cache " + path("cache")), kExitDone);
  ASSERT_EQ(json()["misses"].size(), 1u);
  EXPECT_EQ(json()["misses"][0]["S"], 16);
}

TEST_F(Cli, AMissWithAWinnerIsShownOnRequestOnly) {
  count_misses("cache", 4, 10);
  count_misses("cache", 8, 30);
  store_winner("cache", 8, 10);
  ASSERT_EQ(tune("misses --json --cache " + path("cache")), kExitDone);
  ASSERT_EQ(json()["misses"].size(), 1u);
  EXPECT_EQ(json()["misses"][0]["S"], 4);
  EXPECT_EQ(json()["tuned_since"], 1);
  ASSERT_EQ(tune("misses --all --json --cache " + path("cache")), kExitDone);
  ASSERT_EQ(json()["misses"].size(), 2u);
  EXPECT_EQ(json()["misses"][0]["tuned"], true);
  EXPECT_EQ(json()["misses"][1]["tuned"], false);
}

TEST_F(Cli, MissesAsCsvAreAListOfProblems) {
  count_misses("cache", 4, 10);
  count_misses("cache", 4, 10, "host");
  count_misses("cache", 8, 30);
  ASSERT_EQ(tune("misses --format csv --cache " + path("cache")), kExitDone);
  EXPECT_EQ(out_.substr(0, out_.find('\n')), "S,H,dtype,layout,calls,device_class");
  const auto list = parse_problem_list(out_);
  ASSERT_TRUE(list.ok()) << list.status().message();
  EXPECT_TRUE(list->broken.empty()) << out_;
  ASSERT_EQ(list->problems.size(), 2u);
  EXPECT_EQ(list->problems[0], contiguous_problem(DType::kF16, DType::kF16, 8, 257));
  EXPECT_EQ(list->problems[1].rows, 4);
}

TEST_F(Cli, ListShowsWinnersWithTheirEvidence) {
  store_winner("cache", 4, 10);
  ASSERT_EQ(tune("list --json --cache " + path("cache")), kExitDone);
  ASSERT_EQ(json()["winners"].size(), 1u);
  const auto winner = json()["winners"][0];
  EXPECT_EQ(winner["S"], 4);
  EXPECT_EQ(winner["H"], 257);
  EXPECT_EQ(winner["dtype"], "f16");
  EXPECT_EQ(winner["median_ns"], 900);
  EXPECT_EQ(winner["config"], to_string(generic_config()));
  EXPECT_TRUE(winner["dirty"].is_null());
}

TEST_F(Cli, ListMarksWinnersOfDirtyRuns) {
  store_winner("cache", 4, 10, "power cap");
  ASSERT_EQ(tune("list --cache " + path("cache")), kExitDone);
  EXPECT_NE(out_.find("  default, dirty  "), std::string::npos) << out_;
  ASSERT_EQ(tune("list --json --cache " + path("cache")), kExitDone);
  EXPECT_EQ(json()["winners"][0]["dirty"], "throttled: power cap");
  EXPECT_EQ(json()["winners"][0]["throttled"], "power cap");
}

}  // namespace
}  // namespace rowsmith
