// SPDX-License-Identifier: Apache-2.0
// The sizes of groups by which a program numbers its ranks, as --groups or its own options say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/rows/job_rows.hpp"

namespace gpumemtrace::analyzer {

// One digit of a rank's number, as in a mixed-radix number: ranks that differ by one in this digit
// are `stride` apart. The innermost axis comes first.
struct GroupAxis {
  rows::GroupKind kind = rows::GroupKind::kData;
  std::uint64_t size = 0;  // 0: the number of ranks divided by the other axes' sizes
  std::uint64_t stride = 0;

  [[nodiscard]] std::uint64_t coordinate(std::uint64_t rank) const { return rank / stride % size; }
};

struct GroupSizes {
  std::vector<GroupAxis> axes;
  // The number of neighbouring ranks of a data group that divide the experts among them.
  std::uint64_t experts = 1;

  // The axis of the kind; nullptr if the program has none of this kind.
  [[nodiscard]] const GroupAxis* axis(rows::GroupKind kind) const;
};

// Reads sizes of groups such as "tp=2,dp,pp=4,ep=2". Throws InputError if the text is no such list.
[[nodiscard]] GroupSizes parse_group_sizes(const std::string& text);

// The group sizes for a job of `ranks` ranks: every axis has its size and its stride. No value if
// the product of the sizes does not make that number.
[[nodiscard]] std::optional<GroupSizes> fit_group_sizes(GroupSizes sizes, std::uint64_t ranks);

// The text for --groups from the options of Megatron-LM or torchtitan in the command line; empty if
// it has no such options.
[[nodiscard]] std::string group_sizes_of_command(const rows::CommandLine& command);

}  // namespace gpumemtrace::analyzer
