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
  std::int32_t reserved;
  std::uint64_t payload;
  Message message_type;
  const void* message;  // text, or the handle of a registered one
};

// Result of push and pop if the tool does not follow the nesting.
inline constexpr int kNoPushPopTracking = -2;

}  // namespace gpumemtrace::preload::nvtx
