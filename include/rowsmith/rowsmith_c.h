/* SPDX-License-Identifier: Apache-2.0
 *
 * The C API: the same surface as rowsmith.h and runtime.h, for C and for other languages' loaders.
 * Every function returns a rowsmith_status; rowsmith_last_error() says more about this thread's
 * last failure. Thread-safe, as the C++ functions are.
 */
#ifndef ROWSMITH_ROWSMITH_C_H_
#define ROWSMITH_ROWSMITH_C_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers are those of rowsmith::Code and rowsmith::DType, and are frozen. */
typedef int rowsmith_status; /* 0 = ok */
enum {
  ROWSMITH_OK = 0,
  ROWSMITH_INVALID_ARGUMENT = 1,
  ROWSMITH_UNSUPPORTED = 2,
  ROWSMITH_NO_DEVICE = 3,
  ROWSMITH_DEVICE_LOST = 4,
  ROWSMITH_COMPILE_FAILED = 5,
  ROWSMITH_LAUNCH_FAILED = 6,
  ROWSMITH_OUT_OF_MEMORY = 7,
  ROWSMITH_ACCURACY_FAILED = 8,
  ROWSMITH_NOT_TUNED = 9,
  ROWSMITH_NOT_PREPARED = 10,
  ROWSMITH_CACHE_BUSY = 11,
  ROWSMITH_CACHE_DAMAGED = 12,
  ROWSMITH_INTERNAL = 13
};
typedef int rowsmith_dtype;
enum {
  ROWSMITH_F64 = 0,
  ROWSMITH_F32 = 1,
  ROWSMITH_F16 = 2,
  ROWSMITH_BF16 = 3,
  ROWSMITH_F8E4M3 = 4,
  ROWSMITH_F8E5M2 = 5
};

typedef struct CUstream_st* rowsmith_stream; /* a cudaStream_t or CUstream; NULL = the default */
typedef struct rowsmith_runtime rowsmith_runtime;

/* One call in full: shapes [rows, cols], strides in elements, 0 = contiguous. */
typedef struct rowsmith_call {
  const void* src;
  void* dst;
  int64_t rows, cols;
  int64_t src_stride, dst_stride;
  rowsmith_dtype in, out;
  rowsmith_stream stream;
  double out_scale; /* the result is softmax times this, rounded once; 0 means 1 */
} rowsmith_call;

/* Softmax over contiguous rows on the process-wide runtime. */
rowsmith_status rowsmith_softmax(const void* x, void* y, int64_t rows, int64_t cols,
                                 rowsmith_dtype dtype, rowsmith_stream stream);

/* A runtime from the environment; `device` NULL or "" = as the environment says. Free with close.
 */
rowsmith_status rowsmith_open(const char* device, rowsmith_runtime** runtime);
void rowsmith_close(rowsmith_runtime* runtime);

/* `runtime` NULL = the process-wide one. */
rowsmith_status rowsmith_run(rowsmith_runtime* runtime, const rowsmith_call* call);
/* Load or tune ahead what the call would need; launches nothing on its buffers. Here and in
 * explain, src and dst may both be NULL: then freshly allocated ones are meant. */
rowsmith_status rowsmith_prepare(rowsmith_runtime* runtime, const rowsmith_call* call);
/* Writes "<source>\t<config>\n<reason>\n..." as text, cut to size - 1 bytes and terminated.
 * Invalid argument also for rows = 0 or cols = 0, which nothing serves. */
rowsmith_status rowsmith_explain(rowsmith_runtime* runtime, const rowsmith_call* call, char* text,
                                 size_t size);

/* The message of this thread's last failure; "" if none. Valid until the thread's next call. */
const char* rowsmith_last_error(void);
/* "ok", "invalid argument", ... */
const char* rowsmith_status_text(rowsmith_status status);
/* "0.1.0" */
const char* rowsmith_version(void);

#ifdef __cplusplus
}
#endif

#endif /* ROWSMITH_ROWSMITH_C_H_ */
