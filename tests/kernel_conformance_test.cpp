// SPDX-License-Identifier: Apache-2.0
//
// Every family, dtype and awkward H against a long double reference: on the host device under two
// thread orders, and on the GPU where there is one. CI runs a seeded sample in which each value of
// each axis occurs for every family and dtype, and in f32, f16 and bf16 each H. The whole space is
// kernel_space_test.
#include "kernel_templates/catalog.h"
#include "runtime/devices.h"
#include "runtime/host_device.h"
#include "runtime/softmax_launch.h"
#include "tests/support/conformance.h"

#include <rowsmith/text.h>

#include <gtest/gtest.h>

#include <tuple>

namespace rowsmith::testing {
namespace {

// The devices of a run; empty, with the reason, where there is no GPU.
std::vector<std::shared_ptr<Device>> devices_of(const std::string& kind, std::string& why_not) {
  if (kind == "host") {
    HostOptions forward, shuffled;
    forward.schedule = HostSchedule::kAscending;
    forward.poison = 0xFF;
    shuffled.schedule = HostSchedule::kRandom;
    shuffled.seed = 20261130;
    shuffled.poison = 0x00;
    return {make_host_device(forward), make_host_device(shuffled)};
  }
  Result<std::shared_ptr<Device>> gpu = open_device("");
  if (!gpu.ok()) {
    why_not = gpu.status().to_string();
    return {};
  }
  return {*gpu};
}

class KernelConformance
    : public ::testing::TestWithParam<std::tuple<std::string, DType, DType, int>> {};

// Of the awkward H, the part of this test: `shard` of kShards.
constexpr int kShards = 4;

TEST_P(KernelConformance, EveryRowIsWithinTheBound) {
  const auto& [kind, in, out, shard] = GetParam();
  std::string why_not;
  const auto devices = devices_of(kind, why_not);
  if (devices.empty()) GTEST_SKIP() << why_not;
  const DeviceFacts facts = devices.front()->facts();

  Sampler sampler(20261130);
  std::vector<Conformance::Case> cases;
  const std::vector<std::int64_t> all_cols = awkward_cols();
  for (std::size_t i = static_cast<std::size_t>(shard); i < all_cols.size(); i += kShards) {
    for (const Family* family : catalog()) {
      // One placement for each H and family in turn.
      const Placement& placement = placements()[i / kShards % placements().size()];
      if (placement.in_place && in != out) continue;
      const Problem problem = problem_of(in, out, 7, all_cols[i], placement);
      const std::vector<Config> legal = family->space(problem, facts);
      if (legal.empty()) continue;
      // The few H that are long or short enough for some configs have them to share.
      for (int n = 0; n < (all_cols[i] > 1024 || all_cols[i] <= 4 ? 4 : 1); ++n) {
        cases.push_back({{problem, sampler.choose(legal)}, placement});
      }
    }
  }
  for (const Sampler::Offer& offer : sampler.missed()) {
    const Conformance::Case& offered = cases[offer.call];
    cases.push_back({{offered.instance.problem, offer.config}, offered.placement});
  }
  Conformance conformance(devices);
  const std::int64_t launches = conformance.check(cases);
  RecordProperty("launches", std::to_string(launches));
  RecordProperty("worst_error_ratio", std::to_string(conformance.worst()));
}

// Rows that the families for long ones are made for, at each placement that they take.
class LongRowConformance : public ::testing::TestWithParam<std::tuple<std::string, DType>> {};

TEST_P(LongRowConformance, EveryRowIsWithinTheBound) {
  const auto& [kind, dtype] = GetParam();
  std::string why_not;
  const auto devices = devices_of(kind, why_not);
  if (devices.empty()) GTEST_SKIP() << why_not;
  const bool host = kind == "host";
  Sampler sampler(7);
  std::vector<Conformance::Case> cases;
  for (const Family* family : catalog()) {
    for (const Placement& placement : placements()) {
      for (const std::int64_t cols :
           host ? std::vector<std::int64_t>{9001} : std::vector<std::int64_t>{20011, 66048}) {
        const Problem problem = problem_of(dtype, dtype, 7, cols, placement);
        const std::vector<Config> legal = family->space(problem, devices.front()->facts());
        for (int n = 0; !legal.empty() && n < (host ? 1 : 2); ++n) {
          cases.push_back({{problem, sampler.choose(legal)}, placement});
        }
      }
    }
  }
  Conformance conformance(devices);
  RecordProperty("launches", std::to_string(conformance.check(cases)));
  RecordProperty("worst_error_ratio", std::to_string(conformance.worst()));
}

std::string name_of(const ::testing::TestParamInfo<KernelConformance::ParamType>& info) {
  const auto& [kind, in, out, shard] = info.param;
  std::string name = kind + "_" + to_string(in);
  if (in != out) name += std::string("_") + to_string(out);
  return name + "_" + std::to_string(shard);
}

// What shares all its text but the conversions with others is content with some of the H.
std::vector<KernelConformance::ParamType> params(const std::string& kind) {
  struct Shards {
    DType in, out;
    int first, step;
  };
  std::vector<KernelConformance::ParamType> all;
  for (const Shards& shards : {Shards{DType::kF32, DType::kF32, 0, 1},
                               {DType::kF16, DType::kF16, 0, 1},
                               {DType::kBF16, DType::kBF16, 0, 1},
                               {DType::kF64, DType::kF64, 0, 2},
                               {DType::kF8E4M3, DType::kF8E4M3, 1, 2},
                               {DType::kF8E5M2, DType::kF8E5M2, 0, 4},
                               {DType::kF16, DType::kF32, 3, 4},
                               {DType::kBF16, DType::kF8E4M3, 0, 4},
                               {DType::kF8E4M3, DType::kBF16, 1, 4},
                               {DType::kF8E5M2, DType::kF16, 2, 4},
                               {DType::kF32, DType::kF8E5M2, 3, 4}}) {
    for (int shard = shards.first; shard < kShards; shard += shards.step) {
      all.emplace_back(kind, shards.in, shards.out, shard);
    }
  }
  return all;
}

std::string long_name_of(const ::testing::TestParamInfo<LongRowConformance::ParamType>& info) {
  return std::get<0>(info.param) + "_" + to_string(std::get<1>(info.param));
}
constexpr DType kLongDTypes[] = {DType::kF32, DType::kF16, DType::kF64, DType::kF8E4M3};
INSTANTIATE_TEST_SUITE_P(Host, LongRowConformance,
                         ::testing::Combine(::testing::Values("host"),
                                            ::testing::ValuesIn(kLongDTypes)),
                         long_name_of);
INSTANTIATE_TEST_SUITE_P(Cuda, LongRowConformance,
                         ::testing::Combine(::testing::Values("cuda"),
                                            ::testing::ValuesIn(kLongDTypes)),
                         long_name_of);
INSTANTIATE_TEST_SUITE_P(Host, KernelConformance, ::testing::ValuesIn(params("host")), name_of);
INSTANTIATE_TEST_SUITE_P(Cuda, KernelConformance, ::testing::ValuesIn(params("cuda")), name_of);

}  // namespace
}  // namespace rowsmith::testing
