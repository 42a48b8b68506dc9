// SPDX-License-Identifier: Apache-2.0
// The key by which growth, temporary memory, and memory that Python's cycle collector freed are
// summed.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <utility>

#include "analyzer/report/report_context.hpp"

namespace gpumemtrace::analyzer {

// A line of the program that asks for memory, on one device and level. `identity.stack` is not
// compared: the code that sums by this key chooses one of the line's call stacks.
struct SiteKey {
  std::int32_t device = kHostDevice;
  Level level = Level::kDriver;
  Identity identity;
  friend auto operator<=>(const SiteKey&, const SiteKey&) = default;
};

// The origin of a row that sums several stacks of one site; `stack` stands for all of them.
[[nodiscard]] inline rows::Origin origin_with_stack(const Identity& identity,
                                                    const std::string& stack) {
  rows::Origin origin = origin_of(identity);
  origin.stack = rows::text_or_none(stack);
  return origin;
}

// Fills in the process, device, level and origin of a row that has its stack already.
template <class Row>
void add_place(Row& row, const ReportContext& context, const ReportProcess& process,
               const SiteKey& site) {
  row.process = process.id;
  row.device = context.device_id(process, site.device);
  row.level = site.level;
  row.origin = origin_with_stack(site.identity, row.origin.stack.value_or(""));
}

// Takes the stack out of an identity, so that the identity can be a key.
[[nodiscard]] inline std::string take_stack(Identity& identity) {
  return std::exchange(identity.stack, std::string());
}

// The number of a stack in its process: "p1:42" -> 42.
[[nodiscard]] inline trace::StackId stack_id(const std::string& stack) {
  return trace::StackId{static_cast<std::uint32_t>(std::stoul(stack.substr(stack.find(':') + 1)))};
}

}  // namespace gpumemtrace::analyzer
