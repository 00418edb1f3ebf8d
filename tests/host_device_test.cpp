// SPDX-License-Identifier: Apache-2.0
//
// The host device: its side of the Device contract, its compiler, and what kernels see of it.
#include "tests/support/host_kernel.h"

#include <fenv.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

namespace rowsmith::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(HostDevice, DescribesItself) {
  const auto device = make_host_device();
  const DeviceFacts& facts = device->facts();
  EXPECT_EQ(facts.kind, "host");
  EXPECT_EQ(facts.capability, 0);
  EXPECT_FALSE(facts.name.empty());
  EXPECT_GE(facts.sm_count, 1);
  EXPECT_EQ(facts.max_cluster, 8);
  EXPECT_GT(facts.l2_bytes, 0);
  EXPECT_THAT(device->binary_key(), HasSubstr(facts.compiler));
  EXPECT_FALSE(device->is_capturing(nullptr).value());
}

TEST(HostDevice, KeysBinariesByCompilerOptions) {
  HostOptions debug;
  debug.cxx_options = {"-g"};
  EXPECT_NE(make_host_device()->binary_key(), make_host_device(debug)->binary_key());
}

TEST(HostDevice, AllocatesPoisonedMemoryOn256Bytes) {
  HostOptions options;
  options.poison = 0x5a;
  const auto device = make_host_device(options);
  for (const std::size_t bytes : {0u, 1u, 255u, 4096u, 100000u}) {
    const Buffer buffer = device->allocate(bytes).value();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256, 0u);
    EXPECT_EQ(values_of<unsigned char>(buffer), std::vector<unsigned char>(bytes, 0x5a));
  }
}

TEST(HostDevice, AnswersOutOfMemoryToImpossibleSizes) {
  const auto device = make_host_device();
  // The last is less than the addresses there are, and more than a machine has.
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX / 4, std::size_t{1} << 45}) {
    EXPECT_EQ(device->allocate(bytes).status().code(), Code::kOutOfMemory);
  }
}

TEST(HostDevice, CopiesAndFills) {
  const auto device = make_host_device();
  const Buffer buffer = device->allocate(8).value();
  ASSERT_TRUE(device->fill(buffer.data(), 7, 8).ok());
  ASSERT_TRUE(device->copy_in(buffer.data(), "abc", 3).ok());
  char back[8];
  ASSERT_TRUE(device->copy_out(back, buffer.data(), 8).ok());
  EXPECT_EQ(std::string(back, 8), "abc\7\7\7\7\7");
}

TEST(HostDevice, RefusesNullOnly) {
  const auto device = make_host_device();
  const int value = 0;
  EXPECT_TRUE(device->check_access(&value, "x").ok());
  EXPECT_EQ(device->check_access(nullptr, "x").to_string(), "invalid argument: x is null");
}

TEST(HostDevice, BufferOutlivesItsDevice) {
  Buffer buffer = make_host_device()->allocate(16).value();
  std::memset(buffer.data(), 1, 16);
  EXPECT_EQ(values_of<char>(buffer), std::vector<char>(16, 1));
}

TEST(HostDevice, ReportsCompileErrorsWithOptionsAndLog) {
  const auto device = make_host_device();
  const Result<Binary> binary =
      device->compile({"broken", text_of("{\n  int x = nowhere;\n}"), {}});
  EXPECT_EQ(binary.status().code(), Code::kCompileFailed);
  EXPECT_THAT(binary.status().message(),
              AllOf(HasSubstr("program 'broken'"), HasSubstr("-ffp-contract=off"),
                    HasSubstr("kernel:2"), HasSubstr("nowhere"), HasSubstr("exit status 1")));
}

TEST(HostDevice, NamesTheVariableWhereNoCompilerRuns) {
  HostOptions options;
  options.cxx = "/nowhere/c++";
  const auto device = make_host_device(options);
  const Status status = device->compile({"any", text_of("{}"), {"k"}}).status();
  EXPECT_EQ(status.to_string(),
            "unsupported: the C++ compiler '/nowhere/c++' does not run: No such file or directory; "
            "set ROWSMITH_CXX to one");
}

