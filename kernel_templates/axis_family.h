// SPDX-License-Identifier: Apache-2.0
//
// AxisFamily: a family whose space is the points of some axes that some constraints let pass. The
// same constraints enumerate the space and say why a config is not in it, so the two cannot differ.
#pragma once

#include "kernel_templates/family.h"
#include "kernel_templates/space.h"

#include <string>
#include <string_view>
#include <vector>

namespace rowsmith {

class AxisFamily : public Family {
 public:
  struct Identity {
    std::string_view name, summary, text, digest;
  };
  AxisFamily(const Identity& identity, std::vector<Axis> axes);

  std::string_view name() const override { return identity_.name; }
  std::string_view summary() const override { return identity_.summary; }
  std::string_view text() const override { return identity_.text; }
  std::string_view digest() const override { return identity_.digest; }
  bool exact() const override { return true; }

  std::vector<Config> space(const Problem& problem, const DeviceFacts& facts) const override;
  std::string why_illegal(const Problem& problem, const DeviceFacts& facts,
                          const Config& config) const override;

 protected:
  // Why no config at all serves the problem, or nullptr.
  virtual const char* check_problem(const Problem& problem) const;
  // Valid while `problem` and `facts` are.
  virtual std::vector<Constraint> constraints(const Problem& problem,
                                              const DeviceFacts& facts) const = 0;

 private:
  const Identity identity_;
  const std::vector<Axis> axes_;
};

}  // namespace rowsmith
