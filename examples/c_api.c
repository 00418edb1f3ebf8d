/* SPDX-License-Identifier: Apache-2.0
 *
 * The C API on the host device: open, run, explain what served, close, read the result.
 */
#include <math.h>
#include <rowsmith/rowsmith_c.h>
#include <stdio.h>
#include <string.h>

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
  const int broken = failed("run", rowsmith_run(runtime, &call)) ||
                     failed("explain", rowsmith_explain(runtime, &call, why, sizeof why));
  rowsmith_close(runtime);
  if (broken) return 1;
  why[strcspn(why, "\n")] = '\0'; /* "<source>\t<config>"; the reasons follow */
  const size_t source = strcspn(why, "\t");

  double sum = 0;
  for (int i = 0; i < kCols; ++i) sum += y[i];
  printf("rowsmith %s: source %.*s, config %s\nthe first row sums to %.7f\n", rowsmith_version(),
         (int)source, why, why[source] == '\t' ? why + source + 1 : "", sum);
  return fabs(sum - 1) < 1e-5 ? 0 : 1;
}