// Case B04: nothing splits a path at blanks.
TEST(HostDevice, CompilesThroughDirectoriesNamedWithTwoSpaces) {
  namespace fs = std::filesystem;
  const fs::path base = fs::temp_directory_path() / ("rowsmith  host  " + std::to_string(getpid()));
  fs::create_directories(base / "headers  here");
  const char* real = "/usr/bin/c++";
  if (!fs::exists(real)) GTEST_SKIP() << "no " << real;
  fs::create_symlink(real, base / "my  c++");
  HostOptions options;
  options.cxx = base / "my  c++";
  options.cxx_options = {"-I", base / "headers  here", "-DkAnswer=40 + 2"};
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TMPDIR", base.c_str(), 1);
  const Loaded loaded = load("{ *reinterpret_cast<int*>(p.dst) = kAnswer; }", options);
  before == nullptr ? unsetenv("TMPDIR") : setenv("TMPDIR", kept.c_str(), 1);
  fs::remove_all(base);
  const Buffer out = loaded.device->allocate(4).value();
  ASSERT_TRUE(loaded.run({nullptr, out.data(), 0}, shape_of(1, 1)).ok());
  EXPECT_EQ(values_of<int>(out).front(), 42);
}

TEST(HostDevice, RefusesWhatIsNoProgram) {
  const auto device = make_host_device();
  const Result<std::unique_ptr<Module>> module = device->load({"not a shared object", "", ""});
  EXPECT_EQ(module.status().code(), Code::kLaunchFailed);
  EXPECT_THAT(module.status().message(), HasSubstr("cannot load the compiled program"));
}

TEST(HostDevice, NamesTheKernelThatAProgramLacks) {
  const Loaded loaded = load("{}");
  EXPECT_EQ(loaded.module->kernel("other").status().to_string(),
            "launch failed: the loaded program has no kernel 'other'");
  EXPECT_EQ(loaded.module->kernel("k").value(), loaded.kernel);
  EXPECT_EQ(loaded.kernel->resources().max_threads, 256);
}

TEST(HostDevice, LoadsManyProgramsApart) {
  const auto device = make_host_device();
  std::vector<Loaded> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(load("{ *reinterpret_cast<int*>(p.dst) = " + std::to_string(i) + "; }"));
  }
  for (int i = 0; i < 3; ++i) {
    const Buffer out = device->allocate(4).value();
    ASSERT_TRUE(
        all[static_cast<std::size_t>(i)].run({nullptr, out.data(), 0}, shape_of(1, 1)).ok());
    EXPECT_EQ(values_of<int>(out).front(), i);
  }
}

TEST(HostDevice, RefusesShapesThatAGpuWould) {
  const Loaded loaded = load("{}");
  const auto run = [&](LaunchShape shape) { return loaded.run({}, shape).to_string(); };
  EXPECT_EQ(run(shape_of(1, 257)),
            "launch failed: kernel 'k': 257 threads a block, where 1 to 256 are allowed");
  EXPECT_EQ(run(shape_of(0, 32)), "launch failed: kernel 'k': a grid of 0 blocks");
  EXPECT_THAT(run(shape_of(1, 32, 227 * 1024 + 1)), HasSubstr("232449 bytes of shared memory"));
  EXPECT_EQ(run({3, 32, 2, 0}),
            "launch failed: kernel 'k': clusters of 2 blocks, where 1 to 8 that divide the grid of "
            "3 are allowed");
  EXPECT_THAT(run({9, 32, 9, 0}), HasSubstr("clusters of 9 blocks"));
  EXPECT_EQ(loaded.device->run({loaded.kernel, shape_of(1, 1), "", 1}).message(),
            "kernel 'k': takes 24 bytes of parameters, not 1");
}

// ---- What kernels see ----

constexpr char kIndexBody[] = R"({
  i64* out = reinterpret_cast<i64*>(p.dst);
  out[block_index() * 64 + thread_index()] = block_count() * 1000000 + block_index() * 100 + thread_index();
})";

