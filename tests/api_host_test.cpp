// SPDX-License-Identifier: Apache-2.0
//
// The public API end to end on the host device: free functions, a runtime of one's own, and C.
#include <rowsmith/rowsmith.h>
#include <rowsmith/rowsmith_c.h>

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

extern "C" int rowsmith_c_serves_on_the_host_device(void);

namespace rowsmith {
namespace {

// The host device, policy `default` and a cache directory of the test's own, for this process.
class ApiHostTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string name = (std::filesystem::temp_directory_path() / "rowsmith-XXXXXX").string();
    directory_ = mkdtemp(name.data());
    setenv("ROWSMITH_DEVICE", "host", 1);
    setenv("ROWSMITH_ON_MISS", "default", 1);
    setenv("ROWSMITH_CACHE_DIR", directory_.c_str(), 1);
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(directory_); }

  inline static std::string directory_;
};

// Row r, column c of x: r + c / 8.
std::vector<float> ramp(int rows, int cols, int stride) {
  std::vector<float> x(static_cast<std::size_t>(rows) * stride);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < cols; ++c) x[r * stride + c] = static_cast<float>(r) + c / 8.0f;
  }
  return x;
}

// The largest distance of row r from the ramp's softmax, which is the same for every row.
double distance(const float* row, int cols) {
  double sum = 0, worst = 0;
  for (int c = 0; c < cols; ++c) sum += std::exp(c / 8.0);
  for (int c = 0; c < cols; ++c)
    worst = std::max(worst, std::fabs(row[c] - std::exp(c / 8.0) / sum));
  return worst;
}

TEST_F(ApiHostTest, TheFreeFunctionComputesSoftmax) {
  for (const int cols : {1, 7, 33, 257}) {
    const std::vector<float> x = ramp(3, cols, cols);
    std::vector<float> y(x.size());
    const Status status = softmax(x.data(), y.data(), 3, cols);
    ASSERT_TRUE(status.ok()) << status.to_string();
    for (int r = 0; r < 3; ++r) EXPECT_LT(distance(&y[r * cols], cols), 1e-6) << cols;
  }
}

TEST_F(ApiHostTest, StridesAndInPlaceAreServed) {
  std::vector<float> x = ramp(3, 33, 40);
  SoftmaxCall call;
  call.src = call.dst = x.data();
  call.rows = 3;
  call.cols = 33;
  call.src_stride = call.dst_stride = 40;
  const Status status = softmax(call);
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (int r = 0; r < 3; ++r) {
    EXPECT_LT(distance(&x[r * 40], 33), 1e-6);
    EXPECT_EQ(x[r * 40 + 33], 0.0f);  // beyond the row
  }
}

// Row of H equal elements, whose softmax is 1 / H.
TEST_F(ApiHostTest, DoublesAndFp8AreServedByTheirTypes) {
  const std::vector<double> x(5, 2.5);
  std::vector<double> y(5);
  ASSERT_TRUE(softmax(x.data(), y.data(), 1, 5).ok());
  EXPECT_EQ(y, std::vector<double>(5, 1.0 / 5));
  const std::vector<unsigned char> codes(64, 0x38);
  std::vector<unsigned char> results(64);
  ASSERT_TRUE(softmax(reinterpret_cast<const __nv_fp8_e4m3*>(codes.data()),
                      reinterpret_cast<__nv_fp8_e4m3*>(results.data()), 1, 64)
                  .ok());
  EXPECT_EQ(results, std::vector<unsigned char>(64, 0x08));  // 2^-6
  ASSERT_TRUE(softmax(reinterpret_cast<const __nv_fp8_e5m2*>(codes.data()),
                      reinterpret_cast<__nv_fp8_e5m2*>(results.data()), 1, 64)
                  .ok());
  EXPECT_EQ(results, std::vector<unsigned char>(64, 0x24));
}

TEST_F(ApiHostTest, ResultsAreScaledAndSaturateInFp8) {
  const float x[4] = {1, 1, 1, 1};
  float y[4];
  unsigned char narrow[4];
  SoftmaxCall call{x, y, 1, 4};
  call.out_scale = 6;
  ASSERT_TRUE(softmax(call).ok());
  EXPECT_EQ(std::vector<float>(y, y + 4), std::vector<float>(4, 1.5f));
  call.dst = narrow;
  call.out = DType::kF8E4M3;
  call.out_scale = 4 * 448;
  ASSERT_TRUE(softmax(call).ok());
  EXPECT_EQ(narrow[0], 0x7e);
  call.out_scale = 1e30;
  ASSERT_TRUE(softmax(call).ok());
  EXPECT_EQ(narrow[3], 0x7e);
  call.out_scale = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(softmax(call).code(), Code::kInvalidArgument);
}

TEST_F(ApiHostTest, EmptyCallsSucceedEvenWithoutARuntime) {
  EXPECT_TRUE(softmax(static_cast<const float*>(nullptr), nullptr, 0, 5).ok());
  EXPECT_TRUE(softmax(static_cast<const float*>(nullptr), nullptr, 10, 0).ok());
}

TEST_F(ApiHostTest, AWrongCallIsRefused) {
  float x[4] = {};
  EXPECT_EQ(softmax(x, nullptr, 2, 2).code(), Code::kInvalidArgument);
  EXPECT_EQ(softmax(x, x + 1, 1, 3).code(), Code::kInvalidArgument);
}

TEST_F(ApiHostTest, ASecondRuntimeFindsTheBinaryAndCompilesNothing) {
  const Problem problem = contiguous_problem(DType::kF32, DType::kF32, 2, 65);
  Result<RuntimeOptions> options = RuntimeOptions::from_environment();
  ASSERT_TRUE(options.ok());
  for (const bool first : {true, false}) {
    Result<std::unique_ptr<Runtime>> runtime = Runtime::open(*options);
    ASSERT_TRUE(runtime.ok()) << runtime.status().to_string();
    ASSERT_TRUE((*runtime)->prepare({problem}).ok());
    EXPECT_EQ((*runtime)->stats().compiled > 0, first);
    EXPECT_GT((*runtime)->stats().loaded, 0u);
  }
}

TEST_F(ApiHostTest, C66_APinnedConfigGivesTheSameBitsInEveryRuntime) {
  constexpr int kRows = 3, kCols = 301;
  const Problem problem = contiguous_problem(DType::kF32, DType::kF32, kRows, kCols);
  std::vector<float> x(kRows * kCols), first;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 1009) / 64;
  RuntimeOptions options = *RuntimeOptions::from_environment();
  options.cache_dir.clear();
  options.pin = "generic:threads=256";
  for (int boot = 0; boot < 3; ++boot) {
    Result<std::unique_ptr<Runtime>> runtime = Runtime::open(options);
    ASSERT_TRUE(runtime.ok()) << runtime.status().to_string();
    std::vector<float> y(x.size());
    const Status status = (*runtime)->softmax({x.data(), y.data(), kRows, kCols});
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ((*runtime)->explain(problem)->source, Source::kPinned);
    if (boot == 0) first = y;
    EXPECT_EQ(std::memcmp(y.data(), first.data(), y.size() * sizeof(float)), 0) << boot;
  }
}

TEST_F(ApiHostTest, ServesFromC) {
  EXPECT_EQ(rowsmith_c_serves_on_the_host_device(), 0);
}

TEST_F(ApiHostTest, AProcessThatUsedItExitsCleanlyAndSilently) {
  EXPECT_EXIT(
      {
        const std::vector<float> x(6);
        std::vector<float> y(6);
        const bool served = softmax(x.data(), y.data(), 2, 3).ok();
        std::exit(served ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace rowsmith
