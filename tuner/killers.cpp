// SPDX-License-Identifier: Apache-2.0
#include "tuner/killers.h"

#include "kernel_templates/catalog.h"
#include "runtime/log.h"

#include <rowsmith/text.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace rowsmith {

std::vector<Rejection> leave_out_killers(const Session& session, const Problem& problem,
                                         std::vector<Config>& configs) {
  std::vector<Rejection> left_out;
  auto known = session.store->list_rejections(device_class(session.device->facts()), problem);
  if (!known.ok()) {
    log().warn("{}: {}", to_string(problem), known.status().to_string());
    return left_out;
  }
  for (Rejection& rejection : *known) {
    if (rejection.code != Code::kDeviceLost) continue;
    const std::optional<Config> config = parse_config(rejection.config);
    const auto at = config ? std::find(configs.begin(), configs.end(), *config) : configs.end();
    if (at == configs.end() || find_family(at->family)->digest() != rejection.family_digest) {
      continue;
    }
    configs.erase(at);
    left_out.push_back(std::move(rejection));
  }
  return left_out;
}

bool is_killer(const std::vector<Rejection>& rejections, const Config& config) {
  const std::string text = to_string(config);
  return std::any_of(rejections.begin(), rejections.end(), [&](const Rejection& rejection) {
    return rejection.code == Code::kDeviceLost && rejection.config == text;
  });
}

}  // namespace rowsmith
