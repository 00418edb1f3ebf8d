// SPDX-License-Identifier: Apache-2.0
//
// The space of `staged_row`: blocks a cluster, threads, stages, blocks a multiprocessor, packs a
// lane in a chunk, and how rows begin and are stored.
#include "kernel_templates/axis_family.h"
#include "kernel_templates/families.h"

#include "staged_row_text.h"

#include <algorithm>
#include <cmath>

namespace rowsmith {
namespace {

const std::vector<Axis>& axes() {
  static const std::vector<Axis> all{
      {"cluster", {"1", "2", "4", "8", "16"}}, {"threads", {"64", "128", "256", "512", "1024"}},
      {"stages", {"1", "2", "3", "4", "8"}},   {"min_blocks", {"1", "2", "3", "4", "8"}},
      {"unroll", {"1", "2", "4", "8"}},        {"pack", {"2", "4", "8", "16"}},
      {"start", {"aligned", "any"}},           {"store", {"default", "cs"}}};
  return all;
}

constexpr std::int64_t kPackBytes = 16;
constexpr std::int64_t kRingAlign = 128;
// A block holds this much shared memory beside what it asks for.
constexpr std::int64_t kReservedBytes = 1024;

// The device text's layout of shared memory.
struct Shape {
  std::int64_t threads, cluster, stages, min_blocks, slice_packs, chunk_packs, chunks, part_bytes;

  Shape(const Problem& problem, const Config& config)
      : threads(config.number("threads")),
        cluster(config.number("cluster")),
        stages(config.number("stages")),
        min_blocks(config.number("min_blocks")),
        slice_packs((problem.cols / config.number("pack") + cluster - 1) / cluster),
        chunk_packs(config.number("unroll") * threads),
        chunks((slice_packs + chunk_packs - 1) / chunk_packs),
        part_bytes(rowsmith::part_bytes(problem)) {}

  std::int64_t shared_bytes() const {
    const std::int64_t parts = 2 * cluster * (threads / 32) * part_bytes;
    const std::int64_t arrivals = (2 + stages * chunks) * kArrivalBytes;
    const std::int64_t ring_at = (arrivals + parts + kRingAlign - 1) / kRingAlign * kRingAlign;
    return ring_at + stages * slice_packs * kPackBytes;
  }
};

const char* check_bulk_pack(const Problem& problem, const Config& config) {
  const auto bytes = config.number("pack") * static_cast<std::int64_t>(size_of(problem.in));
  return bytes == kPackBytes ? nullptr : "bulk copies move packs of 16 bytes";
}

// Whatever `store`.
const char* shape_why_not(const Problem& problem, const DeviceFacts& facts, const Config& config) {
  if (const char* reason = check_pack(problem, facts, config)) return reason;
  if (facts.kind != "host" && facts.capability < 90) return "the device has no bulk copies";
  const std::int64_t pack = config.number("pack");
  const Shape shape(problem, config);
  if (shape.cluster > facts.max_cluster) return "the device has no such clusters";
  if (problem.cols / pack < shape.cluster * shape.threads / 2) return "fewer packs than threads";
  if (shape.slice_packs <= shape.chunk_packs / 2 && config.get("unroll") != "1") {
    return "less than half a chunk a row";
  }
  if (shape.chunks > 64) return "more chunks than the ring tells apart";
  const std::int64_t bytes = shape.shared_bytes();
  if (bytes > facts.shared_bytes_per_block) return "the stages do not fit shared memory";
  if (shape.min_blocks * (bytes + kReservedBytes) > facts.shared_bytes_per_sm) {
    return "the blocks do not fit a multiprocessor's shared memory";
  }
  return check_occupancy(
      facts, static_cast<int>(shape.threads), static_cast<int>(shape.min_blocks),
      static_cast<int>(config.number("unroll") * pack) * accumulator_words(problem) + 24);
}

class StagedRow final : public AxisFamily {
 public:
  StagedRow()
      : AxisFamily({"staged_row",
                    "a block or cluster walks rows that bulk copies stage in shared memory (sm_90 "
                    "and later)",
                    detail::kStagedRowText, detail::kStagedRowDigest},
                   axes()) {}

