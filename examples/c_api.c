/* SPDX-License-Identifier: Apache-2.0
 *
 * The C API on the host device: open, explain, run, read the result, close.
 */
#include <math.h>
#include <rowsmith/rowsmith_c.h>
#include <stdio.h>

enum { kRows = 2, kCols = 257 };

static int failed(const char* what, rowsmith_status status) {
  if (status == ROWSMITH_OK) return 0;
  fprintf(stderr, "%s: %s: %s\n", what, rowsmith_status_text(status), rowsmith_last_error());
  return 1;
}

int main(void) {
  static float x[kRows * kCols], y[kRows * kCols];
  for (int i = 0; i < kRows * kCols; ++i) x[i] = (float)(i % 7);

  rowsmith_runtime* runtime = NULL;
  if (failed("open", rowsmith_open("host", &runtime))) return 3;
  const rowsmith_call call = {
      .src = x, .dst = y, .rows = kRows, .cols = kCols, .in = ROWSMITH_F32, .out = ROWSMITH_F32};
  char why[1024] = "";
  const int broken = failed("explain", rowsmith_explain(runtime, &call, why, sizeof why)) ||
                     failed("run", rowsmith_run(runtime, &call));
  rowsmith_close(runtime);
  if (broken) return 1;

  double sum = 0;
  for (int i = 0; i < kCols; ++i) sum += y[i];
  printf("rowsmith %s served by %s\nthe first row sums to %.7f\n", rowsmith_version(), why, sum);
  return fabs(sum - 1) < 1e-5 ? 0 : 1;
}
