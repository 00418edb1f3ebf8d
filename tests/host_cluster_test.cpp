// SPDX-License-Identifier: Apache-2.0
//
// Clusters of blocks on the host device: an exchange that is right in every order, and one planted
// bug of each kind, with the report that names it.
#include "tests/support/host_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace rowsmith::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

LaunchShape cluster_of(int blocks, int threads, std::int64_t shared_bytes, int clusters = 1) {
  return {std::int64_t{clusters} * blocks, threads, blocks, shared_bytes};
}

// The message of the failure that a launch without buffers ends in.
std::string fault_of(const std::string& body, LaunchShape shape, const HostOptions& options = {}) {
  return load(body, options).run({}, shape).to_string();
}

// Each thread sends a number to its place in every block of the cluster, five times, to two
// inboxes in turn; p.count = blocks.
constexpr char kExchangeBody[] = R"({
  const int threads = 96, blocks = static_cast<int>(p.count), me = thread_index();
  const int rank = static_cast<int>(block_index() % blocks);
  auto* arrivals = reinterpret_cast<Arrival*>(shared_base());
  u64* inboxes = reinterpret_cast<u64*>(arrivals + 2);
  if (me == 0) {
    for (int i = 0; i < 2; ++i) arrival_init(arrivals + i);
    arrivals_ready();
  }
  cluster_arrive();
  u64 value = static_cast<u64>(block_index() * threads + me);
  cluster_wait();
  for (int round = 0; round < 5; ++round) {
    Arrival* arrival = arrivals + round % kInboxes;
    u64* inbox = inboxes + round % kInboxes * blocks * threads;
    if (me == 0) arrival_expect(arrival, static_cast<u32>(blocks * threads * 8));
    for (int to = 0; to < blocks; ++to) {
      peer_store(inbox + rank * threads + me, value, arrival, to);
    }
    arrival_wait(arrival, round / kInboxes % 2);
    u64 sum = 0;
    for (int i = 0; i < blocks * threads; ++i) sum = sum * 31 + inbox[i];
    value += sum;
  }
  reinterpret_cast<u64*>(p.dst)[block_index() * threads + me] = value;
})";

std::vector<std::uint64_t> exchanged(int blocks, int clusters) {
  std::vector<std::uint64_t> values(static_cast<std::size_t>(blocks * clusters) * 96);
  std::iota(values.begin(), values.end(), 0u);
  const auto length = static_cast<std::ptrdiff_t>(blocks * 96);
  for (auto row = values.begin(); row != values.end(); row += length) {
    for (int round = 0; round < 5; ++round) {
      const auto fold = [](std::uint64_t sum, std::uint64_t value) { return sum * 31 + value; };
      const std::uint64_t sum = std::accumulate(row, row + length, std::uint64_t{0}, fold);
      std::for_each(row, row + length, [sum](std::uint64_t& value) { value += sum; });
    }
  }
  return values;
}

std::string exchange(int inboxes) {
  return "{ constexpr int kInboxes = " + std::to_string(inboxes) + ";\n" + kExchangeBody + "}";
}

std::vector<std::uint64_t> run_exchange(const Loaded& loaded, int blocks, int clusters) {
  const std::size_t bytes = exchanged(blocks, clusters).size() * 8;
  const Buffer out = loaded.device->allocate(bytes).value();
  const LaunchShape shape = cluster_of(blocks, 96, 64 + 2 * blocks * 96 * 8, clusters);
  const Status status = loaded.run({nullptr, out.data(), blocks}, shape);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return values_of<std::uint64_t>(out);
}

TEST(HostCluster, ExchangesOverAllBlocksInEveryOrder) {
  for (const HostOptions& options : orders()) {
    const Loaded loaded = load(exchange(2), options);
    for (const int blocks : {1, 2, 4, 8, 3}) {
      EXPECT_EQ(run_exchange(loaded, blocks, 30), exchanged(blocks, 30));
    }
  }
}

