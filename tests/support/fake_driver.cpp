// SPDX-License-Identifier: Apache-2.0
//
// A library that looks like a CUDA driver to the loader and does nothing: FAKE_DRIVER says which
// fault it has ("stub", "old", or the name of the function it lacks).
#include <cuda.h>

#include <cstdlib>
#include <string>

namespace {

std::string fault() {
  const char* value = std::getenv("FAKE_DRIVER");
  return value ? value : "";
}

CUresult nothing() {
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" CUresult CUDAAPI cuDriverGetVersion(int* version) {
  if (fault() == "stub") return CUDA_ERROR_STUB_LIBRARY;
  *version = fault() == "old" ? 11080 : 13000;
  return CUDA_SUCCESS;
}

extern "C" CUresult CUDAAPI cuGetProcAddress_v2(const char* symbol, void** function, int,
                                                cuuint64_t, CUdriverProcAddressQueryResult* found) {
  const bool lacks = fault() == symbol;
  *function = lacks ? nullptr : reinterpret_cast<void*>(&nothing);
  *found = lacks ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND : CU_GET_PROC_ADDRESS_SUCCESS;
  return CUDA_SUCCESS;
}
