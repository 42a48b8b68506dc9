// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/recorded_allocator.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <new>

#include "trace/reader.hpp"

namespace gpumemtrace::analyzer::replay {
namespace {

constexpr std::uint64_t kUnknownTotal = ~std::uint64_t{0};

std::string hex(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string bytes_text(std::uint64_t bytes) { return std::to_string(bytes) + " bytes"; }

bool is_refused(const DriverCall& call) { return call.kind == DriverCall::Kind::kRefused; }

}  // namespace

void RecordedAllocator::report_mismatch(const std::string& what) {
  if (!compares()) return;
  proof_.mismatches = 1;
  proof_.first_mismatch = "event " + std::to_string(proof_.events) + ": " + what;
}

void PythonFrames::add(const trace::Stack& stack) {
  std::uint64_t hash = 0;
  for (const std::uint64_t frame : trace::python_frames_of(stack)) {
    hash = (hash ^ frame) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  if (hash != 0) hashes_[stack.id] = hash;
}

std::uint64_t PythonFrames::hash_of(trace::StackId stack) const {
  const auto found = hashes_.find(stack);
  return found == hashes_.end() ? 0 : found->second;
}

void RecordedAllocator::set_allowed_bytes(std::uint64_t bytes) {
  allocator_.set_allowed_bytes(bytes);
  knows_allowed_ = true;
  highest_torch_limit_ = 0;
}

void RecordedAllocator::add_allocation(std::uint32_t writer, const DriverCall& call) {
  allocations_[call.address] = {call.bytes, false};
  marked_ = {};
  threads_[writer].calls.push_back(call);
}

void RecordedAllocator::add_reservation(std::uint64_t address, std::uint64_t bytes) {
  if (reservations_.set({address, bytes, 0, false, std::nullopt, false}) == nullptr) {
    throw std::bad_alloc();
  }
}

void RecordedAllocator::remove_reservation(std::uint64_t address) {
  const Reservation* const gone = reservations_.find(address);
  if (gone == nullptr) return;
  if (gone->block_class) reserved_classes_.erase({*gone->block_class, gone->small});
  const std::size_t index = reservations_.first_from(address);
  reservations_.erase(index, index + 1);
}

void RecordedAllocator::add_free(std::uint32_t writer, const DriverCall& call) {
  const auto found = allocations_.find(call.address);
  if (found == allocations_.end()) return;
  const Allocation allocation = found->second;
  allocations_.erase(found);
  marked_ = {};
  // No block was seen in this memory, so it was not the allocator's.
  if (!allocation.is_segment) {
    std::vector<DriverCall>& calls = threads_[writer].calls;
    std::erase_if(calls, [&](const DriverCall& other) {
      return other.kind == DriverCall::Kind::kAllocated && other.address == call.address;
    });
    return;
  }
  segment_bytes_ -= allocation.bytes;
  DriverCall freed = call;
  freed.bytes = allocation.bytes;
  threads_[writer].calls.push_back(freed);
}

void RecordedAllocator::add_mapping(std::uint32_t writer, const DriverCall& call) {
  Reservation* const around = reservations_.containing(call.address);
  if (around == nullptr) return;
  const bool is_mapped = call.kind == DriverCall::Kind::kMapped;
  const std::uint64_t change = is_mapped ? call.bytes : 0 - call.bytes;
  around->mapped_bytes += change;
  if (around->is_segment) segment_bytes_ += change;
  // Before a reservation is known as a segment, only its mappings can be the allocator's calls.
  if (is_mapped || around->is_segment) threads_[writer].calls.push_back(call);
}

void RecordedAllocator::begin_event() {
  if (!earlier_spaces_.empty()) adopt_free_spaces();
  earlier_free_.clear();
  peak_.begin_event(++proof_.events);
}

void RecordedAllocator::mark_segment(std::uint64_t address) {
  if (address - marked_.begin < marked_.bytes) return;
  Reservation* const around = reservations_.containing(address);
  if (around != nullptr && !around->is_segment) {
    around->is_segment = true;
    segment_bytes_ += around->mapped_bytes;
  }
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return;
  auto& [begin, allocation] = *--after;
  if (address - begin >= allocation.bytes) return;
  marked_ = {begin, allocation.bytes};
  if (allocation.is_segment) return;
  allocation.is_segment = true;
  segment_bytes_ += allocation.bytes;
}

const DriverCall* RecordedAllocator::next_call(DriverCall::Kind kind) {
  for (std::size_t i = 0; i < calls_->size(); ++i) {
    if (used_[i] || (*calls_)[i].kind != kind) continue;
    used_[i] = true;
    return &(*calls_)[i];
  }
  return nullptr;
}

bool RecordedAllocator::gave_back_more() const {
  for (std::size_t i = 0; i < calls_->size(); ++i) {
    if (!used_[i] && (*calls_)[i].gives_back()) return true;
  }
  return false;
}

void RecordedAllocator::begin_answers(const std::vector<DriverCall>& calls, std::uint64_t address) {
  calls_ = &calls;
  used_.assign(calls.size(), false);
  address_ = address;
}

// Replays a request against the thread's recorded driver calls; returns the replayed block, 0 if
// the replay refuses the request.
BlockId RecordedAllocator::ask_rules(const Thread& thread, std::uint64_t address,
                                     std::uint64_t bytes, ClassId block_class) {
  begin_answers(thread.calls, address);
  const BlockId block = allocator_.malloc(bytes, block_class);
  if (!waiting_.empty() && !allocator_.has_waiting()) finish_all_waits();
  return block;
}

// Answers the replayed allocator's request to the driver as the recorded driver did: an address, or
// no value if it, or PyTorch's own limit, refused.
std::optional<std::uint64_t> RecordedAllocator::allocate(std::uint64_t bytes, ClassId) {
  for (std::size_t i = 0; i < calls_->size(); ++i) {
    const DriverCall& call = (*calls_)[i];
    if (used_[i]) continue;
    if (call.kind == DriverCall::Kind::kRefused && call.bytes == bytes) {
      used_[i] = true;
      return std::nullopt;
    }
    // Segments were freed although the driver refused nothing: PyTorch has a limit of its own.
    if (call.kind == DriverCall::Kind::kFreed) {
      narrow_torch_limit(allocator_.counts().reserved_bytes, bytes);
      return std::nullopt;
    }
    if (call.kind != DriverCall::Kind::kAllocated || call.address != address_) continue;
    if (call.bytes != bytes) {
      report_mismatch("the segment at " + hex(address_) + " has " + bytes_text(call.bytes) +
                      " where the rules ask for " + std::to_string(bytes));
    }
    used_[i] = true;
    peak_.add_segment(address_, bytes, pool_);
    return address_;
  }
  if (address_ != 0) {
    report_mismatch("the rules ask the driver for " + bytes_text(bytes) +
                    "; the program's block lies at " + hex(address_) + " in memory that it had");
  }
  return std::nullopt;
}

void RecordedAllocator::release(std::uint64_t address, std::uint64_t bytes) {
  peak_.remove(address, bytes);
  const DriverCall* const call = next_call(DriverCall::Kind::kFreed);
  if (call == nullptr) {
    report_mismatch("the rules give the segment at " + hex(address) + " back; the program kept it");
  } else if (call->address != address && proof_.classes <= 1) {
    report_mismatch("the rules give the segment at " + hex(address) + " back before that at " +
                    hex(call->address));
  }
}

SegmentSource::Space RecordedAllocator::reserve(std::uint64_t, ClassId) {
  const Reservation* const around = reservations_.containing(address_);
  if (around == nullptr) {
    report_mismatch("the rules reserve address space; the program did not");
    return {};
  }
  return {around->address, around->size_bytes};
}

bool RecordedAllocator::map(std::uint64_t address, std::uint64_t bytes) {
  std::uint64_t done = 0;
  while (done < bytes) {
    const DriverCall* const call = next_call(DriverCall::Kind::kMapped);
    if (call == nullptr) {
      if (next_call(DriverCall::Kind::kRefused) == nullptr) {
        report_mismatch("the rules map " + bytes_text(bytes) + " at " + hex(address) +
                        "; the program mapped " + bytes_text(done));
      }
      return false;
    }
    if (call->address != address + done) {
      report_mismatch("the rules map memory at " + hex(address + done) + ", the program at " +
                      hex(call->address));
      return false;
    }
    done += call->bytes;
  }
  add_pages(address, bytes, pool_);
  return true;
}

void RecordedAllocator::add_pages(std::uint64_t address, std::uint64_t bytes,
                                  PeakMemory::Pool pool) {
  constexpr std::uint64_t kMostPages = 1 << 20;  // pages have 2 MiB or more: at least 2 TiB
  const std::uint64_t page = allocator_.settings().page_bytes(pool.small);
  if (bytes / page > kMostPages) return report_mismatch("no device has " + bytes_text(bytes));
  for (std::uint64_t at = 0; at < bytes; at += page) {
    peak_.add_page(address + at, std::min(page, bytes - at), pool);
  }
}

void RecordedAllocator::unmap(std::uint64_t address, std::uint64_t bytes) {
  peak_.remove(address, bytes);
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < calls_->size() && done < bytes; ++i) {
    const DriverCall& call = (*calls_)[i];
    if (used_[i] || call.kind != DriverCall::Kind::kUnmapped) continue;
    const bool is_of_these = call.address - address < bytes;
    // PyTorch unmaps stream by stream, in the order of its pointers to them, which no trace has.
    if (!is_of_these && proof_.classes <= 1) break;
    if (!is_of_these) continue;
    used_[i] = true;
    done += call.bytes;
  }
  if (done < bytes) {
    report_mismatch("the rules unmap " + bytes_text(bytes) + " at " + hex(address) +
                    "; the program did not");
  }
}

// A thread that frees segments for a request holds the allocator's lock until it has its block. So
// another thread's report in between shows that the thread had only emptied the cache.
void RecordedAllocator::replay_emptied_caches(const Request& present) {
  for (auto& [writer, thread] : threads_) {
    const auto first = std::ranges::find_if(thread.calls, &DriverCall::gives_back);
    if (first == thread.calls.end()) continue;
    if (writer == present.writer) {
      const bool was_refused = std::any_of(thread.calls.begin(), first, is_refused);
      if (was_refused || is_for(present, thread, *first)) continue;
    }
    const auto freed =
        std::ranges::stable_partition(thread.calls, std::not_fn(&DriverCall::gives_back));
    const std::vector<DriverCall> cache(freed.begin(), freed.end());
    thread.calls.erase(freed.begin(), freed.end());
    empty_cache(cache);
  }
}

// True if `freed`, the free of a segment, was made for the present request. If PyTorch's own limit
// is known, it shows which requests free segments; other Python frames then show that the program
// had emptied the cache just before.
bool RecordedAllocator::is_for(const Request& present, const Thread& thread,
                               const DriverCall& freed) const {
  if (!knows_allowed_) return freed.stack == present.stack;
  return allocator_.gives_back_for(present.bytes, thread.last_class) &&
         python_frames_.hash_of(freed.stack) == python_frames_.hash_of(present.stack);
}

// Finds the classes that kept their free segments when the program emptied the cache: pools of
// graphs. `freed`: the addresses of the freed segments.
void RecordedAllocator::record_kept_classes(const std::set<std::uint64_t>& freed) {
  std::set<ClassId> keeps;
  std::set<ClassId> gives;
  for (const CachingAllocator::FreeSegment& segment : allocator_.free_segments()) {
    (freed.contains(segment.address) ? gives : keeps).insert(segment.block_class);
  }
  for (const ClassId block_class : keeps) {
    if (block_class == 0 || gives.contains(block_class)) continue;
    allocator_.keep_cache_of(block_class);
    streams_prove_nothing_ = true;
    out_.add({EventKind::kKeepCache, block_class, 0, {}, 0, 0});
  }
}

// Replays that the program emptied the cache. `freed`: the calls that freed memory.
void RecordedAllocator::empty_cache(const std::vector<DriverCall>& freed) {
  if (compares()) {
    std::set<std::uint64_t> addresses;
    for (const DriverCall& call : freed) addresses.insert(call.address);
    if (!allocator_.settings().expandable) record_kept_classes(addresses);
    begin_answers(freed, 0);
    // The pool of a graph that was destroyed is freed with the rest of the cache.
    for (const CachingAllocator::FreeSegment& segment : allocator_.free_segments()) {
      if (segment.stays && addresses.contains(segment.address)) {
        allocator_.release_free_segment(segment.block);
      }
    }
    allocator_.empty_cache();
    finish_all_waits();
    if (gave_back_more()) report_mismatch("the program gave back memory that the rules keep");
    calls_ = nullptr;
  }
  out_.add({EventKind::kEmptyCache, 0, 0, {}, 0, 0});
}

ClassId RecordedAllocator::add_class(Stream stream) {
  stream_of_class_.push_back(stream);
  return static_cast<ClassId>(stream_of_class_.size() - 1);
}

template <class Suits>
ClassId RecordedAllocator::first_class_that(const Suits& suits, Stream stream) {
  for (ClassId block_class = 0; block_class < stream_of_class_.size(); ++block_class) {
    if (suits(block_class)) return block_class;
  }
  return add_class(stream);
}

// Makes the last class of this stream the thread's last class; a new stream gets a class.
void RecordedAllocator::switch_stream(Thread& thread, Stream stream) {
  if (is_of_stream(thread.last_class, stream)) return;
  const auto [known, is_new_here] = thread.last_of_stream.try_emplace(stream, 0);
  if (is_new_here) {
    const auto [first, is_new] = first_of_stream_.try_emplace(stream, 0);
    if (is_new) first->second = add_class(stream);
    known->second = first->second;
  }
  thread.last_class = known->second;
}

// The number of classes (streams and pools) that no recorded stream explains, and one more if a
// stream does not prove the class of its blocks.
std::uint32_t RecordedAllocator::inferred_classes() const {
  // Blocks without a recorded stream can be of any stream.
  const bool mixes = first_of_stream_.contains(std::nullopt) && first_of_stream_.size() > 1;
  const bool prove_nothing = streams_prove_nothing_ || (captured_ && first_of_stream_.size() > 1);
  const std::size_t explained = first_of_stream_.size() - (mixes ? 1 : 0);
  const std::size_t inferred = stream_of_class_.size() - explained + (prove_nothing ? 1 : 0);
  return static_cast<std::uint32_t>(inferred);
}

// A class of the thread's stream that has no free block for the request, and so needs a segment.
ClassId RecordedAllocator::class_of_new_segment(const Thread& thread, std::uint64_t bytes) {
  const Stream stream = stream_of_class_[thread.last_class];
  const auto needs_memory = [&](ClassId block_class) {
    return is_of_stream(block_class, stream) && allocator_.find_fit(bytes, block_class) == 0;
  };
  if (needs_memory(thread.last_class)) return thread.last_class;
  const auto own = std::ranges::find_if(thread.classes, needs_memory);
  return own != thread.classes.end() ? *own : first_class_that(needs_memory, stream);
}

// The class of the reservation at the address. Each class has at most one reservation for small and
// one for large requests.
ClassId RecordedAllocator::class_of_reservation(const Thread& thread, std::uint64_t address,
                                                bool small) {
  Reservation* const around = reservations_.containing(address);
  if (around == nullptr) return thread.last_class;
  const Stream stream = stream_of_class_[thread.last_class];
  if (around->block_class) {
    streams_prove_nothing_ |= !is_of_stream(*around->block_class, stream);
    return *around->block_class;
  }
  const auto has_none = [&](ClassId block_class) {
    return is_of_stream(block_class, stream) && !reserved_classes_.contains({block_class, small});
  };
  const ClassId chosen =
      has_none(thread.last_class) ? thread.last_class : first_class_that(has_none, stream);
  reserved_classes_.insert({chosen, small});
  around->block_class = chosen;
  around->small = small;
  return chosen;
}

// The class whose free memory at the address explains the recorded block; if the class would have
// chosen another block, the segment moves to a new class.
ClassId RecordedAllocator::class_of_request(Thread& thread, std::uint64_t address,
                                            std::uint64_t bytes) {
  // The usual case: the class (stream or pool) of the thread's last block.
  const BlockId fit = allocator_.find_fit(bytes, thread.last_class);
  if (fit != 0 && allocator_.address_of(fit) == address) return thread.last_class;
  if (allocator_.settings().expandable) {
    return class_of_reservation(thread, address, bytes <= kLargestSmallBytes);
  }
  // The driver may have put a new segment at an address that the request freed.
  const bool is_new = std::any_of(thread.calls.begin(), thread.calls.end(), [&](const auto& call) {
    return call.kind == DriverCall::Kind::kAllocated && call.address == address;
  });
  const BlockId there = is_new ? 0 : allocator_.free_block_at(address, bytes);
  if (there == 0) return class_of_new_segment(thread, bytes);
  const ClassId block_class = allocator_.class_of_block(there);
  streams_prove_nothing_ |= !is_of_stream(block_class, stream_of_class_[thread.last_class]);
  if (allocator_.find_fit(bytes, block_class) == there) return block_class;
  const ClassId moved = add_class(stream_of_class_[thread.last_class]);
  allocator_.move_segment(there, moved);
  peak_.move_segment(address, moved);
  ++proof_.moved_segments;
  return moved;
}

RecordedAllocator::Sizes RecordedAllocator::sizes_of_request(std::uint64_t bytes,
                                                             std::uint64_t requested,
                                                             ClassId block_class) const {
  // The usual case: the block is the requested size, rounded up to the next unit. All settings
  // allow this.
  if (requested <= bytes && requested + kUnitBytes > bytes) return {requested, requested};
  const bool makes_it =
      requested != 0 && compares() && allocator_.block_bytes_for(requested, block_class) == bytes;
  if (makes_it) return {requested, requested};
  const Sizes possible = possible_sizes(bytes, block_class);
  const bool fits =
      requested != 0 && requested + kUnitBytes > possible.low && requested <= possible.high;
  return fits ? Sizes{requested, requested} : possible;
}

// The range of requested sizes for which the allocator can have handed out a block of `bytes`.
RecordedAllocator::Sizes RecordedAllocator::possible_sizes(std::uint64_t bytes,
                                                           ClassId block_class) const {
  const AllocatorSettings& settings = allocator_.settings();
  const std::uint64_t high = settings.largest_within(bytes);
  Sizes sizes{settings.smallest_rounded_to(settings.round_request(high)), high};
  if (settings.expandable || bytes <= kLargestSmallBytes) return sizes;
  const bool is_oversize = bytes >= settings.max_split_bytes;
  const std::uint64_t unsplit =
      is_oversize ? settings.max_non_split_rounding_bytes - kUnitBytes : kLargestSmallBytes;
  const BlockId fit = compares() ? allocator_.find_fit(bytes, block_class) : 0;
  std::uint64_t least = kLargestSmallBytes + kUnitBytes;
  if (fit != 0) {
    // The block was split, so its size follows from the request.
    if (allocator_.bytes_of(fit) != bytes) return sizes;
    least = std::max(least, allocator_.free_size_below(bytes, block_class) + kUnitBytes);
  } else if (compares()) {
    if (settings.segment_bytes(bytes) != bytes) return sizes;
    least = std::max(least, bytes - kLargeRoundingBytes + kUnitBytes);
  }
  least = std::max(least, bytes > unsplit ? bytes - unsplit : 0);
  sizes.low = std::min(sizes.low, settings.smallest_rounded_to(least));
  return sizes;
}

void RecordedAllocator::replay_allocation(std::uint32_t writer, const trace::Block& block) {
  const auto bytes = static_cast<std::uint64_t>(block.bytes);
  begin_event();
  const bool has_stream = (block.record.flags & trace::kFlagStream) != 0;
  switch_stream(threads_[writer], has_stream ? Stream(block.stream) : std::nullopt);
  const AllocatorSettings& settings = allocator_.settings();
  const bool knows_request =
      block.requested != 0 && settings.round_request(block.requested) <= bytes;
  const std::uint64_t likely = knows_request ? block.requested : settings.largest_within(bytes);
  replay_emptied_caches({writer, block.stack, likely});
  if (const auto missed = live_.find(block.address); missed != live_.end()) {
    report_mismatch("a block at " + hex(block.address) +
                    " is handed out again; its free was not recorded");
    end_slot(missed->second.slot, EventKind::kFree);
    live_.erase(missed);
  }
  Thread& thread = threads_[writer];
  const ClassId block_class =
      compares() ? class_of_request(thread, block.address, likely) : thread.last_class;
  thread.last_class = block_class;
  thread.last_of_stream[stream_of_class_[block_class]] = block_class;
  thread.classes.insert(block_class);
  const Sizes sizes = sizes_of_request(bytes, block.requested, block_class);
  has_unknown_sizes_ |= sizes.low != sizes.high;
  const std::uint64_t asked = sizes.high;
  LiveBlock live{slots_.take(), 0, {block.address, bytes, asked, block.stack, proof_.events}};
  if (compares()) {
    pool_ = {block_class, bytes <= kLargestSmallBytes};
    live.replayed = ask_rules(thread, block.address, asked, block_class);
    if (live.replayed == 0) {
      report_mismatch("the rules refuse " + bytes_text(bytes) + "; the program got them");
    } else if (allocator_.address_of(live.replayed) != block.address) {
      report_mismatch("the rules place " + bytes_text(bytes) + " at " +
                      hex(allocator_.address_of(live.replayed)) + ", the program at " +
                      hex(block.address));
    } else if (allocator_.bytes_of(live.replayed) != bytes) {
      report_mismatch("the rules hand out " + bytes_text(allocator_.bytes_of(live.replayed)) +
                      ", the program " + std::to_string(bytes));
    } else if (gave_back_more()) {
      report_mismatch("the program gave back memory that the rules keep");
    } else if (compares()) {
      ++proof_.placements;
    }
    calls_ = nullptr;
    compare_totals(block);
    peak_.update_peak(live.block, pool_, allocator_.counts().reserved_bytes);
  }
  proof_.classes = static_cast<std::uint32_t>(stream_of_class_.size());
  proof_.inferred_classes = inferred_classes();
  thread.calls.clear();
  live_[block.address] = live;
  out_.add({EventKind::kRequest, block_class, live.slot, block.stack, sizes.low, sizes.high});
}

void RecordedAllocator::compare_totals(const trace::Block& block) {
  if (!compares() || block.reserved_bytes == kUnknownTotal) return;
  const AllocatorCounts& counts = allocator_.counts();
  if (counts.allocated_bytes != block.allocated) {
    report_mismatch("the rules have " + bytes_text(counts.allocated_bytes) +
                    " allocated, the program " + std::to_string(block.allocated));
  } else if (counts.reserved_bytes != block.reserved_bytes) {
    report_mismatch("the rules have " + bytes_text(counts.reserved_bytes) +
                    " reserved, the program " + std::to_string(block.reserved_bytes));
  }
}

void RecordedAllocator::narrow_torch_limit(std::uint64_t reserved_bytes,
                                           std::uint64_t segment_bytes) {
  if (knows_allowed_) return;
  // If garbage_collection_threshold is set, garbage collection may have freed the segments, so they
  // are no sign of the limit.
  if (allocator_.settings().garbage_collection_threshold > 0) return;
  const std::uint64_t limit = reserved_bytes + segment_bytes - 1;
  highest_torch_limit_ = highest_torch_limit_ == 0 ? limit : std::min(highest_torch_limit_, limit);
}

void RecordedAllocator::replay_free(const trace::Block& block) {
  begin_event();
  // Segments freed for a request are followed by its block or its refusal, not by the free of a
  // block: all segments freed until now were of an emptied cache.
  replay_emptied_caches({});
  const auto found = live_.find(block.address);
  if (found == live_.end()) {
    return report_mismatch("a block at " + hex(block.address) +
                           " is freed that was not seen before");
  }
  const LiveBlock live = found->second;
  live_.erase(found);
  if (live.waits != 0) {
    waiting_[live.slot] = live;
    ++proof_.waits;
    out_.add({EventKind::kFreeLater, 0, live.slot, {}, 0, 0});
    if (compares()) allocator_.free_later(live.replayed, live.slot);
  } else {
    end_slot(live.slot, EventKind::kFree);
    if (compares()) {
      allocator_.free(live.replayed);
      become_free(live);
    }
  }
  compare_totals(block);
}

void RecordedAllocator::end_slot(std::uint32_t slot, EventKind how) {
  slots_.give_back(slot);
  out_.add({how, 0, slot, {}, 0, 0});
}

void RecordedAllocator::become_free(const LiveBlock& live) {
  const std::uint64_t free_from = allocator_.address_of(live.replayed);
  peak_.note_free(live.block, free_from, free_from + allocator_.bytes_of(live.replayed));
}

void RecordedAllocator::wait(std::uint64_t address, std::uint64_t event) {
  const auto found = live_.find(address);
  if (found == live_.end()) return;
  ++found->second.waits;
  slot_of_event_[event] = found->second.slot;
}

void RecordedAllocator::finish_wait(std::uint64_t event) {
  const auto known = slot_of_event_.find(event);
  if (known == slot_of_event_.end()) return;
  const auto found = waiting_.find(known->second);
  slot_of_event_.erase(known);
  if (found == waiting_.end() || --found->second.waits != 0) return;
  const LiveBlock live = found->second;
  waiting_.erase(found);
  end_slot(live.slot, EventKind::kWaitIsOver);
  if (!compares()) return;
  allocator_.finish_free(live.slot);
  become_free(live);
}

// Ends all waits: PyTorch waited for all of these blocks before it emptied its cache.
void RecordedAllocator::finish_all_waits() {
  for (const auto& [slot, live] : waiting_) end_slot(slot, EventKind::kWaitIsOver);
  std::erase_if(slot_of_event_, [&](const auto& event) { return waiting_.contains(event.second); });
  waiting_.clear();
}

void RecordedAllocator::refuse(std::uint32_t writer, const trace::FrameworkOom& oom) {
  begin_event();
  replay_emptied_caches({writer, oom.stack, oom.requested});
  Thread& thread = threads_[writer];
  const bool driver_refused = std::ranges::any_of(thread.calls, is_refused);
  if (compares()) {
    pool_ = {thread.last_class, oom.requested <= kLargestSmallBytes};
    if (ask_rules(thread, 0, oom.requested, thread.last_class) != 0) {
      report_mismatch("the rules meet a request for " + bytes_text(oom.requested) +
                      " that the program could not");
    }
    calls_ = nullptr;
  }
  if (!driver_refused && oom.reserved_bytes != kUnknownTotal) {
    const AllocatorSettings& settings = allocator_.settings();
    narrow_torch_limit(oom.reserved_bytes,
                       settings.segment_bytes(settings.round_request(oom.requested)));
  }
  thread.calls.clear();
  out_.add({EventKind::kRefused, thread.last_class, 0, oom.stack, oom.requested, oom.requested});
}

Unusable RecordedAllocator::unusable_at_peak() const {
  std::vector<PeakMemory::Block> blocks;
  for (const auto& [address, live] : live_) blocks.push_back(live.block);
  for (const auto& [slot, live] : waiting_) blocks.push_back(live.block);
  return peak_.unusable(std::move(blocks), allocator_.settings().max_split_bytes);
}

void RecordedAllocator::finish() {
  replay_emptied_caches({});
  out_.flush();
}

}  // namespace gpumemtrace::analyzer::replay
