// SPDX-License-Identifier: Apache-2.0
//
// What is read of NVML, and what is said where it, or a part of it, is not there. Needs no GPU.
#include "runtime/nvml.h"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

namespace rowsmith {
namespace {

std::string beside_this_program(const std::string& file) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / file;
}

class Nvml : public ::testing::Test {
 protected:
  Nvml() { behaves(""); }
  void behaves(const char* fault) { setenv("FAKE_NVML", fault, 1); }
  Result<DeviceState> state_of(const std::string& uuid) { return NvmlDevice(uuid, fake_).state(); }
  int users() const {
    void* library = dlopen(fake_.c_str(), RTLD_NOW);
    if (library == nullptr) return -1;
    const auto count = reinterpret_cast<int (*)()>(dlsym(library, "fake_nvml_users"));
    return count();
  }

  const std::string fake_ = beside_this_program("libfake_nvml.so");
};

std::uint32_t set_of(std::initializer_list<Throttle> bits) {
  std::uint32_t set = 0;
  for (const Throttle bit : bits) set |= static_cast<std::uint32_t>(bit);
  return set;
}

TEST_F(Nvml, TellsClocksAndTemperature) {
  const Result<DeviceState> state = state_of("GPU-whole");
  ASSERT_TRUE(state.ok()) << state.status().to_string();
  EXPECT_EQ(state->sm_clock_mhz, 1980);
  EXPECT_EQ(state->memory_clock_mhz, 3201);
  EXPECT_EQ(state->temperature_c, 61);
  EXPECT_EQ(state->throttle, 0u);
}

TEST_F(Nvml, TellsEveryReasonThatHoldsClocksDown) {
  behaves("fc");
  EXPECT_EQ(throttle_text(state_of("GPU-whole")->throttle),
            "power cap, thermal, thermal (hardware), hardware slowdown, power brake, sync boost");
  behaves("84");
  EXPECT_EQ(state_of("GPU-whole")->throttle, set_of({Throttle::kPowerCap, Throttle::kPowerBrake}));
}

TEST_F(Nvml, CountsNeitherIdlenessNorClocksThatWereSetNorTheEndOfBoost) {
  behaves("703");
  EXPECT_EQ(state_of("GPU-whole")->throttle, 0u);
}

TEST_F(Nvml, ReadsAnewAtEachCall) {
  NvmlDevice device("GPU-whole", fake_);
  EXPECT_EQ(device.state()->throttle, 0u);
  behaves("4");
  EXPECT_EQ(device.state()->throttle, set_of({Throttle::kPowerCap}));
}

TEST_F(Nvml, IsEndedAsOftenAsItWasStarted) {
  const int before = users();
  {
    NvmlDevice first("GPU-whole", fake_), second("GPU-whole", fake_), failed("GPU-gone", fake_);
    EXPECT_TRUE(first.state().ok() && second.state().ok() && first.state().ok());
    EXPECT_FALSE(failed.state().ok());
    EXPECT_EQ(users(), before + 2);
  }
  EXPECT_EQ(users(), before);
}

TEST_F(Nvml, IsStartedOnceByManyThreads) {
  const int before = users();
  NvmlDevice device("GPU-whole", fake_);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { EXPECT_TRUE(device.state().ok()); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(users(), before + 1);
}

TEST_F(Nvml, ThatIsNotThereIsNamed) {
  const Status status = NvmlDevice("GPU-whole", "/no/such/libnvidia-ml.so.1").state().status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("no NVML: "), std::string::npos) << status.to_string();
  EXPECT_NE(status.message().find("libnvidia-ml.so.1"), std::string::npos) << status.to_string();
}

TEST_F(Nvml, ThatIsAnotherLibraryIsToldByWhatItLacks) {
  const Status status =
      NvmlDevice("GPU-whole", beside_this_program("libfake_driver.so")).state().status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("nvmlInit_v2"), std::string::npos) << status.to_string();
}

TEST_F(Nvml, ThatDoesNotStartIsToldByItsCodeAndNotAskedAgain) {
  behaves("init");
  NvmlDevice device("GPU-whole", fake_);
  const Status status = device.state().status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("Unknown Error (999)"), std::string::npos) << status.to_string();
  behaves("");
  EXPECT_FALSE(device.state().ok());
}

TEST_F(Nvml, KnowsNoStrangersAndNoClocksOfAnInstance) {
  EXPECT_NE(state_of("GPU-gone").status().message().find("GPU-gone: Not Found"), std::string::npos);
  EXPECT_NE(state_of("GPU-part").status().message().find("MIG-part is a MIG instance"),
            std::string::npos);
}

TEST_F(Nvml, OfAGpuThatTellsNothingKnowsNothing) {
  behaves("silent");
  const Result<DeviceState> state = state_of("GPU-whole");
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->sm_clock_mhz, 0);
  EXPECT_EQ(state->temperature_c, 0);
  EXPECT_EQ(state->throttle, 0u);
}

TEST_F(Nvml, WithoutSomeFunctionsTellsTheRestByTheOldNames) {
  behaves("8");
  const Result<DeviceState> state =
      NvmlDevice("GPU-whole", beside_this_program("libfake_nvml_bare.so")).state();
  ASSERT_TRUE(state.ok()) << state.status().to_string();
  EXPECT_EQ(state->sm_clock_mhz, 0);
  EXPECT_EQ(state->throttle, set_of({Throttle::kHardwareSlowdown}));
}

}  // namespace
}  // namespace rowsmith
