// SPDX-License-Identifier: Apache-2.0
// The hash of the bytes that a copy sends.
#include "preload/session/content_hash.hpp"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <vector>

#include "tests/catch.hpp"

namespace gpumemtrace::content_hash_test {

using namespace gpumemtrace::preload;
using gpumemtrace::trace::Copy;
using gpumemtrace::trace::EndType;

namespace {

Copy copy_of(const void* source, std::uint64_t bytes) {
  Copy copy;
  copy.source = reinterpret_cast<std::uint64_t>(source);
  copy.source_type = EndType::kHost;
  copy.destination_type = EndType::kDevice;
  copy.dimensions = 1;
  copy.bytes = bytes;
  return copy;
}

std::uint64_t hash_of(const std::vector<char>& contents) {
  return hash_of_source(copy_of(contents.data(), contents.size()));
}

// Makes contents without a period.
std::vector<char> contents_of(std::size_t bytes) {
  std::vector<char> contents(bytes);
  std::uint32_t state = 1;
  for (char& c : contents) {
    state = state * 1664525 + 1013904223;
    c = static_cast<char>(state >> 24);
  }
  return contents;
}

}  // namespace

TEST_CASE("equal contents have equal hashes, wherever they lie", "[unit]") {
  for (const std::size_t bytes : {1u, 31u, 32u, 33u, 4096u, 16384u, 16385u, 100'000u}) {
    CAPTURE(bytes);
    const std::vector<char> contents = contents_of(bytes);
    std::vector<char> shifted(bytes + 3);
    std::memcpy(shifted.data() + 3, contents.data(), bytes);
    const std::uint64_t hash = hash_of(contents);
    CHECK(hash != 0);
    CHECK(hash_of_source(copy_of(shifted.data() + 3, bytes)) == hash);
  }
}

TEST_CASE("contents that differ in one byte or in length have other hashes", "[unit]") {
  constexpr std::size_t kBytes = 3 * 16384 + 45;
  std::vector<char> contents = contents_of(kBytes);
  std::set<std::uint64_t> seen = {hash_of(contents)};
  std::size_t different = 1;
  for (const std::size_t at : {std::size_t{0}, std::size_t{7}, std::size_t{8}, std::size_t{31},
                               std::size_t{32}, std::size_t{16383}, std::size_t{16384},
                               std::size_t{32768}, kBytes - 14, kBytes - 13, kBytes - 1}) {
    contents[at] = static_cast<char>(contents[at] ^ 1);
    seen.insert(hash_of(contents));
    contents[at] = static_cast<char>(contents[at] ^ 1);
    ++different;
  }
  CHECK(seen.size() == different);
  CHECK(hash_of(std::vector<char>(5)) != hash_of(std::vector<char>(6)));
  CHECK(hash_of(std::vector<char>(32)) != hash_of(std::vector<char>(64)));
}

TEST_CASE("the order of equal parts counts", "[unit]") {
  std::vector<char> contents = contents_of(2 * 16384);
  const std::uint64_t hash = hash_of(contents);
  std::vector<char> turned(contents.begin() + 16384, contents.end());
  turned.insert(turned.end(), contents.begin(), contents.begin() + 16384);
  CHECK(hash_of(turned) != hash);
}

TEST_CASE("only what a call says to come from host memory in one piece is read", "[unit]") {
  const std::vector<char> contents = contents_of(64);
  const Copy good = copy_of(contents.data(), contents.size());
  REQUIRE(hash_of_source(good) != 0);
  Copy copy = good;
  copy.source_type = EndType::kDevice;
  CHECK(hash_of_source(copy) == 0);
  copy = good;
  copy.source_type = EndType::kUnknown;
  CHECK(hash_of_source(copy) == 0);
  copy = good;
  copy.destination_type = EndType::kHost;
  CHECK(hash_of_source(copy) == 0);
  copy = good;
  copy.dimensions = 2;
  CHECK(hash_of_source(copy) == 0);
  copy = good;
  copy.call.record.flags = gpumemtrace::trace::kFlagCaptured;
  CHECK(hash_of_source(copy) == 0);
  copy = good;
  copy.bytes = 0;
  CHECK(hash_of_source(copy) == 0);
}

TEST_CASE("memory that cannot be read has no hash, and errno stays", "[unit]") {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const memory =
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  REQUIRE(munmap(static_cast<char*>(memory) + page, page) == 0);
  errno = ENOTTY;
  CHECK(hash_of_source(copy_of(memory, page)) != 0);
  CHECK(hash_of_source(copy_of(memory, page + 1)) == 0);
  CHECK(hash_of_source(copy_of(nullptr, 8)) == 0);
  CHECK(errno == ENOTTY);
  munmap(memory, page);
}

TEST_CASE("contents are hashed where the user asks for it", "[unit]") {
  CHECK_FALSE(hashes_contents());
  Config config;
  config.hash_copies = true;
  set_content_hashing(config);
  CHECK(hashes_contents());
  set_content_hashing(Config{});
  CHECK_FALSE(hashes_contents());
}

}  // namespace gpumemtrace::content_hash_test
