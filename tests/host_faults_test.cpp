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
      "launch failed: kernel 'k', block 0: stuck: 16 threads from thread 0 wait in a warp exchange "
      "at kernel:3, 16 threads from thread 16 wait in sync at kernel:4");
}

TEST(HostFaults, ShuffleByABlockThatIsNoWholeWarp) {
  EXPECT_THAT(fault_of("{ shfl_xor(1u, 1); }", shape_of(1, 8)),
              HasSubstr("stuck: 8 threads from thread 0 wait in a warp exchange at kernel:1"));
}

TEST(HostFaults, ShuffleWithTwoMasks) {
  EXPECT_EQ(fault_of("{ shfl_xor(1.0f, thread_index() < 16 ? 1 : 2); }", shape_of(1, 32)),
            "launch failed: kernel 'k', block 0, thread 16: divergent warp exchange at kernel:1 "
            "with mask "
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
    EXPECT_TRUE(loaded.run({nullptr, out.data(), 0}, shape_of(1, threads, threads * 4 + 32)).ok());
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

// Each thread writes a number, and reads it back through a bulk copy; `wait` comes before that.
std::string bulk_round_trip(const std::string& wait) {
  return R"({
  auto* arrival = reinterpret_cast<Arrival*>(shared_base());
  u32* copy = reinterpret_cast<u32*>(arrival + 1);
  u32* out = reinterpret_cast<u32*>(p.dst);
  const int t = thread_index();
  out[t] = 7u + static_cast<u32>(t);
  if (t == 0) arrival_init(arrival), arrivals_ready();
  sync();
  if (t == 0) arrival_expect(arrival, 128 * 4), bulk_read(arrival, copy, out, 128 * 4);
  )" + wait +
         R"(
  const u32 got = copy[t];
  arrival_wait(arrival, 0);
  sync();
  out[t] = got;
})";
}

TEST(HostFaults, ReadBeforeTheArrivalShowsBetweenPoisons) {
  const auto right = outputs_of(bulk_round_trip("arrival_wait(arrival, 0);"), 128);
  EXPECT_EQ(right[0], right[1]);
  EXPECT_EQ(right[0], right[2]);
  const auto wrong = outputs_of(bulk_round_trip(""), 128);
  EXPECT_NE(wrong[0], wrong[1]);
  EXPECT_NE(wrong[1], wrong[2]);
}

// ---- Arrivals and bulk copies ----

// A kernel with an arrival and 64 bytes of shared memory behind it as `to`. The body's first line
// is line 6.
Loaded with_arrival(const std::string& body, const HostOptions& options) {
  return load(R"({
  auto* arrival = reinterpret_cast<Arrival*>(shared_base());
  [[maybe_unused]] char* to = shared_base() + sizeof(Arrival);
  if (thread_index() == 0) arrival_init(arrival), arrivals_ready();
  sync();
)" + body + "\n}",
              options);
}

// What a run of it by two threads ends in, with 1024 bytes at p.src.
std::string fault_at(const Loaded& loaded, long long count) {
  const Buffer buffer = loaded.device->allocate_tight(1024, 16, 0).value();
  return loaded.run({buffer.data(), buffer.data(), count}, shape_of(1, 2, 96)).to_string();
}

std::string arrival_fault(const std::string& body, const HostOptions& options = {}) {
  return fault_at(with_arrival(body, options), 0);
}

constexpr char kByThread0[] = "launch failed: kernel 'k', block 0, thread 0: ";

TEST(HostFaults, MisalignedBulkCopy) {
  EXPECT_THAT(arrival_fault("bulk_read(arrival, to, p.src + 8, 16);"),
              AllOf(HasSubstr("thread 0: misaligned 16-byte load from 0x"), HasSubstr(":6")));
  EXPECT_THAT(arrival_fault("bulk_read(arrival, to + 8, p.src, 16);"),
              AllOf(HasSubstr("thread 0: misaligned 16-byte store to 0x"), HasSubstr(":6")));
  for (const char* bytes : {"24", "0"}) {
    EXPECT_EQ(arrival_fault("bulk_read(arrival, to, p.src, " + std::string(bytes) + ");"),
              std::string(kByThread0) + "bulk_read at kernel:6 of " + bytes +
                  " bytes, no positive multiple of 16");
  }
}

TEST(HostFaults, BulkCopyToOutsideOfSharedMemory) {
  for (const char* place : {"to + 64, p.src, 16", "to + 48, p.src, 32",
                            "shared_base() - 16, p.src, 16", "p.dst, p.src, 16"}) {
    EXPECT_EQ(
        arrival_fault("bulk_read(arrival, " + std::string(place) + ");"),
        std::string(kByThread0) + "bulk_read at kernel:6 to outside of its own shared memory");
  }
}

#if defined(__x86_64__)
// The thread that started the copy is named, whoever waits first.
TEST(HostFaults, BulkCopyFromBeyondTheBuffer) {
  ROWSMITH_SKIP_UNDER_TSAN();
  const std::string body = R"(if (thread_index() == 0) {
  arrival_expect(arrival, 64);
  bulk_read(arrival, to, p.src + p.count, 64);
}
arrival_wait(arrival, 0);)";
  for (const HostOptions& options : orders()) {
    const Loaded loaded = with_arrival(body, options);
    EXPECT_EQ(fault_at(loaded, 960), "ok");
    EXPECT_EQ(fault_at(loaded, 976),
              std::string(kByThread0) +
                  "bulk_read at kernel:8: read 0 bytes past the end of a buffer of 1024 bytes");
    EXPECT_EQ(fault_at(loaded, 2048),
              std::string(kByThread0) +
                  "bulk_read at kernel:8: read 1024 bytes past the end of a buffer of 1024 bytes");
    EXPECT_EQ(fault_at(loaded, 0), "ok");  // the device lives on
  }
}
#endif

