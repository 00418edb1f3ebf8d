// SPDX-License-Identifier: Apache-2.0
//
// Files of compiled kernels. No lock is held across any call: an entry appears whole by rename, and
// an entry that vanishes under a reader is a miss.
#include "cache/binary_store.h"

#include "cache/directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

namespace rowsmith {
namespace {

namespace fs = std::filesystem;

// The head of a file; integers little-endian. Frozen: a change raises kVersion, and older entries
// become misses.
constexpr char kMagic[8] = {'r', 'o', 'w', 's', 'm', 'b', 'i', 'n'};
constexpr std::uint32_t kVersion = 1;
struct Head {
  char magic[8];
  std::uint32_t version;
  std::uint32_t reserved;
  std::uint64_t bytes;
  char checksum[32];  // digest_of({key, payload}): a file under another's name is no entry, too
};
static_assert(sizeof(Head) == 56);

constexpr const char* kSuffix = ".bin";
constexpr const char* kTemporarySuffix = ".tmp";
// A temporary file this old was left by a process that died.
constexpr std::chrono::hours kStale{1};

Head head_of(const std::string& key, std::string_view bytes) {
  const std::string text = digest_of({key, bytes});
  Head head{};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.version = kVersion;
  head.bytes = bytes.size();
  std::memcpy(head.checksum, text.data(), sizeof head.checksum);
  return head;
}

bool is_key(const std::string& key) {
  return key.size() == 32 && key.find_first_not_of("0123456789abcdef") == std::string::npos;
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// What there is, at most `bytes`; nullopt where the disk would not tell.
std::optional<std::string> read_all(int fd, std::int64_t bytes) {
  std::string content(static_cast<std::size_t>(bytes), '\0');
  std::size_t done = 0;
  while (done < content.size()) {
    const auto part = retrying([&] {
      return static_cast<int>(
          ::read(fd, content.data() + done, std::min<std::size_t>(content.size() - done, 1 << 30)));
    });
    if (part < 0) return std::nullopt;
    if (part == 0) break;
    done += static_cast<std::size_t>(part);
  }
  content.resize(done);
  return content;
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto part = retrying([&] {
      return static_cast<int>(
          ::write(fd, bytes.data(), std::min<std::size_t>(bytes.size(), 1 << 30)));
    });
    if (part < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(part));
  }
  return true;
}

}  // namespace

std::string digest_of(const std::vector<std::string_view>& parts) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  XXH3_128bits_reset(state.get());
  for (const std::string_view part : parts) {
    unsigned char length[8];
    for (int i = 0; i < 8; ++i) {
      length[i] = static_cast<unsigned char>(std::uint64_t{part.size()} >> (8 * i));
    }
    XXH3_128bits_update(state.get(), length, sizeof length);
    XXH3_128bits_update(state.get(), part.data(), part.size());
  }
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state.get()));
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

BinaryStore::BinaryStore(BinaryStoreOptions options) : options_(std::move(options)) {}

std::string BinaryStore::path_of(const std::string& directory, const std::string& key) const {
  return directory + "/" + key + kSuffix;
}

std::vector<std::string> BinaryStore::take_notes() {
  const std::lock_guard lock(notes_mutex_);
  const auto from = notes_.begin() + static_cast<std::ptrdiff_t>(taken_);
  taken_ = notes_.size();
  return {from, notes_.end()};
}

bool BinaryStore::is_trusted(const std::string& path) {
  const std::string why = why_untrusted(path);
  if (why.empty()) return true;
  const std::string note = "compiled kernels are passed over: " + why;
  const std::lock_guard lock(notes_mutex_);
  if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(note);
  return false;
}

std::optional<std::string> BinaryStore::get(const std::string& key) {
  if (!is_key(key)) return std::nullopt;
  std::optional<std::string> bytes;
  if (!options_.directory.empty()) bytes = read(options_.directory, key, true);
  for (const std::string& site : options_.site) {
    if (!bytes) bytes = read(site, key, false);
  }
  return bytes;
}

