// SPDX-License-Identifier: Apache-2.0
//
// What `tune` and its workers tell each other: whole there and back, or refused with the reason.
#include "tuner/worker_messages.h"

#include <rowsmith/text.h>

#include <gtest/gtest.h>

#include <cmath>

namespace rowsmith {
namespace {

const Problem kProblem = contiguous_problem(DType::kF16, DType::kF32, 4, 100);

template <typename T>
T there_and_back(const T& message) {
  const std::string line = to_line(WorkerMessage(message));
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto parsed = parse_worker_message(line.substr(0, line.size() - 1));
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(to_line(*parsed), line);
  return std::get<T>(*parsed);
}

TEST(WorkerMessages, KeepARequestWhole) {
  WorkerRequest asked;
  asked.options.device = "GPU-1";
  asked.options.cache_dir = "/cache of \"mine\"";
  asked.options.site_cache = {"/a", "/b"};
  asked.options.read_only = true;
  asked.request.problems = {kProblem, contiguous_problem(DType::kF64, DType::kF64, 1, 1)};
  asked.request.problems[0].layout.in_place = true;
  asked.request.effort = Effort::kThorough;
  asked.request.budget_s = 2.5;
  asked.request.retune = true;
  asked.request.buckets = true;
  asked.request.settled = {kProblem};
  asked.request.families = {"warp_rows"};
  asked.request.compile_threads = 3;
  asked.explain = true;
  std::string line = to_line(asked);
  line.pop_back();
  const auto read = parse_worker_request(line);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->options.device, "GPU-1");
  EXPECT_EQ(read->options.cache_dir, asked.options.cache_dir);
  EXPECT_EQ(read->options.site_cache, asked.options.site_cache);
  EXPECT_TRUE(read->options.read_only);
  EXPECT_EQ(read->request.problems, asked.request.problems);
  EXPECT_EQ(read->request.effort, Effort::kThorough);
  EXPECT_EQ(read->request.budget_s, 2.5);
  EXPECT_TRUE(read->request.retune);
  EXPECT_TRUE(read->request.buckets);
  EXPECT_EQ(read->request.settled, asked.request.settled);
  EXPECT_EQ(read->request.families, asked.request.families);
  EXPECT_EQ(read->request.compile_threads, 3);
  EXPECT_TRUE(read->explain);
}

TEST(WorkerMessages, KeepEveryStepWhole) {
  EXPECT_EQ(there_and_back(WorkerReady{"host", 0.25}).device_class, "host");
  const Status why = there_and_back(WorkerCannotStart{Status(Code::kNoDevice, "none")}).status;
  EXPECT_EQ(why.to_string(), "no device: none");
  const WorkerTrying trying = there_and_back(WorkerTrying{7, kProblem, "generic:threads=256"});
  EXPECT_EQ(trying.problem, 7u);
  EXPECT_EQ(trying.in_hand, kProblem);
  EXPECT_EQ(trying.config, "generic:threads=256");
  const TuneProgress progress = there_and_back(TuneProgress{1, 2, kProblem, 3, 4, 2, 5, 6, 7});
  EXPECT_EQ(progress.in_hand, kProblem);
  EXPECT_EQ(progress.candidates, 4u);
  EXPECT_EQ(progress.restored, 2u);
  EXPECT_EQ(progress.floor_ns, 7);
  EXPECT_TRUE(there_and_back(WorkerEnded{true}).interrupted);
}

TEST(WorkerMessages, KeepADecisionWholeWithItsInfinitiesAndForeignBytes) {
  SearchEvent event;
  event.kind = SearchEvent::Kind::kRound;
  event.problem = 2;
  event.in_hand = kProblem;
  event.candidate = 3;
  event.is_default = true;
  event.spill_bytes = 16;
  event.reason = "line one\nline two";
  event.rule = SearchEvent::Rule::kNoDefault;
  event.limit_ns = std::nan("");
  event.rivals = {{5, 1e3, 1, -INFINITY, INFINITY}};
  const SearchEvent read = there_and_back(event);
  EXPECT_EQ(read.kind, event.kind);
  EXPECT_EQ(read.in_hand, kProblem);
  EXPECT_EQ(read.candidate, 3u);
  EXPECT_TRUE(read.is_default);
  EXPECT_EQ(read.spill_bytes, 16);
  EXPECT_EQ(read.reason, event.reason);
  EXPECT_EQ(read.rule, event.rule);
  EXPECT_TRUE(std::isnan(read.limit_ns));
  ASSERT_EQ(read.rivals.size(), 1u);
  EXPECT_EQ(read.rivals[0].candidate, 5u);
  EXPECT_EQ(read.rivals[0].low, -INFINITY);
  EXPECT_EQ(read.rivals[0].high, INFINITY);
  event.reason = "a compiler's \xff";
  EXPECT_EQ(there_and_back(event).reason, "a compiler's \xef\xbf\xbd");
}

TEST(WorkerMessages, KeepAWinnerAndAFailureWhole) {
  WorkerFinished tuned;
  tuned.problem = 1;
  tuned.outcome.problem = kProblem;
  tuned.outcome.state = TuneOutcome::State::kTuned;
  tuned.outcome.record.device_class = "host";
  tuned.outcome.record.problem = kProblem;
  tuned.outcome.record.config = *parse_config("warp_rows:lanes=4");
  tuned.outcome.record.evidence.median_ns = 812;
  tuned.outcome.record.evidence.verdict = "tie";
  tuned.outcome.rejections = {
      {"host", kProblem, "generic:threads=64", "digest", Code::kDeviceLost, "it died"}};
  tuned.outcome.restored = 9;
  const TuneOutcome read = there_and_back(tuned).outcome;
  EXPECT_EQ(read.restored, 9u);
  EXPECT_EQ(read.state, TuneOutcome::State::kTuned);
  EXPECT_TRUE(read.status.ok());
  EXPECT_EQ(read.record.config, tuned.outcome.record.config);
  EXPECT_EQ(read.record.evidence.median_ns, 812);
  EXPECT_EQ(read.record.evidence.verdict, "tie");
  ASSERT_EQ(read.rejections.size(), 1u);
  EXPECT_EQ(read.rejections[0].problem, kProblem);
  EXPECT_EQ(read.rejections[0].family_digest, "digest");
  EXPECT_EQ(read.rejections[0].code, Code::kDeviceLost);

  WorkerFinished failed;
  failed.outcome.problem = kProblem;
  failed.outcome.status = Status(Code::kOutOfMemory, "heap");
  EXPECT_TRUE(there_and_back(failed).outcome.record.config.empty());
  EXPECT_EQ(there_and_back(failed).outcome.status.to_string(), "out of memory: heap");
}

struct Garbage {
  const char* line;
  const char* why;
  friend void PrintTo(const Garbage& garbage, std::ostream* out) { *out << garbage.line; }
};
class WorkerGarbage : public ::testing::TestWithParam<Garbage> {};

TEST_P(WorkerGarbage, IsRefusedWithTheReason) {
  const auto message = parse_worker_message(GetParam().line);
  ASSERT_FALSE(message.ok());
  EXPECT_EQ(message.status().code(), Code::kInternal);
  EXPECT_NE(message.status().message().find(GetParam().why), std::string::npos)
      << message.status().message();
}

INSTANTIATE_TEST_SUITE_P(
    Lines, WorkerGarbage,
    ::testing::Values(
        Garbage{"", "parse error"}, Garbage{"NVRTC says hello", "parse error"},
        Garbage{"[]", "type"}, Garbage{"{}", "'is'"}, Garbage{R"({"is":3})", "must be string"},
        Garbage{R"({"is":"greeting"})", "no message is called 'greeting'"},
        Garbage{R"({"is":"trying","problem":1})", "'in_hand'"},
        Garbage{R"({"is":"trying","problem":-1})", "'problem': beyond its range"},
        Garbage{R"({"is":"trying","problem":1.5})", "'problem': not a whole number"},
        Garbage{R"({"is":"end","interrupted":1})", "'interrupted'"},
        Garbage{R"({"is":"cannot start","status":{"code":99,"message":""}})", "no such number"},
        Garbage{R"({"is":"cannot start","status":{"code":0,"message":""}})", "code ok"},
        Garbage{R"({"is":"ready","device_class":"host","start_s":"soon"})", "'start_s'"},
        Garbage{R"({"is":"finished","problem":0,"outcome":{"problem":{"dtypes":"f17"}}})",
                "'outcome': 'problem'"}));

TEST(WorkerMessages, RefuseARequestThatIsNone) {
  EXPECT_FALSE(parse_worker_request("").ok());
  EXPECT_FALSE(parse_worker_request("{}").ok());
  EXPECT_FALSE(parse_worker_request(R"({"is":"end","interrupted":false})").ok());
}

}  // namespace
}  // namespace rowsmith
