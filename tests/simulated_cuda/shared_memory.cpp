// SPDX-License-Identifier: Apache-2.0
#include "tests/simulated_cuda/shared_memory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

namespace gpumemtrace::cuda_abi::simulated {
namespace {

struct Description {
  char magic[8];
  std::int64_t pid;
  std::int64_t file;
  std::uint64_t offset;
  std::uint64_t bytes;
  std::int64_t device;
  std::uint64_t id;  // unique for each allocation, also if its address is used again
};
static_assert(sizeof(Description) <= sizeof(CUipcMemHandle));

constexpr char kMagic[8] = "simcuda";
constexpr std::uint64_t kSharedPageBytes = 4096;

}  // namespace

void describe_shared(const Allocation& allocation, void* handle) {
  Description description{};
  std::memcpy(description.magic, kMagic, sizeof kMagic);
  description.pid = getpid();
  description.file = state().backing.file();
  description.offset = state().backing.file_offset(allocation.address);
  description.bytes = allocation.bytes;
  description.device = allocation.device->ordinal;
  description.id = allocation.id;
  std::memset(handle, 0, sizeof(CUipcMemHandle));
  std::memcpy(handle, &description, sizeof description);
}

CUresult open_shared(const void* handle, Kind kind, CUmemoryPool pool, CUdeviceptr* address) {
  Description description{};
  std::memcpy(&description, handle, sizeof description);
  if (address == nullptr || std::memcmp(description.magic, kMagic, sizeof kMagic) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // The real driver refuses to open an IPC handle in the process that made it.
  if (description.pid == getpid() && kind == Kind::kIpc) return CUDA_ERROR_INVALID_CONTEXT;
  const std::string origin(static_cast<const char*>(handle), sizeof description);
  for (auto& [start, allocation] : state().allocations) {
    if (allocation.origin != origin || allocation.kind != kind) continue;
    ++allocation.open_count;
    *address = start;
    return CUDA_SUCCESS;
  }
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%lld/fd/%lld", static_cast<long long>(description.pid),
                static_cast<long long>(description.file));
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file == -1) return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t into_page = description.offset % kSharedPageBytes;
  const std::uint64_t bytes = round_up(description.bytes + into_page, kGranuleBytes);
  const std::uint64_t mapped = map_foreign(file, description.offset - into_page, bytes);
  close(file);
  if (mapped == 0) return CUDA_ERROR_MAP_FAILED;
  Allocation allocation;
  allocation.address = mapped + into_page;
  allocation.bytes = description.bytes;
  allocation.occupied_bytes = bytes;
  allocation.kind = kind;
  allocation.context = current_context();
  allocation.device = find_device(static_cast<CUdevice>(description.device));
  allocation.pool = pool;
  allocation.origin = origin;
  remember(std::move(allocation));
  *address = mapped + into_page;
  return CUDA_SUCCESS;
}

std::uint64_t map_foreign(int file, std::uint64_t offset, std::uint64_t bytes) {
  State& driver = state();
  const auto address = driver.addresses.take(bytes, kGranuleBytes);
  if (!address) return 0;
  if (driver.backing.map_file(*address, bytes, file, offset)) return *address;
  driver.addresses.add(*address, bytes);
  return 0;
}

}  // namespace gpumemtrace::cuda_abi::simulated
