// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/simulated_cuda/backing.hpp"
#include "tests/simulated_cuda/card.hpp"
#include "tests/simulated_cuda/free_ranges.hpp"
#include "tests/simulated_cuda/handles.hpp"
#include "tests/simulated_cuda/settings.hpp"

namespace gpumemtrace::cuda_abi::simulated {

inline constexpr std::uint64_t kGranuleBytes = std::uint64_t{2} << 20;
inline constexpr std::uint64_t kSmallAlignment = 512;

constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

enum class Kind {
  kDevice,
  kPool,
  kGraph,
  kManaged,
  kPinned,
  kRegistered,
  kArray,
  kIpc,
  kPoolImport,
  kExternal,
  kMapping,
};

// One address range that the driver has allocated or mapped.
struct Allocation {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t occupied_bytes = 0;
  Kind kind = Kind::kDevice;
  CUcontext context = nullptr;
  Device* device = nullptr;
  CUmemoryPool pool = nullptr;
  std::uint64_t id = 0;
  unsigned int flags = 0;
  unsigned int open_count = 1;        // IPC: number of openings
  std::uint64_t physical_handle = 0;  // mapping: the physical memory, and the offset in it
  std::uint64_t physical_offset = 0;
  bool accessible = true;  // mapping: true after cuMemSetAccess
  bool touched = false;    // the operating system may have committed memory for it
  std::string origin;      // IPC: describes the memory and its process
};

// Physical memory that cuMemCreate made or that was imported.
struct PhysicalMemory {
  CUmemAllocationProp properties{};
  Device* device = nullptr;  // the device that is charged; null if imported or on the host
  std::uint64_t bytes = 0;
  unsigned int references = 1;
  unsigned int mappings = 0;
  int file = -1;                     // memory file of its own, if it can be exported
  std::uint64_t hidden_address = 0;  // without a file: the device address of its bytes
};

struct Chunk {
  std::uint64_t live_bytes = 0;
  bool touched = false;
};

struct Device {
  int ordinal = 0;
  std::uint64_t capacity_bytes = 0;
  std::uint64_t used_bytes = 0;
  FreeRanges small{kGranuleBytes};        // free parts of chunks of 2 MiB, for small allocations
  std::map<std::uint64_t, Chunk> chunks;  // chunks by address
  CUcontext primary = nullptr;            // null until it is first retained
  unsigned int primary_count = 0;
  unsigned int primary_flags = 0;
  CUmemoryPool default_pool = nullptr;
  CUmemoryPool current_pool = nullptr;
  std::uint64_t graph_used_bytes = 0;
  std::uint64_t graph_used_high_bytes = 0;
  std::uint64_t graph_reserved_bytes = 0;
  std::uint64_t graph_reserved_high_bytes = 0;
};

// The live objects of one handle type. A handle that is not among them is never dereferenced.
template <typename Object>
class Registry {
 public:
  Object* create() {
    auto object = std::make_unique<Object>();
    Object* handle = object.get();
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  bool has(const Object* handle) const { return objects_.count(handle) != 0; }
  void destroy(const Object* handle) { objects_.erase(handle); }
  template <typename Visit>
  void for_each(Visit visit) {
    for (auto& [handle, object] : objects_) visit(object.get());
  }

 private:
  std::unordered_map<const Object*, std::unique_ptr<Object>> objects_;
};

// All state of the simulated driver. Its only object is never destroyed, because destructors of
// static objects still call the driver.
struct State {
  Settings settings;
  bool initialized = false;
  CUresult sticky_error = CUDA_SUCCESS;
  std::uint64_t last_id = 0;

  Backing backing;
  FreeRanges addresses;
  FreeRanges low_addresses;
  std::vector<std::unique_ptr<Device>> devices;
  Card* card = nullptr;
  Card::Process* card_entry = nullptr;
  std::map<std::uint64_t, Allocation> allocations;      // by address; ranges never overlap
  std::map<std::uint64_t, std::uint64_t> reservations;  // bytes by begin address
  std::map<std::uint64_t, PhysicalMemory> physical;     // memory by its handle

  Registry<CUctx_st> contexts;
  Registry<CUstream_st> streams;
  Registry<CUevent_st> events;
  Registry<CUmemPoolHandle_st> pools;
  Registry<CUarray_st> arrays;
  Registry<CUmipmappedArray_st> mipmapped_arrays;
  Registry<CUextMemory_st> external_memories;
  Registry<CUgraph_st> graphs;
  Registry<CUgraphExec_st> executable_graphs;
  Registry<CUmod_st> modules;
  Registry<CUlib_st> libraries;
  CUstream legacy_stream = nullptr;
  std::vector<CUstream> capturing;  // the streams on which captures began

  std::uint64_t next_id() { return ++last_id; }
};

State& state();

// Returns null if no device has this ordinal.
Device* find_device(CUdevice ordinal);

// The calling thread's current context; null if there is none. A destroyed context may still be
// current.
CUcontext current_context();

// The bytes that other processes hold of a device.
std::uint64_t bytes_of_others(const Device& device);

// Counts physical memory as used on a device, after trimming its pools if it is full. False if
// there is still not enough.
bool charge(Device* device, std::uint64_t bytes);
void refund(Device* device, std::uint64_t bytes);

// Takes device memory: small sizes out of a chunk, larger ones in units of 2 MiB. Returns 0 if the
// device is full. `low` asks for an address below 4 GiB.
std::uint64_t take_device_memory(Device* device, std::uint64_t bytes, bool low = false);
void give_device_memory(Device* device, std::uint64_t address, std::uint64_t bytes, bool touched);

// Adds an allocation to the table and assigns its id.
Allocation& remember(Allocation allocation);

// Returns the allocation that contains the address, or null.
Allocation* find_allocation(std::uint64_t address);
// Returns the allocation that begins at the address, or null.
Allocation* find_allocation_start(std::uint64_t address);
// Frees the memory of an allocation and removes it from the table.
void release_allocation(std::uint64_t address);

// Returns the host address of the bytes [address, address + bytes) in this process; null if a part
// of them is not accessible memory. An address unknown to the driver is taken as host memory.
std::byte* resolve(std::uint64_t address, std::uint64_t bytes);
// As resolve(), but null also for an address unknown to the driver, which no device can use.
std::byte* resolve_device(std::uint64_t address, std::uint64_t bytes);

}  // namespace gpumemtrace::cuda_abi::simulated