TEST(HostCluster, SendsSixteenBytesAsOne) {
  for (const HostOptions& options : orders()) {
    const Loaded loaded = load(R"({
  auto* arrival = reinterpret_cast<Arrival*>(shared_base());
  auto* inbox = reinterpret_cast<Raw<16>*>(arrival + 1);
  const u32 me = static_cast<u32>(thread_index()), block = static_cast<u32>(block_index());
  if (me == 0) arrival_init(arrival), arrivals_ready();
  cluster_arrive();
  cluster_wait();
  if (me == 0) arrival_expect(arrival, 32 * 16);
  peer_store(inbox + me, Raw<16>{{block, me, 1, 2}}, arrival, static_cast<int>(block ^ 1));
  arrival_wait(arrival, 0);
  store<0, 16>(p.dst + (block * 32 + me) * 16, load_shared(inbox + (31 - me)));
})",
                               options);
    const Buffer out = loaded.device->allocate(64 * 16).value();
    const Status status = loaded.run({nullptr, out.data(), 0}, cluster_of(2, 32, 32 + 32 * 16));
    ASSERT_TRUE(status.ok()) << status.to_string();
    std::vector<std::uint32_t> wanted;
    for (std::uint32_t i = 0; i < 64; ++i) {
      wanted.insert(wanted.end(), {(i / 32) ^ 1, 31 - i % 32, 1, 2});
    }
    EXPECT_EQ(values_of<std::uint32_t>(out), wanted);
  }
}

// Barriers and shuffles stay each block's own, down to blocks that are no whole warps.
constexpr char kBlocksBody[] = R"({
  int* mine = reinterpret_cast<int*>(shared_base());
  const int threads = static_cast<int>(p.count), me = thread_index();
  mine[me] = static_cast<int>(block_index()) * 1000 + me;
  for (i64 i = 0; i <= block_index(); ++i) sync();
  int got = mine[threads - 1 - me];
  if (threads % 32 == 0) got = static_cast<int>(shfl_xor(static_cast<u32>(got), 31));
  reinterpret_cast<int*>(p.dst)[block_index() * threads + me] = got;
})";

TEST(HostCluster, KeepsBarriersShufflesAndSharedMemoryOfBlocksApart) {
  for (const HostOptions& options : orders()) {
    const Loaded loaded = load(kBlocksBody, options);
    for (const int threads : {20, 64}) {
      const Buffer out = loaded.device->allocate(static_cast<std::size_t>(threads) * 8 * 4).value();
      ASSERT_TRUE(
          loaded.run({nullptr, out.data(), threads}, cluster_of(4, threads, threads * 4, 2)).ok());
      const auto got = values_of<int>(out);
      for (int i = 0; i < threads * 8; ++i) {
        const int at = threads == 64 ? i % 64 ^ 31 : i % threads;
        ASSERT_EQ(got[static_cast<std::size_t>(i)], i / threads * 1000 + threads - 1 - at);
      }
    }
  }
}

