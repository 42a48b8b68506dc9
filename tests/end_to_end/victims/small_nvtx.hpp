// SPDX-License-Identifier: Apache-2.0
// The part of an NVTX client that nvtx_ranges.cpp and nccl.cpp need, for machines without the
// toolkit: it finds the tool as NVTX 3 does, and gives it function tables and the payload
// extension's slots. With `is_short` it acts as an older client, which has fewer functions.
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

// The function in NVTX's slots before a tool is loaded; a tool must replace it.
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

inline abi::Function payload_slots[16];

// Offers the payload extension's slots to the tool. Calls do nothing without a tool that takes
// part, or in slots that the tool leaves empty.
inline void initialize_payload(void* library) {
  void* const found =
      library == nullptr ? nullptr : dlsym(library, "InitializeInjectionNvtxExtension");
  if (found == nullptr) return;
  abi::ExtensionSegment segment = {0, std::size(payload_slots), payload_slots};
  abi::ExtensionModule module = {};
  module.version = 3;
  module.struct_size = sizeof module;
  module.module_id = abi::kPayloadModule;
  module.segment_count = 1;
  module.segments = &segment;
  if (reinterpret_cast<abi::InitializeExtension>(found)(&module) != 0) return;
  for (abi::Function& slot : payload_slots) slot = nullptr;
}

// Initializes as NVTX does: without a tool, or in slots that the tool leaves empty, calls do
// nothing.
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
  initialize_payload(library);
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
inline abi::Function at(abi::Payload id) { return payload_slots[static_cast<unsigned>(id)]; }

}  // namespace gpumemtrace::victims::small_nvtx

// The names that NVTX's own headers define.
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
  union {
    std::uint64_t ullValue;
  } payload;
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

inline constexpr std::int32_t NVTX_PAYLOAD_TYPE_EXT = small::abi::kExtendedPayload;
inline constexpr std::uint64_t NVTX_PAYLOAD_ENTRY_TYPE_INT = 5;
inline constexpr std::uint64_t NVTX_PAYLOAD_ENTRY_TYPE_UINT64 = 18;
inline constexpr std::uint64_t NVTX_PAYLOAD_ENTRY_TYPE_SIZE = 22;
inline constexpr std::uint64_t NVTX_PAYLOAD_SCHEMA_TYPE_STATIC = 1;
inline constexpr std::uint64_t NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE = 1 << 2;
inline constexpr std::uint64_t NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES = 1 << 4;
inline constexpr std::uint64_t NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES = 1 << 5;
inline constexpr std::uint64_t NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE = 1 << 6;
inline constexpr std::uint64_t NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID = 1 << 8;

struct nvtxPayloadData_t {
  std::uint64_t schemaId;
  std::size_t size;
  const void* payload;
};
struct nvtxPayloadSchemaEntry_t {
  std::uint64_t flags;
  std::uint64_t type;
  const char* name;
  const char* description;
  std::uint64_t arrayOrUnionDetail;
  std::uint64_t offset;
  const void* semantics;
  const void* reserved;
};
struct nvtxPayloadSchemaAttr_t {
  std::uint64_t fieldMask;
  const char* name;
  std::uint64_t type;
  std::uint64_t flags;
  const nvtxPayloadSchemaEntry_t* entries;
  std::size_t numEntries;
  std::size_t payloadStaticSize;
  std::size_t packAlign;
  std::uint64_t schemaId;
  void* extension;
};

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
inline std::uint64_t nvtxPayloadSchemaRegister(nvtxDomainHandle_t domain,
                                               const nvtxPayloadSchemaAttr_t* schema) {
  return small::call(small::at(small::abi::Payload::kSchemaRegister), std::uint64_t{0}, domain,
                     schema);
}
inline int nvtxRangePopPayload(nvtxDomainHandle_t domain, const nvtxPayloadData_t* payload,
                               std::size_t count) {
  return small::call(small::at(small::abi::Payload::kRangePop), -2, domain, payload, count);
}
