// Looks symbols up in loaded libraries through their own dynamic tables: without the loader's big
// lock, without touching what dlerror() would say, and without running any code of the library.
#pragma once

namespace gpumemtrace::preload {

// Address of a defined symbol of the first loaded library whose file name begins with
// `file_name_prefix` ("libc10.so"); nullptr where there is no such library or symbol.
// Any thread, also inside locks of the traced program.
void* find_symbol(const char* file_name_prefix, const char* symbol) noexcept;

}  // namespace gpumemtrace::preload
