// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/memory/framework_blocks.hpp"

namespace gpumemtrace::analyzer {
namespace {

GroupKey block_key(trace::StackId stack, std::int32_t device, Phase phase) {
  GroupKey key;
  key.site.stack = stack;
  key.kind = Kind::kBlock;
  key.device = device;
  key.phase = phase;
  return key;
}

}  // namespace

std::uint32_t FrameworkBlocks::add(const trace::Block& block, Phase phase) {
  PresentRecord& present = memory_.present;
  if (memory_.framework.remove_block(block.address, present.time)) {
    ++memory_.statistics.live_address_allocated;
    memory_.begin_next_moment();
  }
  std::uint32_t segment = memory_.framework.find_segment(block.address);
  if (segment == 0) segment = memory_.discover_segment(block.address);
  const std::uint32_t group =
      memory_.accounts.group_of(block_key(present.stack, block.device, phase));
  memory_.framework.add_block(block, group, segment, present.time);
  return group;
}

void FrameworkBlocks::remove(const trace::Block& block) {
  memory_.count_collected(block.record,
                          [&] { return memory_.framework.find_block(block.address); });
  if (!memory_.framework.remove_block(block.address, memory_.present.time)) {
    ++memory_.statistics.unknown_frees;
  }
}

}  // namespace gpumemtrace::analyzer
