// SPDX-License-Identifier: Apache-2.0
//
// Compiling in child processes: what they give is what this process would; one that dies or babbles
// costs its program alone. The shell plays children that go wrong.
#include "tuner/compiler_processes.h"
#include "kernel_templates/catalog.h"
#include "runtime/devices.h"
#include "runtime/nvrtc.h"
#include "tests/support/cache_fixture.h"
#include "tests/support/tune_program.h"
#include "tuner/compiler_messages.h"

#include <rowsmith/text.h>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <sstream>
#include <thread>

namespace rowsmith {
namespace {

constexpr int kArch = 90;

Program small_program(const std::string& name) {
  return {name, "extern \"C\" __global__ void " + name + "(float* x) { *x = 1; }", {name}};
}

std::vector<std::string> script(const std::string& text) {
  return {"sh", "-c", text, "sh", testing::tune_program()};  // which is $1
}

// Answers each line by a binary of the one byte `x`.
constexpr const char* kAnswersX =
    R"(while read -r line; do echo '{"bytes":"78","log":"","note":""}'; done)";

bool has_children() {
  return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD;
}

// In this process, NVRTC or none: the same status and the same bytes.
void expect_as_here(CompilerProcesses& compilers, const Program& program) {
  const auto there = compilers.compile(program, kArch), here = nvrtc_compile(program, kArch);
  EXPECT_EQ(there.status().to_string(), here.status().to_string());
  if (!there.ok() || !here.ok()) return;
  EXPECT_EQ(there->bytes, here->bytes);
  EXPECT_EQ(there->note, here->note);
}

class CompilerProcessesWithNvrtc : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto archs = nvrtc_archs();
    if (!archs.ok()) GTEST_SKIP() << archs.status().to_string();
  }
  const std::string tune_ = testing::tune_program();
};

TEST_F(CompilerProcessesWithNvrtc, GiveTheCodeThatThisProcessWould) {
  CompilerProcesses compilers(tune_, {"tune", "compiler"}, 1);
  ASSERT_EQ(compilers.started(), 1u);
  const Problem problem = contiguous_problem(DType::kF16, DType::kF16, 7, 257);
  const Instance instance{problem, default_config(problem, nominal_facts(kArch))};
  expect_as_here(compilers,
                 {to_string(instance.config), program_text({instance}), {entry_name(instance)}});
  expect_as_here(compilers, small_program("second"));
}

TEST_F(CompilerProcessesWithNvrtc, TellWhatIsWrongWithATextAndGoOn) {
  CompilerProcesses compilers(tune_, {"tune", "compiler"}, 1);
  const auto wrong = compilers.compile({"wrong", "int x = no_such_name;", {}}, kArch);
  EXPECT_EQ(wrong.status().code(), Code::kCompileFailed);
  EXPECT_NE(wrong.status().message().find("\"no_such_name\" is undefined"), std::string::npos)
      << wrong.status().message();
  expect_as_here(compilers, {"wrong", "int x = no_such_name;", {}});
  expect_as_here(compilers, small_program("right"));
}

