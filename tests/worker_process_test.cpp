// SPDX-License-Identifier: Apache-2.0
//
// Child processes that read a text and write lines; the shell plays the worker.
#include "tuner/worker_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>

namespace rowsmith {
namespace {

Result<WorkerProcess> shell(const std::string& script, const std::string& text = "") {
  return WorkerProcess::start("/bin/sh", {"sh", "-c", script}, text);
}

void wait_for(const WorkerProcess& process) {
  pollfd waited[] = {{process.output(), POLLIN, 0}, {process.input(), POLLOUT, 0}};
  ASSERT_GT(::poll(waited, 2, -1), 0);
}

// Up to the end of its output.
std::vector<std::string> lines_of(WorkerProcess& process) {
  std::vector<std::string> lines;
  while (process.exchange(lines)) wait_for(process);
  return lines;
}

std::string first_line_of(WorkerProcess& process) {
  std::vector<std::string> lines;
  while (process.exchange(lines)) {
    if (!lines.empty()) return lines.front();
    wait_for(process);
  }
  return "";
}

WorkerProcess::End end_of(WorkerProcess& process) {
  while (true) {
    if (const auto end = process.reap()) return *end;
    ::poll(nullptr, 0, 1);
  }
}

TEST(WorkerProcess, ReadsTheTextAndTellsLinesAndHowItEnded) {
  auto process = shell("read a; read b; echo \"$b\"; echo \"$a\"; exit 3", "one\ntwo\n");
  ASSERT_TRUE(process.ok()) << process.status().message();
  EXPECT_EQ(lines_of(*process), (std::vector<std::string>{"two", "one"}));
  const WorkerProcess::End end = end_of(*process);
  EXPECT_EQ(end.signal, 0);
  EXPECT_EQ(end.text, "exited with status 3");
  EXPECT_FALSE(process->reap()) << "once";
}

TEST(WorkerProcess, NamesTheSignalThatItDiedOf) {
  auto process = shell("kill -SEGV $$");
  ASSERT_TRUE(process.ok());
  lines_of(*process);
  const WorkerProcess::End end = end_of(*process);
  EXPECT_EQ(end.signal, SIGSEGV);
  EXPECT_EQ(end.text, "died of signal 11 (SIGSEGV)");
}

TEST(WorkerProcess, KeepsItsInputOpenUntilItIsEnded) {
  auto process = WorkerProcess::start("/bin/cat", {"cat"}, "line\n");
  ASSERT_TRUE(process.ok());
  EXPECT_EQ(first_line_of(*process), "line");
  EXPECT_FALSE(process->reap());
  process->end_input();
  EXPECT_TRUE(lines_of(*process).empty());
  EXPECT_EQ(end_of(*process).text, "exited with status 0");
}

TEST(WorkerProcess, TakesFurtherText) {
  auto process = WorkerProcess::start("/bin/cat", {"cat"}, "one\n");
  ASSERT_TRUE(process.ok());
  EXPECT_EQ(first_line_of(*process), "one");
  process->write("two\n");
  EXPECT_EQ(first_line_of(*process), "two");
}

TEST(WorkerProcess, CarriesMoreThanAPipeHolds) {
  const std::string text(3 << 20, 'x');
  auto process = shell("head -c 3145728", text + "\n");
  ASSERT_TRUE(process.ok());
  EXPECT_TRUE(lines_of(*process).empty()) << "a line without its end is none";
  EXPECT_EQ(end_of(*process).text, "exited with status 0");
}

TEST(WorkerProcess, SurvivesOneThatReadsNothing) {
  auto process = shell("exit 0", std::string(1 << 20, 'x'));
  ASSERT_TRUE(process.ok());
  EXPECT_TRUE(lines_of(*process).empty());
  EXPECT_EQ(end_of(*process).text, "exited with status 0");
}

TEST(WorkerProcess, IsKilledWithWhatItStarted) {
  auto process = shell("sleep 1000 & echo $!; wait");
  ASSERT_TRUE(process.ok());
  EXPECT_NE(first_line_of(*process), "");
  EXPECT_EQ(::getpgid(process->id()), process->id()) << "a group of its own";
  process->kill();
  EXPECT_EQ(end_of(*process).signal, SIGKILL);
  EXPECT_TRUE(lines_of(*process).empty()) << "its child held the output open, and is gone";
}

TEST(WorkerProcess, GoesWithItsHolder) {
  pid_t id = 0;
  {
    auto process = shell("exec sleep 1000");
    ASSERT_TRUE(process.ok());
    id = process->id();
    EXPECT_EQ(::kill(id, 0), 0);
  }
  EXPECT_EQ(::kill(id, 0), -1);
}

TEST(WorkerProcess, SaysWhyItCannotBeStarted) {
  const auto process = WorkerProcess::start("/no/such/program", {"x"}, "");
  ASSERT_FALSE(process.ok());
  EXPECT_EQ(process.status().message(),
            "a worker process (/no/such/program) cannot be started: No such file or directory");
}

}  // namespace
}  // namespace rowsmith
