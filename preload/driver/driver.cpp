// SPDX-License-Identifier: Apache-2.0
#include "preload/driver/driver.hpp"

#include <string.h>

#include <algorithm>
#include <atomic>
#include <iterator>

#include "preload/base/append_once.hpp"
#include "preload/driver/cuda_abi.hpp"
#include "preload/loader/elf_symbols.hpp"
#include "preload/loader/exit_functions.hpp"
#include "preload/loader/lazy_symbols.hpp"
#include "preload/loader/real_dlsym.hpp"
#include "preload/loader/torch_libraries.hpp"

namespace gpumemtrace::preload::driver {
namespace {

using namespace cuda_abi;

struct Resolved {
  std::atomic<void*> exported = nullptr;
  std::atomic<void*> pointer = nullptr;
};

// An open-addressed hash map: maps each address of a driver function that a program may hold to the
// function's wrapper. Filled once, then only read.
class WrapperByAddress {
 public:
  void insert(void* address, void* wrapper) noexcept {
    if (address == nullptr || find(address) != nullptr) return;
    for (std::size_t i = slot(address);; i = (i + 1) % kSlots) {
      if (entries_[i].address != nullptr) continue;
      entries_[i] = {address, wrapper};
      return;
    }
  }
  void* find(void* address) const noexcept {
    for (std::size_t i = slot(address); entries_[i].address != nullptr; i = (i + 1) % kSlots) {
      if (entries_[i].address == address) return entries_[i].wrapper;
    }
    return nullptr;
  }

 private:
  static constexpr std::size_t kSlots = 4096;
  static_assert(kSlots > 4 * 2 * kApiCount,
                "two addresses for each function must leave the map sparse");
  static std::size_t slot(const void* address) noexcept {
    return (reinterpret_cast<std::uintptr_t>(address) >> 4) * 0x9e3779b97f4a7c15ull >> 52;
  }
  struct Entry {
    void* address;
    void* wrapper;
  };
  Entry entries_[kSlots] = {};
};

constexpr char kLibrary[] = "libcuda.so.1";
constexpr char kFilePrefix[] = "libcuda.so";

enum : int { kUnresolved, kResolving, kReady };

constinit std::atomic<int> resolution = kUnresolved;
constinit Resolved functions[kApiCount];
constinit Resolved get_proc_address[kGetProcAddressVersions];
constinit WrapperByAddress wrapper_by_address;
// The driver's symbol tables: valid once `resolution` is kReady. libcuda is never unloaded, because
// resolve() keeps its handle open.
constinit ElfLibrary library;

// Looks one driver function up for both ways to reach its wrapper (driver::Entry), and makes
// `wrapper_by_address` lead from the function's addresses to the wrapper for pointers.
void resolve_function(Resolved& function, void* handle, const char* symbol, void* exported_wrapper,
                      void* pointer_wrapper) noexcept {
  void* by_handle = real_dlsym(handle, symbol);
  void* next = real_dlsym(RTLD_NEXT, symbol);
  function.pointer.store(by_handle);
  function.exported.store(next != nullptr && next != exported_wrapper ? next : by_handle);
  wrapper_by_address.insert(by_handle, pointer_wrapper);
  // If another library hooks dlsym, the driver's own cuGetProcAddress returns another address than
  // dlsym: the one in the driver's symbol table.
  wrapper_by_address.insert(symbol_of(library, symbol), pointer_wrapper);
}

// Looks the driver's functions up at the first call that finds the driver loaded. True once they
// are known.
bool resolve() noexcept {
  // Acquire: pairs with the release store of kReady.
  if (resolution.load(std::memory_order_acquire) == kReady) return true;
  void* handle = libc_dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) {
    libc_dlerror();  // clears the error of our dlopen, which the program must not see
    return false;
  }
  int expected = kUnresolved;
  if (!resolution.compare_exchange_strong(expected, kResolving)) {
    // Another thread resolves the functions, in well under a millisecond and without a lock of
    // ours.
    for (int spin = 0; spin < 100'000'000 && resolution.load() != kReady; ++spin) {
    }
    return resolution.load() == kReady;
  }
  // If no file libcuda.so* is found, `library` stays empty and symbol_of() finds nothing in it.
  static_cast<void>(find_library(kFilePrefix, "cuInit", library));
  for (std::size_t i = 1; i < kApiCount; ++i) {
    const ApiInfo& api = apis()[i];
    resolve_function(functions[i], handle, api.symbol, api.exported, api.pointer);
  }
  for (std::size_t i = 0; i < std::size(get_proc_address); ++i) {
    const ApiInfo& version = get_proc_address_versions()[i];
    resolve_function(get_proc_address[i], handle, version.symbol, version.exported,
                     version.pointer);
  }
  find_exit_functions();
  libc_dlerror();  // clears the errors of look-ups of functions that this driver lacks
  resolution.store(kReady, std::memory_order_release);
  return true;
}

// An unwrapped function of the driver, looked up at its first use.
template <class Function>
class Query {
 public:
  explicit constexpr Query(const char* name) noexcept : name_(name) {}
  Function* get() noexcept {
    void* known = address_.load(std::memory_order_relaxed);  // relaxed: guards no other data
    if (known == nullptr) {
      known = query(name_);
      address_.store(known, std::memory_order_relaxed);
    }
    return reinterpret_cast<Function*>(known);
  }

