// SPDX-License-Identifier: Apache-2.0
// The recorder looks up symbols in the memory of a library that may be gone. An input has program
// headers, as many as its first byte says, then the memory at the place of the library.
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "preload/loader/elf_symbols.hpp"
#include "tests/fuzz/checks.hpp"

namespace {

using namespace gpumemtrace::preload;
using gpumemtrace::tests::require;

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kMostImageBytes = 64 << 10;

// The place of the library: its content ends with the last page, and nothing is mapped behind it.
std::uint8_t* place_of_library() {
  static std::uint8_t* const place = [] {
    void* const memory = mmap(nullptr, kMostImageBytes + kPageBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED, "there is memory");
    auto* const bytes = static_cast<std::uint8_t*>(memory);
    munmap(bytes + kMostImageBytes, kPageBytes);
    return bytes;
  }();
  return place;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::vector<ElfW(Phdr)> headers(
      std::min<std::size_t>(data[0] % 4, (size - 1) / sizeof(ElfW(Phdr))));
  const std::size_t header_bytes = headers.size() * sizeof(ElfW(Phdr));
  if (!headers.empty()) std::memcpy(headers.data(), data + 1, header_bytes);
  const std::size_t begin = 1 + header_bytes;
  const std::size_t bytes = std::min(size - begin, kMostImageBytes);
  // The content fills whole pages at the end of the mapped memory.
  const std::size_t pages = (bytes + kPageBytes - 1) / kPageBytes;
  std::uint8_t* const image = place_of_library() + kMostImageBytes - pages * kPageBytes;
  std::memset(image, 0, pages * kPageBytes);
  std::memcpy(image, data + begin, bytes);
  dl_phdr_info info = {};
  info.dlpi_addr = reinterpret_cast<std::uintptr_t>(image);
  info.dlpi_phdr = headers.data();
  info.dlpi_phnum = static_cast<ElfW(Half)>(headers.size());
  (void)find_symbol_checked(info, "_PyRuntime");
  (void)find_symbol_checked(info, "no_such_symbol");
  return 0;
}
