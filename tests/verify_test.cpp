// SPDX-License-Identifier: Apache-2.0
//
// Planted faults: each must be found, by name; right kernels must pass on every layout.
#include "tuner/verify.h"

#include "tests/support/emulated_softmax.h"
#include "tests/support/scripted_device.h"
#include "tuner/full_check.h"
#include "tuner/special_rows.h"

#include <rowsmith/text.h>

#include <gtest/gtest.h>

namespace rowsmith {
namespace {

using testing::Fault;
using testing::ScriptedDevice;

Problem in_layout(Problem problem, std::int64_t offset, std::int64_t pad, bool in_place) {
  const auto* x = reinterpret_cast<const char*>(std::uintptr_t{4096}) + offset;
  const auto* y = in_place ? x : x + 4096;
  problem.layout = layout_of(x, y, problem.cols, problem.cols + pad, problem.cols + pad, problem.in,
                             problem.out);
  return problem;
}

struct Case {
  const char* name;
  Problem problem;

  friend void PrintTo(const Case& it, std::ostream* out) { *out << to_string(it.problem); }
};

std::vector<Case> cases() {
  const auto f16 = contiguous_problem(DType::kF16, DType::kF16, 5, 33);
  const auto f32 = contiguous_problem(DType::kF32, DType::kF32, 5, 64);
  return {{"f16", f16},
          {"f32", f32},
          {"bf16", contiguous_problem(DType::kBF16, DType::kBF16, 2, 40)},
          {"f64", contiguous_problem(DType::kF64, DType::kF64, 5, 33)},
          {"f8e4m3", contiguous_problem(DType::kF8E4M3, DType::kF8E4M3, 5, 48)},
          {"f16_to_f8e5m2", contiguous_problem(DType::kF16, DType::kF8E5M2, 5, 33)},
          {"f16_to_f32", contiguous_problem(DType::kF16, DType::kF32, 5, 33)},
          {"f16_shifted", in_layout(f16, 2, 0, false)},
          {"f32_pitched", in_layout(f32, 4, 3, false)},
          {"f16_in_place", in_layout(f16, 0, 0, true)},
          {"f32_in_place_pitched", in_layout(f32, 4, 1, true)},
          {"one_row", contiguous_problem(DType::kF16, DType::kF16, 1, 100)},
          // Compared on several threads.
          {"long_rows", contiguous_problem(DType::kF16, DType::kF16, 3, 16000)}};
}

class VerifyTest : public ::testing::TestWithParam<Case> {
 protected:
  VerifyTest() {
    device_.script.effect =
        testing::emulated_softmax(problem_, [this](const std::string&) { return fault_; });
    module_ = device_.load({"scripted\nkernel", "", ""}).value();
    plan_ = make_plan(problem_, DeviceFacts{}, generic_config(), *module_->kernel("kernel"));
  }
  Status check(Fault fault) {
    fault_ = fault;
    VerifyLimits limits;
    limits.threads = 3;
    Result<Verifier> verifier = Verifier::make(device_, problem_, limits);
    if (!verifier.ok()) return verifier.status();
    const Status status = verifier->check(plan_);
    if (status.ok()) accuracy_ = verifier->accuracy();
    return status;
  }
  void expect_found(Fault fault, const std::string& words) {
    const Status status = check(fault);
    EXPECT_EQ(status.code(), Code::kAccuracyFailed) << status.to_string();
    EXPECT_NE(status.message().find(words), std::string::npos) << status.to_string();
  }
  bool in_place() const { return problem_.layout.in_place; }

