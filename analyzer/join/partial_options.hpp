// SPDX-License-Identifier: Apache-2.0
// The conditions for joining partial reports: the same options, and rows that fit each other.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/base/input_error.hpp"
#include "analyzer/join/join.hpp"
#include "analyzer/rows/partial.hpp"

namespace gpumemtrace::analyzer {

// Makes the row of options for a partial report; the `owner_files` must be readable.
[[nodiscard]] rows::PartialOptions options_row(
    const Thresholds& thresholds, const std::optional<std::size_t>& timeline_points,
    const std::vector<std::filesystem::path>& owner_files, const std::string& groups);
// Translates the options in a partial report. Throws InputError for an unknown threshold.
[[nodiscard]] JoinOptions join_options(const rows::PartialOptions& options);

// Throws InputError, with the name of the file, if the partial reports cannot be joined: this
// version did not make them, or they have different options.
void require_alike(const std::vector<rows::Partial>& partials);
// Throws InputError, with the name of the file, if a row has an index beyond the end of a list.
void require_sound(const rows::Partial& partial);

}  // namespace gpumemtrace::analyzer
