// SPDX-License-Identifier: Apache-2.0
// As much of an NVTX client as nvtx_ranges.cpp needs, for machines without the toolkit: finds the
// tool as NVTX 3 does and gives it function tables. `kShort` clients are older: they have fewer
// functions.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <iterator>

#include "preload/hooks/nvtx_abi.hpp"

namespace gpumemtrace::victims::small_nvtx {

namespace abi = preload::nvtx;

inline abi::Function core[16];
inline abi::Function core2[16];
inline abi::Function* core_places[16];
inline abi::Function* core2_places[16];
inline bool is_short = false;

// The function in NVTX's places before a tool is there; a tool must replace it.
inline void before_any_tool() {}

inline int get_module_function_table(abi::Module module, abi::FunctionTable* table,
                                     unsigned* size) {
  if (module == abi::Module::kCore) {
    *table = core_places;
    *size = is_short ? 11 : 16;
    return 1;
  }
  if (module != abi::Module::kCore2 || is_short) return 0;
  *table = core2_places;
  *size = 16;
  return 1;
}

inline const void* get_export_table(std::uint32_t id) {
  static const abi::Callbacks callbacks = {sizeof(abi::Callbacks), &get_module_function_table};
  return id == abi::kCallbacksTable ? &callbacks : nullptr;
}

// Ends as NVTX does: without a tool, and where a tool set nothing, calls go nowhere.
inline void initialize() {
  for (std::size_t i = 1; i < std::size(core); ++i) {
    core[i] = core2[i] = &before_any_tool;
    core_places[i] = &core[i];
    core2_places[i] = &core2[i];
  }
  is_short = std::getenv("SMALL_NVTX_SHORT") != nullptr;
  const char* const path = std::getenv("NVTX_INJECTION64_PATH");
  void* const library = path == nullptr ? nullptr : dlopen(path, RTLD_LAZY);
  void* const tool = library == nullptr ? nullptr : dlsym(library, "InitializeInjectionNvtx2");
  const bool runs =
      tool != nullptr && reinterpret_cast<abi::InitializeInjection>(tool)(&get_export_table) != 0;
  for (std::size_t i = 1; i < std::size(core); ++i) {
    if (!runs || core[i] == &before_any_tool) core[i] = nullptr;
    if (!runs || core2[i] == &before_any_tool) core2[i] = nullptr;
  }
}

template <class Result, class... A>
Result call(abi::Function function, Result otherwise, A... a) {
  if (function == nullptr) return otherwise;
  return reinterpret_cast<Result (*)(A...)>(function)(a...);
}
template <class... A>
void call_void(abi::Function function, A... a) {
  if (function != nullptr) reinterpret_cast<void (*)(A...)>(function)(a...);
}
inline abi::Function at(abi::Core id) { return core[static_cast<unsigned>(id)]; }
inline abi::Function at(abi::Core2 id) { return core2[static_cast<unsigned>(id)]; }

}  // namespace gpumemtrace::victims::small_nvtx

// The names of NVTX's own headers.
using nvtxRangeId_t = std::uint64_t;
using nvtxDomainHandle_t = const void*;
using nvtxStringHandle_t = const void*;

struct nvtxEventAttributes_t {
  std::uint16_t version;
  std::uint16_t size;
  std::uint32_t category;
  std::int32_t colorType;
  std::uint32_t color;
  std::int32_t payloadType;
  std::int32_t reserved0;
  std::uint64_t payload;
  std::int32_t messageType;
  union {
    const char* ascii;
    const wchar_t* unicode;
    nvtxStringHandle_t registered;
  } message;
};
inline constexpr std::uint16_t NVTX_VERSION = 3;
inline constexpr std::int32_t NVTX_MESSAGE_TYPE_ASCII = 1;
inline constexpr std::int32_t NVTX_MESSAGE_TYPE_REGISTERED = 3;

namespace small = gpumemtrace::victims::small_nvtx;

inline void nvtxInitialize(const void*) { small::initialize(); }
inline void nvtxMarkA(const char* text) {
  small::call_void(small::at(small::abi::Core::kMarkA), text);
}
inline int nvtxRangePushA(const char* text) {
  return small::call(small::at(small::abi::Core::kRangePushA), -2, text);
}
inline int nvtxRangePushW(const wchar_t* text) {
  return small::call(small::at(small::abi::Core::kRangePushW), -2, text);
}
inline int nvtxRangePop() { return small::call(small::at(small::abi::Core::kRangePop), -2); }
inline nvtxRangeId_t nvtxRangeStartEx(const nvtxEventAttributes_t* event) {
  return small::call(small::at(small::abi::Core::kRangeStartEx), nvtxRangeId_t{0}, event);
}
inline void nvtxRangeEnd(nvtxRangeId_t id) {
  small::call_void(small::at(small::abi::Core::kRangeEnd), id);
}
inline nvtxDomainHandle_t nvtxDomainCreateA(const char* name) {
  return small::call(small::at(small::abi::Core2::kDomainCreateA), nvtxDomainHandle_t{}, name);
}
inline nvtxStringHandle_t nvtxDomainRegisterStringA(nvtxDomainHandle_t domain, const char* text) {
  return small::call(small::at(small::abi::Core2::kDomainRegisterStringA), nvtxStringHandle_t{},
                     domain, text);
}
inline int nvtxDomainRangePushEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  return small::call(small::at(small::abi::Core2::kDomainRangePushEx), -2, domain, event);
}
inline int nvtxDomainRangePop(nvtxDomainHandle_t domain) {
  return small::call(small::at(small::abi::Core2::kDomainRangePop), -2, domain);
}
