// SPDX-License-Identifier: Apache-2.0
// The ranks that the names of a job's files say, for files that do not have theirs inside.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace gpumemtrace::analyzer {

// A rank for each file, or none for all of them.
// - "rank3.pickle" and "oom_rank_3.pickle" say it, "local_rank_3.pickle" does not.
// - Else files of one folder whose names differ in one number, from 0 on without a gap, are
// numbered
//   by rank: "snapshot_0.pickle", "snapshot_1.pickle".
// - Two files of one rank, or a name with two ranks, are ambiguous: there are none then.
[[nodiscard]] std::vector<std::optional<std::uint64_t>> ranks_by_name(
    std::span<const std::filesystem::path> files);

}  // namespace gpumemtrace::analyzer
