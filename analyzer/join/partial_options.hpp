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

// `owner_files` can be read.
[[nodiscard]] rows::PartialOptions options_row(
    const Thresholds& thresholds, const std::optional<std::size_t>& timeline_points,
    const std::vector<std::filesystem::path>& owner_files, const std::string& groups);
// Throws InputError for a threshold that is not known.
[[nodiscard]] JoinOptions join_options(const rows::PartialOptions& options);

// Throws InputError, with the name of the file, if the partial reports cannot be joined: this
// version did not make them, or they have different options.
void require_alike(const std::vector<rows::Partial>& partials);
// Throws InputError, with the name of the file, if a row names a place of a list that is not there.
void require_sound(const rows::Partial& partial);

}  // namespace gpumemtrace::analyzer
