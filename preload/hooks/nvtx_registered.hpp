// SPDX-License-Identifier: Apache-2.0
// Strings, domains and layouts of structures that a program registers with NVTX. A program does so
// once, long before it uses CUDA, so we keep them across recordings and forks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "preload/hooks/nvtx_abi.hpp"
#include "preload/session/annotations.hpp"

namespace gpumemtrace::preload::nvtx {

// Keeps the text of an NVTX string or domain. `handle` is the handle that another tool gave out; if
// it is nullptr, we make one. Returns the handle for the program; nullptr if we had to make one and
// there is no room for the text. Any thread, no lock.
const void* remember_text(const void* handle, std::string_view text) noexcept;

// The text that remember_text() kept for the handle; empty if the handle is not known. The text
// stays valid.
std::string_view text_of_handle(const void* handle) noexcept;

// NCCL's NVTX ranges tell which communicator they are about: NCCL registers the layout of each
// structure once, as a schema, and gives such structures with its events. This function keeps the
// layout of the schema `id`, by which events name it. Fields are recognized by NCCL's names for
// them, because their order differs between versions.
//
// - Any thread; no lock, no allocation.
// - Does nothing in other domains than NCCL's.
void remember_schema(const void* domain, std::uint64_t id,
                     const SchemaAttributes& attributes) noexcept;

// Reads an NCCL communicator from the structures of an NVTX event. Members of the result that the
// structures do not have keep their initial values.
[[nodiscard]] Communicator communicator_of(const void* domain, const PayloadData* structures,
                                           std::size_t count) noexcept;

}  // namespace gpumemtrace::preload::nvtx
