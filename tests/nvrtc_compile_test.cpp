// SPDX-License-Identifier: Apache-2.0
//
// NVRTC without a GPU: every family for every architecture that the library knows, the choice of
// target for those it does not, and the proof that H is a constant of an exact kernel.
#include "kernel_templates/catalog.h"
#include "runtime/devices.h"
#include "runtime/nvrtc.h"
#include "runtime/nvrtc_search.h"

#include <rowsmith/text.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace rowsmith {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A row length that the family serves: short or long ones first, by turn; else 0.
std::int64_t cols_for(const Family& family, DType dtype, const DeviceFacts& facts,
                      bool long_first) {
  const std::int64_t lengths[] = {257, 20011};
  for (const int i : {0, 1}) {
    const std::int64_t cols = lengths[long_first ? 1 - i : i];
    if (!family.space(contiguous_problem(dtype, dtype, 7, cols), facts).empty()) return cols;
  }
  return 0;
}

// One config of each family, another at every `turn`: over the architectures and dtypes the spaces
// are sampled from end to end.
std::vector<Instance> sample(DType dtype, const DeviceFacts& facts, std::size_t turn) {
  std::vector<Instance> sampled;
  for (const Family* family : catalog()) {
    const std::int64_t cols = cols_for(*family, dtype, facts, turn % 2 == 0);
    if (cols == 0) continue;
    const Problem problem = contiguous_problem(dtype, dtype, 7, cols);
    const std::vector<Config> space = family->space(problem, facts);
    sampled.push_back({problem, space[turn * 7919 % space.size()]});
  }
  return sampled;
}

Program program_of(const std::string& name, const std::vector<Instance>& instances) {
  Program program{name, program_text(instances), {}};
  for (const Instance& instance : instances) program.entries.push_back(entry_name(instance));
  return program;
}

class NvrtcCompile : public ::testing::Test {
 protected:
  void SetUp() override {
    const Result<std::vector<int>> archs = nvrtc_archs();
    if (!archs.ok()) GTEST_SKIP() << archs.status().to_string();
    archs_ = *archs;
  }
  std::vector<int> archs_;
};

TEST_F(NvrtcCompile, EveryFamilyForEveryArchitecture) {
  std::size_t turn = 0;
  for (const int arch : archs_) {
    // Half of the dtypes for each: neighbouring architectures differ little.
    const bool even = turn / 3 % 2 == 0;
    for (const DType dtype : even ? std::array{DType::kF32, DType::kBF16, DType::kF8E4M3}
                                  : std::array{DType::kF64, DType::kF16, DType::kF8E5M2}) {
      const std::vector<Instance> sampled = sample(dtype, nominal_facts(arch), turn++);
      const std::size_t absent = arch < 90 ? 2 : 0;  // cluster_row, staged_row
      EXPECT_EQ(sampled.size(), catalog().size() - absent) << "a family was left out";
      for (const Instance& instance : sampled) {
        const std::string name =
            to_string(instance.config) + " " + to_string(dtype) + " sm_" + std::to_string(arch);
        const Result<Binary> binary = nvrtc_compile(program_of(name, {instance}), arch);
        ASSERT_TRUE(binary.ok()) << name << ": " << binary.status().to_string();
        EXPECT_EQ(binary->note, "") << name;
        EXPECT_EQ(binary->bytes.substr(1, 3), "ELF") << name;
        EXPECT_TRUE(contains(binary->bytes, entry_name(instance))) << name;
      }
    }
  }
}

TEST_F(NvrtcCompile, ThirtyTwoBytePacksWhereTheDeviceHasThem) {
  const Problem problem = contiguous_problem(DType::kF16, DType::kF16, 7, 4096);
  for (const int arch : archs_) {
    std::vector<Config> wide;
    for (Config& config : legal_configs(problem, nominal_facts(arch))) {
      if (config.number("pack") == 16) wide.push_back(std::move(config));
    }
    EXPECT_EQ(wide.empty(), arch < 100) << arch;
    if (wide.empty()) continue;
    const std::string name = to_string(wide.front()) + " sm_" + std::to_string(arch);
    const Result<Binary> binary = nvrtc_compile(program_of(name, {{problem, wide.front()}}), arch);
    EXPECT_TRUE(binary.ok()) << binary.status().to_string();
  }
}

// The text with its entry renamed, so that only what the kernel does can differ.
std::string cubin_of(const Instance& instance) {
  Program program = program_of("exact", {instance});
  const std::string entry = entry_name(instance);
  for (std::size_t at; (at = program.source.find(entry)) != std::string::npos;) {
    program.source.replace(at, entry.size(), "kernel");
  }
  const Result<Binary> binary = nvrtc_compile(program, 90);
  EXPECT_TRUE(binary.ok()) << binary.status().to_string();
  return binary.ok() ? binary->bytes : "";
}

