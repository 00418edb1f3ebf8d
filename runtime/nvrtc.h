// SPDX-License-Identifier: Apache-2.0
//
// NVRTC, opened at run time: device text to a cubin for an architecture. Needs no GPU and no
// driver, so that machines without one can fill a binary store.
#pragma once

#include "runtime/device.h"

#include <string>
#include <vector>

namespace rowsmith {

// "nvrtc 13.0", or "nvrtc not found". Thread-safe, as all of this file.
std::string nvrtc_version();

// The compute capabilities that the library compiles for, ascending. Unsupported: no NVRTC, with
// what was tried.
Result<std::vector<int>> nvrtc_archs();

// A cubin for the capability (90 = 9.0), or what choose_target falls back to, said in the note.
// Compile failed: options and log in the message. Unsupported: no NVRTC, or it does not know the
// architecture.
Result<Binary> nvrtc_compile(const Program& program, int capability);

// What, beside the source, decides the binary: NVRTC's version and every option.
std::string nvrtc_key(int capability);

// What to compile for a device: its own architecture where it is known, else the highest known
// minor below it of the same major (cubins run on later minors), else PTX of the highest known
// architecture below it. Unsupported where all known ones are newer than the device.
struct CompileTarget {
  int arch = 0;
  bool ptx = false;
  std::string note;            // empty when exact
  std::string option() const;  // "--gpu-architecture=sm_90"
};
Result<CompileTarget> choose_target(int capability, const std::vector<int>& known,
                                    const std::string& compiler);

}  // namespace rowsmith
