// SPDX-License-Identifier: Apache-2.0
// Reads from NCCL's NVTX ranges which communicator they are about. A library registers the layout
// of each structure once, as a schema, and gives structures with its events. Fields are known by
// NCCL's names for them, because their order differs between versions.
//
// - Any thread; no lock, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/hooks/nvtx_abi.hpp"
#include "preload/session/annotations.hpp"

namespace gpumemtrace::preload::nvtx {

// Does nothing in other domains than NCCL's. `id` is the one that events name the schema by.
void remember_schema(const void* domain, std::uint64_t id,
                     const SchemaAttributes& attributes) noexcept;

// Members that the structures do not have keep their initial values.
[[nodiscard]] Communicator communicator_of(const void* domain, const PayloadData* structures,
                                           std::size_t count) noexcept;

}  // namespace gpumemtrace::preload::nvtx
