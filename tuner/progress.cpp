// SPDX-License-Identifier: Apache-2.0

#include "tuner/progress.h"

#include <rowsmith/text.h>

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <ostream>

namespace rowsmith {
namespace {

constexpr std::size_t kBarCells = 20;
constexpr std::size_t kColumns = 79;  // of the narrowest terminal that must not wrap

std::string bar_text(const TuneProgress& progress, const std::string& what) {
  const std::size_t cells =
      progress.candidates == 0
          ? 0
          : std::min(kBarCells, kBarCells * progress.candidate / progress.candidates);
  std::string text = fmt::format("[{}/{}] {} {}{} {}/{}", progress.problem + 1, progress.problems,
                                 what, std::string(cells, '#'), std::string(kBarCells - cells, '.'),
                                 progress.candidate, progress.candidates);
  if (progress.restored > 0) text += fmt::format(" ({} restored)", progress.restored);
  if (progress.best_ns > 0) {
    text += fmt::format(" best {} default {}", duration_to_string(progress.best_ns),
                        duration_to_string(progress.default_ns));
  }
  return text.substr(0, kColumns);
}

}  // namespace

void Progress::update(const TuneProgress& progress, const std::string& what) {
  if (terminal_) {
    std::string text = bar_text(progress, what);
    if (text == shown_) return;
    out_ << '\r' << text;
    if (text.size() < shown_.size()) out_ << std::string(shown_.size() - text.size(), ' ');
    out_ << std::flush;
    shown_ = std::move(text);
  } else if (progress.problem + 1 > announced_) {
    announced_ = progress.problem + 1;
    out_ << fmt::format("[{}/{}] {}\n", announced_, progress.problems, what) << std::flush;
  }
}

void Progress::finish() {
  if (!shown_.empty()) out_ << '\r' << std::string(shown_.size(), ' ') << '\r' << std::flush;
  shown_.clear();
}

}  // namespace rowsmith
