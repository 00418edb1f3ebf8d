// SPDX-License-Identifier: Apache-2.0
//
// Killers: configs that once lost the device. `tune` survives them in a worker process and records
// them; nobody launches them for that problem again, least of all a caller's process.
#pragma once

#include "runtime/session.h"

#include <string>
#include <vector>

namespace rowsmith {

// The problem's rejections of code device lost whose family is as it was. A store that cannot be
// read is logged and knows none.
std::vector<Rejection> known_killers(const Session& session, const Problem& problem);

// Takes them out of `configs` and answers those that were there.
std::vector<Rejection> leave_out_killers(const Session& session, const Problem& problem,
                                         std::vector<Config>& configs);

bool is_killer(const std::vector<Rejection>& rejections, const Config& config);

}  // namespace rowsmith
