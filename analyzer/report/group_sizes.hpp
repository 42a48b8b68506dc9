// SPDX-License-Identifier: Apache-2.0
// The sizes of groups by which a program numbers its ranks, as --groups or its own options say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/rows/job_rows.hpp"

namespace gpumemtrace::analyzer {

// One digit of a rank's number, the innermost first: neighbours in it are `stride` ranks apart.
struct GroupAxis {
  rows::GroupKind kind = rows::GroupKind::kData;
  std::uint64_t size = 0;  // 0: whatever the other axes leave
  std::uint64_t stride = 0;

  [[nodiscard]] std::uint64_t coordinate(std::uint64_t rank) const { return rank / stride % size; }
};

struct GroupSizes {
  std::vector<GroupAxis> axes;
  std::uint64_t experts = 1;  // so many neighbours of a data group share the experts

  // nullptr if there is no such axis.
  [[nodiscard]] const GroupAxis* axis(rows::GroupKind kind) const;
};

// Reads "tp=2,dp,pp=4,ep=2". Throws InputError if the text is no such list.
[[nodiscard]] GroupSizes parse_group_sizes(const std::string& text);

// The same for a job of so many ranks: every axis has its size and its stride. No value if the
// sizes do not make that number.
[[nodiscard]] std::optional<GroupSizes> fit_group_sizes(GroupSizes sizes, std::uint64_t ranks);

// The text for the sizes that options of Megatron-LM or torchtitan give; empty if there are none.
[[nodiscard]] std::string group_sizes_of_command(const rows::CommandLine& command);

}  // namespace gpumemtrace::analyzer
