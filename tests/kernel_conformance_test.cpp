// SPDX-License-Identifier: Apache-2.0
//
// Every family, dtype and awkward H against a long double reference: on the host device under two
// thread orders, and on the GPU where there is one. CI runs a seeded sample in which each value of
// each axis and each H occurs for every family and dtype; the whole space (slow) is
//   ROWSMITH_TEST_FULL=1 build/tests/kernel_conformance_test
#include "kernel_templates/catalog.h"
#include "runtime/devices.h"
#include "runtime/host_device.h"
#include "runtime/softmax_launch.h"
#include "tests/support/conformance.h"

#include <rowsmith/text.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <tuple>

namespace rowsmith::testing {
namespace {

bool full_sweep() {
  const char* value = std::getenv("ROWSMITH_TEST_FULL");
  return value != nullptr && std::string(value) == "1";
}

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
constexpr int kShards = 2;

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
      for (std::size_t p = 0; p < placements().size(); ++p) {
        if (placements()[p].in_place && in != out) continue;
        // One placement for each H and family in turn; all of them in the full sweep.
        if (!full_sweep() && p != i / kShards % placements().size()) continue;
        const Problem problem = problem_of(in, out, 7, all_cols[i], placements()[p]);
        const std::vector<Config> legal = family->space(problem, facts);
        if (legal.empty()) continue;
        if (full_sweep()) {
          for (const Config& config : legal) cases.push_back({{problem, config}, placements()[p]});
        } else {
          // The few H that are long or short enough for some configs have them to share.
          for (int n = 0; n < (all_cols[i] > 1024 || all_cols[i] <= 4 ? 4 : 1); ++n) {
            cases.push_back({{problem, sampler.choose(legal)}, placements()[p]});
          }
        }
      }
    }
  }
  Conformance conformance(devices);
  const std::int64_t launches = conformance.check(cases);
  if (!full_sweep()) {
    for (const std::string& key : sampler.unseen()) {
      // An axis value that no awkward H of this shard offered more than once may be left over.
      ADD_FAILURE() << "the sample never met " << key;
    }
  }
  RecordProperty("launches", std::to_string(launches));
  RecordProperty("worst_error_ratio", std::to_string(conformance.worst()));
}

std::string name_of(const ::testing::TestParamInfo<KernelConformance::ParamType>& info) {
  const auto& [kind, in, out, shard] = info.param;
  std::string name = kind + "_" + to_string(in);
  if (in != out) name += std::string("_") + to_string(out);
  return name + "_" + std::to_string(shard);
}

std::vector<KernelConformance::ParamType> params(const std::string& kind) {
  std::vector<KernelConformance::ParamType> all;
  for (const auto& [in, out] : {std::pair(DType::kF32, DType::kF32),
                                {DType::kF16, DType::kF16},
                                {DType::kBF16, DType::kBF16},
                                {DType::kF16, DType::kF32},
                                {DType::kF32, DType::kBF16}}) {
    for (int shard = 0; shard < kShards; ++shard) {
      // Mixed pairs share all text with the plain ones: half of the H will do.
      if (in == out || shard == 0) all.emplace_back(kind, in, out, shard);
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Host, KernelConformance, ::testing::ValuesIn(params("host")), name_of);
INSTANTIATE_TEST_SUITE_P(Cuda, KernelConformance, ::testing::ValuesIn(params("cuda")), name_of);

}  // namespace
}  // namespace rowsmith::testing