// The blocks in the order in which they first run: what an order must vary.
TEST(HostCluster, VariesTheOrderOfItsBlocks) {
  std::vector<std::vector<int>> seen;
  for (const HostOptions& options : orders()) {
    const Loaded loaded = load(
        "{ int* out = reinterpret_cast<int*>(p.dst); out[++out[0]] = "
        "static_cast<int>(block_index()); }",
        options);
    const Buffer out = loaded.device->allocate(9 * 4).value();
    ASSERT_TRUE(loaded.device->fill(out.data(), 0, 9 * 4).ok());
    ASSERT_TRUE(loaded.run({nullptr, out.data(), 0}, cluster_of(8, 1, 0)).ok());
    seen.push_back(values_of<int>(out));
  }
  EXPECT_THAT(seen[0], ::testing::ElementsAre(8, 0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(seen[1], ::testing::ElementsAre(8, 7, 6, 5, 4, 3, 2, 1, 0));
  EXPECT_NE(seen[2], seen[0]);
  EXPECT_NE(seen[2], seen[1]);
}

TEST(HostCluster, RunsTheMostThreads) {
  const HostOptions random = orders()[2];
  const auto device = make_host_device(random);
  const Result<Binary> binary = device->compile(
      {"test",
       text_of("{ cluster_arrive(); cluster_wait(); sync(); "
               "reinterpret_cast<int*>(p.dst)[block_index() * 1024 + thread_index()] = 1; }",
               1024),
       {"k"}});
  const auto module = device->load(binary.value()).value();
  const Buffer out = device->allocate(16 * 1024 * 4).value();
  const Params params{nullptr, out.data(), 0};
  const LaunchCall call{module->kernel("k").value(), cluster_of(8, 1024, 0, 2), &params,
                        sizeof(params)};
  ASSERT_TRUE(device->run(call).ok());
  ASSERT_TRUE(device->run(call).ok());
  EXPECT_EQ(values_of<int>(out), std::vector<int>(16 * 1024, 1));
}

// ---- Planted bugs ----

TEST(HostClusterFaults, ArrivingTwice) {
  EXPECT_EQ(fault_of("{\n  cluster_arrive();\n  cluster_arrive();\n}", cluster_of(2, 32, 0)),
            "launch failed: kernel 'k', block 0, thread 0: cluster_arrive at kernel:3 without a "
            "cluster_wait after that at kernel:2");
}

TEST(HostClusterFaults, WaitingWithoutArrival) {
  EXPECT_EQ(fault_of("{\n  cluster_wait();\n}", cluster_of(2, 32, 0)),
            "launch failed: kernel 'k', block 0, thread 0: cluster_wait at kernel:2 without a "
            "cluster_arrive before it");
}

TEST(HostClusterFaults, LeavingWithoutTheWait) {
  EXPECT_EQ(fault_of("{\n  cluster_arrive();\n}", cluster_of(2, 32, 0)),
            "launch failed: kernel 'k', block 0, thread 0: left the kernel without a cluster_wait "
            "after the cluster_arrive at kernel:2");
}

TEST(HostClusterFaults, ArrivingAtTwoLines) {
  EXPECT_EQ(fault_of("{\n  if (block_index() == 0)\n    cluster_arrive();\n  else\n"
                     "    cluster_arrive();\n  cluster_wait();\n}",
                     cluster_of(2, 32, 0)),
            "launch failed: kernel 'k', block 1, thread 0: divergent cluster_arrive at kernel:5, "
            "where others arrived at kernel:3");
}

TEST(HostClusterFaults, BlockThatLeavesWhileOthersWait) {
  for (const HostOptions& options : orders()) {
    EXPECT_EQ(fault_of("{\n  if (block_index() == 6) return;\n  cluster_arrive();\n"
                       "  cluster_wait();\n}",
                       cluster_of(4, 32, 0, 2), options),
              "launch failed: kernel 'k', blocks 4 to 7: stuck: 96 threads from block 4 thread 0 "
              "wait in cluster_wait at kernel:4, 32 threads from block 6 thread 0 have left the "
              "kernel");
  }
}

TEST(HostClusterFaults, OneBlockAtItsOwnBarrier) {
  EXPECT_EQ(fault_of("{\n  if (thread_index() == 0 && block_index() == 1)\n    sync();\n"
                     "  cluster_arrive();\n  cluster_wait();\n}",
                     cluster_of(2, 32, 0)),
            "launch failed: kernel 'k', blocks 0 to 1: stuck: 63 threads from block 0 thread 0 "
            "wait in cluster_wait at kernel:5, 1 threads from block 1 thread 0 wait in sync at "
            "kernel:3");
}

// What a cluster ends in whose blocks each have an arrival and 32 bytes behind it as `inbox`. The
// body's first line is line 7.
std::string exchange_fault(const std::string& body, int blocks, const HostOptions& options = {}) {
  return fault_of(R"({
  auto* arrival = reinterpret_cast<Arrival*>(shared_base());
  [[maybe_unused]] u64* inbox = reinterpret_cast<u64*>(arrival + 1);
  if (thread_index() == 0) arrival_init(arrival), arrivals_ready();
  cluster_arrive();
  cluster_wait();
)" + body + "\n}",
                  cluster_of(blocks, 32, 64), options);
}

