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

using ::testing::HasSubstr;

LaunchShape cluster_of(int blocks, int threads, std::int64_t shared_bytes, int clusters = 1) {
  return {std::int64_t{clusters} * blocks, threads, blocks, shared_bytes};
}

// The message of the failure that a launch without buffers ends in.
std::string fault_of(const std::string& body, LaunchShape shape, const HostOptions& options = {}) {
  return load(body, options).run({}, shape).to_string();
}

// Each thread sends a number to its place in every block of the cluster, twice; p.count = blocks.
constexpr char kExchangeBody[] = R"({
  cluster_arrive();
  const int threads = 96, blocks = static_cast<int>(p.count), me = thread_index();
  const int rank = static_cast<int>(block_index() % blocks);
  u32* inbox = reinterpret_cast<u32*>(shared_base());
  u32 value = static_cast<u32>(block_index() * threads + me);
  cluster_wait();
  for (int round = 0; round < 2; ++round) {
    for (int to = 0; to < blocks; ++to) *peer(inbox + rank * threads + me, to) = value;
    cluster_arrive();
    cluster_wait();
    u32 sum = 0;
    for (int i = 0; i < blocks * threads; ++i) sum = sum * 31 + inbox[i];
    cluster_arrive();
    cluster_wait();
    value += sum;
  }
  reinterpret_cast<u32*>(p.dst)[block_index() * threads + me] = value;
})";

std::vector<std::uint32_t> exchanged(std::uint32_t blocks, std::uint32_t clusters) {
  std::vector<std::uint32_t> values(blocks * clusters * 96);
  std::iota(values.begin(), values.end(), 0u);
  const auto length = static_cast<std::ptrdiff_t>(blocks * 96);
  for (auto row = values.begin(); row != values.end(); row += length) {
    for (int round = 0; round < 2; ++round) {
      const auto fold = [](std::uint32_t sum, std::uint32_t value) { return sum * 31 + value; };
      const std::uint32_t sum = std::accumulate(row, row + length, 0u, fold);
      std::for_each(row, row + length, [sum](std::uint32_t& value) { value += sum; });
    }
  }
  return values;
}

