// SPDX-License-Identifier: Apache-2.0
// Formats the rows of what_if[] for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "analyzer/rows/report.hpp"
#include "tools/base/lines.hpp"

namespace gpumemtrace::tools {

// A name of name_holder() without the owner, which is PyTorch in most rows.
[[nodiscard]] std::string short_site(const std::string& name, std::size_t width);

// A table for each process and device, 80 columns wide. `report.what_if` must have a value.
[[nodiscard]] StyledText what_if_text(const analyzer::rows::Report& report);

// The capacity of a card: "80 GB" as cards are sold if that is a whole number, else "40.0 GiB".
[[nodiscard]] std::string card_text(std::uint64_t capacity_bytes);

}  // namespace gpumemtrace::tools