TEST(HostDevice, RunsEveryThreadOfEveryBlockOnce) {
  for (const HostOptions& options : orders()) {
    const Loaded loaded = load(kIndexBody, options);
    for (const std::int64_t grid : {1, 2, 7, 500}) {
      const Buffer out = loaded.device->allocate(static_cast<std::size_t>(grid) * 64 * 8).value();
      ASSERT_TRUE(loaded.run({nullptr, out.data(), 0}, shape_of(grid, 64)).ok());
      const auto got = values_of<std::int64_t>(out);
      for (std::int64_t i = 0; i < grid * 64; ++i) {
        ASSERT_EQ(got[static_cast<std::size_t>(i)], grid * 1000000 + i / 64 * 100 + i % 64);
      }
    }
  }
}

// A block sum through shuffles and shared memory.
constexpr char kSumBody[] = R"({
  u32* part = reinterpret_cast<u32*>(shared_base());
  u32 sum = static_cast<u32>(thread_index());
  for (int mask = 16; mask > 0; mask /= 2) sum += shfl_xor(sum, mask);
  if (thread_index() % 32 == 0) part[thread_index() / 32] = sum;
  sync();
  u32 total = 0;
  for (int w = 0; w < p.count; ++w) total += part[w];
  reinterpret_cast<u32*>(p.dst)[block_index() * p.count * 32 + thread_index()] = total;
})";

TEST(HostDevice, SumsOverABlockInEveryOrder) {
  for (const HostOptions& options : orders()) {
    const Loaded loaded = load(kSumBody, options);
    for (const int warps : {1, 4, 8}) {
      const int threads = warps * 32;
      const Buffer out = loaded.device->allocate(static_cast<std::size_t>(threads) * 3 * 4).value();
      const Params params{nullptr, out.data(), warps};
      ASSERT_TRUE(loaded.run(params, shape_of(3, threads, warps * 4)).ok());
      const auto total = static_cast<std::uint32_t>(threads * (threads - 1) / 2);
      EXPECT_EQ(values_of<std::uint32_t>(out),
                std::vector<std::uint32_t>(static_cast<std::size_t>(threads) * 3, total));
    }
  }
}

// Rows of 96 packs come by two bulk copies each into two stages in turn; packs leave reversed.
constexpr char kBulkBody[] = R"({
  const int bytes = 96 * 16, me = thread_index();
  auto* arrivals = reinterpret_cast<Arrival*>(shared_base());
  char* stages = shared_base() + 2 * sizeof(Arrival);
  const auto start = [&](i64 row) {
    if (row >= p.count) return;
    Arrival* arrival = arrivals + row % 2;
    char* to = stages + row % 2 * bytes;
    const char* from = p.src + row * bytes;
    bulk_read(arrival, to, from, bytes / 3);
    arrival_expect(arrival, bytes);
    bulk_read(arrival, to + bytes / 3, from + bytes / 3, bytes / 3 * 2);
  };
  if (me == 0) {
    for (int i = 0; i < 2; ++i) arrival_init(arrivals + i);
    arrivals_ready();
    for (int row = 0; row < 2; ++row) start(row);
  }
  sync();
  for (i64 row = 0; row < p.count; ++row) {
    arrival_wait(arrivals + row % 2, row / 2 % 2);
    const Raw<16> pack = load_shared(stages + row % 2 * bytes + (95 - me) * 16);
    store<0, 16>(p.dst + row * bytes + me * 16, pack);
    sync();
    if (me == 0) start(row + 2);
  }
})";

