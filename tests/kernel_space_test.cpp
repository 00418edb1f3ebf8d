// SPDX-License-Identifier: Apache-2.0
//
// The whole space on a GPU against a long double reference: every config of every family but for
// its load and store policies, which touch no value and take turns, as placements do. Left out:
// inputs of one dtype with outputs of another (kernel_conformance_test has a sample). Slow (minutes
// of many cores), so only with
//   ROWSMITH_TEST_FULL=1 build/tests/kernel_space_test
// H = 17: rows of a few packs, beginning anywhere; 257: a warp's, odd; 1000: whole packs that share
// out unevenly; 4099: a block's, odd; 20011: of the families for long rows.
#include "kernel_templates/catalog.h"
#include "runtime/devices.h"
#include "tests/support/conformance.h"

#include <rowsmith/text.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace rowsmith::testing {
namespace {

class KernelSpace : public ::testing::TestWithParam<std::tuple<DType, std::int64_t>> {};

// The config but for its policies.
std::string kind_of(Config config) {
  std::erase_if(config.params,
                [](const auto& it) { return it.first == "load" || it.first == "store"; });
  return to_string(config);
}

// Of each kind all that differ in policies and placement, one by one.
std::map<std::string, std::vector<Conformance::Case>> kinds(DType dtype, std::int64_t cols,
                                                            const DeviceFacts& facts) {
  std::map<std::string, std::vector<Conformance::Case>> found;
  for (const Placement& placement : placements()) {
    const Problem problem = problem_of(dtype, dtype, 7, cols, placement);
    for (const Family* family : catalog()) {
      for (const Config& config : family->space(problem, facts)) {
        found[kind_of(config)].push_back({{problem, config}, placement});
      }
    }
  }
  return found;
}

TEST_P(KernelSpace, EveryRowIsWithinTheBound) {
  const char* full = std::getenv("ROWSMITH_TEST_FULL");
  if (full == nullptr || std::string(full) != "1") GTEST_SKIP() << "ROWSMITH_TEST_FULL is not 1";
  Result<std::shared_ptr<Device>> gpu = open_device("");
  if (!gpu.ok()) GTEST_SKIP() << gpu.status().to_string();
  const auto& [dtype, cols] = GetParam();
  std::vector<Conformance::Case> cases;
  for (const auto& [kind, variants] : kinds(dtype, cols, (*gpu)->facts())) {
    cases.push_back(variants[cases.size() % variants.size()]);
  }
  Conformance conformance({*gpu});
  const std::int64_t launches = conformance.check(cases);
  RecordProperty("configs", std::to_string(cases.size()));
  RecordProperty("launches", std::to_string(launches));
  RecordProperty("worst_error_ratio", std::to_string(conformance.worst()));
}

INSTANTIATE_TEST_SUITE_P(Cuda, KernelSpace,
                         ::testing::Combine(::testing::Values(DType::kF16, DType::kBF16,
                                                              DType::kF32, DType::kF64,
                                                              DType::kF8E4M3),
                                            ::testing::Values(17, 257, 1000, 4099, 20011)),
                         [](const auto& of) {
                           return to_string(std::get<0>(of.param)) + std::string("_") +
                                  std::to_string(std::get<1>(of.param));
                         });

}  // namespace
}  // namespace rowsmith::testing
