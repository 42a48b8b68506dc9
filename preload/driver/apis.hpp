// SPDX-License-Identifier: Apache-2.0
// The wrapped functions as an enumeration and tables, made from apis.def.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "trace/records.hpp"

namespace gpumemtrace::preload {

// The number that records carry in `api`; 0 is no function. The number means something only
// together with the ApiName records of the same trace.
enum class ApiId : std::uint16_t {
  kNone = 0,
#define GPUMEMTRACE_API(symbol, runtime, ...) symbol,
#include "preload/driver/apis.def"
  kCount
};

inline constexpr std::size_t kApiCount = static_cast<std::size_t>(ApiId::kCount);

struct ApiInfo {
  const char* symbol = nullptr;
  const char* runtime_name = nullptr;
  void* exported = nullptr;  // the wrapper that the library exports
  void* pointer = nullptr;   // the wrapper that dlsym and cuGetProcAddress hand out
  trace::RecordKind record = trace::RecordKind::kNone;
};

inline constexpr std::size_t kGetProcAddressVersions = 2;

// The two tables of wrappers: constant data, by which this folder looks up a function's wrapper.
// They are defined where the wrappers are, in preload/hooks/entry_points.cpp; no other declaration
// of this folder is defined outside it.

// The table of recorded functions, indexed by ApiId; entry 0 is empty.
const std::array<ApiInfo, kApiCount>& apis() noexcept;
// Versions 1 and 2 of cuGetProcAddress, which is wrapped and not recorded.
const std::array<ApiInfo, kGetProcAddressVersions>& get_proc_address_versions() noexcept;

}  // namespace gpumemtrace::preload
