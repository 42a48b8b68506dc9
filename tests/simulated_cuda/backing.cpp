// SPDX-License-Identifier: Apache-2.0
#include "tests/simulated_cuda/backing.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace gpumemtrace::cuda_abi::simulated {
namespace {

constexpr std::uint64_t kAlignment = std::uint64_t{2} << 20;

std::byte* map_window(std::uint64_t bytes, int file, std::uint64_t offset) {
  void* window = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file,
                      static_cast<off_t>(offset));
  return window == MAP_FAILED ? nullptr : static_cast<std::byte*>(window);
}

}  // namespace

bool Backing::open() {
  if (file_ != -1) return true;
  const int file = memfd_create("simulated-cuda-memory", MFD_CLOEXEC);
  if (file == -1) return false;
  Region wide;
  wide.bytes = kWideBytes;
  void* addresses = mmap(nullptr, kWideBytes + kAlignment, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (ftruncate(file, static_cast<off_t>(kWideBytes + kLowBytes)) == 0) {
    wide.window = map_window(kWideBytes, file, 0);
  }
  if (addresses == MAP_FAILED || wide.window == nullptr) {
    close(file);
    return false;
  }
  wide.base =
      (reinterpret_cast<std::uint64_t>(addresses) + kAlignment - 1) / kAlignment * kAlignment;
  regions_[0] = wide;
  file_ = file;
  return true;
}

bool Backing::open_low() {
  Region& low = regions_[1];
  if (low.bytes != 0) return true;
  constexpr std::uint64_t kFirst = std::uint64_t{0x20000000};
  constexpr std::uint64_t kEnd = std::uint64_t{1} << 32;
  for (std::uint64_t base = kFirst; base + kLowBytes < kEnd; base += kLowBytes) {
    void* wanted = reinterpret_cast<void*>(base);
    void* addresses =
        mmap(wanted, kLowBytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (addresses == wanted) {
      low.window = map_window(kLowBytes, file_, kWideBytes);
      if (low.window == nullptr) return false;
      low.base = base;
      low.file_offset = kWideBytes;
      low.bytes = kLowBytes;
      return true;
    }
    if (addresses != MAP_FAILED) munmap(addresses, kLowBytes);
  }
  return false;
}

const Backing::Region* Backing::region_of(std::uint64_t address) const {
  for (const Region& region : regions_) {
    if (address >= region.base && address - region.base < region.bytes) return &region;
  }
  return nullptr;
}

bool Backing::contains(std::uint64_t address) const { return region_of(address) != nullptr; }

std::byte* Backing::host(std::uint64_t address) const {
  const Region* region = region_of(address);
  return region->window + (address - region->base);
}

std::uint64_t Backing::file_offset(std::uint64_t address) const {
  const Region* region = region_of(address);
  return region->file_offset + (address - region->base);
}

bool Backing::map_file(std::uint64_t address, std::uint64_t bytes, int file, std::uint64_t offset) {
  return mmap(host(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
              file, static_cast<off_t>(offset)) != MAP_FAILED;
}

bool Backing::map_own(std::uint64_t address, std::uint64_t bytes) {
  return map_file(address, bytes, file_, file_offset(address));
}

void Backing::discard(std::uint64_t address, std::uint64_t bytes) {
  // Some sandboxes refuse to punch holes; the memory then stays committed until the process ends.
  static_cast<void>(fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                              static_cast<off_t>(file_offset(address)), static_cast<off_t>(bytes)));
}

}  // namespace gpumemtrace::cuda_abi::simulated