 private:
  const char* name_;
  std::atomic<void*> address_ = nullptr;
};
constinit Query<cuCtxGetCurrent_t> get_current("cuCtxGetCurrent");
constinit Query<cuCtxGetDevice_t> get_device("cuCtxGetDevice");
constinit Query<cuDevicePrimaryCtxGetState_t> get_primary_state("cuDevicePrimaryCtxGetState");
constinit Query<cuStreamIsCapturing_t> is_capturing("cuStreamIsCapturing");
constinit Query<cuStreamIsCapturing_t> is_capturing_per_thread("cuStreamIsCapturing_ptsz");
constinit Query<cuStreamGetCtx_t> get_stream_context("cuStreamGetCtx");
constinit Query<cuMemGetAddressRange_v2_t> get_address_range("cuMemGetAddressRange_v2");

// True for names of functions that allocate, free, map, copy or set memory, as far as a name shows
// it; false for getters and for the functions in kHarmless.
bool looks_like_memory_function(const char* name) noexcept {
  static constexpr const char* kPrefixes[] = {"cuMem",
                                              "cuArray",
                                              "cuMipmappedArray",
                                              "cuIpcOpenMem",
                                              "cuIpcClose",
                                              "cuMulticast",
                                              "cuImportExternalM",
                                              "cuExternalMemory",
                                              "cuDestroyE",
                                              "cuGraphAddMem",
                                              "cuGraphAddNode",
                                              "cuGraphicsMap",
                                              "cuCtxCreate",
                                              "cuCtxDestroy",
                                              "cuDevicePrimaryCtxRe",
                                              "cuStreamBeginCapture",
                                              "cuGraphLaunch",
                                              "cuGraphInstantiate",
                                              "cuDeviceSetMemPool",
                                              "cuDeviceGraphMemTrim"};
  static constexpr const char* kHarmless[] = {"cuMemPoolSetAccess", "cuMemRangeGetAttribute",
                                              "cuMulticastAddDevice", "cuMemHostUnregister",
                                              "cuDestroyExternalSemaphore"};
  const auto begins_name = [&](const char* prefix) { return has_prefix(name, prefix); };
  return strstr(name, "Get") == nullptr && std::ranges::none_of(kHarmless, begins_name) &&
         std::ranges::any_of(kPrefixes, begins_name);
}

// True for wrappers of event functions, which are wrapped only for PyTorch, because other programs
// call these functions often.
bool is_for_pytorch(const void* wrapper) noexcept {
  for (const ApiId api : {ApiId::cuEventCreate, ApiId::cuEventRecord, ApiId::cuEventRecord_ptsz,
                          ApiId::cuEventQuery}) {
    if (apis()[static_cast<std::size_t>(api)].pointer == wrapper) return true;
  }
  return false;
}

}  // namespace

bool is_loaded() noexcept { return resolve(); }

void* real(ApiId api, Entry entry) noexcept {
  const Resolved& function = functions[static_cast<std::size_t>(api)];
  const auto load = [&]() noexcept {
    // Relaxed: guards no other data; the driver was loaded before the pointer was stored.
    return entry == Entry::kExported ? function.exported.load(std::memory_order_relaxed)
                                     : function.pointer.load(std::memory_order_relaxed);
  };
  if (void* known = load(); known != nullptr) [[likely]]
    return known;
  return resolve() ? load() : nullptr;
}

void* real_get_proc_address(int version, Entry entry) noexcept {
  if (!resolve()) return nullptr;
  const Resolved& function = get_proc_address[version - 1];
  return entry == Entry::kExported ? function.exported.load() : function.pointer.load();
}

