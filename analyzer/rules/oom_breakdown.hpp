// SPDX-License-Identifier: Apache-2.0
// The memory in use when a request ran out of memory, by the names of the framework's own message.
#pragma once

#include <string>

#include "analyzer/rows/report.hpp"

namespace gpumemtrace::analyzer {

// The numbers in the framework's message about a failed request. Free bytes are the driver's last
// number less the bytes that the process took since then; the bytes of other processes may be a
// second old. No value if nothing is known.
[[nodiscard]] std::optional<rows::OomBreakdown> breakdown_of(
    const std::vector<rows::Device>& devices, const rows::Oom& failure);

// The breakdown as text, " Then: 79.18 GiB total capacity, ...", with as many digits as the
// framework's message, so that both can be compared; empty if nothing is known.
[[nodiscard]] std::string breakdown_text(const std::optional<rows::OomBreakdown>& breakdown);

// True if the framework refused the request by itself, by a limit that the program set: it did not
// ask the driver, which had room for the largest segment that it would have asked for.
[[nodiscard]] bool reached_own_limit(const rows::Oom& failure);

// The free memory as text, "0 bytes free in PyTorch's cache, 5.1 GiB free on the device"; `size`
// formats the bytes; empty if nothing is known.
[[nodiscard]] std::string free_memory_text(const rows::Oom& failure,
                                           std::string (*size)(std::uint64_t));

// Bytes as text in the digits of the framework's message: "20.00 MiB", "512 bytes", and "1024.00
// KiB" for 1 MiB.
[[nodiscard]] std::string message_size_text(std::uint64_t bytes);

}  // namespace gpumemtrace::analyzer
