// SPDX-License-Identifier: Apache-2.0
//
// One planted bug of each kind that the host device is there to catch, with the report that names
// it, and races that show as results which differ between orders and poisons.
#include "tests/support/host_kernel.h"

#include <signal.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rowsmith::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The message of the failure that a launch without buffers ends in.
std::string fault_of(const std::string& body, LaunchShape shape, const HostOptions& options = {}) {
  return load(body, options).run({}, shape).to_string();
}

TEST(HostFaults, BarrierAtTwoLines) {
  EXPECT_EQ(
      fault_of("{\n  if (thread_index() < 32)\n    sync();\n  else\n    sync();\n}",
               shape_of(2, 64)),
      "launch failed: kernel 'k', block 0, thread 32: divergent sync at kernel:5, where thread "
      "0 waits at kernel:3");
}

TEST(HostFaults, ThreadThatLeavesWhileOthersWait) {
  EXPECT_EQ(fault_of("{\n  if (thread_index() == 7) return;\n  sync();\n}", shape_of(1, 64)),
            "launch failed: kernel 'k', block 0: stuck: 63 threads from thread 0 wait in sync at "
            "kernel:3, 1 threads from thread 7 have left the kernel");
}

TEST(HostFaults, ShuffleByAPartOfTheWarp) {
  EXPECT_EQ(
      fault_of("{\n  u32 v = 0;\n  if (thread_index() < 16) v = shfl_xor(v, 1);\n  sync();\n}",
               shape_of(1, 32)),
      "launch failed: kernel 'k', block 0: stuck: 16 threads from thread 0 wait in shfl_xor "
      "at kernel:3, 16 threads from thread 16 wait in sync at kernel:4");
}

TEST(HostFaults, ShuffleByABlockThatIsNoWholeWarp) {
  EXPECT_THAT(fault_of("{ shfl_xor(1u, 1); }", shape_of(1, 8)),
              HasSubstr("stuck: 8 threads from thread 0 wait in shfl_xor at kernel:1"));
}

TEST(HostFaults, ShuffleWithTwoMasks) {
  EXPECT_EQ(
      fault_of("{ shfl_xor(1.0f, thread_index() < 16 ? 1 : 2); }", shape_of(1, 32)),
      "launch failed: kernel 'k', block 0, thread 16: divergent shfl_xor at kernel:1 with mask "
      "2, where thread 0 waits at kernel:1 with mask 1");
}

TEST(HostFaults, MisalignedVectorAccess) {
  const Loaded store = load("{\n  store<1, 16>(p.dst + 8 * thread_index(), Raw<16>{});\n}");
  const Loaded load2 = load("{ load<1, 2>(p.src + 1); }");
  const Buffer buffer = store.device->allocate(64).value();
  EXPECT_THAT(store.run({nullptr, buffer.data(), 0}, shape_of(1, 2)).message(),
              AllOf(HasSubstr("kernel 'k', block 0, thread 1: misaligned 16-byte store to 0x"),
                    HasSubstr(" at kernel:2")));
  EXPECT_THAT(load2.run({buffer.data(), nullptr, 0}, shape_of(1, 1)).message(),
              HasSubstr("thread 0: misaligned 2-byte load from 0x"));
}

// ThreadSanitizer's own signal handling does not survive a handler that is left by a jump.
#if defined(__SANITIZE_THREAD__)
#define ROWSMITH_SKIP_UNDER_TSAN() GTEST_SKIP() << "ThreadSanitizer keeps faults to itself"
#else
#define ROWSMITH_SKIP_UNDER_TSAN() static_cast<void>(0)
#endif

#if defined(__x86_64__)
TEST(HostFaults, AccessAtTheGuardPage) {
  ROWSMITH_SKIP_UNDER_TSAN();
  const Loaded loaded = load(R"({
  if (block_index() != 1 || thread_index() != 3) return;
  if (p.src) *reinterpret_cast<int*>(p.dst) = *reinterpret_cast<int*>(p.src + p.count);
  else *reinterpret_cast<int*>(p.dst + p.count) = 1;
})");
  const Buffer buffer = loaded.device->allocate_tight(1028, 4, 0).value();
  const Buffer other = loaded.device->allocate(256).value();
  const auto run = [&](void* src, void* dst, long long at) {
    return loaded.run({src, dst, at}, shape_of(2, 4)).to_string();
  };
  EXPECT_EQ(run(nullptr, buffer.data(), 1024), "ok");
  EXPECT_EQ(
      run(buffer.data(), other.data(), 1028),
      "launch failed: kernel 'k', block 1, thread 3: read 0 bytes past the end of a buffer of "
      "1028 bytes");
  EXPECT_EQ(run(nullptr, buffer.data(), 1032),
            "launch failed: kernel 'k', block 1, thread 3: write 4 bytes past the end of a buffer "
            "of 1028 bytes");
  EXPECT_EQ(run(nullptr, buffer.data(), 1028 - 4096 - 4),
            "launch failed: kernel 'k', block 1, thread 3: write 3072 bytes before the start of a "
            "buffer of 1028 bytes");
  EXPECT_THAT(run(nullptr, nullptr, 16),
              HasSubstr("thread 3: write outside of every buffer, at 0x10"));
  EXPECT_EQ(run(nullptr, buffer.data(), 0), "ok");  // the device lives on
}
#endif

