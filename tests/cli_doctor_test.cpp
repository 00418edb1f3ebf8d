// SPDX-License-Identifier: Apache-2.0
//
// `tune doctor` without a GPU: what it reports, and what of the environment leads nowhere.

#include "runtime/devices.h"
#include "tests/support/cli_fixture.h"
#include "tuner/cli_commands.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace rowsmith {
namespace {

class CliDoctorTest : public testing::CliFixture {};

TEST_F(CliDoctorTest, ReportsWithoutAGpu) {
  setenv("ROWSMITH_LOG", "error", 1);
  const int status = tune("doctor --json --cache " + path("cache"));
  unsetenv("ROWSMITH_LOG");
  EXPECT_EQ(status, kExitDone) << out_;
  const auto report = json();
  EXPECT_EQ(report["cache"]["directory"], path("cache"));
  EXPECT_EQ(report["environment"]["ROWSMITH_LOG"], "error");
  EXPECT_EQ(report["devices"].empty(), report["why_no_gpu"].is_string());
}

TEST_F(CliDoctorTest, ListsTheHostDeviceWhereItIsChosen) {
  setenv("ROWSMITH_DEVICE", "host", 1);
  const int as_json = tune("doctor --json --cache " + path("cache"));
  const auto report = json();
  const int as_text = tune("doctor --cache " + path("cache"));
  unsetenv("ROWSMITH_DEVICE");
  EXPECT_EQ(as_json, kExitDone);
  EXPECT_EQ(report["devices"].back()["device"], "host");
  EXPECT_EQ(as_text, kExitDone);
  EXPECT_NE(out_.find("chosen by ROWSMITH_DEVICE"), std::string::npos) << out_;
  EXPECT_EQ(out_.find(kUseHost), std::string::npos) << out_ << "advises what is set already";
}

TEST_F(CliDoctorTest, TellsClocksOrWhyThereAreNone) {
  DeviceState state{1410, 3201, 88, static_cast<std::uint32_t>(Throttle::kThermal)};
  EXPECT_EQ(clocks_text(clocks_json(state)),
            "clocks: SM 1410 MHz, memory 3201 MHz, 88 C, throttled: thermal");
  state = {1980, 0, 0, 0};
  EXPECT_EQ(clocks_text(clocks_json(state)), "clocks: SM 1980 MHz, memory ?, ?, not throttled");
  EXPECT_TRUE(clocks_json(state)["temperature_c"].is_null());
  EXPECT_EQ(clocks_text(clocks_json(Status(Code::kUnsupported, "no NVML: libnvidia-ml.so.1"))),
            "clocks: not known: no NVML: libnvidia-ml.so.1");
}

TEST_F(CliDoctorTest, SaysWhatIsWrongWithTheCache) {
  std::filesystem::create_directory(path("open"));
  chmod(path("open").c_str(), 0777);
  EXPECT_EQ(tune("doctor --json --cache " + path("open")), kExitSomeFailed);
  EXPECT_NE(json()["problems"].dump().find(path("open")), std::string::npos) << out_;
}

TEST_F(CliDoctorTest, OpensWhatIsInTheCacheAndMendsNothing) {
  store_winner("cache", 4, 1);
  const std::string database = path("cache") + "/winners.db";
  EXPECT_EQ(tune("doctor --cache " + path("cache")), kExitDone) << out_;
  std::filesystem::resize_file(database, 1000);
  EXPECT_EQ(tune("doctor --json --cache " + path("cache")), kExitSomeFailed);
  EXPECT_NE(json()["problems"].dump().find("winners are kept in memory"), std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(database), 1000u);
  std::filesystem::remove(database);
  std::filesystem::create_directory(database);
  EXPECT_EQ(tune("doctor --cache " + path("cache")), kExitSomeFailed) << out_;
  std::filesystem::remove(database);
  std::ofstream(path("cache") + "/binaries") << "no directory";
  EXPECT_EQ(tune("doctor --json --cache " + path("cache")), kExitSomeFailed);
  EXPECT_NE(json()["problems"].dump().find("/binaries is no directory"), std::string::npos) << out_;
}

struct WrongVariable {
  const char* name;
  const char* value;
  const char* problem;

  friend void PrintTo(const WrongVariable& wrong, std::ostream* out) {
    *out << wrong.name << '=' << wrong.value;
  }
};

// A variable as a test wants it, and afterwards as it was.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
  std::optional<std::string> before_;
};

class CliDoctor : public CliDoctorTest, public ::testing::WithParamInterface<WrongVariable> {};

TEST_P(CliDoctor, NamesTheVariableThatLeadsNowhere) {
  const WrongVariable& wrong = GetParam();
  const Variable directory("ROWSMITH_CACHE_DIR", nullptr);
  const Variable variable(wrong.name, wrong.value);
  const bool by_cache = std::string(wrong.name) == "XDG_CACHE_HOME";
  const int status = tune(by_cache ? "doctor --json" : "doctor --json --cache " + path("cache"));
  EXPECT_EQ(status, kExitSomeFailed);
  const auto problems = json()["problems"];
  bool named = false;
  for (const auto& problem : problems) {
    const auto text = problem.get<std::string>();
    named = named || (text.find(std::string(wrong.name) + "='" + wrong.value + "'") == 0 &&
                      text.find(wrong.problem) != std::string::npos);
  }
  EXPECT_TRUE(named) << problems;
}

INSTANTIATE_TEST_SUITE_P(
    Variables, CliDoctor,
    ::testing::Values(
        WrongVariable{"ROWSMITH_NVRTC", "/no/libnvrtc.so", "set it to the absolute path"},
        WrongVariable{"ROWSMITH_NVRTC", "libnvrtc.so", "set it to the absolute path"},
        WrongVariable{"ROWSMITH_CXX", "no-such-compiler", "does not run"},
        WrongVariable{"ROWSMITH_CXX", "true", "program 'probe'"},
        WrongVariable{"ROWSMITH_DEVICE", "gpu", "set it to a GPU's number"},
        WrongVariable{"ROWSMITH_DEVICE", "4096", ": "},
        WrongVariable{"ROWSMITH_SITE_CACHE", "/no/site", "there is no /no/site/winners.db"},
        WrongVariable{"XDG_CACHE_HOME", "relative", "is not an absolute path"}));

}  // namespace
}  // namespace rowsmith
