// SPDX-License-Identifier: Apache-2.0
//
// The library's one spdlog logger: to stderr, at the level of ROWSMITH_LOG (default "warn").
#pragma once

#include <spdlog/logger.h>

#include <string>

namespace rowsmith {

// Made on first use; thread-safe.
spdlog::logger& log();
// "trace", "debug", "info", "warn", "error", "off". False for any other text.
bool set_log_level(const std::string& level);

}  // namespace rowsmith
