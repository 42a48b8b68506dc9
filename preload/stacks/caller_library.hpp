// SPDX-License-Identifier: Apache-2.0
// Which library a hook was called by, through others.
#pragma once

namespace gpumemtrace::preload {

// Whether one of the nearest callers is code of the loaded file around the address. Any thread, no
// lock; half a microsecond a frame.
[[nodiscard]] bool is_called_from_library_of(const void* address) noexcept;

}  // namespace gpumemtrace::preload