TEST(HostFaults, WriteIntoTheSlackAroundABuffer) {
  const Loaded loaded = load("{ p.dst[p.count] = 1; }");
  const Buffer buffer = loaded.device->allocate(1000).value();
  const auto run = [&](long long at) {
    return loaded.run({nullptr, buffer.data(), at}, shape_of(1, 1)).to_string();
  };
  EXPECT_EQ(run(1002),
            "launch failed: kernel 'k', write 2 bytes past the end of a buffer of 1000 bytes");
  EXPECT_EQ(run(-1),
            "launch failed: kernel 'k', write 1 bytes before the start of a buffer of 1000 bytes");
  EXPECT_EQ(run(999), "ok");
}

TEST(HostFaults, ReadOfTheSlackIsNan) {
  const Loaded loaded = load(
      "{ *reinterpret_cast<float*>(p.dst) = to_f32(*reinterpret_cast<f16*>(p.src + p.count)); }");
  const Buffer in = loaded.device->allocate(1000).value(), out = loaded.device->allocate(4).value();
  ASSERT_TRUE(loaded.run({in.data(), out.data(), 1000}, shape_of(1, 1)).ok());
  EXPECT_TRUE(std::isnan(values_of<float>(out).front()));
}

TEST(HostFaults, AccessPastSharedMemory) {
  ROWSMITH_SKIP_UNDER_TSAN();
  const std::string body = "{\n  shared_base()[p.count] = 1;\n}";
  const Loaded loaded = load(body);
  const auto run = [&](long long at) {
    return loaded.run({nullptr, nullptr, at}, shape_of(2, 1, 100)).to_string();
  };
  EXPECT_EQ(run(99), "ok");
  EXPECT_EQ(run(100),
            "launch failed: kernel 'k', block 0: write past the end of the 100 bytes of "
            "shared memory");
  EXPECT_THAT(run(112), HasSubstr("at byte 112 of 100 bytes of shared memory"));
}

TEST(HostFaults, StackOverflow) {
  ROWSMITH_SKIP_UNDER_TSAN();
  const std::string body = R"({
  volatile char frame[100000];
  for (int i = 0; i < 100000; i += 64) frame[i] = 1;
})";
  EXPECT_EQ(fault_of(body, shape_of(1, 2)),
            "launch failed: kernel 'k', block 0, thread 0: overflowed its stack");
}

// What each order and poison make of a kernel, as text.
std::vector<std::string> outputs_of(const std::string& body, int threads) {
  std::vector<std::string> outputs;
  for (const HostOptions& options : orders()) {
    const Loaded loaded = load(body, options);
    const Buffer out = loaded.device->allocate(static_cast<std::size_t>(threads) * 4).value();
    EXPECT_TRUE(loaded.run({nullptr, out.data(), 0}, shape_of(1, threads, threads * 4)).ok());
    const auto bytes = values_of<char>(out);
    outputs.emplace_back(bytes.begin(), bytes.end());
  }
  return outputs;
}

// Each thread reads what its neighbour in the next warp wrote; `barrier` is between the two.
std::string exchange(const std::string& barrier) {
  return R"({
  u32* shared = reinterpret_cast<u32*>(shared_base());
  const int t = thread_index();
  shared[t] = static_cast<u32>(t) + shfl_xor(0u, 1);
  )" + barrier +
         R"(
  reinterpret_cast<u32*>(p.dst)[t] = shared[(t + 32) % 128];
})";
}

TEST(HostFaults, MissingBarrierShowsBetweenOrders) {
  const auto right = outputs_of(exchange("sync();"), 128);
  EXPECT_EQ(right[0], right[1]);
  EXPECT_EQ(right[0], right[2]);
  const auto wrong = outputs_of(exchange(""), 128);
  EXPECT_NE(wrong[0], wrong[1]);
}

TEST(HostFaults, UnwrittenSharedMemoryShowsBetweenPoisons) {
  const auto outputs = outputs_of(
      "{ reinterpret_cast<u32*>(p.dst)[thread_index()] = "
      "reinterpret_cast<u32*>(shared_base())[thread_index()]; }",
      32);
  EXPECT_NE(outputs[0], outputs[1]);
  EXPECT_NE(outputs[1], outputs[2]);
}

TEST(HostFaults, OtherFaultsOfTheProcessGoToTheHandlerBefore) {
  ROWSMITH_SKIP_UNDER_TSAN();
  EXPECT_DEATH(
      {
        const auto device = make_host_device();
        raise(SIGSEGV);
      },
      "");
}

TEST(HostFaults, FaultInALargeGridNamesItsBlock) {
  for (const HostOptions& options : orders()) {
    const std::string why =
        fault_of("{\n  if (block_index() == 777 && thread_index() == 5) return;\n  sync();\n}",
                 shape_of(1000, 64), options);
    EXPECT_THAT(why, AllOf(HasSubstr("block 777: stuck"), HasSubstr("from thread 5 have left")));
  }
}

}  // namespace
}  // namespace rowsmith::testing
