// SPDX-License-Identifier: Apache-2.0
// The interface between an NVTX tool and the NVTX inside a program, as far as it is used here: the
// export tables through which callbacks are set, and the attributes of events. Declared here so
// that building needs no toolkit; tests/unit/nvtx_abi_check.cpp compares with NVTX 3's own headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpumemtrace::preload::nvtx {

using Function = void (*)();
// An array with one entry for each callback id; an entry points to the function pointer that NVTX
// calls.
using FunctionTable = Function**;

inline constexpr std::uint32_t kCallbacksTable = 1;
inline constexpr std::uint32_t kVersionTable = 3;
inline constexpr std::uint32_t kVersion = 3;

enum class Module : int { kCore = 1, kCore2 = 5 };

enum class Core : unsigned {
  kMarkEx = 1,
  kMarkA = 2,
  kMarkW = 3,
  kRangeStartEx = 4,
  kRangeStartA = 5,
  kRangeStartW = 6,
  kRangeEnd = 7,
  kRangePushEx = 8,
  kRangePushA = 9,
  kRangePushW = 10,
  kRangePop = 11,
};

enum class Core2 : unsigned {
  kDomainMarkEx = 1,
  kDomainRangeStartEx = 2,
  kDomainRangeEnd = 3,
  kDomainRangePushEx = 4,
  kDomainRangePop = 5,
  kDomainRegisterStringA = 10,
  kDomainRegisterStringW = 11,
  kDomainCreateA = 12,
  kDomainCreateW = 13,
};

struct Callbacks {
  std::size_t struct_size;
  int (*get_module_function_table)(Module module, FunctionTable* table, unsigned* size);
};

struct VersionInfo {
  std::size_t struct_size;
  std::uint32_t version;
  std::uint32_t reserved;
  void (*set_injection_version)(std::uint32_t version);
};

using GetExportTable = const void* (*)(std::uint32_t id);
using InitializeInjection = int (*)(GetExportTable get_export_table);

enum class Message : std::int32_t { kNone = 0, kAscii = 1, kUnicode = 2, kRegistered = 3 };

struct EventAttributes {
  std::uint16_t version;
  std::uint16_t size;
  std::uint32_t category;
  std::int32_t color_type;
  std::uint32_t color;
  std::int32_t payload_type;
  std::int32_t payload_count;  // number of structures in an extended payload
  std::uint64_t payload;
  Message message_type;
  const void* message;  // the text, or the handle of a registered text
};

// The payload extension: structures that a program gives with its events, and functions in slots
// that a tool fills.
inline constexpr std::uint16_t kPayloadModule = 2;
// EventAttributes::payload_type if `payload` points to an array of PayloadData.
inline constexpr std::int32_t kExtendedPayload = static_cast<std::int32_t>(0xdfbd0009);

enum class Payload : unsigned { kSchemaRegister = 0, kRangePush = 3, kRangePop = 4 };

struct ExtensionSegment {
  std::size_t id;
  std::size_t slot_count;
  Function* slots;  // indexed by function id; a slot is nullptr until a tool sets it
};

struct ExtensionModule {
  std::uint16_t version;
  std::uint16_t struct_size;
  std::uint16_t module_id;
  std::uint16_t compatibility_id;
  std::size_t segment_count;
  ExtensionSegment* segments;
  Function get_export_function;
  const void* type_sizes;
};

using InitializeExtension = int (*)(ExtensionModule* module);

struct PayloadData {
  std::uint64_t schema;
  std::size_t bytes;
  const void* content;
};

enum class EntryType : std::uint64_t { kInt = 5, kUint64 = 18 };

// Describes one field of a structure that a program gives with its NVTX events.
struct SchemaEntry {
  std::uint64_t flags;  // 0: the field holds the value itself
  EntryType type;
  const char* name;
  const char* description;
  std::uint64_t array_or_union;
  std::uint64_t offset;  // in bytes; 0 also if the program leaves the computation to the tool
  const void* semantics;
  const void* reserved;
};

inline constexpr std::uint64_t kStaticSchema = 1;
// Bits of SchemaAttributes::set_members.
inline constexpr std::uint64_t kSchemaHasType = 1 << 2;
inline constexpr std::uint64_t kSchemaHasEntries = 1 << 4;
inline constexpr std::uint64_t kSchemaHasEntryCount = 1 << 5;
inline constexpr std::uint64_t kSchemaHasId = 1 << 8;

struct SchemaAttributes {
  std::uint64_t set_members;
  const char* name;
  std::uint64_t type;
  std::uint64_t flags;
  const SchemaEntry* entries;
  std::size_t entry_count;
  std::size_t static_bytes;
  std::size_t pack_align;
  std::uint64_t id;
};

// Result of NVTX's push and pop callbacks if the tool does not track the nesting of ranges.
inline constexpr int kNoPushPopTracking = -2;

}  // namespace gpumemtrace::preload::nvtx