  Problem problem_ = GetParam().problem;
  ScriptedDevice device_;
  Fault fault_ = Fault::kNone;
  std::unique_ptr<Module> module_;
  LaunchPlan plan_;
  Accuracy accuracy_;
};

TEST_P(VerifyTest, PassesARightKernel) {
  const Status status = check(Fault::kNone);
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_LE(accuracy_.error_ratio, 1);
  EXPECT_LE(accuracy_.max_error_ulp, 0.5);
}

TEST_P(VerifyTest, FindsAPartlyWrittenOutput) {
  expect_found(Fault::kLastColumnUnwritten, "column " + std::to_string(problem_.cols - 1));
  expect_found(Fault::kLastRowUnwritten, in_place() ? "got" : "not written");
}

TEST_P(VerifyTest, FindsResultsOffByOneColumn) {
  expect_found(Fault::kOffByOneColumn, "expected");
}

TEST_P(VerifyTest, FindsADroppedNan) {
  expect_found(Fault::kDropsNan, "expected NaN");
}

TEST_P(VerifyTest, FindsASmallErrorInOneElement) {
  expect_found(Fault::kSlightlyOff, "error ratio");
}

TEST_P(VerifyTest, FindsWritesOutsideTheRows) {
  expect_found(Fault::kWritesPast, "0 bytes past the end of row");
  expect_found(Fault::kWritesBefore, "before row 0");
}

TEST_P(VerifyTest, FindsResultsThatChangeFromRunToRun) {
  // One bit of a narrow result is an error by itself; one of f32 or f64 is well within the bound.
  expect_found(Fault::kRaces, size_of(problem_.out) >= 4 ? "two runs" : "error ratio");
}

TEST_P(VerifyTest, FindsWritesToTheInput) {
  if (in_place()) GTEST_SKIP() << "the input is the output";
  expect_found(Fault::kWritesInput, "wrote to its input");
}

TEST_P(VerifyTest, JudgesTheNextKernelByTheOldInput) {
  Result<Verifier> verifier = Verifier::make(device_, problem_, {});
  fault_ = Fault::kWritesInput;
  EXPECT_EQ(verifier->check(plan_).code(), Code::kAccuracyFailed);
  fault_ = Fault::kNone;
  EXPECT_TRUE(verifier->check(plan_).ok());
}

TEST_P(VerifyTest, PassesTheDevicesFailureOn) {
  device_.script.on_launch = [](const LaunchCall&) {
    return Status(Code::kLaunchFailed, "invalid configuration");
  };
  EXPECT_EQ(check(Fault::kNone).code(), Code::kLaunchFailed);
}

TEST_P(VerifyTest, ReportsWantOfMemory) {
  device_.script.out_of_memory_at = 0;
  EXPECT_EQ(check(Fault::kNone).code(), Code::kOutOfMemory);
}

INSTANTIATE_TEST_SUITE_P(Layouts, VerifyTest, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

TEST(Verifier, KeepsToItsLimitsWithAllSpecialRowsBesideTheRandomOnes) {
  ScriptedDevice device;
  const auto special = static_cast<std::int64_t>(special_rows().size());
  const auto rows_of = [&](std::int64_t rows, std::int64_t cols, VerifyLimits limits) {
    return Verifier::make(device, contiguous_problem(DType::kF16, DType::kF16, rows, cols), limits)
        ->rows();
  };
  EXPECT_EQ(rows_of(4096, 8, {}), 64 + special);
  EXPECT_EQ(rows_of(3, 8, {}), 3 + special);
  EXPECT_EQ(rows_of(4096, 100, {64, 1000, 500, 1, 1}), 10 + 5);
  EXPECT_EQ(rows_of(4096, 1000, {64, 1000, 500, 1, 1}), 2 + 3);
}

TEST(ScaleToCheck, SpreadsFp8ResultsAndLeavesOthersAlone) {
  EXPECT_EQ(scale_to_check(DType::kF32, 1000), 1);
  EXPECT_EQ(scale_to_check(DType::kF8E4M3, 1000), 768);
  EXPECT_EQ(scale_to_check(DType::kF8E5M2, 1), 0.75);
}

// Two kernels, "mine" and "generic", one of which may be at fault.
class FullCheckTest : public ::testing::Test {
 protected:
  // What mine did wrong, while generic is right.
  Status compare(const Problem& problem, Fault fault, std::int64_t cap_bytes = 1 << 20) {
    const FullCheck check = check_both(problem, "mine", fault, cap_bytes);
    EXPECT_TRUE(check.generic.ok()) << check.generic.to_string();
    checked_ = check.checked;
    return check.candidate;
  }
  FullCheck check_both(const Problem& problem, const std::string& at_fault, Fault fault,
                       std::int64_t cap_bytes = 1 << 20) {
    DeviceFacts facts = testing::scripted_facts();
    facts.l2_bytes = 0;
    ScriptedDevice device(facts);
    device.script.effect = testing::emulated_softmax(problem, [=](const std::string& entry) {
      return entry == at_fault ? fault : Fault::kNone;
    });
    const auto module = device.load({"scripted\nmine\ngeneric", "", ""}).value();
    const auto plan = [&](const char* entry) {
      return make_plan(problem, DeviceFacts{}, generic_config(), *module->kernel(entry));
    };
    const Result<Arena> arena = Arena::make(device, problem, {});
    return compare_with_generic(device, plan("mine"), plan("generic"), *arena, cap_bytes, 2);
  }
  std::string checked_;
};

TEST_F(FullCheckTest, PassesEqualResultsOfAllRows) {
  for (const Case& it : cases()) {
    EXPECT_TRUE(compare(it.problem, Fault::kNone).ok()) << it.name;
    EXPECT_EQ(checked_, "all rows");
  }
}

TEST_F(FullCheckTest, FindsWhatGoesWrongOnlyAtTheProblemsOwnSize) {
  const Problem problem = contiguous_problem(DType::kF16, DType::kF16, 150, 33);
  const Status status = compare(problem, Fault::kLargeOnly);
  EXPECT_EQ(status.code(), Code::kAccuracyFailed);
  EXPECT_NE(status.message().find("row 149, column 0"), std::string::npos) << status.message();
}

TEST_F(FullCheckTest, FindsSmallErrorsInPlaceAndPitched) {
  for (const Case& it : cases()) {
    EXPECT_EQ(compare(it.problem, Fault::kSlightlyOff).code(), Code::kAccuracyFailed) << it.name;
  }
}

TEST_F(FullCheckTest, TellsGenericsErrorsFromTheCandidates) {
  for (const Case& it : cases()) {
    const FullCheck check = check_both(it.problem, "generic", Fault::kSlightlyOff);
    EXPECT_TRUE(check.candidate.ok()) << it.name << ": " << check.candidate.to_string();
    EXPECT_EQ(check.generic.code(), Code::kAccuracyFailed) << it.name;
    EXPECT_NE(check.generic.message().find(", the winner "), std::string::npos);
  }
}

TEST_F(FullCheckTest, ComparesBandsWithTheFirstAndTheLastRowWhereAllAreTooMany) {
  const Problem problem = contiguous_problem(DType::kF16, DType::kF16, 150, 33);
  EXPECT_TRUE(compare(problem, Fault::kNone, 64 * 66).ok());
  EXPECT_EQ(checked_, "64 of 150 rows in 16 bands");
  EXPECT_EQ(compare(problem, Fault::kLargeOnly, 64 * 66).code(), Code::kAccuracyFailed);
}

}  // namespace
}  // namespace rowsmith