TEST(HostDevice, CopiesInBulkOverManyPhasesInEveryOrder) {
  constexpr std::uint64_t kRows = 9, kRow = 96 * 2;  // words
  std::vector<std::uint64_t> sent(kRows * kRow), wanted(kRows * kRow);
  for (std::uint64_t i = 0; i < sent.size(); ++i) {
    sent[i] = i * 0x9e3779b97f4a7c15u;
    wanted[i / kRow * kRow + (95 - i % kRow / 2) * 2 + i % 2] = sent[i];
  }
  for (const HostOptions& options : orders()) {
    const Loaded loaded = load(kBulkBody, options);
    const Buffer in = loaded.device->allocate(sent.size() * 8).value();
    const Buffer out = loaded.device->allocate(sent.size() * 8).value();
    ASSERT_TRUE(loaded.device->copy_in(in.data(), sent.data(), sent.size() * 8).ok());
    const Status status =
        loaded.run({in.data(), out.data(), kRows}, shape_of(3, 96, 64 + 2 * 96 * 16));
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(values_of<std::uint64_t>(out), wanted);
  }
}

TEST(HostDevice, EndsAPhaseOfNoBytesAtOnce) {
  const Loaded loaded = load(R"({
  auto* arrival = reinterpret_cast<Arrival*>(shared_base());
  arrival_init(arrival);
  for (u32 phase = 0; phase < 3; ++phase) {
    arrival_expect(arrival, 0);
    arrival_wait(arrival, phase % 2);
  }
})");
  EXPECT_EQ(loaded.run({}, shape_of(1, 1, 32)).to_string(), "ok");
}

TEST(HostDevice, ServesManyCallersAtOnce) {
  const Loaded loaded = load(kSumBody);
  const auto serve = [&loaded](int* good) {
    for (int i = 0; i < 20; ++i) {
      const Buffer out = loaded.device->allocate(40 * 128 * 4).value();
      if (!loaded.run({nullptr, out.data(), 4}, shape_of(40, 128, 16)).ok()) continue;
      *good += values_of<std::uint32_t>(out) == std::vector<std::uint32_t>(40 * 128, 8128);
    }
  };
  int good[3] = {};
  std::vector<std::thread> callers;
  for (int& count : good) callers.emplace_back(serve, &count);
  for (std::thread& caller : callers) caller.join();
  EXPECT_THAT(good, ::testing::Each(20));
}

TEST(HostDevice, ServesAForkedChildAndCanBeDestroyedThere) {
  Loaded loaded = load(kIndexBody);
  const auto serve = [&] {
    const Buffer out = loaded.device->allocate(500 * 64 * 8).value();
    return loaded.run({nullptr, out.data(), 0}, shape_of(500, 64)).ok() &&
           values_of<std::int64_t>(out).back() == 500 * 1000000 + 499 * 100 + 63;
  };
  ASSERT_TRUE(serve()) << "with the helpers of this process";
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // in place of waiting for the parent's threads for ever
    const bool served = serve();
    loaded = Loaded();
    _exit(served ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(HostDevice, ReplaysARecordedSequence) {
  const Loaded loaded = load("{ ++*reinterpret_cast<int*>(p.dst); }");
  const Buffer out = loaded.device->allocate(4).value();
  ASSERT_TRUE(loaded.device->fill(out.data(), 0, 4).ok());
  std::unique_ptr<Sequence> sequence;
  {
    const Params params{nullptr, out.data(), 0};
    const LaunchCall call{loaded.kernel, shape_of(1, 1), &params, sizeof(params)};
    sequence = loaded.device->record({call, call}, {}).value();
  }
  EXPECT_GT(sequence->time_ns(5).value(), 0.0);
  EXPECT_EQ(values_of<int>(out).front(), 10);
}

TEST(HostDevice, RoundsAsAGpuWhateverTheCallersThreadIsSetTo) {
  const Loaded loaded =
      load("{ *reinterpret_cast<u16*>(p.dst) = from_f32<f16>(0x1.8p-24f).bits; }");
  const Buffer out = loaded.device->allocate(2).value();
  const int before = fegetround();
  fesetround(FE_UPWARD);
  const Status status = loaded.run({nullptr, out.data(), 0}, shape_of(1, 1));
  EXPECT_EQ(fegetround(), FE_UPWARD);
  fesetround(before);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(values_of<std::uint16_t>(out).front(), 2);  // a tie, to even
}

}  // namespace
}  // namespace rowsmith::testing
