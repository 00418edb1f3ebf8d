// SPDX-License-Identifier: Apache-2.0
#include "runtime/module_table.h"
#include "tests/support/scripted_device.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <latch>
#include <stdexcept>
#include <thread>

namespace rowsmith {
namespace {

class ModuleTableTest : public ::testing::Test {
 protected:
  ModuleTableTest() {
    std::string name = (std::filesystem::temp_directory_path() / "rowsmith-XXXXXX").string();
    directory_ = mkdtemp(name.data());
  }
  ~ModuleTableTest() override { std::filesystem::remove_all(directory_); }

  std::shared_ptr<BinaryStore> store() const {
    BinaryStoreOptions options;
    options.directory = directory_;
    return std::make_shared<BinaryStore>(options);
  }
  static const Config& config() {
    static const Config config = default_config(
        contiguous_problem(DType::kF32, DType::kF32, 4, 257), testing::scripted_facts());
    return config;
  }

  const Problem problem_ = contiguous_problem(DType::kF32, DType::kF32, 4, 257);
  std::shared_ptr<testing::ScriptedDevice> device_ = std::make_shared<testing::ScriptedDevice>();
  std::string directory_;
};

TEST_F(ModuleTableTest, LoadsAKernelOnceAndForEveryS) {
  ModuleTable table(device_, nullptr);
  const auto first = table.get(problem_, config());
  Problem more = problem_;
  more.rows = 4000;
  const auto second = table.get(more, config());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first.value(), second.value());
  EXPECT_EQ(table.compiled(), 1u);
  EXPECT_EQ(table.loads(), 1u);
}

TEST_F(ModuleTableTest, C62_FiveHundredLengthsInTurnAreCompiledOnceEach) {
  ModuleTable table(device_, nullptr);
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t cols = 1; cols <= 500; ++cols) {
      const Problem problem = contiguous_problem(DType::kF32, DType::kF32, 4, cols);
      const Config config = default_config(problem, device_->facts());
      ASSERT_TRUE(table.get(problem, config).ok()) << cols;
    }
    EXPECT_EQ(table.compiled(), 500u) << round;
    EXPECT_EQ(table.loads(), 500u) << round;
  }
}

TEST_F(ModuleTableTest, LoadedNeverCompiles) {
  ModuleTable table(device_, nullptr);
  EXPECT_EQ(table.loaded(problem_, config()), nullptr);
  const auto kernel = table.get(problem_, config());
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(table.loaded(problem_, config()), kernel.value());
  EXPECT_EQ(device_->compiles(), 1u);
}

TEST_F(ModuleTableTest, KeepsWhatWasCompiledElsewhere) {
  const Instance instance{problem_, config()};
  const Result<Binary> binary =
      device_->compile({"elsewhere", program_text({instance}), {entry_name(instance)}});
  ModuleTable table(device_, store());
  ASSERT_TRUE(table.get(problem_, config(), &*binary).ok());
  EXPECT_EQ(table.compiled(), 0u);
  ModuleTable second(device_, store());
  ASSERT_TRUE(second.get(problem_, config()).ok());
  EXPECT_EQ(device_->compiles(), 1u);  // the second found it on disk
}

TEST_F(ModuleTableTest, ASecondTableLoadsFromTheBinaryStore) {
  ASSERT_TRUE(ModuleTable(device_, store()).get(problem_, config()).ok());
  ModuleTable second(device_, store());
  ASSERT_TRUE(second.get(problem_, config()).ok());
  EXPECT_EQ(second.compiled(), 0u);
  EXPECT_EQ(second.loads(), 1u);
  EXPECT_EQ(device_->compiles(), 1u);
}

TEST_F(ModuleTableTest, AStoredBinaryThatDoesNotLoadIsMadeAnewOnce) {
  ASSERT_TRUE(ModuleTable(device_, store()).get(problem_, config()).ok());
  int loads = 0;
  device_->script.on_load = [&](const Binary&) {
    return ++loads == 1 ? Status(Code::kLaunchFailed, "bad image") : Status();
  };
  ModuleTable second(device_, store());
  EXPECT_TRUE(second.get(problem_, config()).ok());
  EXPECT_EQ(second.compiled(), 1u);
}

TEST_F(ModuleTableTest, AStoredBinaryIsNotBlamedForOutOfMemory) {
  ASSERT_TRUE(ModuleTable(device_, store()).get(problem_, config()).ok());
  device_->script.on_load = [](const Binary&) { return Status(Code::kOutOfMemory, "full"); };
  ModuleTable second(device_, store());
  EXPECT_EQ(second.get(problem_, config()).status().code(), Code::kOutOfMemory);
  EXPECT_EQ(second.compiled(), 0u);
}

TEST_F(ModuleTableTest, AFailureIsNotRemembered) {
  ModuleTable table(device_, nullptr);
  device_->script.on_load = [](const Binary&) { return Status(Code::kLaunchFailed, "bad image"); };
  EXPECT_EQ(table.get(problem_, config()).status().code(), Code::kLaunchFailed);
  EXPECT_EQ(table.loaded(problem_, config()), nullptr);
  device_->script.on_load = {};
  EXPECT_TRUE(table.get(problem_, config()).ok());
}

TEST_F(ModuleTableTest, ADeviceThatThrowsLeavesTheTableUsable) {
  ModuleTable table(device_, nullptr);
  device_->script.on_compile = [](const Program&) -> Status { throw std::runtime_error("oh"); };
  EXPECT_EQ(table.get(problem_, config()).status().code(), Code::kInternal);
  device_->script.on_compile = {};
  EXPECT_TRUE(table.get(problem_, config()).ok());
}

TEST_F(ModuleTableTest, ManyThreadsThatWantOneKernelCauseOneCompile) {
  ModuleTable table(device_, nullptr);
  std::latch start(32);
  std::vector<std::thread> threads;
  for (int i = 0; i < 32; ++i) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      EXPECT_TRUE(table.get(problem_, config()).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device_->compiles(), 1u);
}

TEST_F(ModuleTableTest, ThoseWhoWaitShareTheFailure) {
  ModuleTable table(device_, nullptr);
  std::atomic<int> failed{0};
  device_->script.on_compile = [](const Program&) { return Status(Code::kCompileFailed, "no"); };
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      if (table.get(problem_, config()).status().code() == Code::kCompileFailed) ++failed;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 8);
}

}  // namespace
}  // namespace rowsmith
