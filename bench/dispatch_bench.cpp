// SPDX-License-Identifier: Apache-2.0
//
// What a hit costs on top of the driver's launch: Runtime::softmax on a device whose launch does
// nothing. Instructions a hit are the difference of two runs of different length under
//   valgrind --tool=callgrind --collect-atstart=no
//   --toggle-collect='rowsmith::Dispatcher::softmax*'
//     dispatch_bench --benchmark_filter='Hit/0$' --benchmark_min_time=0.05
// 2026-11-30, g++ 12.2, Release, x86-64: 402, of which 5 are the device's.
#include "kernel_templates/catalog.h"
#include "runtime/dispatcher.h"
#include "tests/support/scripted_device.h"

#include <benchmark/benchmark.h>

#include <memory>

namespace rowsmith {
namespace {

// Launches cost nothing and leave no trace, so that only our part is measured.
class IdleDevice : public testing::ScriptedDevice {
 public:
  Status launch(const LaunchCall&, CUstream_st*) override { return {}; }
};

SoftmaxCall call(std::int64_t rows, std::int64_t cols) {
  SoftmaxCall value;
  value.src = reinterpret_cast<const void*>(std::uintptr_t{4096});
  value.dst = reinterpret_cast<void*>(std::uintptr_t{1} << 60);
  value.rows = rows;
  value.cols = cols;
  return value;
}

Runtime& runtime() {
  static const std::unique_ptr<Runtime> shared = [] {
    RuntimeOptions options;
    options.on_miss = OnMiss::kDefault;
    return make_dispatcher(make_session(std::make_shared<IdleDevice>(), options), options, {});
  }();
  return *shared;
}

// One H, asked at one S, after `others` further H have been published.
void Hit(benchmark::State& state) {
  const SoftmaxCall asked = call(64, 1000);
  if (state.thread_index() == 0) {
    for (std::int64_t i = 0; i < state.range(0); ++i) {
      if (!runtime().softmax(call(64, 2000 + i)).ok()) state.SkipWithError("no default");
    }
  }
  if (!runtime().softmax(asked).ok()) state.SkipWithError("no default");
  for (auto _ : state) benchmark::DoNotOptimize(runtime().softmax(asked));
}
BENCHMARK(Hit)->Arg(0)->Arg(100);
BENCHMARK(Hit)->Arg(0)->Threads(8);

}  // namespace
}  // namespace rowsmith

BENCHMARK_MAIN();
