// SPDX-License-Identifier: Apache-2.0
#include "preload/stacks/caller_library.hpp"

#include <cstdint>

#include "preload/loader/loaded_module.hpp"
#include "preload/native/hook_search.hpp"

namespace gpumemtrace::preload {

bool is_called_from_library_of(const void* address) noexcept {
  const std::uint64_t begin = find_module_begin(reinterpret_cast<std::uintptr_t>(address));
  return begin != 0 && native::is_called_from(begin);
}

}  // namespace gpumemtrace::preload