// Finds the definition of a driver function in a library that stands in for the driver.
void* stand_in(const ApiInfo& api, Entry entry) noexcept {
  if (entry != Entry::kExported) return nullptr;
  void* const next = real_dlsym(RTLD_NEXT, api.symbol);
  if (next != nullptr) return next;
  if (libc_dlerror) libc_dlerror();  // clears the error of our look-up
  // dlsym does not search libraries that were opened with RTLD_LOCAL, find_symbol_behind() does.
  return find_symbol_behind(api.exported, api.symbol);
}

// The wrapper for the driver function at `address`. Without one returns `address` itself, and notes
// `name` for the coverage report if it looks like a memory function.
void* wrap(void* address, const char* name) noexcept {
  if (address == nullptr || !resolve()) return address;
  if (void* wrapper = wrapper_by_address.find(address); wrapper != nullptr) {
    const bool is_wanted = !is_for_pytorch(wrapper) || find_torch_allocator() != nullptr;
    return is_wanted ? wrapper : address;
  }
  if (name != nullptr && looks_like_memory_function(name)) record_unwrapped(name, address);
  return address;
}

void* query(const char* name) noexcept { return resolve() ? symbol_of(library, name) : nullptr; }

std::uint64_t current_context() noexcept {
  cuCtxGetCurrent_t* function = get_current.get();
  CUcontext context = nullptr;
  if (function == nullptr || function(&context) != CUDA_SUCCESS) return 0;
  return reinterpret_cast<std::uintptr_t>(context);
}

std::uint64_t context_of_stream(std::uint64_t stream) noexcept {
  cuStreamGetCtx_t* function = get_stream_context.get();
  CUcontext context = nullptr;
  if (function == nullptr ||
      function(reinterpret_cast<CUstream>(stream), &context) != CUDA_SUCCESS) {
    return 0;
  }
  return reinterpret_cast<std::uintptr_t>(context);
}

// The driver answers for the current context only, so only that context's device can be known.
int device_of_context(std::uint64_t handle) noexcept {
  if (current_context() != handle) return -1;
  cuCtxGetDevice_t* function = get_device.get();
  CUdevice device = -1;
  if (function == nullptr || function(&device) != CUDA_SUCCESS) return -1;
  return device;
}

bool primary_context_is_active(int device) noexcept {
  cuDevicePrimaryCtxGetState_t* function = get_primary_state.get();
  unsigned int flags = 0;
  int active = 0;
  return function != nullptr && function(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

bool stream_is_capturing(std::uint64_t stream, bool per_thread_default) noexcept {
  cuStreamIsCapturing_t* function =
      per_thread_default ? is_capturing_per_thread.get() : is_capturing.get();
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return function != nullptr &&
         function(reinterpret_cast<CUstream>(stream), &status) == CUDA_SUCCESS &&
         status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

std::uint64_t mapped_bytes(std::uint64_t address) noexcept {
  cuMemGetAddressRange_v2_t* function = get_address_range.get();
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  if (function == nullptr || function(&base, &bytes, address) != CUDA_SUCCESS) return 0;
  return bytes;
}

namespace {

constexpr std::size_t kMaxEntries = 128;

constinit AppendOnce<Unwrapped, kMaxEntries> unwrapped;
constinit AppendOnce<const void*, kMaxEntries> runtime_callers;

}  // namespace

void record_unwrapped(const char* name, const void* address) noexcept {
  const auto is_same = [&](const Unwrapped& entry) { return strcmp(entry.name, name) == 0; };
  const auto fill = [&](Unwrapped& entry) {
    for (std::size_t i = 0; i < kMaxUnwrappedName && name[i] != '\0'; ++i) entry.name[i] = name[i];
    entry.address = address;
  };
  unwrapped.add(is_same, fill);  // ignores names beyond kMaxEntries: a warning needs no more
}

void record_runtime_caller(const void* caller) noexcept {
  const auto is_same = [&](const void* entry) { return entry == caller; };
  const auto fill = [&](const void*& entry) { entry = caller; };
  runtime_callers.add(is_same, fill);  // ignores callers beyond kMaxEntries
}

std::size_t unwrapped_count() noexcept { return unwrapped.count(); }
const Unwrapped& unwrapped_at(std::size_t index) noexcept { return unwrapped.entries[index]; }
std::size_t runtime_caller_count() noexcept { return runtime_callers.count(); }
const void* runtime_caller_at(std::size_t index) noexcept { return runtime_callers.entries[index]; }

}  // namespace gpumemtrace::preload::driver
