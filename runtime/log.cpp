// SPDX-License-Identifier: Apache-2.0
#include "runtime/log.h"

#include "runtime/environment.h"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <cstdlib>
#include <memory>

namespace rowsmith {
namespace {

// Never destroyed: destructors of other objects log at exit.
spdlog::logger* make_logger() {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  auto* logger = new spdlog::logger("rowsmith", std::move(sink));
  logger->set_pattern("[rowsmith] %^%l%$: %v");
  const auto level =
      log_level_from_environment([](const char* name) -> const char* { return std::getenv(name); });
  logger->set_level(level.ok() ? spdlog::level::from_str(*level) : spdlog::level::warn);
  if (!level.ok()) logger->warn("{}", level.status().message());
  return logger;
}

}  // namespace

spdlog::logger& log() {
  static spdlog::logger* const logger = make_logger();
  return *logger;
}

bool set_log_level(const std::string& level) {
  const spdlog::level::level_enum parsed = spdlog::level::from_str(level);
  // from_str answers `off` for what it does not know.
  const bool known = level == "off" || (parsed != spdlog::level::off && level != "critical");
  if (known) log().set_level(parsed);
  return known;
}

}  // namespace rowsmith
