// SPDX-License-Identifier: Apache-2.0
#include "preload/driver/coverage.hpp"

#include <string.h>

#include "preload/base/append_once.hpp"

namespace gpumemtrace::preload::driver {
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
  unwrapped.add(is_same, fill);  // the first of them are enough for a warning
}

void record_runtime_caller(const void* caller) noexcept {
  const auto is_same = [&](const void* entry) { return entry == caller; };
  const auto fill = [&](const void*& entry) { entry = caller; };
  runtime_callers.add(is_same, fill);  // the first of them are enough here, too
}

std::size_t unwrapped_count() noexcept { return unwrapped.count(); }
const Unwrapped& unwrapped_at(std::size_t index) noexcept { return unwrapped.entries[index]; }
std::size_t runtime_caller_count() noexcept { return runtime_callers.count(); }
const void* runtime_caller_at(std::size_t index) noexcept { return runtime_callers.entries[index]; }

}  // namespace gpumemtrace::preload::driver
