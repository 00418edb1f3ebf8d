// SPDX-License-Identifier: Apache-2.0
//
// The space of `generic`: one config, always legal, never expected to win.
#include "generic_text.h"
#include "kernel_templates/families.h"
#include "kernel_templates/space.h"

namespace rowsmith {
namespace {

const std::vector<Axis>& axes() {
  static const std::vector<Axis> value{{"threads", {"256"}}};
  return value;
}

class Generic final : public Family {
 public:
  std::string_view name() const override { return "generic"; }
  std::string_view summary() const override {
    return "any H, stride and alignment at run time; three reads; the fallback";
  }
  std::string_view text() const override { return detail::kGenericText; }
  std::string_view digest() const override { return detail::kGenericDigest; }
  bool exact() const override { return false; }

  std::vector<Config> space(const Problem& problem, const DeviceFacts&) const override {
    if (check_row_problem(problem) != nullptr) return {};
    return enumerate(name(), axes(), {});
  }

  std::string why_illegal(const Problem& problem, const DeviceFacts&,
                          const Config& config) const override {
    std::string why = check_axes(name(), axes(), config);
    const char* reason = check_row_problem(problem);
    if (why.empty() && reason != nullptr) why = std::string(name()) + ": " + reason;
    return why;
  }

  std::string traits(const Problem& problem, const Config& config) const override {
    return row_types(problem) + int_trait("kThreads", config.number("threads")) +
           int_trait("kMinBlocks", 1);
  }

  Geometry geometry(const Problem& problem, const DeviceFacts&,
                    const Config& config) const override {
    Geometry geometry;
    geometry.threads = config.number("threads");
    geometry.shared_bytes = geometry.threads / 32 * part_bytes(problem);
    return geometry;
  }

  double rank(const Problem&, const DeviceFacts&, const Config&) const override { return 1000; }
};

}  // namespace

const Family& generic_family() {
  static const Generic family;
  return family;
}

}  // namespace rowsmith
