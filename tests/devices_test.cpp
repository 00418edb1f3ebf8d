// SPDX-License-Identifier: Apache-2.0
//
// Devices by name, the list of them, and the facts of those that are not at hand.
#include "runtime/devices.h"

#include <rowsmith/text.h>

#include <gtest/gtest.h>

#include <utility>

namespace rowsmith {
namespace {

TEST(OpenDevice, RefusesWhatIsNoDevicesName) {
  for (const char* name : {"cpu", "-1", "1x", "0 ", "HOST", "99999999999"}) {
    EXPECT_EQ(open_device(name).status().code(), Code::kInvalidArgument) << name;
  }
}

TEST(OpenDevice, SaysWhyThereIsNoGpuAndWhatToSet) {
  const DeviceList list = list_devices();
  if (!list.devices.empty()) GTEST_SKIP() << "there is a GPU";
  const Status status = open_device("").status();
  EXPECT_EQ(status.code(), Code::kNoDevice);
  EXPECT_EQ(status.message(), list.why_no_gpu + "; " + kUseHost);
}

TEST(OpenDevice, NeverFallsBackToTheHost) {
  const Result<std::shared_ptr<Device>> device = open_device("");
  EXPECT_EQ(device.ok() ? (*device)->facts().kind : "cuda", "cuda");
  const Result<std::shared_ptr<Device>> host = open_device("host");
  ASSERT_TRUE(host.ok()) << host.status().to_string();
  EXPECT_EQ((*host)->facts().kind, "host");
}

TEST(NominalDevices, AscendAndAreWhole) {
  int last = 0;
  for (const DeviceFacts& facts : nominal_devices()) {
    EXPECT_GT(facts.capability, last);
    last = facts.capability;
    EXPECT_GT(facts.sm_count, 0) << facts.name;
    EXPECT_GT(facts.l2_bytes, 0) << facts.name;
    EXPECT_GE(facts.shared_bytes_per_sm, facts.shared_bytes_per_block) << facts.name;
  }
}

TEST(NominalFacts, OfAnH200AreTheMeasuredDeviceClass) {
  EXPECT_EQ(device_class(nominal_facts(90)), "cuda-sm90-132sm-l2:62914560-bus6144-mem3201000");
}

TEST(NominalFacts, OfAnUnlistedArchitectureAreTheNearestBelow) {
  const DeviceFacts facts = nominal_facts(88);
  EXPECT_EQ(facts.capability, 88);
  EXPECT_EQ(facts.sm_count, nominal_facts(87).sm_count);
  EXPECT_NE(facts.name, nominal_facts(87).name);
}

TEST(NominalFacts, HaveTheClustersOfTheirCapability) {
  for (const auto& [capability, blocks] :
       {std::pair(80, 1), {89, 1}, {90, 16}, {100, 16}, {101, 8}, {103, 16}, {120, 8}}) {
    EXPECT_EQ(max_cluster_of(capability), blocks) << capability;
    EXPECT_EQ(nominal_facts(capability).max_cluster, blocks) << capability;
  }
}

TEST(CompileOnlyDevice, RefusesEverythingElseByName) {
  const auto device = make_compile_only_device(nominal_facts(90));
  EXPECT_EQ(device->facts().capability, 90);
  EXPECT_EQ(device->load(Binary{}).status().code(), Code::kUnsupported);
  const Status status = device->run(LaunchCall{});
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("sm_90"), std::string::npos) << status.to_string();
}

}  // namespace
}  // namespace rowsmith
