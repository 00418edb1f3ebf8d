// SPDX-License-Identifier: Apache-2.0
//
// The tuner's one way to use several threads: independent pieces of work, joined before return.
#pragma once

#include <cstddef>
#include <functional>

namespace rowsmith {

// Calls work(0) .. work(count - 1), each once, on up to `threads` threads, the caller's among them;
// fewer where the system gives no more. Rethrows the first exception after all have ended.
void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& work);

}  // namespace rowsmith