  std::string traits(const Problem& problem, const Config& config) const override {
    std::string text = row_types(problem) + int_trait("kCols", problem.cols);
    text += bool_trait("kAnyStart", config.get("start") == "any");
    text += int_trait("kStore", config.get("store") == "cs" ? 1 : 0);
    for (const auto& [trait, axis] : {std::pair("kPack", "pack"),
                                      {"kCluster", "cluster"},
                                      {"kThreads", "threads"},
                                      {"kStages", "stages"},
                                      {"kMinBlocks", "min_blocks"},
                                      {"kUnroll", "unroll"}}) {
      text += int_trait(trait, config.number(axis));
    }
    return text;
  }

  Geometry geometry(const Problem& problem, const DeviceFacts& facts,
                    const Config& config) const override {
    const Shape shape(problem, config);
    Geometry geometry;
    geometry.threads = static_cast<int>(shape.threads);
    geometry.cluster = static_cast<int>(shape.cluster);
    geometry.shared_bytes = shape.shared_bytes();
    // One stage holds one row: a cluster has no more.
    if (shape.stages > 1) {
      geometry.walkers =
          std::max<std::int64_t>(1, facts.sm_count * shape.min_blocks / shape.cluster);
    }
    return geometry;
  }

  double rank(const Problem& problem, const DeviceFacts& facts,
              const Config& config) const override;

 protected:
  std::vector<Constraint> constraints(const Problem& problem,
                                      const DeviceFacts& facts) const override {
    return {{"pack", [&](const Config& config) { return check_bulk_pack(problem, config); }},
            {"start", [&](const Config& config) { return shape_why_not(problem, facts, config); }}};
  }
};

// Rows held in registers win wherever they fit. Evidence: H200, cold L2, 80 to 130 random configs
// each, 2026-11-30, best of staged_row over the best of all: f16 4096 x 4096 1.03, 4096 x
// 8192 1.02, 2048 x 32000 1.11, 512 x 50257 1.21, 256 x 128256 1.11, 64 x 151936 1.08, 16 x
// 262144 1.03. Among its own: stages 1 / 2 / 3 / 4 / 8: 4096 x 8192 1.00 / 1.08 / 1.13 / 1.15
// / 1.25, 2048 x 32000 1.00 / 1.11 / 1.03 / 1.58 / 2.08: prefetching while blocks walk in step
// gains less than blocks out of step do. threads 128 / 256 / 512 / 1024: 4096 x 8192 1.00 / 1.01
// / 1.07 / 2.41. unroll 1 / 2 / 4 / 8: 512 x 50257 1.13 / 1.00 / 1.11 / 1.22.
double StagedRow::rank(const Problem& problem, const DeviceFacts& facts,
                       const Config& config) const {
  const Shape shape(problem, config);
  const double row_bytes = static_cast<double>(problem.cols * bytes_of_wider(problem));
  const bool few = problem.rows * 4 <= facts.sm_count;
  double rank = 2.0 + policy_rank(problem, config);
  rank += 0.3 * octaves_from(static_cast<double>(shape.cluster),
                             few ? 16 : std::clamp(row_bytes / 64e3, 1.0, 16.0));
  rank += 0.2 * octaves_from(static_cast<double>(shape.threads), 192);
  rank += 0.1 * octaves_from(config.number("unroll"), 3);
  rank += 0.2 * octaves_from(static_cast<double>(shape.stages), 1);
  rank += 0.02 * octaves_from(static_cast<double>(shape.min_blocks), 2);
  return rank;
}

}  // namespace

const Family& staged_row_family() {
  static const StagedRow family;
  return family;
}

}  // namespace rowsmith
