// SPDX-License-Identifier: Apache-2.0
//
// What compiler_processes.h and `tune compiler` tell each other, one JSON object a line each way.
// Both ends are one binary, so the form has no version; whatever is not exactly of the form is
// refused.
#pragma once

#include "runtime/device.h"

#include <string>

namespace rowsmith {

struct CompileRequest {
  Program program;
  int capability = 0;  // 90 = 9.0
};

struct CompileAnswer {
  Status status;
  Binary binary;  // where the status is ok
};

// With its end of line; no other is inside.
std::string to_line(const CompileRequest& request);
std::string to_line(const CompileAnswer& answer);

// Of a line without its end. Internal: it is not of the form, and why.
Result<CompileRequest> parse_compile_request(const std::string& line);
Result<CompileAnswer> parse_compile_answer(const std::string& line);

}  // namespace rowsmith
