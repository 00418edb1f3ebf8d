// SPDX-License-Identifier: Apache-2.0
//
// RowFamily: a family whose rows are held in RowSlices. Its own axes come first and RowSlice's
// after them; what follows from RowSlice (legality, traits) is settled here, once.
#pragma once

#include "kernel_templates/axis_family.h"

#include <string>
#include <vector>

namespace rowsmith {

class RowFamily : public AxisFamily {
 public:
  RowFamily(const Identity& identity, std::vector<Axis> own_axes);

  std::string traits(const Problem& problem, const Config& config) const override;

 protected:
  std::vector<Constraint> constraints(const Problem& problem,
                                      const DeviceFacts& facts) const override;
  // Lanes that share a row.
  virtual int lanes(const Config& config) const = 0;
  // What the family asks beside RowSlice, whatever `load` and `store`: nullptr, or the reason why
  // not.
  virtual const char* own_why_not(const Problem& problem, const DeviceFacts& facts,
                                  const Config& config) const = 0;
  // The traits beside RowSlice's.
  virtual std::string own_traits(const Config& config) const = 0;
};

}  // namespace rowsmith