std::optional<std::string> BinaryStore::read(const std::string& directory, const std::string& key,
                                             bool own) {
  const std::string path = path_of(directory, key);
  // Without waiting for a writer, where the name is a pipe's.
  const Descriptor file(
      retrying([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  struct stat info;
  if (file.get() < 0 || fstat(file.get(), &info) != 0) return std::nullopt;
  if (!is_trusted(directory) || !is_trusted(path)) return std::nullopt;
  // No damage where the disk will not tell: a stale handle means that another process has put a new
  // entry under the name.
  const auto begin = S_ISREG(info.st_mode) ? read_all(file.get(), sizeof(Head)) : std::string();
  if (!begin) return std::nullopt;
  Head head{};
  std::memcpy(&head, begin->data(), begin->size());
  // Checked before so much is read: a file may claim any size.
  const std::int64_t bytes = info.st_size - static_cast<std::int64_t>(sizeof(Head));
  if (bytes >= 0 && bytes <= options_.cap_bytes &&
      head.bytes == static_cast<std::uint64_t>(bytes)) {
    auto payload = read_all(file.get(), bytes);
    if (!payload) return std::nullopt;
    const Head expected = head_of(key, *payload);
    if (std::memcmp(&head, &expected, sizeof(Head)) == 0) {
      // The time of last use, for trim(); the access time is often not kept by the disk.
      if (own && writes()) static_cast<void>(futimens(file.get(), nullptr));
      return payload;
    }
  }
  if (own && writes()) std::remove(path.c_str());  // an empty directory, too
  return std::nullopt;
}

Status BinaryStore::put(const std::string& key, std::string_view bytes) {
  if (!is_key(key)) return {Code::kInvalidArgument, "'" + key + "' is not a binary's key"};
  if (!writes()) return {};
  const auto file_bytes = static_cast<std::int64_t>(sizeof(Head) + bytes.size());
  if (file_bytes > options_.cap_bytes) {
    return {Code::kInvalidArgument,
            "a binary of " + std::to_string(bytes.size()) + " bytes is above the cap of the store"};
  }
  if (Status made = make_private_directory(options_.directory); !made.ok()) return made;
  if (!is_trusted(options_.directory)) {
    return {Code::kCacheBusy, why_untrusted(options_.directory)};
  }
  const std::string path = path_of(options_.directory, key);
  const std::string temporary = unique_sibling(path, kTemporarySuffix);
  const char* call = "open";
  bool done = false;
  int error = 0;
  {
    const Descriptor file(retrying(
        [&] { return ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600); }));
    if (file.get() >= 0) {
      const Head head = head_of(key, bytes);
      call = "write";
      done = write_all(file.get(), {reinterpret_cast<const char*>(&head), sizeof head}) &&
             write_all(file.get(), bytes) && retrying([&] { return fsync(file.get()); }) == 0;
    }
    error = errno;
  }
  if (done) {
    call = "rename";
    done = retrying([&] { return rename(temporary.c_str(), path.c_str()); }) == 0;
    error = errno;
  }
  if (!done) {
    unlink(temporary.c_str());
    return {Code::kCacheBusy, "cannot keep " + path + ": " + call + ": " + errno_text(error)};
  }
  trim();
  return {};
}

// Stale temporary files, and the least recently used entries past the cap.
std::vector<BinaryStore::Surplus> BinaryStore::surplus() const {
  struct Entry {
    fs::file_time_type used;
    Surplus file;
  };
  std::vector<Entry> entries;
  std::vector<Surplus> surplus;
  std::int64_t total = 0;
  // Entries may vanish while they are looked at: another process trims, too.
  std::error_code error;
  for (fs::directory_iterator it(options_.directory, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code gone;
    Entry entry{it->last_write_time(gone), {it->path().string(), 0}};
    if (!gone) entry.file.bytes = static_cast<std::int64_t>(it->file_size(gone));
    if (gone) continue;
    const fs::path extension = it->path().extension();
    if (extension == kTemporarySuffix && fs::file_time_type::clock::now() - entry.used > kStale) {
      surplus.push_back(std::move(entry.file));
    } else if (extension == kSuffix) {
      total += entry.file.bytes;
      entries.push_back(std::move(entry));
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (Entry& entry : entries) {
    if (total <= options_.cap_bytes) break;
    total -= entry.file.bytes;
    surplus.push_back(std::move(entry.file));
  }
  return surplus;
}

std::int64_t BinaryStore::surplus_bytes() const {
  std::int64_t bytes = 0;
  for (const Surplus& file : surplus()) bytes += file.bytes;
  return bytes;
}

std::int64_t BinaryStore::trim() {
  if (!writes()) return 0;
  std::int64_t released = 0;
  for (const Surplus& file : surplus()) {
    std::error_code error;
    if (fs::remove(file.path, error)) released += file.bytes;
  }
  return released;
}

}  // namespace rowsmith
