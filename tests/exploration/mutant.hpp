// SPDX-License-Identifier: Apache-2.0
// The mistake of mutants.txt that the explored code makes; none unless --mutant names one.
#pragma once

#include <cstdint>

namespace gpumemtrace::exploration {

constexpr std::uint64_t hash_of(const char* name) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (; *name != '\0'; ++name) {
    hash = (hash ^ static_cast<unsigned char>(*name)) * 0x100000001b3u;  // FNV-1a
  }
  return hash;
}

// The hash of a name, computed at compile time: reads of the name would be explored steps.
struct Mutant {
  consteval Mutant(const char* name) : hash(hash_of(name)) {}
  std::uint64_t hash;
};

// gnu::const tells the compiler that the call changes no memory, so that the surrounding code is
// instrumented as if the call were not there.
[[gnu::const]] bool is_mutant(Mutant mutant) noexcept;

}  // namespace gpumemtrace::exploration
