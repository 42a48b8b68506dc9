// SPDX-License-Identifier: Apache-2.0
// The program's names for blocks that are still live at the end of a compaction: the records that
// name tensors, found by their block.
#pragma once

#include <cstdint>

#include "preload/checkpoint/retained_records.hpp"
#include "trace/ledger/flat_map.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload {

// A block may have many names; a repeated name adds nothing.
class RetainedTensors {
 public:
  enum class Added : std::uint8_t { kRetained, kKnown, kNoMemory };

  // `tensor` is about a block that is live.
  [[nodiscard]] Added add(RetainedRecords& records, const trace::Tensor& tensor) noexcept {
    Block* block = blocks_.find(tensor.address);
    if (block == nullptr) block = blocks_.insert({tensor.address, 0});
    if (block == nullptr) return Added::kNoMemory;
    for (std::uint32_t at = block->first; at != 0; at = links_[at - 1].next) {
      const auto& told = reinterpret_cast<trace::Tensor&>(records.record(links_[at - 1].record));
      if (is_same(told, tensor)) return Added::kKnown;
    }
    const std::uint32_t link = take_link();
    const RecordId record = link == 0 ? 0 : records.retain(tensor.record);
    if (record == 0) return Added::kNoMemory;
    links_[link - 1] = {record, block->first};
    block->first = link;
    return Added::kRetained;
  }

  // Called when the block is no longer live. Calls drop(RecordId) for each record about the block.
  template <class Drop>
  void end(std::uint64_t address, Drop&& drop) noexcept {
    Block block;
    if (!blocks_.erase(address, block)) return;
    for (std::uint32_t at = block.first; at != 0;) {
      Link& link = links_[at - 1];
      const std::uint32_t next = link.next;
      drop(link.record);
      link = {0, unused_};
      unused_ = at;
      at = next;
    }
  }

 private:
  struct Block {
    std::uint64_t address = 0;
    std::uint32_t first = 0;  // the first link's index + 1; 0 = none
  };
  struct Link {
    RecordId record = 0;
    std::uint32_t next = 0;
  };

  [[nodiscard]] static bool is_same(const trace::Tensor& a, const trace::Tensor& b) noexcept {
    return a.role == b.role && a.name == b.name && a.state == b.state && a.layer == b.layer &&
           a.bytes == b.bytes;
  }
  // Returns 0 if there is no memory.
  [[nodiscard]] std::uint32_t take_link() noexcept {
    if (unused_ == 0) return links_.push({}) ? static_cast<std::uint32_t>(links_.size()) : 0;
    const std::uint32_t taken = unused_;
    unused_ = links_[taken - 1].next;
    return taken;
  }

  ledger::FlatMap<Block, &Block::address, MappedArray> blocks_;
  MappedArray<Link> links_;
  std::uint32_t unused_ = 0;  // the first unused link's index + 1; 0 = none
};

}  // namespace gpumemtrace::preload
