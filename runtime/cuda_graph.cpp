// SPDX-License-Identifier: Apache-2.0
//
// Sequence on CUDA: launches captured into a graph, replayed between two events.
#include "runtime/cuda_module.h"

namespace rowsmith {
namespace {

class CudaSequence final : public Sequence {
 public:
  CudaSequence(std::shared_ptr<CudaContext> context, Buffer sweep)
      : context_(std::move(context)), sweep_(std::move(sweep)) {}
  ~CudaSequence() override;

  // Requires a CudaScope.
  Status build(const std::vector<LaunchCall>& calls);
  Result<double> time_ns(int times) override;

 private:
  Status capture(const std::vector<LaunchCall>& calls, CUgraph& graph);
  Status instantiate(CUgraph graph);
  // Requires a CudaScope and the stream's mutex.
  Result<double> time_replays(int times);

  std::shared_ptr<CudaContext> context_;
  Buffer sweep_;
  CUgraphExec exec_ = nullptr;
  CUevent begin_ = nullptr, end_ = nullptr;
};

// Captures on a stream that nobody else has, so that no lock is held and no other work slips in.
Status CudaSequence::capture(const std::vector<LaunchCall>& calls, CUgraph& graph) {
  const DriverApi& api = context_->api;
  CUstream stream = nullptr;
  if (const auto result = api.stream_create(&stream, CU_STREAM_NON_BLOCKING);
      result != CUDA_SUCCESS) {
    return context_->status(result, "cuStreamCreate");
  }
  CUresult result = api.stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  Status status = context_->status(result, "cuStreamBeginCapture");
  if (status.ok()) {
    for (const LaunchCall& call : calls) {
      status = static_cast<const CudaKernel*>(call.kernel)->enqueue(call, stream);
      if (!status.ok()) break;
    }
    result = api.stream_end_capture(stream, &graph);
    if (status.ok()) status = context_->status(result, "cuStreamEndCapture");
  }
  context_->report(api.stream_destroy(stream), "cuStreamDestroy");
  return status;
}

Status CudaSequence::instantiate(CUgraph graph) {
  const DriverApi& api = context_->api;
  CUresult result = api.graph_instantiate(&exec_, graph, 0);
  if (result != CUDA_SUCCESS) return context_->status(result, "cuGraphInstantiate");
  {
    // Uploaded now, so that the first timed replay does not pay for it.
    const std::lock_guard lock(context_->stream_mutex());
    result = api.graph_upload(exec_, context_->stream());
    if (result == CUDA_SUCCESS) result = api.stream_synchronize(context_->stream());
  }
  if (result != CUDA_SUCCESS) return context_->status(result, "cuGraphUpload");
  result = api.event_create(&begin_, CU_EVENT_DEFAULT);
  if (result == CUDA_SUCCESS) result = api.event_create(&end_, CU_EVENT_DEFAULT);
  return context_->status(result, "cuEventCreate");
}

Status CudaSequence::build(const std::vector<LaunchCall>& calls) {
  CUgraph graph = nullptr;
  Status status = capture(calls, graph);
  if (status.ok()) status = instantiate(graph);
  if (graph) context_->report(context_->api.graph_destroy(graph), "cuGraphDestroy");
  return status;
}

CudaSequence::~CudaSequence() {
  if (forked_after_start) return;
  const CudaScope scope(*context_);
  if (!scope.status().ok()) return;
  const DriverApi& api = context_->api;
  if (exec_) context_->report(api.graph_exec_destroy(exec_), "cuGraphExecDestroy");
  if (begin_) context_->report(api.event_destroy(begin_), "cuEventDestroy");
  if (end_) context_->report(api.event_destroy(end_), "cuEventDestroy");
}

Result<double> CudaSequence::time_ns(int times) {
  if (times < 1) return Status(Code::kInvalidArgument, "a sequence is replayed at least once");
  const CudaScope scope(*context_);
  if (!scope.status().ok()) return scope.status();
  const std::lock_guard lock(context_->stream_mutex());
  if (sweep_.bytes() == 0) return time_replays(times);
  // The device sweeps while the replay is being enqueued, so that no launch is waited for.
  double total = 0;
  for (int i = 0; i < times; ++i) {
    const auto place = reinterpret_cast<CUdeviceptr>(sweep_.data());
    const CUresult result =
        context_->api.memset_d8_async(place, 0, sweep_.bytes(), context_->stream());
    if (result != CUDA_SUCCESS) return context_->status(result, "cuMemsetD8Async");
    const Result<double> one = time_replays(1);
    if (!one.ok()) return one;
    total += *one;
  }
  return total;
}

Result<double> CudaSequence::time_replays(int times) {
  const DriverApi& api = context_->api;
  const CUstream stream = context_->stream();
  CUresult result = api.event_record(begin_, stream);
  for (int i = 0; i < times && result == CUDA_SUCCESS; ++i) {
    result = api.graph_launch(exec_, stream);
  }
  if (result == CUDA_SUCCESS) result = api.event_record(end_, stream);
  if (result != CUDA_SUCCESS) return context_->status(result, "cuGraphLaunch");
  result = api.event_synchronize(end_);
  if (result != CUDA_SUCCESS) return context_->status(result, "cuEventSynchronize");
  float milliseconds = 0;
  result = api.event_elapsed_time(&milliseconds, begin_, end_);
  if (result != CUDA_SUCCESS) return context_->status(result, "cuEventElapsedTime");
  return double{milliseconds} * 1e6;
}

}  // namespace

Result<std::unique_ptr<Sequence>> record_graph(std::shared_ptr<CudaContext> context,
                                               const std::vector<LaunchCall>& calls,
                                               const Buffer& sweep) {
  if (calls.empty()) return Status(Code::kInvalidArgument, "recording a sequence of no launches");
  const CudaScope scope(*context);
  if (!scope.status().ok()) return scope.status();
  auto sequence = std::make_unique<CudaSequence>(std::move(context), sweep);
  const Status built = sequence->build(calls);
  if (!built.ok()) return built.with_context("recording launches");
  return std::unique_ptr<Sequence>(std::move(sequence));
}

}  // namespace rowsmith