TEST(HostClusterFaults, SendingBeforeTheBarrier) {
  for (const HostOptions& options : orders()) {
    EXPECT_THAT(fault_of("{\n  cluster_arrive();\n"
                         "  peer_store(reinterpret_cast<u64*>(shared_base() + 32), u64{1},\n"
                         "             reinterpret_cast<Arrival*>(shared_base()), 0);\n"
                         "  cluster_wait();\n}",
                         cluster_of(2, 32, 64), options),
                HasSubstr(": peer_store to rank 0 at kernel:3 before a cluster_wait"));
  }
}

TEST(HostClusterFaults, SendingToNoPeer) {
  const auto fault = [](const std::string& place, const std::string& arrival,
                        const std::string& rank) {
    return exchange_fault("peer_store(" + place + ", u64{1}, " + arrival + ", " + rank + ");\n" +
                              "if (block_index() != 3) return;\n"
                              "if (thread_index() == 0) arrival_expect(arrival, 4 * 32 * 8);\n"
                              "arrival_wait(arrival, 0);",
                          4);
  };
  EXPECT_EQ(fault("inbox + 3", "arrival", "3"), "ok");
  for (const char* rank : {"4", "-1"}) {
    EXPECT_THAT(fault("inbox", "arrival", rank),
                HasSubstr(": peer_store to rank " + std::string(rank) +
                          " at kernel:7 where the cluster has no such block"));
  }
  const std::string outside =
      ": peer_store to rank 3 at kernel:7 with an address outside of its own shared memory";
  for (const char* place : {"inbox + 4", "inbox - 5", "reinterpret_cast<u64*>(p.dst)"}) {
    EXPECT_THAT(fault(place, "arrival", "3"), HasSubstr(outside));
  }
  EXPECT_THAT(fault("inbox", "arrival + 2", "3"), HasSubstr(outside));
  EXPECT_THAT(fault("inbox", "reinterpret_cast<Arrival*>(inbox)", "3"),
              HasSubstr(": peer_store at kernel:7 with an arrival that has seen no arrival_init"));
}

TEST(HostClusterFaults, SendingToAMisalignedPlace) {
  EXPECT_THAT(exchange_fault("peer_store(reinterpret_cast<u64*>(shared_base() + 36), u64{1}, "
                             "arrival, 0);",
                             2),
              AllOf(HasSubstr(": misaligned 8-byte store to 0x"), HasSubstr(" at kernel:7")));
  EXPECT_THAT(exchange_fault("peer_store(reinterpret_cast<Raw<16>*>(inbox + 1), Raw<16>{}, "
                             "arrival, 0);",
                             2),
              AllOf(HasSubstr(": misaligned 16-byte store to 0x"), HasSubstr(" at kernel:7")));
}

TEST(HostClusterFaults, SendingToABlockThatHasLeft) {
  EXPECT_EQ(exchange_fault("if (block_index() == 1)\n  peer_store(inbox, u64{1}, arrival, 0);", 2),
            "launch failed: kernel 'k', block 1, thread 0: peer_store to rank 0 at kernel:8 after "
            "threads of that block have left the kernel");
}

TEST(HostClusterFaults, SendingMoreThanIsExpected) {
  EXPECT_EQ(
      exchange_fault("const bool sends = block_index() == 0 && thread_index() == 0;\n"
                     "if (sends) arrival_expect(arrival, 24);\n"
                     "for (int i = 0; sends && i < 2; ++i)\n"
                     "  peer_store(reinterpret_cast<Raw<16>*>(inbox), Raw<16>{}, arrival, 0);",
                     2),
      "launch failed: kernel 'k', block 0, thread 0: peer_store at kernel:10: 32 bytes come "
      "to an arrival that expects 24");
}

