// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stacks/native_stacks.hpp"

#include "trace/reader.hpp"

namespace gpumemtrace::analyzer {

void NativeStacks::add(const trace::Stack& record) {
  const auto addresses = trace::native_frames_of(record);
  if (addresses.empty()) return;
  stacks_[record.id] = {record.record.time, {addresses.begin(), addresses.end()}};
}

std::span<const std::uint64_t> NativeStacks::addresses_of(trace::StackId stack) const {
  const auto found = stacks_.find(stack);
  if (found == stacks_.end()) return {};
  return found->second.addresses;
}

std::uint64_t NativeStacks::time_of(trace::StackId stack) const {
  const auto found = stacks_.find(stack);
  return found == stacks_.end() ? 0 : found->second.time;
}

}  // namespace gpumemtrace::analyzer
