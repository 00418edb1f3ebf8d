// SPDX-License-Identifier: Apache-2.0
//
// The space of `generic`: one config, always legal, never expected to win.
#include "generic_text.h"
#include "kernel_templates/axis_family.h"
#include "kernel_templates/families.h"

namespace rowsmith {
namespace {

const std::vector<Axis>& axes() {
  static const std::vector<Axis> value{{"threads", {"256"}}};
  return value;
}

class Generic final : public AxisFamily {
 public:
  Generic()
      : AxisFamily({"generic", "any H, stride and alignment at run time; three reads; the fallback",
                    detail::kGenericText, detail::kGenericDigest},
                   axes()) {}

  bool exact() const override { return false; }

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

 protected:
  std::vector<Constraint> constraints(const Problem&, const DeviceFacts&) const override {
    return {};
  }
};

}  // namespace

const Family& generic_family() {
  static const Generic family;
  return family;
}

}  // namespace rowsmith