TEST(HostClusterFaults, BlockThatSendsNothing) {
  EXPECT_EQ(exchange_fault("if (thread_index() == 0) arrival_expect(arrival, 32 * 8);\n"
                           "if (block_index() == 0) peer_store(inbox, u64{1}, arrival, 1);\n"
                           "arrival_wait(arrival, 0);",
                           2),
            "launch failed: kernel 'k', blocks 0 to 1: stuck: 32 threads from block 0 thread 0 "
            "wait in arrival_wait at kernel:9, 32 threads from block 1 thread 0 have left the "
            "kernel");
}

// A round may write over what a block that is behind has yet to read.
TEST(HostClusterFaults, RoundsThroughOneInboxShow) {
  for (const HostOptions& options : orders()) {
    EXPECT_NE(run_exchange(load(exchange(1), options), 4, 1), exchanged(4, 1));
  }
}

// Without the wait, some block reads what its peer has not sent: a result that depends on the
// order or the poison.
TEST(HostClusterFaults, ReadThatDoesNotWaitForItsPeersShows) {
  std::vector<std::vector<std::uint64_t>> outputs;
  for (const HostOptions& options : orders()) {
    const Loaded loaded = load(R"({
  auto* arrival = reinterpret_cast<Arrival*>(shared_base());
  u64* mine = reinterpret_cast<u64*>(arrival + 1) + thread_index();
  if (thread_index() == 0) arrival_init(arrival), arrivals_ready();
  cluster_arrive();
  cluster_wait();
  if (thread_index() == 0) arrival_expect(arrival, 32 * 8);
  peer_store(mine, u64{7}, arrival, static_cast<int>(block_index() ^ 1));
  reinterpret_cast<u64*>(p.dst)[block_index() * 32 + thread_index()] = *mine;
  arrival_wait(arrival, 0);
})",
                               options);
    const Buffer out = loaded.device->allocate(64 * 8).value();
    ASSERT_TRUE(loaded.run({nullptr, out.data(), 0}, cluster_of(2, 32, 32 + 32 * 8)).ok());
    outputs.push_back(values_of<std::uint64_t>(out));
  }
  EXPECT_NE(outputs[0], outputs[1]);
  EXPECT_NE(outputs[1], outputs[2]);
}

// ---- Another block's shared memory by a plain pointer, passed on through global memory ----

// Block 0's thread 5 writes at byte p.count of the 40 of block 1.
constexpr char kPlainPointerBody[] = R"({
  char** passed = reinterpret_cast<char**>(p.dst);
  if (block_index() == 1) *passed = shared_base();
  cluster_arrive();
  cluster_wait();
  if (block_index() == 0 && thread_index() == 5) (*passed)[p.count] = 1;
  cluster_arrive();
  cluster_wait();
})";

TEST(HostClusterFaults, WritePastAnothersSharedMemory) {
  const Loaded loaded = load(kPlainPointerBody);
  const Buffer passed = loaded.device->allocate(8).value();
  const auto run = [&](long long at) {
    return loaded.run({nullptr, passed.data(), at}, cluster_of(2, 32, 40)).to_string();
  };
  EXPECT_EQ(run(39), "ok");
  EXPECT_EQ(run(40),
            "launch failed: kernel 'k', block 1: write past the end of the 40 bytes of shared "
            "memory");
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
  EXPECT_EQ(run(48),
            "launch failed: kernel 'k', block 0, thread 5: write at byte 48 of 40 bytes of shared "
            "memory of block 1");
#endif
  EXPECT_EQ(run(39), "ok");  // the device lives on
}

TEST(HostClusterFaults, WriteToABlockThatHasLeft) {
  const Loaded loaded = load(R"({
  char** passed = reinterpret_cast<char**>(p.dst);
  if (block_index() == 0) *passed = shared_base();
  cluster_arrive();
  cluster_wait();
  if (block_index() == 1) **passed = 1;
})");
  const Buffer passed = loaded.device->allocate(8).value();
  EXPECT_EQ(loaded.run({nullptr, passed.data(), 0}, cluster_of(2, 32, 40)).to_string(),
            "launch failed: kernel 'k', block 0: write to its shared memory after all its threads "
            "have left the kernel");
}

}  // namespace
}  // namespace rowsmith::testing
