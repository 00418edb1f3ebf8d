// SPDX-License-Identifier: Apache-2.0
//
// Links the whole library and starts without CUDA, a cache or a compiler: all that is opened on
// first need. A null pointer is refused before any of it.
#include <rowsmith/rowsmith.h>

int main() {
  rowsmith::SoftmaxCall call;
  call.rows = 1;
  call.cols = 1;
  const rowsmith::Code code = rowsmith::softmax(call).code();
  return code == rowsmith::Code::kInvalidArgument || code == rowsmith::Code::kNoDevice ? 0 : 1;
}
