// SPDX-License-Identifier: Apache-2.0
//
// The family objects that the catalog lists, one accessor a family.
#pragma once

#include "kernel_templates/family.h"

namespace rowsmith {

const Family& warp_rows_family();
const Family& flat_tile_family();
const Family& block_row_family();
const Family& cluster_row_family();
const Family& staged_row_family();
const Family& online_row_family();
const Family& split_row_family();
const Family& grid_row_family();
const Family& generic_family();

}  // namespace rowsmith
