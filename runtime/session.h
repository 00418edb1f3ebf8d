// SPDX-License-Identifier: Apache-2.0
//
// Session: a device with its winner store, its binary store and its loaded kernels; what both the
// dispatcher and the tuner work on.
#pragma once

#include "runtime/device.h"
#include "runtime/module_table.h"

#include <rowsmith/runtime.h>
#include <rowsmith/winner_store.h>

#include <memory>

namespace rowsmith {

struct Session {
  std::shared_ptr<Device> device;
  std::shared_ptr<WinnerStore> store;
  std::shared_ptr<BinaryStore> binaries;
  std::shared_ptr<ModuleTable> modules;
};

// Opens the device that `options` names and the stores in its directories. Codes: no device,
// invalid argument. What is wrong with the cache is logged, once.
Result<Session> open_session(const RuntimeOptions& options);
// The stores of `options` around a device at hand (tests).
Session make_session(std::shared_ptr<Device> device, const RuntimeOptions& options);

}  // namespace rowsmith
