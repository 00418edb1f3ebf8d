// SPDX-License-Identifier: Apache-2.0
//
// The text forms of the plain values: what the command line, the log and the cache write and read.
// Every parse_* is the inverse of its to_string and answers nullopt for any other text.
#pragma once

#include <rowsmith/types.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

namespace rowsmith {

inline std::optional<DType> parse_dtype(std::string_view text) {
  for (int i = 0; i <= static_cast<int>(DType::kF8E5M2); ++i) {
    const auto dtype = static_cast<DType>(i);
    if (text == to_string(dtype)) return dtype;
  }
  return std::nullopt;
}

// "f16" where both sides are the same, else "f16:f32".
inline std::string dtypes_to_string(DType in, DType out) {
  std::string text = to_string(in);
  if (out != in) text.append(":").append(to_string(out));
  return text;
}

inline std::optional<std::pair<DType, DType>> parse_dtypes(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto in = parse_dtype(text.substr(0, colon));
  const auto out = colon == std::string_view::npos ? in : parse_dtype(text.substr(colon + 1));
  if (!in || !out) return std::nullopt;
  return std::pair(*in, *out);
}

// "src=32,dst=2,co=1", then ",src-pitched", ",dst-pitched", ",in-place" where they hold.
inline std::string to_string(const Layout& layout) {
  std::string text = "src=" + std::to_string(layout.src_align) +
                     ",dst=" + std::to_string(layout.dst_align) +
                     ",co=" + std::to_string(layout.co_align);
  if (layout.src_pitched) text += ",src-pitched";
  if (layout.dst_pitched) text += ",dst-pitched";
  if (layout.in_place) text += ",in-place";
  return text;
}

// "softmax f16 4096 x 1000 (src=16,dst=16,co=8)".
inline std::string to_string(const Problem& problem) {
  return "softmax " + dtypes_to_string(problem.in, problem.out) + " " +
         std::to_string(problem.rows) + " x " + std::to_string(problem.cols) + " (" +
         to_string(problem.layout) + ")";
}

inline std::string to_string(const Config& config) {
  std::string text = config.family;
  char separator = ':';
  for (const auto& [name, value] : config.params) {
    text.append(1, separator).append(name).append(1, '=').append(value);
    separator = ',';
  }
  return text;
}

// A time as people read it: "731 ns", "51.5 us", "1.23 ms", "2.05 s"; "-" for 0 and less (unknown).
inline std::string duration_to_string(std::int64_t ns) {
  if (ns <= 0) return "-";
  if (ns < 1000) return std::to_string(ns) + " ns";
  const auto value = static_cast<double>(ns);
  char text[32];
  if (ns < 1'000'000) {
    std::snprintf(text, sizeof(text), "%.3g us", value * 1e-3);
  } else if (ns < 1'000'000'000) {
    std::snprintf(text, sizeof(text), "%.3g ms", value * 1e-6);
  } else {
    std::snprintf(text, sizeof(text), "%.2f s", value * 1e-9);
  }
  return text;
}

namespace detail {
// Calls visit(piece) for the pieces of `text` between separators; stops and answers false when
// visit does.
template <typename Visit>
bool for_each_piece(std::string_view text, char separator, Visit&& visit) {
  while (true) {
    const std::size_t end = text.find(separator);
    if (!visit(text.substr(0, end))) return false;
    if (end == std::string_view::npos) return true;
    text.remove_prefix(end + 1);
  }
}
}  // namespace detail

inline std::optional<Config> parse_config(std::string_view text) {
  Config config;
  const std::size_t colon = text.find(':');
  config.family = std::string(text.substr(0, colon));
  if (config.family.empty()) return std::nullopt;
  if (colon == std::string_view::npos) return config;
  const bool well_formed =
      detail::for_each_piece(text.substr(colon + 1), ',', [&](std::string_view piece) {
        const std::size_t equals = piece.find('=');
        if (equals == 0 || equals == std::string_view::npos || equals + 1 == piece.size())
          return false;
        config.params.emplace_back(piece.substr(0, equals), piece.substr(equals + 1));
        return true;
      });
  return well_formed ? std::optional<Config>(std::move(config)) : std::nullopt;
}

inline std::optional<Layout> parse_layout(std::string_view text) {
  Layout layout;
  layout.src_align = layout.dst_align = layout.co_align = 0;
  const auto alignment = [](std::string_view piece, std::string_view name, std::uint8_t& out) {
    if (piece.substr(0, name.size()) != name) return false;
    for (const int value : {1, 2, 4, 8, 16, 32}) {
      if (piece.substr(name.size()) == std::to_string(value)) {
        out = static_cast<std::uint8_t>(value);
      }
    }
    return out != 0;
  };
  const bool well_formed = detail::for_each_piece(text, ',', [&](std::string_view piece) {
    if (piece == "src-pitched") return layout.src_pitched = true;
    if (piece == "dst-pitched") return layout.dst_pitched = true;
    if (piece == "in-place") return layout.in_place = true;
    return alignment(piece, "src=", layout.src_align) ||
           alignment(piece, "dst=", layout.dst_align) || alignment(piece, "co=", layout.co_align);
  });
  if (!well_formed || !layout.src_align || !layout.dst_align || !layout.co_align) {
    return std::nullopt;
  }
  return layout;
}

// The identity a winner is keyed by: equal silicon shares winners, whatever its marketing name.
// "cuda-sm90-132sm-l2:62914560-bus6144-mem3201000", or "host".
inline std::string device_class(const DeviceFacts& facts) {
  if (facts.kind != "cuda") return facts.kind;
  return "cuda-sm" + std::to_string(facts.capability) + "-" + std::to_string(facts.sm_count) +
         "sm-l2:" + std::to_string(facts.l2_bytes) + "-bus" +
         std::to_string(facts.memory_bus_bits) + "-mem" + std::to_string(facts.memory_clock_khz);
}

}  // namespace rowsmith
