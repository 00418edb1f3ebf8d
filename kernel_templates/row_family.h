// SPDX-License-Identifier: Apache-2.0
//
// RowFamily: a family whose rows are held in RowSlices. Its own axes come first and RowSlice's
// after them; what follows from RowSlice (legality, traits) is settled here, once.
#pragma once

#include "kernel_templates/family.h"
#include "kernel_templates/space.h"

#include <string>
#include <string_view>
#include <vector>

namespace rowsmith {

class RowFamily : public Family {
 public:
  struct Identity {
    std::string_view name, summary, text, digest;
  };
  RowFamily(const Identity& identity, std::vector<Axis> own_axes);

  std::string_view name() const override { return identity_.name; }
  std::string_view summary() const override { return identity_.summary; }
  std::string_view text() const override { return identity_.text; }
  std::string_view digest() const override { return identity_.digest; }
  bool exact() const override { return true; }

  std::vector<Config> space(const Problem& problem, const DeviceFacts& facts) const override;
  std::string why_illegal(const Problem& problem, const DeviceFacts& facts,
                          const Config& config) const override;
  std::string traits(const Problem& problem, const Config& config) const override;

 protected:
  // Lanes that share a row.
  virtual int lanes(const Config& config) const = 0;
  // What the family asks beside RowSlice, whatever `load` and `store`: nullptr, or the reason why
  // not.
  virtual const char* own_why_not(const Problem& problem, const DeviceFacts& facts,
                                  const Config& config) const = 0;
  // The traits beside RowSlice's.
  virtual std::string own_traits(const Config& config) const = 0;

 private:
  const char* why_not(const Problem& problem, const DeviceFacts& facts, const Config& config) const;

  const Identity identity_;
  std::vector<Axis> axes_;
};

}  // namespace rowsmith
