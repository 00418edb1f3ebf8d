// SPDX-License-Identifier: Apache-2.0
//
// Copies as the arena's slots lie: a contiguous run of bytes from each slot's input to its output.
#include "tuner/floor.h"

#include "kernel_templates/copy.h"
#include "kernel_templates/params.cuh"
#include "tuner/statistics.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace rowsmith {
namespace {

// What is copied, so that bytes in plus bytes out are those of the softmax and fit either side.
std::int64_t bytes_to_copy(const Arena& arena) {
  return std::min(
      {(arena.in_bytes() + arena.out_bytes()) / 2, arena.in_bytes(), arena.out_bytes()});
}

Result<Stopwatch> watch_of(Device& device, const CopyVariant& variant, const Kernel* kernel,
                           const Arena& arena, const StopwatchOptions& options) {
  std::vector<rowsmith_params::CopyParams> params;
  for (int slot = 0; slot < arena.slots(); ++slot) {
    params.push_back({arena.src(slot), arena.dst(slot), bytes_to_copy(arena)});
  }
  std::vector<LaunchCall> calls;
  for (const auto& at : params) {
    calls.push_back(
        {kernel, {variant.blocks(at.bytes), variant.threads, 1, 0, true}, &at, sizeof at});
  }
  return Stopwatch::make(device, calls, arena, 2 * bytes_to_copy(arena), options);
}

Result<double> time_of(Device& device, const CopyVariant& variant, const Kernel* kernel,
                       const Arena& arena, int samples, const StopwatchOptions& options) {
  Result<Stopwatch> watch = watch_of(device, variant, kernel, arena, options);
  if (!watch.ok()) return watch.status();
  std::vector<double> times;
  for (int i = 0; i < samples; ++i) {
    Result<double> ns = watch->sample();
    if (!ns.ok()) return ns.status();
    times.push_back(*ns);
  }
  return median(std::move(times));
}

}  // namespace

Status FloorMeter::load(const Session& session) {
  if (module_) return {};
  Program program{"copy", copy_program_text(), {}};
  for (const CopyVariant& variant : copy_variants()) program.entries.push_back(variant.entry());
  const std::string key = digest_of({"copy", session.device->binary_key(), program.source});
  std::optional<std::string> stored;
  if (session.binaries) stored = session.binaries->get(key);
  Binary binary;
  if (stored) {
    binary.bytes = std::move(*stored);
  } else {
    Result<Binary> compiled = session.device->compile(program);
    if (!compiled.ok()) return compiled.status();
    binary = std::move(*compiled);
    // A disk that takes no file costs a compile in the next process, nothing more.
    if (session.binaries) static_cast<void>(session.binaries->put(key, binary.bytes));
  }
  Result<std::unique_ptr<Module>> module = session.device->load(binary);
  if (!module.ok()) return module.status();
  module_ = std::move(*module);
  return {};
}

Status FloorMeter::settle(const Session& session, const Arena& arena,
                          const StopwatchOptions& options, const std::function<double()>& now_s,
                          const std::function<bool()>& stop) {
  std::optional<Stopwatch> watch;
  const auto copy = [&]() -> Status {
    if (watch) return watch->sample().status();
    if (Status status = load(session); !status.ok()) return status.with_context("copy kernels");
    const CopyVariant& variant = copy_variants().front();
    Result<const Kernel*> kernel = module_->kernel(variant.entry());
    if (!kernel.ok()) return kernel.status();
    Result<Stopwatch> made = watch_of(*session.device, variant, *kernel, arena, options);
    if (made.ok()) watch = std::move(*made);
    return made.status();
  };
  return settler_.settle(*session.device, copy, now_s, stop);
}

Result<std::int64_t> FloorMeter::measure(const Session& session, const Arena& arena, int samples,
                                         const StopwatchOptions& options,
                                         const std::function<bool()>& stop) {
  if (Status status = load(session); !status.ok()) return status.with_context("copy kernels");
  double best = 0;
  for (const CopyVariant& variant : copy_variants()) {
    if (best > 0 && stop()) break;
    Result<const Kernel*> kernel = module_->kernel(variant.entry());
    if (!kernel.ok()) return kernel.status();
    Result<double> ns = time_of(*session.device, variant, *kernel, arena, samples, options);
    if (!ns.ok()) return ns.status().with_context(variant.entry());
    best = best == 0 ? *ns : std::min(best, *ns);
  }
  return std::max<std::int64_t>(1, std::llround(best));
}

}  // namespace rowsmith
