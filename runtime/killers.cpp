// SPDX-License-Identifier: Apache-2.0
#include "runtime/killers.h"

#include "kernel_templates/catalog.h"
#include "runtime/log.h"

#include <rowsmith/text.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace rowsmith {

std::vector<Rejection> known_killers(const Session& session, const Problem& problem) {
  auto known = session.store->list_rejections(device_class(session.device->facts()), problem);
  if (!known.ok()) {
    log().warn("{}: {}", to_string(problem), known.status().to_string());
    return {};
  }
  std::erase_if(*known, [](const Rejection& rejection) {
    const std::optional<Config> config = parse_config(rejection.config);
    const Family* family = config ? find_family(config->family) : nullptr;
    return rejection.code != Code::kDeviceLost || family == nullptr ||
           family->digest() != rejection.family_digest;
  });
  return std::move(*known);
}

std::vector<Rejection> leave_out_killers(const Session& session, const Problem& problem,
                                         std::vector<Config>& configs) {
  std::vector<Rejection> left_out = known_killers(session, problem);
  std::erase_if(left_out, [&](const Rejection& rejection) {
    return std::erase(configs, *parse_config(rejection.config)) == 0;
  });
  return left_out;
}

bool is_killer(const std::vector<Rejection>& rejections, const Config& config) {
  const std::string text = to_string(config);
  return std::any_of(rejections.begin(), rejections.end(), [&](const Rejection& rejection) {
    return rejection.code == Code::kDeviceLost && rejection.config == text;
  });
}

}  // namespace rowsmith
