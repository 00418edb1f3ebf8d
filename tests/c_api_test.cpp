// SPDX-License-Identifier: Apache-2.0
//
// The C API, called from C (c_api_from_c.c), and what loading the library alone may do.
#include <rowsmith/rowsmith_c.h>
#include <rowsmith/status.h>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

extern "C" int rowsmith_c_refuses_wrong_calls(void);

namespace {

bool is_loaded(const char* library) {
  void* handle = dlopen(library, RTLD_NOLOAD | RTLD_LAZY);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

// First in the program, before anything has been called.
TEST(CApi, LoadingTheLibraryOpensNoCudaLibrary) {
  for (const char* library : {"libcuda.so.1", "libnvrtc.so.12", "libnvrtc.so.13"}) {
    EXPECT_FALSE(is_loaded(library)) << library;
  }
}

TEST(CApi, RefusesWrongCallsFromC) {
  EXPECT_EQ(rowsmith_c_refuses_wrong_calls(), 0);
}

TEST(CApi, NamesEveryStatus) {
  for (int code = ROWSMITH_OK; code <= ROWSMITH_INTERNAL; ++code) {
    EXPECT_STREQ(rowsmith_status_text(code),
                 rowsmith::to_string(static_cast<rowsmith::Code>(code)));
  }
  EXPECT_STREQ(rowsmith_status_text(99), "unknown");
  EXPECT_STREQ(rowsmith_status_text(-1), "unknown");
}

TEST(CApi, KeepsTheLastErrorPerThread) {
  EXPECT_EQ(rowsmith_run(nullptr, nullptr), ROWSMITH_INVALID_ARGUMENT);
  std::thread([] { EXPECT_STREQ(rowsmith_last_error(), ""); }).join();
  EXPECT_STREQ(rowsmith_last_error(), "call is null");
}

TEST(CApi, HasAVersionOfThreeNumbers) {
  int parts[3];
  EXPECT_EQ(std::sscanf(rowsmith_version(), "%d.%d.%d", &parts[0], &parts[1], &parts[2]), 3);
}

}  // namespace
