// SPDX-License-Identifier: Apache-2.0
//
// The C API over the C++ one. Nothing throws through it: a C caller could not catch.
#include <rowsmith/rowsmith.h>
#include <rowsmith/rowsmith_c.h>
#include <rowsmith/text.h>

#include "runtime/dispatcher.h"
#include "runtime/process_runtime.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>

struct rowsmith_runtime {
  std::unique_ptr<rowsmith::Runtime> runtime;
};

namespace {

using rowsmith::Code;
using rowsmith::DType;
using rowsmith::Result;
using rowsmith::Runtime;
using rowsmith::SoftmaxCall;
using rowsmith::Status;

static_assert(ROWSMITH_INTERNAL == static_cast<int>(Code::kInternal));
static_assert(ROWSMITH_NOT_PREPARED == static_cast<int>(Code::kNotPrepared));
static_assert(ROWSMITH_F8E5M2 == static_cast<int>(DType::kF8E5M2));

std::string& last_error() {
  thread_local std::string message;
  return message;
}

rowsmith_status report(Code code, const char* message) noexcept {
  try {
    last_error() = message;
  } catch (...) {
    last_error().clear();
  }
  return static_cast<rowsmith_status>(code);
}

// Runs `body`, which answers a Status, and turns whatever comes of it into a number and a message.
template <typename Body>
rowsmith_status guarded(Body&& body) noexcept {
  try {
    const Status status = body();
    return status.ok() ? ROWSMITH_OK : report(status.code(), status.message().c_str());
  } catch (const std::bad_alloc&) {
    return report(Code::kOutOfMemory, "host memory");
  } catch (const std::exception& error) {
    return report(Code::kInternal, error.what());
  } catch (...) {
    return report(Code::kInternal, "an exception of unknown type");
  }
}

Result<DType> dtype_of(const char* name, rowsmith_dtype dtype) {
  if (dtype >= ROWSMITH_F64 && dtype <= ROWSMITH_F8E5M2) return static_cast<DType>(dtype);
  return Status(Code::kInvalidArgument,
                std::string(name) + " is " + std::to_string(dtype) + "; that is no dtype");
}

Result<SoftmaxCall> call_of(const rowsmith_call* call) {
  if (call == nullptr) return Status(Code::kInvalidArgument, "call is null");
  const auto in = dtype_of("in", call->in), out = dtype_of("out", call->out);
  if (!in.ok()) return in.status();
  if (!out.ok()) return out.status();
  return SoftmaxCall{call->src,
                     call->dst,
                     call->rows,
                     call->cols,
                     call->src_stride,
                     call->dst_stride,
                     *in,
                     *out,
                     call->stream,
                     call->out_scale == 0 ? 1 : call->out_scale};
}

Result<Runtime*> runtime_of(rowsmith_runtime* runtime, CUstream_st* stream) {
  if (runtime != nullptr) return runtime->runtime.get();
  return rowsmith::process_runtime(stream);
}

// The problem of a call; where both buffers are null, of freshly allocated ones far apart.
Result<rowsmith::Problem> problem_of(SoftmaxCall call) {
  if (call.src == nullptr && call.dst == nullptr) {
    call.src = reinterpret_cast<const void*>(std::uintptr_t{256});
    call.dst = reinterpret_cast<void*>(std::uintptr_t{1} << 62);
  }
  if (Status status = check_call(call); !status.ok()) return status;
  return rowsmith::Problem{call.in, call.out, call.rows, call.cols,
                           layout_of(call.src, call.dst, call.cols, call.src_stride,
                                     call.dst_stride, call.in, call.out)};
}

// Runs `body` on the runtime and the problem that a call means.
template <typename Body>
Status on_problem(rowsmith_runtime* runtime, const rowsmith_call* call, Body&& body) {
  const Result<SoftmaxCall> converted = call_of(call);
  if (!converted.ok()) return converted.status();
  const Result<rowsmith::Problem> problem = problem_of(converted.value());
  if (!problem.ok()) return problem.status();
  const Result<Runtime*> target = runtime_of(runtime, call->stream);
  return target.ok() ? body(*target.value(), problem.value()) : target.status();
}

}  // namespace

extern "C" {

rowsmith_status rowsmith_softmax(const void* x, void* y, int64_t rows, int64_t cols,
                                 rowsmith_dtype dtype, rowsmith_stream stream) {
  return guarded([&] {
    const Result<DType> both = dtype_of("dtype", dtype);
    return both.ok() ? rowsmith::softmax({x, y, rows, cols, 0, 0, *both, *both, stream})
                     : both.status();
  });
}

rowsmith_status rowsmith_open(const char* device, rowsmith_runtime** runtime) {
  return guarded([&]() -> Status {
    if (runtime == nullptr) return {Code::kInvalidArgument, "runtime is null"};
    *runtime = nullptr;
    Result<rowsmith::RuntimeOptions> options = rowsmith::RuntimeOptions::from_environment();
    if (!options.ok()) return options.status();
    if (device != nullptr && *device != '\0') options->device = device;
    Result<std::unique_ptr<Runtime>> opened = Runtime::open(*options);
    if (!opened.ok()) return opened.status();
    *runtime = new rowsmith_runtime{std::move(*opened)};
    return {};
  });
}

void rowsmith_close(rowsmith_runtime* runtime) {
  delete runtime;
}

rowsmith_status rowsmith_run(rowsmith_runtime* runtime, const rowsmith_call* call) {
  return guarded([&]() -> Status {
    const Result<SoftmaxCall> converted = call_of(call);
    if (!converted.ok()) return converted.status();
    if (runtime == nullptr) return rowsmith::softmax(converted.value());
    return runtime->runtime->softmax(converted.value());
  });
}

rowsmith_status rowsmith_prepare(rowsmith_runtime* runtime, const rowsmith_call* call) {
  return guarded([&] {
    return on_problem(runtime, call, [](Runtime& target, const rowsmith::Problem& problem) {
      return target.prepare({problem});
    });
  });
}

rowsmith_status rowsmith_explain(rowsmith_runtime* runtime, const rowsmith_call* call, char* text,
                                 size_t size) {
  return guarded([&]() -> Status {
    if (text == nullptr || size == 0) return {Code::kInvalidArgument, "text has no room"};
    *text = '\0';
    return on_problem(runtime, call, [&](Runtime& target, const rowsmith::Problem& problem) {
      const Result<rowsmith::Explanation> answer = target.explain(problem);
      if (!answer.ok()) return answer.status();
      const rowsmith::Explanation& found = answer.value();
      std::string out = std::string(to_string(found.source)) + '\t' + to_string(found.config);
      for (const std::string& reason : found.reasons) out.append(1, '\n').append(reason);
      const std::size_t length = std::min(out.size(), size - 1);
      std::memcpy(text, out.data(), length);
      text[length] = '\0';
      return Status();
    });
  });
}

const char* rowsmith_last_error(void) {
  return last_error().c_str();
}

const char* rowsmith_status_text(rowsmith_status status) {
  return rowsmith::to_string(static_cast<Code>(status));
}

const char* rowsmith_version(void) {
  return ROWSMITH_VERSION;
}

}  // extern "C"