TEST(HostCluster, ExchangesOverAllBlocksInEveryOrder) {
  for (const HostOptions& options : orders()) {
    const Loaded loaded = load(kExchangeBody, options);
    for (const int blocks : {1, 2, 4, 8, 3}) {
      const Buffer out =
          loaded.device->allocate(static_cast<std::size_t>(blocks) * 30 * 384).value();
      const Status status =
          loaded.run({nullptr, out.data(), blocks}, cluster_of(blocks, 96, blocks * 384, 30));
      ASSERT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(values_of<std::uint32_t>(out), exchanged(static_cast<std::uint32_t>(blocks), 30));
    }
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

TEST(HostClusterFaults, PeerBeforeTheBarrier) {
  for (const HostOptions& options : orders()) {
    EXPECT_THAT(fault_of("{\n  cluster_arrive();\n  *peer(shared_base(), 0) = 1;\n"
                         "  cluster_wait();\n}",
                         cluster_of(2, 32, 32), options),
                HasSubstr(": peer of rank 0 at kernel:3 before a cluster_wait"));
  }
}

TEST(HostClusterFaults, PeerThatIsNone) {
  const auto fault = [](const std::string& pointer, const std::string& rank) {
    return fault_of("{\n  cluster_arrive();\n  cluster_wait();\n  peer(" + pointer + ", " + rank +
                        ");\n  cluster_arrive();\n  cluster_wait();\n}",
                    cluster_of(4, 32, 32));
  };
  EXPECT_EQ(fault("shared_base() + 31", "3"), "ok");
  for (const char* rank : {"4", "-1"}) {
    EXPECT_THAT(fault("shared_base()", rank),
                HasSubstr(": peer of rank " + std::string(rank) +
                          " at kernel:4 where the cluster has no such block"));
  }
  for (const char* pointer : {"shared_base() + 32", "shared_base() - 1", "p.dst",
                              "reinterpret_cast<u64*>(shared_base() + 28)"}) {
    EXPECT_THAT(fault(pointer, "1"),
                HasSubstr(": peer of rank 1 at kernel:4 with an address outside of its own shared "
                          "memory"));
  }
}

TEST(HostClusterFaults, PeerThatHasLeft) {
  EXPECT_EQ(fault_of("{\n  cluster_arrive();\n  cluster_wait();\n  if (block_index() == 1)\n"
                     "    *peer(shared_base(), 0) = 1;\n}",
                     cluster_of(2, 32, 32)),
            "launch failed: kernel 'k', block 1, thread 0: peer of rank 0 at kernel:5 after "
            "threads of that block have left the kernel");
}

// The pointers are made in time and used when the block may be gone.
TEST(HostClusterFaults, WriteToABlockThatHasLeft) {
  EXPECT_EQ(fault_of("{\n  cluster_arrive();\n  cluster_wait();\n"
                     "  char* there = peer(shared_base(), 0);\n  cluster_arrive();\n"
                     "  cluster_wait();\n  if (block_index() == 1) *there = 1;\n}",
                     cluster_of(2, 32, 32)),
            "launch failed: kernel 'k', block 0: write to its shared memory after all its threads "
            "have left the kernel");
}

TEST(HostClusterFaults, WritePastAPeersSharedMemory) {
  const std::string body =
      "{\n  cluster_arrive();\n  cluster_wait();\n  char* there = peer(shared_base(), 1);\n"
      "  if (block_index() == 0 && thread_index() == 5) there[p.count] = 1;\n"
      "  cluster_arrive();\n  cluster_wait();\n}";
  const Loaded loaded = load(body);
  const auto run = [&](long long at) {
    return loaded.run({nullptr, nullptr, at}, cluster_of(2, 32, 40)).to_string();
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

// Without the wait, some block reads what its peer has not written: a result that depends on the
// order or the poison.
TEST(HostClusterFaults, ReadThatDoesNotWaitForItsPeersShows) {
  std::vector<std::vector<std::uint32_t>> outputs;
  for (const HostOptions& options : orders()) {
    const Loaded loaded = load(R"({
  cluster_arrive();
  cluster_wait();
  u32* mine = reinterpret_cast<u32*>(shared_base());
  *peer(mine + thread_index(), static_cast<int>(block_index() ^ 1)) = 7;
  cluster_arrive();
  reinterpret_cast<u32*>(p.dst)[block_index() * 32 + thread_index()] = mine[thread_index()];
  cluster_wait();
})",
                               options);
    const Buffer out = loaded.device->allocate(64 * 4).value();
    ASSERT_TRUE(loaded.run({nullptr, out.data(), 0}, cluster_of(2, 32, 128)).ok());
    outputs.push_back(values_of<std::uint32_t>(out));
  }
  EXPECT_NE(outputs[0], outputs[1]);
  EXPECT_NE(outputs[1], outputs[2]);
}

// In some order a block is gone while another still reads from it.
TEST(HostClusterFaults, ReadFromABlockThatHasLeftShows) {
  std::vector<std::vector<std::uint32_t>> outputs;
  for (const HostOptions& options : orders()) {
    const Loaded loaded = load(R"({
  cluster_arrive();
  u32* mine = reinterpret_cast<u32*>(shared_base());
  mine[thread_index()] = 7;
  cluster_wait();
  const u32* there = peer(mine + thread_index(), static_cast<int>(block_index() ^ 1));
  cluster_arrive();
  cluster_wait();
  reinterpret_cast<u32*>(p.dst)[block_index() * 32 + thread_index()] = *there;
})",
                               options);
    const Buffer out = loaded.device->allocate(64 * 4).value();
    ASSERT_TRUE(loaded.run({nullptr, out.data(), 0}, cluster_of(2, 32, 128)).ok());
    outputs.push_back(values_of<std::uint32_t>(out));
  }
  EXPECT_NE(outputs[0], outputs[1]);
}

}  // namespace
}  // namespace rowsmith::testing
