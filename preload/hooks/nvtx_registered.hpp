// SPDX-License-Identifier: Apache-2.0
// Strings, domains and layouts of structures that a program registers with NVTX. A program makes
// them long before it uses CUDA and never again, so they outlive recordings and forks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "preload/hooks/nvtx_abi.hpp"
#include "preload/session/annotations.hpp"

namespace gpumemtrace::preload::nvtx {

// Any thread, no lock. `handle` is the one that another tool gave out; if it is nullptr, we make
// one. Returns the handle for the program; nullptr if there is no room for its text.
const void* remember_text(const void* handle, std::string_view text) noexcept;

// Empty if the handle is not known. The text stays valid.
std::string_view text_of_handle(const void* handle) noexcept;

// Reads from NCCL's NVTX ranges which communicator they are about. A library registers the layout
// of each structure once, as a schema, and gives structures with its events. Fields are known by
// NCCL's names for them, because their order differs between versions.
//
// - Any thread; no lock, no allocation.
//
// Does nothing in other domains than NCCL's. `id` is the one that events name the schema by.
void remember_schema(const void* domain, std::uint64_t id,
                     const SchemaAttributes& attributes) noexcept;

// Members that the structures do not have keep their initial values.
[[nodiscard]] Communicator communicator_of(const void* domain, const PayloadData* structures,
                                           std::size_t count) noexcept;

}  // namespace gpumemtrace::preload::nvtx