TEST_F(NvrtcCompile, OfAnExactFamilyHoldsTheColumnsInItsCode) {
  for (const Family* family : catalog()) {
    const std::int64_t cols = cols_for(*family, DType::kF16, nominal_facts(90), false);
    const Problem narrow = contiguous_problem(DType::kF16, DType::kF16, 7, cols);
    const Problem wide = contiguous_problem(DType::kF16, DType::kF16, 7, cols + 2);
    // The same config for both, of the shared part of their spaces.
    const std::vector<Config> configs = family->space(narrow, nominal_facts(90));
    const auto shared = std::find_if(configs.begin(), configs.end(), [&](const Config& config) {
      return family->why_illegal(wide, nominal_facts(90), config).empty();
    });
    ASSERT_NE(shared, configs.end()) << family->name();
    const std::string first = cubin_of({narrow, *shared});
    EXPECT_EQ(first, cubin_of({narrow, *shared})) << family->name() << ": not reproducible";
    EXPECT_EQ(first != cubin_of({wide, *shared}), family->exact()) << family->name();
    const bool counts_columns =
        contains(program_text({{narrow, *shared}}), "rowsmith_params::GenericParams) {");
    EXPECT_EQ(counts_columns, !family->exact()) << family->name();
  }
}

TEST_F(NvrtcCompile, ErrorCarriesTheOptionsAndTheLog) {
  const Result<Binary> binary = nvrtc_compile({"broken", "no such thing;", {}}, archs_.back());
  ASSERT_FALSE(binary.ok());
  EXPECT_EQ(binary.status().code(), Code::kCompileFailed);
  EXPECT_TRUE(contains(binary.status().message(), "program broken"));
  EXPECT_TRUE(contains(binary.status().message(), "--gpu-architecture=sm_"));
  EXPECT_TRUE(contains(binary.status().message(), "error:")) << binary.status().to_string();
}

TEST_F(NvrtcCompile, LogTellsTheRegisters) {
  const Result<Binary> binary =
      nvrtc_compile({"one", "extern \"C\" __global__ void k() {}", {"k"}}, archs_.back());
  ASSERT_TRUE(binary.ok()) << binary.status().to_string();
  EXPECT_TRUE(contains(binary->log, "registers")) << binary->log;
}

TEST_F(NvrtcCompile, FallsBackToPtxForANewerArchitecture) {
  const Result<Binary> binary =
      nvrtc_compile({"one", "extern \"C\" __global__ void k() {}", {"k"}}, 990);
  ASSERT_TRUE(binary.ok()) << binary.status().to_string();
  EXPECT_TRUE(contains(binary->note, "sm_990")) << binary->note;
  EXPECT_TRUE(contains(binary->bytes, ".target sm_")) << binary->bytes;
  EXPECT_EQ(binary->bytes.back(), '\0');  // as cuLibraryLoadData wants it
}

TEST_F(NvrtcCompile, KeyOfACompileOnlyDeviceIsThatOfTheArchitecture) {
  const auto device = make_compile_only_device(nominal_facts(archs_.front()));
  EXPECT_EQ(device->binary_key(), nvrtc_key(archs_.front()));
  EXPECT_NE(device->binary_key(), nvrtc_key(archs_.back()));
  EXPECT_TRUE(contains(device->binary_key(), "--ftz=")) << device->binary_key();
  EXPECT_TRUE(contains(device->binary_key(), nvrtc_version()));
}

const std::vector<int> kKnown = {75, 80, 86, 90, 100, 120};

TEST(CompileTarget, IsTheDevicesOwnArchitectureWhereItIsKnown) {
  const Result<CompileTarget> target = choose_target(90, kKnown, "nvrtc 12.8");
  ASSERT_TRUE(target.ok());
  EXPECT_EQ(target->option(), "--gpu-architecture=sm_90");
  EXPECT_EQ(target->note, "");
}

TEST(CompileTarget, IsALowerMinorOfTheSameMajorElse) {
  const Result<CompileTarget> target = choose_target(121, kKnown, "nvrtc 12.8");
  ASSERT_TRUE(target.ok());
  EXPECT_EQ(target->option(), "--gpu-architecture=sm_120");
  EXPECT_EQ(target->note, "cubin of sm_120 for sm_121: nvrtc 12.8 does not know sm_121");
}

TEST(CompileTarget, IsPtxOfTheHighestBelowWhereTheMajorIsUnknown) {
  const Result<CompileTarget> target = choose_target(110, kKnown, "nvrtc 12.8");
  ASSERT_TRUE(target.ok());
  EXPECT_EQ(target->option(), "--gpu-architecture=compute_100");
}

TEST(CompileTarget, IsRefusedWhereAllKnownAreNewer) {
  const Status status = choose_target(70, kKnown, "nvrtc 13.0").status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_EQ(status.message(), "nvrtc 13.0 does not know sm_70; its oldest architecture is sm_75");
}

TEST(NvrtcSearch, PrefersTheNewestVersionOverTheOrderOfFolders) {
  namespace fs = std::filesystem;
  std::string pattern = (fs::temp_directory_path() / "rowsmith nvrtc  XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const std::string first = pattern + "/first", second = pattern + "/second";
  fs::create_directory(first);
  fs::create_directory(second);
  std::ofstream(first + "/libnvrtc.so.12").put('x');
  std::ofstream(second + "/libnvrtc.so.13").put('x');
  const std::vector<std::string> files = existing_files({first, pattern + "/absent", second});
  fs::remove_all(pattern);
  const std::vector<std::string> expected = {second + "/libnvrtc.so.13", first + "/libnvrtc.so.12"};
  EXPECT_EQ(files, expected);
}

}  // namespace
}  // namespace rowsmith
