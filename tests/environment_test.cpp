// SPDX-License-Identifier: Apache-2.0
#include "runtime/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

namespace rowsmith {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class EnvironmentTest : public ::testing::Test {
 protected:
  Result<EnvironmentOptions> read() const {
    return read_environment([this](const char* name) -> const char* {
      const auto found = variables_.find(name);
      return found == variables_.end() ? nullptr : found->second.c_str();
    });
  }
  RuntimeOptions options() const {
    const auto result = read();
    EXPECT_TRUE(result.ok()) << result.status().to_string();
    return result.ok() ? result.value().options : RuntimeOptions();
  }
  // The variable with this value is refused by a message that names both.
  void expect_refused(const std::string& name, const std::string& value) {
    const auto before = variables_;
    variables_[name] = value;
    const auto result = read();
    EXPECT_EQ(result.status().code(), Code::kInvalidArgument) << name << "=" << value;
    EXPECT_THAT(result.status().message(), AllOf(HasSubstr(name), HasSubstr("'" + value + "'")));
    variables_ = before;
  }

  std::map<std::string, std::string> variables_{{"HOME", "/home/anyone"}};
};

TEST_F(EnvironmentTest, AnEmptyEnvironmentGivesTheDefaults) {
  const RuntimeOptions found = options();
  EXPECT_EQ(found.device, "");
  EXPECT_EQ(found.on_miss, OnMiss::kTune);
  EXPECT_EQ(found.cache_dir, "/home/anyone/.cache/rowsmith");
  EXPECT_TRUE(found.site_cache.empty());
  EXPECT_FALSE(found.read_only);
  EXPECT_EQ(found.tune_budget_ms, RuntimeOptions().tune_budget_ms);
  EXPECT_EQ(found.pin, "");
}

TEST_F(EnvironmentTest, SetButEmptyMeansUnset) {
  const RuntimeOptions defaults = options();
  for (const char* name : {"ROWSMITH_CACHE_DIR", "ROWSMITH_SITE_CACHE", "ROWSMITH_READONLY",
                           "ROWSMITH_DEVICE", "ROWSMITH_ON_MISS", "ROWSMITH_TUNE_BUDGET_MS",
                           "ROWSMITH_PIN", "ROWSMITH_LOG", "XDG_CACHE_HOME"}) {
    variables_[name] = "";
  }
  EXPECT_EQ(options().cache_dir, defaults.cache_dir);
  EXPECT_EQ(options().on_miss, defaults.on_miss);
  EXPECT_EQ(read().value().log_level, "warn");
}

TEST_F(EnvironmentTest, TheCacheDirectoryFollowsXdgThenHome) {
  variables_["XDG_CACHE_HOME"] = "/var/cache";
  EXPECT_EQ(options().cache_dir, "/var/cache/rowsmith");
  variables_["XDG_CACHE_HOME"] = "relative";
  EXPECT_EQ(options().cache_dir, "/home/anyone/.cache/rowsmith");
  variables_["ROWSMITH_CACHE_DIR"] = "/data/kernels//";
  EXPECT_EQ(options().cache_dir, "/data/kernels");
}

TEST_F(EnvironmentTest, WithoutAnyHomeTheCacheIsInMemoryWithANote) {
  variables_.erase("HOME");
  const auto result = read();
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result.value().options.cache_dir, "");
  EXPECT_THAT(result.value().note, HasSubstr("ROWSMITH_CACHE_DIR"));
}

TEST_F(EnvironmentTest, ACacheDirectoryThatCannotBeOneIsRefused) {
  expect_refused("ROWSMITH_CACHE_DIR", "  ");
  expect_refused("ROWSMITH_CACHE_DIR", "kernels");
  expect_refused("ROWSMITH_CACHE_DIR", "/proc/self/status");  // a file
  expect_refused("ROWSMITH_SITE_CACHE", "/site::/other");
  expect_refused("ROWSMITH_SITE_CACHE", "/site:other");
}

TEST_F(EnvironmentTest, SiteCachesAreAListNearestFirst) {
  variables_["ROWSMITH_SITE_CACHE"] = "/near:/far/";
  EXPECT_EQ(options().site_cache, (std::vector<std::string>{"/near", "/far"}));
}

TEST_F(EnvironmentTest, ReadsEveryOtherVariable) {
  variables_["ROWSMITH_READONLY"] = "1";
  variables_["ROWSMITH_DEVICE"] = "host";
  variables_["ROWSMITH_ON_MISS"] = "error";
  variables_["ROWSMITH_TUNE_BUDGET_MS"] = "250";
  variables_["ROWSMITH_PIN"] = "generic:threads=256";
  variables_["ROWSMITH_LOG"] = "debug";
  const RuntimeOptions found = options();
  EXPECT_TRUE(found.read_only);
  EXPECT_EQ(found.device, "host");
  EXPECT_EQ(found.on_miss, OnMiss::kError);
  EXPECT_EQ(found.tune_budget_ms, 250);
  EXPECT_EQ(found.pin, "generic:threads=256");
  EXPECT_EQ(read().value().log_level, "debug");
}

TEST_F(EnvironmentTest, RefusesWrongValuesByName) {
  expect_refused("ROWSMITH_READONLY", "yes");
  expect_refused("ROWSMITH_DEVICE", "cuda");
  expect_refused("ROWSMITH_DEVICE", "-1");
  expect_refused("ROWSMITH_DEVICE", "GPU-");
  expect_refused("ROWSMITH_ON_MISS", "Tune");
  expect_refused("ROWSMITH_ON_MISS", "background");
  expect_refused("ROWSMITH_LOG", "verbose");
  expect_refused("ROWSMITH_PIN", "no_such_family:threads=1");
  expect_refused("ROWSMITH_PIN", "generic:");
  for (const char* budget : {"0", "-5", "1.5", "2s", " 5", "99999999999999999999", "+1"}) {
    expect_refused("ROWSMITH_TUNE_BUDGET_MS", budget);
  }
}

TEST_F(EnvironmentTest, DevicesAreANumberAUuidOrHost) {
  for (const char* device : {"0", "12", "GPU-1f", "host"}) {
    variables_["ROWSMITH_DEVICE"] = device;
    EXPECT_EQ(options().device, device);
  }
}

// A variable of this process for the length of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(ProcessEnvironment, ReachesTheOptions) {
  const Variable policy("ROWSMITH_ON_MISS", "default");
  EXPECT_EQ(RuntimeOptions::from_environment().value().on_miss, OnMiss::kDefault);
}

TEST(ProcessEnvironment, NamesTheCompilersOrRefusesThem) {
  {
    const Variable compiler("ROWSMITH_CXX", "clang++");
    EXPECT_EQ(cxx_from_environment().value(), "clang++");
  }
  {
    const Variable library("ROWSMITH_NVRTC", "/nowhere/libnvrtc.so");
    EXPECT_THAT(nvrtc_from_environment().status().message(), HasSubstr("/nowhere/libnvrtc.so"));
  }
  EXPECT_EQ(nvrtc_from_environment().value(), "");
}

}  // namespace
}  // namespace rowsmith
