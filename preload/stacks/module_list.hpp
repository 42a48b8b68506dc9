// SPDX-License-Identifier: Apache-2.0
// Module records: the files loaded into the process, to which the addresses in stacks belong.
#pragma once

#include <cstdint>

#include "preload/loader/loaded_module.hpp"

namespace gpumemtrace::preload {

class CallGuard;
class LoaderList;

// Writes a Module record for every loaded file that was not written yet, and one for each written
// file that is gone. Cheap if nothing was loaded or unloaded since the last call. For the
// background thread.
void record_modules(const CallGuard& guard, LoaderList& modules) noexcept;

// The number that stands for a file in stacks (native::SerialOf). Writes the file's Module record
// if the file was not met at this address before, so that every file in a stack has a record,
// however shortly it is loaded. Any thread that may record; the file is in use and stays loaded
// meanwhile.
std::uint32_t module_serial(const LoadedModule& module) noexcept;

// Forgets the written files: a new recording writes all again.
void forget_modules() noexcept;

}  // namespace gpumemtrace::preload