TEST_F(CompilerProcessesWithNvrtc, ServeManyThreadsAtOnce) {
  CompilerProcesses compilers(tune_, {"tune", "compiler"}, 2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&compilers, t] {
      for (int i = 0; i < 3; ++i) {
        expect_as_here(compilers, small_program("k" + std::to_string(3 * t + i)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CompilerProcessesWithNvrtc, DieWithWhoStartedThemWithoutBeingTold) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphans become ours
  auto parent = WorkerProcess::start(
      "/bin/sh", script("exec 3<&0; \"$1\" compiler <&3 & echo $!; while :; do wait; done"),
      to_line(CompileRequest{small_program("k"), kArch}));
  ASSERT_TRUE(parent.ok());
  std::vector<std::string> lines;  // the child's id and its answer, in either order
  while (parent->exchange(lines) && lines.size() < 2) {
    pollfd waited[] = {{parent->output(), POLLIN, 0}, {parent->input(), POLLOUT, 0}};
    ::poll(waited, 2, -1);
  }
  ASSERT_EQ(lines.size(), 2u);
  const bool id_first = lines[0][0] != '{';
  EXPECT_TRUE(parse_compile_answer(lines[id_first ? 1 : 0]).ok());
  const pid_t compiler = std::stoi(lines[id_first ? 0 : 1]);
  ::kill(parent->id(), SIGKILL);
  while (!parent->reap()) ::poll(nullptr, 0, 1);
  int status = 0;
  EXPECT_EQ(::waitpid(compiler, &status, 0), compiler) << "its input is still open";
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST(CompilerProcesses, AreUsedWhereTheyAreIdle) {
  CompilerProcesses compilers("/bin/sh", script(kAnswersX), 1);
  for (int i = 0; i < 3; ++i) {
    const auto binary = compilers.compile(small_program("k"), kArch);
    ASSERT_TRUE(binary.ok()) << binary.status().message();
    EXPECT_EQ(binary->bytes, "x");
  }
}

TEST(CompilerProcesses, ACrashIsItsProgramsFailureAndAnotherTakesTheNext) {
  const TemporaryDirectory directory;
  const std::string first = "mkdir " + directory.path() + "/fired 2>/dev/null && kill -SEGV $$; ";
  std::string text = kAnswersX;
  CompilerProcesses compilers("/bin/sh", script(text.insert(text.find("echo"), first)), 2);
  ASSERT_EQ(compilers.started(), 2u);
  const auto killed = compilers.compile(small_program("k1"), kArch);
  EXPECT_EQ(killed.status().to_string(),
            "compile failed: program k1: its compiler process died of signal 11 (SIGSEGV)");
  const auto next = compilers.compile(small_program("k2"), kArch);
  ASSERT_TRUE(next.ok()) << next.status().message();
  EXPECT_EQ(next->bytes, "x");
}

TEST(CompilerProcesses, AKillFromOutsideIsNoFaultOfTheProgram) {
  CompilerProcesses compilers("/bin/sh", script("read -r line; kill -KILL $$"), 1);
  expect_as_here(compilers, small_program("k"));
  EXPECT_FALSE(has_children());
}

TEST(CompilerProcesses, WithNoneLeftThisProcessCompiles) {
  CompilerProcesses compilers("/bin/sh", script("read -r line; kill -SEGV $$"), 1);
  EXPECT_EQ(compilers.compile(small_program("k"), kArch).status().message(),
            "program k: its compiler process died of signal 11 (SIGSEGV)");
  expect_as_here(compilers, small_program("k"));
  EXPECT_FALSE(has_children());
}

TEST(CompilerProcesses, OneThatBabblesIsKilledAndFailsItsProgram) {
  CompilerProcesses compilers("/bin/sh", script("echo hello; while read -r line; do :; done"), 1);
  const Status status = compilers.compile(small_program("k"), kArch).status();
  EXPECT_EQ(status.code(), Code::kCompileFailed);
  EXPECT_EQ(status.message().find("program k: a compiler process's answer: "), 0u)
      << status.message();
  EXPECT_FALSE(has_children());
  expect_as_here(compilers, small_program("k"));
}

TEST(CompilerProcesses, ThatCannotBeStartedLeaveItToThisProcess) {
  CompilerProcesses compilers("/no/such/program", {"x"}, 3);
  EXPECT_EQ(compilers.started(), 0u);
  expect_as_here(compilers, small_program("k"));
}

TEST(CompilerProcesses, LeaveNobodyBehind) {
  {
    const CompilerProcesses compilers("/bin/sh", script("sleep 1000 & wait"), 3);
    EXPECT_EQ(compilers.started(), 3u);
    EXPECT_TRUE(has_children());
  }
  EXPECT_FALSE(has_children());
}

TEST(CompilerCount, IsOfTheOtherThreadsAndOfNoMoreThanTheCores) {
  EXPECT_EQ(compiler_count(0), 0u);
  EXPECT_EQ(compiler_count(1), 0u);
  EXPECT_LE(compiler_count(2), 1u);
  EXPECT_LE(compiler_count(1000), std::thread::hardware_concurrency());
}

}  // namespace
}  // namespace rowsmith