TEST(HostFaults, BulkCopyThatNoThreadWaitsFor) {
  EXPECT_EQ(arrival_fault("if (thread_index() == 1) bulk_read(arrival, to, p.src, 16);"),
            "launch failed: kernel 'k', block 0, thread 1: bulk_read at kernel:6 that no thread "
            "has waited for");
}

TEST(HostFaults, ArrivalThatNeverComes) {
  for (const char* begin :
       {"sync();", "if (thread_index() == 0) arrival_expect(arrival, 16);",
        "if (thread_index() == 0) arrival_expect(arrival, 32), bulk_read(arrival, to, p.src, 16);",
        "if (thread_index() == 0) bulk_read(arrival, to, p.src, 16);"}) {
    EXPECT_EQ(arrival_fault(std::string(begin) + "\narrival_wait(arrival, 0);"),
              "launch failed: kernel 'k', block 0: stuck: 2 threads from thread 0 wait in "
              "arrival_wait at kernel:7");
  }
}

TEST(HostFaults, MoreBytesThanExpected) {
  EXPECT_EQ(arrival_fault("if (thread_index() == 0) arrival_expect(arrival, 16);\n"
                          "if (thread_index() == 0) bulk_read(arrival, to, p.src, 32);\n"
                          "arrival_wait(arrival, 0);"),
            std::string(kByThread0) +
                "bulk_read at kernel:7: 32 bytes come to an arrival that expects 16");
  EXPECT_EQ(arrival_fault("if (thread_index() == 0) {\n  arrival_expect(arrival, 16);\n"
                          "  for (int i = 0; i < 2; ++i) bulk_read(arrival, to, p.src, 16);\n}\n"
                          "arrival_wait(arrival, 0);"),
            std::string(kByThread0) +
                "bulk_read at kernel:8: 32 bytes come to an arrival that expects 16");
}

TEST(HostFaults, ExpectingFewerBytesThanHaveCome) {
  EXPECT_EQ(arrival_fault("if (thread_index() == 0)\n"
                          "  bulk_read(arrival, to, p.src, 32), arrival_wait(arrival, 0);\n"
                          "else\n  arrival_expect(arrival, 16);"),
            "launch failed: kernel 'k', block 0, thread 1: arrival_expect at kernel:9: 32 bytes "
            "come to an arrival that expects 16");
}

TEST(HostFaults, ExpectingTwiceInOnePhase) {
  EXPECT_EQ(arrival_fault("arrival_expect(arrival, 16);\narrival_expect(arrival, 16);"),
            std::string(kByThread0) + "arrival_expect at kernel:7 a second time in one phase");
}

TEST(HostFaults, ArrivalThatIsNotInitialised) {
  const auto fault = [](const std::string& call, int order) {
    return arrival_fault("auto* other = reinterpret_cast<Arrival*>(to + 16);\n" + call,
                         orders()[static_cast<std::size_t>(order)]);
  };
  const std::string why = " at kernel:7 with an arrival that has seen no arrival_init";
  EXPECT_THAT(fault("arrival_expect(other, 16);", 0), HasSubstr(": arrival_expect" + why));
  EXPECT_THAT(fault("arrival_wait(other, 0);", 1), HasSubstr(": arrival_wait" + why));
  EXPECT_THAT(fault("bulk_read(other, to, p.src, 16);", 2), HasSubstr(": bulk_read" + why));
}

TEST(HostFaults, ArrivalThatIsInitialisedTwiceOrMisplaced) {
  EXPECT_EQ(arrival_fault("arrival_init(arrival);"),
            std::string(kByThread0) + "arrival_init at kernel:6 of an arrival that has seen one");
  EXPECT_THAT(arrival_fault("arrival_init(reinterpret_cast<Arrival*>(to + 4));"),
              AllOf(HasSubstr("misaligned 8-byte store to 0x"), HasSubstr("at kernel:6")));
}

TEST(HostFaults, WaitForTheWrongParity) {
  for (const char* parity : {"1", "2"}) {
    EXPECT_EQ(arrival_fault("arrival_wait(arrival, " + std::string(parity) + ");"),
              std::string(kByThread0) + "arrival_wait at kernel:6 for parity " + parity +
                  ", which no phase up to this one has");
  }
  const std::string phase =
      "if (thread_index() == 0) arrival_expect(arrival, 16), bulk_read(arrival, to, p.src, 16);\n";
  EXPECT_EQ(arrival_fault(phase + "arrival_wait(arrival, 0);\n" + phase +
                          "arrival_wait(arrival, 0);"),  // returns at once
            std::string(kByThread0) + "bulk_read at kernel:8 that no thread has waited for");
  EXPECT_EQ(arrival_fault(phase + "arrival_wait(arrival, 0);\narrival_wait(arrival, 1);"),
            "launch failed: kernel 'k', block 0: stuck: 2 threads from thread 0 wait in "
            "arrival_wait at kernel:8");
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
