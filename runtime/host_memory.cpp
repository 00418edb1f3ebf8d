// SPDX-License-Identifier: Apache-2.0
#include "runtime/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

namespace rowsmith {
namespace {

// All ones is NaN in every float format: a kernel that reads the slack shows it in its result.
constexpr unsigned char kSlack = 0xff;

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// Whether the machine can give so much without a process being killed for it. Linux promises more
// than it has.
bool can_give(std::size_t bytes) {
  constexpr std::size_t kSmall = std::size_t{64} << 20;  // not worth asking
  if (bytes < kSmall) return true;
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);) {
    unsigned long long kib = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %llu kB", &kib) == 1) return bytes / 1024 <= kib;
  }
  return true;
}

// The first byte in [begin, end) that is not slack any more, or end.
unsigned char* first_written(unsigned char* begin, unsigned char* end) {
  return std::find_if(begin, end, [](unsigned char byte) { return byte != kSlack; });
}

}  // namespace

GuardedPages GuardedPages::map(std::size_t bytes) {
  const std::size_t page = page_bytes();
  if (bytes > SIZE_MAX - 4 * page || !can_give(bytes)) return {};
  const std::size_t inner = std::max(page, (bytes + page - 1) / page * page);
  void* all = mmap(nullptr, inner + 2 * page, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return {};
  GuardedPages pages;
  pages.begin_ = static_cast<unsigned char*>(all) + page;
  pages.bytes_ = inner;
  if (mprotect(pages.begin_, inner, PROT_READ | PROT_WRITE) != 0) return {};
  return pages;
}

GuardedPages::GuardedPages(GuardedPages&& other) noexcept
    : begin_(std::exchange(other.begin_, nullptr)), bytes_(other.bytes_) {}

GuardedPages& GuardedPages::operator=(GuardedPages&& other) noexcept {
  std::swap(begin_, other.begin_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

GuardedPages::~GuardedPages() {
  if (!empty()) munmap(begin_ - page_bytes(), bytes_ + 2 * page_bytes());
}

bool GuardedPages::guards(const void* address) const {
  const auto* at = static_cast<const unsigned char*>(address);
  return !empty() && at >= begin() - page_bytes() && at < end() + page_bytes() &&
         (at < begin() || at >= end());
}

void* HostMemory::allocate(std::size_t bytes, std::size_t align, std::size_t offset) {
  GuardedPages pages = bytes > SIZE_MAX - align ? GuardedPages() : GuardedPages::map(bytes + align);
  if (pages.empty()) return nullptr;
  // The last address below end - bytes that is `offset` modulo `align`.
  unsigned char* last = pages.end() - bytes;
  unsigned char* data = last - (reinterpret_cast<std::uintptr_t>(last) - offset) % align;
  std::memset(pages.begin(), kSlack, static_cast<std::size_t>(data - pages.begin()));
  std::memset(data, poison_, bytes);
  std::memset(data + bytes, kSlack, static_cast<std::size_t>(pages.end() - data) - bytes);
  const std::lock_guard lock(mutex_);
  blocks_.emplace(data, Block{std::move(pages), bytes});
  return data;
}

void HostMemory::free(void* data) {
  decltype(blocks_)::node_type block;  // unmapped after the lock is released
  const std::lock_guard lock(mutex_);
  block = blocks_.extract(static_cast<const unsigned char*>(data));
}

std::string HostMemory::check() {
  const std::lock_guard lock(mutex_);
  std::string found;
  for (auto& [data, block] : blocks_) {
    unsigned char* begin = block.pages.begin();
    unsigned char* first = begin + (data - begin);
    unsigned char* end = first + block.bytes;
    unsigned char* before = first_written(begin, first);
    unsigned char* after = first_written(end, block.pages.end());
    if (before == first && after == block.pages.end()) continue;
    found = before != first ? std::to_string(first - before) + " bytes before the start"
                            : std::to_string(after - end) + " bytes past the end";
    found += " of a buffer of " + std::to_string(block.bytes) + " bytes";
    std::fill(before, first, kSlack);
    std::fill(after, block.pages.end(), kSlack);
  }
  return found;
}

std::string HostMemory::describe(const void* address) const {
  const auto* at = static_cast<const unsigned char*>(address);
  const std::lock_guard lock(mutex_);
  for (const auto& [data, block] : blocks_) {
    if (!block.pages.guards(address)) continue;
    return (at < data ? std::to_string(data - at) + " bytes before the start"
                      : std::to_string(at - (data + block.bytes)) + " bytes past the end") +
           " of a buffer of " + std::to_string(block.bytes) + " bytes";
  }
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%p", address);
  return std::string("outside of every buffer, at ") + digits;
}

}  // namespace rowsmith
