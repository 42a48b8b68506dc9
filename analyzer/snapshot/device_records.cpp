// SPDX-License-Identifier: Apache-2.0
#include "analyzer/snapshot/device_records.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

namespace gpumemtrace::analyzer::snapshot {
namespace {

// A free that is completed later waits for an event of the driver. The snapshot does not have the
// event's number, so a number that no other block has stands for it.
std::uint64_t event_of(std::uint64_t block_address) { return block_address + 1; }

// Beyond this number of pages, which no device has, each mapped range is written as one page.
constexpr std::uint64_t kMostPages = std::uint64_t{1} << 20;

}  // namespace

// Writes the memory as it was before the event history.first_event, then the events from that one
// on. Earlier events are left out, because they do not fit the memory after them.
void DeviceRecords::write(const UndoneHistory& history, std::span<const Event> events) {
  events = events.subspan(history.first_event);
  trace::Thread thread;
  thread.record.time = ++now_;
  out_.add(thread);
  const std::vector<AddressSpace> spaces = address_spaces(history.before, events);
  std::map<std::size_t, const AddressSpace*> first;
  std::map<std::size_t, const AddressSpace*> last;
  for (const AddressSpace& space : spaces) {
    if (space.first_event == AddressSpace::kNever) reserve(space);
    first[space.first_event] = &space;
    last[space.last_event] = &space;
  }
  write_earlier(history.before, events);
  for (std::size_t i = 0; i < events.size(); ++i) {
    now_ = std::max(now_, context_.scale.tick_of(events[i].time_us));
    if (const auto space = first.find(i); space != first.end()) reserve(*space->second);
    write_event(events[i], i + 1 < events.size() ? &events[i + 1] : nullptr);
    if (const auto space = last.find(i); space != last.end()) give_back(*space->second);
  }
  out_.finish();
}

void DeviceRecords::reserve(const AddressSpace& space) {
  const bool is_earlier = space.first_event == AddressSpace::kNever;
  trace::Mapping record;
  record.call = call({});
  record.call.record.flags = trace::kFlagSegment | (is_earlier ? trace::kFlagEarlier : 0);
  record.operation = trace::MappingOperation::kReserve;
  record.address = space.address;
  record.bytes = space.reserved_bytes;
  record.location = device_;
  if (is_earlier) record.handle = space.stream;  // the handle of a reservation has no other use
  out_.add(record);
  page_bytes_[space.address] = space.page_bytes;
}

void DeviceRecords::give_back(const AddressSpace& space) {
  trace::Mapping record;
  record.call = call({});
  record.operation = trace::MappingOperation::kFreeReservation;
  record.address = space.address;
  record.bytes = space.reserved_bytes;
  out_.add(record);
  page_bytes_.erase(space.address);
}

// Writes the memory that was there before the first event: segments, the largest first, each with
// its blocks.
void DeviceRecords::write_earlier(const HeldMemory& before, std::span<const Event> events) {
  held_ = before;  // find_earlier_sizes() needs each block's segment and neighbour
  find_earlier_sizes(events);
  held_.segments.clear();
  std::vector<std::pair<std::uint64_t, HeldSegment>> segments(before.segments.begin(),
                                                              before.segments.end());
  std::ranges::stable_sort(segments, std::greater<>(),
                           [](const auto& segment) { return segment.second.bytes; });
  for (const auto& [address, segment] : segments) {
    if (segment.is_expandable) {
      map_pages(address, segment);
    } else {
      add_segment(address, segment, trace::kFlagSegment | trace::kFlagEarlier);
    }
    earlier_.reserved_bytes += segment.bytes;
    auto block = before.blocks.lower_bound(address);
    while (block != before.blocks.end() && block->first - address < segment.bytes) {
      write_earlier_block(block->first, segment.stream);
      ++block;
    }
  }
}

// Finds the sizes of blocks that were allocated before the history and freed in it: the file does
// not have them. In the large pool a block may have up to 1 MiB more than was requested, depending
// on the free memory behind it at that time. PyTorch hands out free memory from its beginning, so
// the first later block behind it shows its end.
void DeviceRecords::find_earlier_sizes(std::span<const Event> events) {
  std::map<std::uint64_t, BlockSize> unknown;  // by address
  for (auto& [address, block] : held_.blocks) {
    if (block.bytes != 0) continue;
    const BlockSize given = block_size_at(address, block.requested_bytes);
    block.bytes = given.bytes;
    if (given.free_behind != 0) unknown[address] = given;
  }
  std::map<std::uint64_t, BlockSize> uncertain = unknown;
  for (const Event& event : events) {
    if (unknown.empty()) break;
    if (event.action == Action::free_completed) unknown.erase(event.address);
    if (event.action != Action::alloc) continue;
    const auto after = unknown.upper_bound(event.address);
    if (after == unknown.begin()) continue;
    const auto block = std::prev(after);
    const std::uint64_t bytes = event.address - block->first;
    const bool is_right_behind =
        bytes >= block->second.bytes && bytes - block->second.bytes < block->second.free_behind;
    if (!is_right_behind) continue;
    held_.blocks[block->first].bytes = bytes;
    uncertain.erase(block->first);
    unknown.erase(block);
  }
  for (const auto& [address, given] : uncertain) {
    ++earlier_.uncertain_blocks;
    earlier_.uncertain_bytes +=
        std::min(replay::kLargestSmallBytes, given.free_behind - replay::kLargestSmallBytes);
  }
}

void DeviceRecords::write_earlier_block(std::uint64_t address, std::uint64_t stream) {
  HeldBlock& block = held_.blocks[address];
  if (block.waits) return;
  const trace::StackId stack =
      block.stack.value != 0 ? stack_of(block.stack) : context_.stacks.stack_of_earlier(now_, out_);
  add_block(address, block, stream, stack, trace::kFlagEarlier);
  ++earlier_.blocks;
  earlier_.bytes += block.bytes;
}

void DeviceRecords::write_event(const Event& event, const Event* next) {
  switch (event.action) {
    case Action::alloc:
      return write_alloc(event);
    case Action::free_requested:
      return write_free_requested(event, next);
    case Action::free_completed:
      return write_free_completed(event);
    case Action::segment_alloc:
      return add_segment(event.address, segment_of(event, false), trace::kFlagSegment);
    case Action::segment_free:
      return remove_segment(event);
    case Action::segment_map:
      return map_pages(event.address, segment_of(event, true));
    case Action::segment_unmap:
      return unmap_pages(event);
    case Action::oom:
      return write_oom(event);
    default:
      return;  // these actions change no memory
  }
}

// The bytes of a block that was allocated in free memory. In the large pool a rest of at most 1 MiB
// stays with its block, and any rest with a block of max_split_bytes or more; in other pools none
// does. The free memory at the place reaches up to the next block that is in use, because PyTorch
// joins free neighbours.
DeviceRecords::BlockSize DeviceRecords::block_size_at(std::uint64_t address,
                                                      std::uint64_t requested) const {
  const std::uint64_t rounded = context_.settings.round_request(requested);
  const auto segment = held_.segment_around(address);
  if (segment == held_.segments.end() || segment->second.is_expandable ||
      !segment->second.is_large) {
    return {rounded, 0};
  }
  std::uint64_t end = segment->first + segment->second.bytes;
  if (const auto next = held_.blocks.upper_bound(address); next != held_.blocks.end()) {
    end = std::min(end, next->first);
  }
  const std::uint64_t there = end - address;
  if (there < rounded) return {rounded, 0};
  const bool is_split =
      rounded < context_.settings.max_split_bytes && there - rounded > replay::kLargestSmallBytes;
  return is_split ? BlockSize{rounded, there - rounded} : BlockSize{there, 0};
}

void DeviceRecords::write_alloc(const Event& event) {
  const HeldBlock block{event.bytes, block_size_at(event.address, event.bytes).bytes, false,
                        event.stack};
  held_.blocks[event.address] = block;
  add_block(event.address, block, event.stream, stack_of(event.stack), 0);
}

void DeviceRecords::add_block(std::uint64_t address, const HeldBlock& block, std::uint64_t stream,
                              trace::StackId stack, std::uint16_t flags) {
  allocated_bytes_ += block.bytes;
  trace::Block record = block_record(address);
  record.record.flags = flags | trace::kFlagStream;
  record.bytes = static_cast<std::int64_t>(block.bytes);
  record.requested = block.requested_bytes;
  record.stream = static_cast<std::int64_t>(stream);
  record.stack = stack;
  out_.add(record);
}

// Writes the free of a block. Unless the next event completes it, a BlockWait record comes first:
// the memory stays in use until write_free_completed().
void DeviceRecords::write_free_requested(const Event& event, const Event* next) {
  HeldBlock& block = held_.blocks[event.address];
  block.waits = true;
  allocated_bytes_ -= block.bytes;
  const bool is_completed =
      next != nullptr && next->action == Action::free_completed && next->address == event.address;
  if (!is_completed) {
    trace::BlockWait wait;
    wait.record.time = ++now_;
    wait.address = event.address;
    wait.event = event_of(event.address);
    out_.add(wait);
  }
  trace::Block record = block_record(event.address);
  record.bytes = -static_cast<std::int64_t>(block.bytes);
  record.stack = stack_of(event.stack);
  if (is_completed) block.waits = false;
  out_.add(record);
}

void DeviceRecords::write_free_completed(const Event& event) {
  const auto block = held_.blocks.find(event.address);
  if (block == held_.blocks.end()) return;
  const bool has_waited = block->second.waits;
  held_.blocks.erase(block);
  if (!has_waited) return;
  trace::BlockWait over;
  over.record.time = ++now_;
  over.event = event_of(event.address);
  out_.add(over);
}

void DeviceRecords::write_oom(const Event& event) {
  trace::FrameworkOom record;
  record.stack = stack_of(event.stack);
  record.record.time = ++now_;
  record.requested = event.bytes;
  record.allocated = allocated_bytes_;
  record.reserved_bytes = reserved_bytes_;
  record.device_type = trace::kCudaDeviceType;
  record.device = static_cast<std::int8_t>(device_);
  record.framework = static_cast<std::uint16_t>(trace::Framework::kPytorch);
  out_.add(record);
  trace::MemorySample free;  // its `source` stays kNone: the file has only the free bytes
  free.record.time = ++now_;
  free.device = device_;
  // An oom event has the free bytes of the device in place of an address.
  free.free_bytes = event.address;
  out_.add(free);
}

void DeviceRecords::add_segment(std::uint64_t address, const HeldSegment& segment,
                                std::uint16_t flags) {
  trace::Allocation record;
  record.call = call(segment.stack);
  record.call.record.flags = flags;
  record.address = address;
  record.bytes = segment.bytes;
  record.memory = trace::MemoryKind::kDevice;
  record.location = device_;
  if ((flags & trace::kFlagEarlier) != 0) {
    record.stream = segment.stream;
    record.pool = private_pool(segment.pool);
  }
  out_.add(record);
  held_.segments[address] = segment;
  reserved_bytes_ += segment.bytes;
}

void DeviceRecords::remove_segment(const Event& event) {
  held_.segments.erase(event.address);
  reserved_bytes_ -= event.bytes;
  trace::Free record;
  record.call = call(event.stack);
  record.address = event.address;
  record.memory = trace::MemoryKind::kDevice;
  out_.add(record);
}

// Writes each mapped page as an allocation of physical memory and a mapping of it.
void DeviceRecords::map_pages(std::uint64_t address, const HeldSegment& pages) {
  std::uint64_t page_bytes = std::prev(page_bytes_.upper_bound(address))->second;
  if (pages_.size() + pages.bytes / page_bytes > kMostPages) page_bytes = pages.bytes;
  for (std::uint64_t done = 0; done < pages.bytes; done += page_bytes) {
    const std::uint64_t bytes = std::min(page_bytes, pages.bytes - done);
    trace::Allocation memory;
    memory.call = call(pages.stack);
    memory.address = address + done;  // the handle of the physical memory
    memory.bytes = bytes;
    memory.memory = trace::MemoryKind::kPhysical;
    memory.location = device_;
    out_.add(memory);
    trace::Mapping mapping;
    mapping.call = call(pages.stack);
    mapping.operation = trace::MappingOperation::kMap;
    mapping.address = address + done;
    mapping.bytes = bytes;
    mapping.handle = address + done;
    mapping.location = device_;
    out_.add(mapping);
    pages_[address + done] = bytes;
  }
  reserved_bytes_ += pages.bytes;
  held_.map(address, pages);
}

void DeviceRecords::unmap_pages(const Event& event) {
  (void)held_.unmap(event.address, event.bytes);
  reserved_bytes_ -= event.bytes;
  auto page = pages_.lower_bound(event.address);
  while (page != pages_.end() && page->first - event.address < event.bytes) {
    trace::Mapping mapping;
    mapping.call = call(event.stack);
    mapping.operation = trace::MappingOperation::kUnmap;
    mapping.address = page->first;
    mapping.bytes = page->second;
    out_.add(mapping);
    trace::Free release;
    release.call = call(event.stack);
    release.address = page->first;
    release.memory = trace::MemoryKind::kPhysical;
    out_.add(release);
    page = pages_.erase(page);
  }
}

std::uint64_t DeviceRecords::private_pool(PoolId id) const {
  const std::optional<Pool> pool = context_.snapshot.pool(id);
  return pool && *pool != Pool{} ? id.value : 0;
}

trace::CallHeader DeviceRecords::call(StackId stack) {
  trace::CallHeader header;
  header.stack = stack_of(stack);
  header.record.time = ++now_;
  header.end = header.record.time;
  header.context = trace::ContextId{static_cast<std::uint32_t>(device_) + 1};
  return header;
}

trace::Block DeviceRecords::block_record(std::uint64_t address) {
  trace::Block record;
  record.record.time = ++now_;
  record.address = address;
  record.allocated = allocated_bytes_;
  record.reserved_bytes = reserved_bytes_;
  record.device_type = trace::kCudaDeviceType;
  record.device = static_cast<std::int8_t>(device_);
  record.framework = static_cast<std::uint16_t>(trace::Framework::kPytorch);
  return record;
}

}  // namespace gpumemtrace::analyzer::snapshot
