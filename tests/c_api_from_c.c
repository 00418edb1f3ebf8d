/* SPDX-License-Identifier: Apache-2.0
 *
 * The C API as a C program sees it. Answers 0, or the line of the first expectation that fails.
 */
#include <rowsmith/rowsmith_c.h>
#include <string.h>

#define EXPECT(condition)              \
  do {                                 \
    if (!(condition)) return __LINE__; \
  } while (0)

int rowsmith_c_refuses_wrong_calls(void) {
  float x[8] = {0}, y[8];
  rowsmith_runtime* runtime = (rowsmith_runtime*)x;
  rowsmith_call call;
  char text[16] = "unchanged";

  EXPECT(rowsmith_softmax(NULL, y, 2, 4, ROWSMITH_F32, NULL) == ROWSMITH_INVALID_ARGUMENT);
  EXPECT(strstr(rowsmith_last_error(), "src is null") != NULL);
  EXPECT(rowsmith_softmax(x, y, -2, 4, ROWSMITH_F32, NULL) == ROWSMITH_INVALID_ARGUMENT);
  EXPECT(strstr(rowsmith_last_error(), "rows is -2") != NULL);
  EXPECT(rowsmith_softmax(x, y, 2, 4, 4711, NULL) == ROWSMITH_INVALID_ARGUMENT);
  EXPECT(rowsmith_softmax(x, y, 2, 4, -1, NULL) == ROWSMITH_INVALID_ARGUMENT);
  EXPECT(rowsmith_softmax(x, y, 0, 4, ROWSMITH_F32, NULL) == ROWSMITH_OK);
  EXPECT(rowsmith_softmax(NULL, NULL, 2, 0, ROWSMITH_F32, NULL) == ROWSMITH_OK);
  memset(&call, 0, sizeof call);
  call.src = x;
  call.dst = y;
  call.rows = call.cols = 1;
  call.in = ROWSMITH_F32;
  call.out = ROWSMITH_F64;
  EXPECT(rowsmith_run(NULL, &call) == ROWSMITH_UNSUPPORTED);
  call.out = 256;
  EXPECT(rowsmith_run(NULL, &call) == ROWSMITH_INVALID_ARGUMENT);
  EXPECT(strstr(rowsmith_last_error(), "out is 256; that is no dtype") != NULL);
  EXPECT(rowsmith_softmax(x, y, 1, 1, -1, NULL) == ROWSMITH_INVALID_ARGUMENT);
  EXPECT(strstr(rowsmith_last_error(), "dtype is -1; that is no dtype") != NULL);
  call.out = ROWSMITH_F32;
  call.out_scale = -2;
  EXPECT(rowsmith_run(NULL, &call) == ROWSMITH_INVALID_ARGUMENT);
  EXPECT(strstr(rowsmith_last_error(), "out_scale is -2") != NULL);
  EXPECT(rowsmith_run(NULL, NULL) == ROWSMITH_INVALID_ARGUMENT);
  EXPECT(rowsmith_prepare(NULL, NULL) == ROWSMITH_INVALID_ARGUMENT);
  EXPECT(rowsmith_explain(NULL, NULL, NULL, 0) == ROWSMITH_INVALID_ARGUMENT);
  EXPECT(rowsmith_explain(NULL, NULL, text, sizeof text) == ROWSMITH_INVALID_ARGUMENT);
  EXPECT(text[0] == '\0');
  EXPECT(rowsmith_open("no such device", NULL) == ROWSMITH_INVALID_ARGUMENT);
  EXPECT(rowsmith_open("no such device", &runtime) != ROWSMITH_OK);
  EXPECT(runtime == NULL);
  EXPECT(rowsmith_last_error()[0] != '\0');
  rowsmith_close(NULL);
  return 0;
}

int rowsmith_c_serves_on_the_host_device(void) {
  float x[6] = {0, 0, 0, 0, 0, 0}, y[6] = {0};
  char text[256], cut[4];
  rowsmith_runtime* runtime = NULL;
  rowsmith_call call;
  memset(&call, 0, sizeof call);
  call.rows = 2;
  call.cols = 3;
  call.in = call.out = ROWSMITH_F32;

  EXPECT(rowsmith_open("host", &runtime) == ROWSMITH_OK);
  EXPECT(rowsmith_prepare(runtime, &call) == ROWSMITH_OK); /* buffers unknown as yet */
  EXPECT(rowsmith_explain(runtime, &call, text, sizeof text) == ROWSMITH_OK);
  EXPECT(strncmp(text, "default\t", 8) == 0);
  EXPECT(rowsmith_explain(runtime, &call, cut, sizeof cut) == ROWSMITH_OK);
  EXPECT(strcmp(cut, "def") == 0);
  call.src = x;
  call.dst = y;
  EXPECT(rowsmith_run(runtime, &call) == ROWSMITH_OK);
  EXPECT(y[0] > 0.333f && y[0] < 0.334f && y[5] > 0.333f && y[5] < 0.334f);
  call.out_scale = 3;
  EXPECT(rowsmith_run(runtime, &call) == ROWSMITH_OK);
  EXPECT(y[0] > 0.999f && y[0] < 1.001f && y[5] > 0.999f && y[5] < 1.001f);
  rowsmith_close(runtime);
  return 0;
}
