// SPDX-License-Identifier: Apache-2.0
#include "tuner/candidates.h"

#include "kernel_templates/catalog.h"

#include <rowsmith/text.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace rowsmith {
namespace {

bool is_policy(std::string_view axis) {
  return axis == "load" || axis == "store";
}

// The config but for what moves a time by a few percent: policies, and the bound of registers.
std::string kind_of(Config config) {
  std::erase_if(config.params, [](const auto& param) {
    return is_policy(param.first) || param.first == "min_blocks";
  });
  return to_string(config);
}

// Of one family, and apart in one axis or in policies alone.
bool are_near(const Config& a, const Config& b) {
  if (a.family != b.family || a.params.size() != b.params.size()) return false;
  std::set<std::string_view> apart;
  for (std::size_t i = 0; i < a.params.size(); ++i) {
    const auto& [axis, value] = a.params[i];
    if (value != b.params[i].second)
      apart.insert(is_policy(axis) ? "policy" : std::string_view(axis));
  }
  return apart.size() == 1;
}

// A room that is being filled.
class Purse {
 public:
  explicit Purse(const Room& room) : room_(room), places_(room.places), seconds_(room.compile_s) {}
  std::size_t places() const {
    if (seconds_ > 0) return places_;
    const std::size_t taken = room_.places - places_, half = room_.places - room_.places / 2;
    return half - std::min(half, taken);
  }
  void pay_for(const Config& config) {
    --places_;
    seconds_ -= room_.cost(config);
  }

 private:
  const Room& room_;
  std::size_t places_;
  double seconds_;
};

}  // namespace

Candidates choose_candidates(const std::vector<Config>& ranked, const Config& standard,
                             const Room& room, const std::vector<Config>& kept) {
  std::vector<bool> taken(ranked.size());
  std::set<std::string> families{std::string(generic_config().family)}, kinds;
  Purse purse(room);
  if (purse.places() > 0) purse.pay_for(standard);
  const auto take = [&](std::size_t i) {
    taken[i] = true;
    families.insert(ranked[i].family);
    kinds.insert(kind_of(ranked[i]));
  };
  // By rank, those that are wanted, until so many places are left.
  const auto fill = [&](std::size_t left, const std::function<bool(const Config&)>& wanted) {
    for (std::size_t i = 0; i < ranked.size() && purse.places() > left; ++i) {
      if (taken[i] || !wanted(ranked[i])) continue;
      take(i);
      purse.pay_for(ranked[i]);
    }
  };
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    const bool keep = std::find(kept.begin(), kept.end(), ranked[i]) != kept.end();
    if (keep || ranked[i] == standard) take(i);
  }
  fill(0, [&](const Config& config) { return families.count(config.family) == 0; });
  fill(purse.places() - purse.places() / 4, [](const Config&) { return true; });
  fill(0, [&](const Config& config) { return kinds.count(kind_of(config)) == 0; });
  fill(0, [](const Config&) { return true; });

  Candidates chosen;
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    if (!taken[i]) continue;
    const bool keep = std::find(kept.begin(), kept.end(), ranked[i]) != kept.end();
    if (keep) chosen.kept.push_back(chosen.configs.size());
    if (ranked[i] == standard) chosen.default_index = chosen.configs.size();
    chosen.configs.push_back(ranked[i]);
  }
  if (std::find(chosen.configs.begin(), chosen.configs.end(), standard) == chosen.configs.end()) {
    chosen.configs.insert(chosen.configs.begin(), standard);
    chosen.default_index = 0;
    for (std::size_t& i : chosen.kept) ++i;
  }
  return chosen;
}

std::vector<Config> choose_near(const std::vector<Config>& ranked, const std::vector<Config>& tried,
                                const std::vector<Config>& best, const Room& room) {
  std::vector<Config> chosen;
  Purse purse(room);
  const auto is_among = [](const std::vector<Config>& list, const Config& config) {
    return std::find(list.begin(), list.end(), config) != list.end();
  };
  for (std::size_t at = 0; at < best.size(); ++at) {
    const std::size_t left = at + 1 < best.size() ? purse.places() / 2 : 0;
    for (const Config& config : ranked) {
      if (purse.places() <= left) break;
      if (!are_near(config, best[at]) || is_among(tried, config) || is_among(chosen, config)) {
        continue;
      }
      chosen.push_back(config);
      purse.pay_for(config);
    }
  }
  return chosen;
}

}  // namespace rowsmith
