// SPDX-License-Identifier: Apache-2.0
// Finds the ranks of a job's files by their names, for files that do not tell the rank inside.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace gpumemtrace::analyzer {

// Returns a rank for each file, or no ranks at all.
// - "rank3.pickle" and "oom_rank_3.pickle" tell the rank, "local_rank_3.pickle" does not.
// - Else files of one folder whose names differ in one number, from 0 on without a gap, are
// numbered
//   by rank: "snapshot_0.pickle", "snapshot_1.pickle".
// - Two files of one rank, or a name with two ranks, are ambiguous: then there are no ranks.
[[nodiscard]] std::vector<std::optional<std::uint64_t>> ranks_by_name(
    std::span<const std::filesystem::path> files);

}  // namespace gpumemtrace::analyzer
