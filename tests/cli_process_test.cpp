// SPDX-License-Identifier: Apache-2.0
//
// `tune softmax` as users run it, interrupted and killed at inconvenient moments: what finished is
// in the cache, and no process is left behind.
#include "tests/support/cache_fixture.h"
#include "tests/support/tune_program.h"
#include "tuner/tune_cli.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

extern char** environ;

namespace rowsmith {
namespace {

using nlohmann::json;

// The built program, its stdout and stderr in pipes.
class CliHostProcess : public ::testing::Test {
 protected:
  // Orphans become ours, so that their end can be waited for.
  CliHostProcess() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~CliHostProcess() override {
    for (const int fd : {out_, err_}) {
      if (fd >= 0) ::close(fd);
    }
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  }

  void start(const std::string& line) {
    std::istringstream words("tune " + line + " --json --cache " + cache());
    std::vector<std::string> arguments{std::istream_iterator<std::string>(words), {}};
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    int out[2], err[2];
    ASSERT_EQ(::pipe2(out, O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(err, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
    EXPECT_EQ(::posix_spawn(&tune_, testing::tune_program().c_str(), &actions, nullptr, argv.data(),
                            environ),
              0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(out[1]);
    ::close(err[1]);
    out_ = out[0];
    err_ = err[0];
  }
  // Reads stderr up to a line that begins so. False where it ends before.
  bool wait_for_line(const std::string& beginning) {
    std::string line;
    for (char c; ::read(err_, &c, 1) == 1;) {
      if (c != '\n') {
        line += c;
        continue;
      }
      if (line.rfind(beginning, 0) == 0) return true;
      line.clear();
    }
    return false;
  }
  static std::string rest_of(int fd) {
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = ::read(fd, buffer, sizeof(buffer))) > 0;) {
      text.append(buffer, static_cast<std::size_t>(n));
    }
    return text;
  }
  // The worker's id, by the kernel's list of children.
  pid_t worker() const {
    const std::string tune = std::to_string(tune_);
    std::istringstream children(read_file("/proc/" + tune + "/task/" + tune + "/children"));
    pid_t id = 0;
    children >> id;
    return id;
  }
  // The exit status, or the negated signal.
  static int end_of(pid_t process) {
    int status = 0;
    EXPECT_EQ(::waitpid(process, &status, 0), process);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  std::size_t winners() const {
    return open_store({cache(), false, {}, 30000}).store->list().value().size();
  }
  std::string cache() const { return directory_ / "cache"; }

  TemporaryDirectory directory_;
  pid_t tune_ = 0;
  int out_ = -1, err_ = -1;
};

constexpr const char* kThree = "softmax --device host -S 2 -H 33,64,65 -d f16 --effort quick";

TEST_F(CliHostProcess, TerminatedItKeepsWhatFinishedAndExitsOne) {
  start(kThree);
  ASSERT_TRUE(wait_for_line("[2/3]"));
  const pid_t candidates = worker();
  EXPECT_EQ(::getpgid(candidates), candidates) << "a terminal's signals reach the supervisor alone";
  ::kill(tune_, SIGTERM);
  const json report = json::parse(rest_of(out_));
  EXPECT_EQ(end_of(tune_), kExitSomeFailed);
  EXPECT_EQ(report["interrupted"], true);
  EXPECT_EQ(report["problems"][0]["status"], "tuned");
  EXPECT_EQ(report["problems"][2]["status"], "skipped");
  EXPECT_EQ(report["workers"][0]["died"], 0) << "it was asked to end, not killed";
  EXPECT_LT(winners(), 3u);

  start(kThree);
  const json second = json::parse(rest_of(out_));
  EXPECT_EQ(end_of(tune_), kExitDone);
  EXPECT_EQ(second["problems"][0]["status"], "kept") << "a rerun resumes";
  EXPECT_EQ(second["problems"][2]["status"], "tuned");
}

TEST_F(CliHostProcess, C52_KilledItLeavesNoWorkerBehindAndLosesTheProblemInHandAtMost) {
  start(kThree);
  ASSERT_TRUE(wait_for_line("[2/3]"));
  const pid_t candidates = worker();
  ASSERT_GT(candidates, 0);
  ::kill(tune_, SIGKILL);
  EXPECT_EQ(end_of(tune_), -SIGKILL);
  // By its parent's death, or where it sees the end of its pipes first (they close before a parent
  // counts as dead), by itself.
  const int end = end_of(candidates);
  EXPECT_TRUE(end == -SIGKILL || end == -SIGPIPE || end == kExitDone) << end;
  EXPECT_GE(winners(), 1u);
}

TEST_F(CliHostProcess, AKilledWorkerIsReplacedAndTheListGoesOn) {
  start(kThree);
  ASSERT_TRUE(wait_for_line("[2/3]"));
  ASSERT_EQ(::kill(worker(), SIGKILL), 0);
  const std::string said = rest_of(err_);
  const json report = json::parse(rest_of(out_));
  const int status = end_of(tune_);
  EXPECT_NE(said.find("the worker died of signal 9 (SIGKILL) while "), std::string::npos) << said;
  EXPECT_EQ(report["workers"][0]["started"], 2);
  EXPECT_EQ(report["workers"][0]["died"], 1);
  EXPECT_EQ(report["problems"][0]["status"], "tuned");
  EXPECT_EQ(report["problems"][2]["status"], "tuned");
  // Blamed on the candidate that was on the device; where there was none, on the problem.
  const json& hit = report["problems"][1];
  EXPECT_EQ(status, hit["status"] == "tuned" ? kExitDone : kExitSomeFailed);
  EXPECT_TRUE(hit["status"] == "tuned"
                  ? hit["rejections"][0]["code"] == "device lost"
                  : hit["reason"].get<std::string>().find("no candidate") != std::string::npos)
      << hit;
}

TEST_F(CliHostProcess, AWorkerWithoutARequestEndsByItself) {
  std::vector<std::string> words = {"tune", "worker"};
  char* argv[] = {words[0].data(), words[1].data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ASSERT_EQ(
      ::posix_spawn(&tune_, testing::tune_program().c_str(), &actions, nullptr, argv, environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(end_of(tune_), kExitUsage);
}

}  // namespace
}  // namespace rowsmith
