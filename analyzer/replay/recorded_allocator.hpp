// SPDX-License-Identifier: Apache-2.0
// Replays the recorded allocator of one device call by call and compares it with the trace. That
// proves the allocator's rules, and gives the program's requests for other replays.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/replay/caching_allocator.hpp"
#include "analyzer/replay/events.hpp"
#include "analyzer/replay/peak_memory.hpp"
#include "trace/ledger/virtual_memory.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer::replay {

// A successful or refused call of the driver that may be the allocator's.
struct DriverCall {
  enum class Kind { kAllocated, kRefused, kFreed, kMapped, kUnmapped };
  Kind kind = Kind::kAllocated;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // kFreed, kUnmapped: the bytes that were there
  trace::StackId stack = trace::StackId::kNone;

  [[nodiscard]] bool gives_back() const { return kind == Kind::kFreed || kind == Kind::kUnmapped; }
};

struct Proof {
  std::uint64_t placements = 0;        // blocks with equal address and size
  std::uint64_t events = 0;            // reports of blocks seen, equal or not
  std::uint64_t mismatches = 0;        // 0 or 1: the first difference ends the comparison
  std::string first_mismatch;          // the event that differs, and how
  std::uint32_t classes = 0;           // number of streams and pools
  std::uint32_t inferred_classes = 0;  // classes inferred from addresses of blocks alone
  std::uint64_t moved_segments = 0;    // segments moved to another class to match the trace
  std::uint64_t waits = 0;             // blocks that other streams still used when they were freed
  bool has_earlier_state = false;      // the allocator had memory before the first event
  [[nodiscard]] bool holds() const { return mismatches == 0 && placements != 0; }
  // True if each class (stream or private pool) is known, not inferred. Blocks of one stream share
  // its free memory, unless private pools keep them apart: if every stream is recorded and one
  // class explains the blocks of each, all classes are known.
  [[nodiscard]] bool knows_classes() const { return inferred_classes == 0; }
};

// The Python frames of recorded stacks, a hash for each; 0 if a stack has none.
class PythonFrames {
 public:
  void add(const trace::Stack& stack);
  [[nodiscard]] std::uint64_t hash_of(trace::StackId stack) const;

 private:
  std::unordered_map<trace::StackId, std::uint64_t> hashes_;
};

// The recorded allocator, replayed.
// - Calls of the driver and reports of blocks come in the order in which they took effect.
// - Each stream has one class, and one more for each private pool that the addresses of its blocks
//   show. If streams are not recorded, all blocks count as one stream's.
// - A report is compared with the replay's own answer. After the first difference nothing is
//   compared any more; the program's requests are still passed on, from the reports alone.
class RecordedAllocator final : private SegmentSource {
 public:
  RecordedAllocator(const AllocatorSettings& settings, const TorchRules& rules,
                    const PythonFrames& python_frames, EventBuffer& out)
      : allocator_(settings, rules, *this), python_frames_(python_frames), out_(out) {}

  // Adds memory or address space that the driver gave to any code of the process.
  void add_allocation(std::uint32_t writer, const DriverCall& call);
  void add_reservation(std::uint64_t address, std::uint64_t bytes);
  void remove_reservation(std::uint64_t address);
  void add_refusal(std::uint32_t writer, const DriverCall& call) {
    threads_[writer].calls.push_back(call);
  }
  void add_free(std::uint32_t writer, const DriverCall& call);
  void add_mapping(std::uint32_t writer, const DriverCall& call);

  // A segment that existed when recording began. Segments are adopted before the first event, then
  // their blocks. The driver's mappings of expandable segments come with add_mapping() before their
  // blocks.
  struct EarlierSegment {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::int64_t stream = 0;  // the stream as trace::Block has it
    std::uint64_t pool = 0;   // number of a private pool; 0 = none
  };
  void adopt(const EarlierSegment& segment);
  // Adopts the address space of an expandable segment: a reservation of this stream that begins at
  // the address.
  void adopt_space(std::uint64_t address, std::int64_t stream) {
    earlier_spaces_[address] = stream;
  }
  void adopt(std::uint32_t writer, const trace::Block& block);

  // Marks the driver memory around the address as a segment: a block is about to be handed out
  // there.
  void mark_segment(std::uint64_t address);
  void replay_allocation(std::uint32_t writer, const trace::Block& block);
  void replay_free(const trace::Block& block);
  // Tells that the block at the address, which is freed next, waits for the event of another
  // stream.
  void wait(std::uint64_t address, std::uint64_t event);
  void finish_wait(std::uint64_t event);
  void refuse(std::uint32_t writer, const trace::FrameworkOom& oom);
  void finish();

  // Sets the bytes that PyTorch itself allows from here on; AllocatorSettings::kNoLimit = all.
  void set_allowed_bytes(std::uint64_t bytes);
  void change_settings(const AllocatorSettings& settings) { allocator_.change_settings(settings); }
  // Tells that a graph capture began: from here on private pools may exist.
  void record_capture() { captured_ = true; }
  // Ends the comparison: nothing is proven from here on, for the reason `what`.
  void report_mismatch(const std::string& what);

  [[nodiscard]] const Proof& proof() const { return proof_; }
  [[nodiscard]] const CachingAllocator& allocator() const { return allocator_; }
  // The reason why the memory reserved at the peak was not enough; for a proven run only.
  [[nodiscard]] Unusable unusable_at_peak() const;
  // The bytes of the segments' driver memory now, by the trace.
  [[nodiscard]] std::uint64_t segment_bytes() const { return segment_bytes_; }
  [[nodiscard]] bool has_unknown_sizes() const { return has_unknown_sizes_; }
  // The upper end of PyTorch's own limit, by requests that it refused although the driver did not;
  // the lower end is the most that it met. 0 if there was no such limit, or if it is known exactly.
  [[nodiscard]] std::uint64_t highest_torch_limit() const { return highest_torch_limit_; }
  // The lower end of PyTorch's own limit; 0 if what was met shows that the limit had changed.
  [[nodiscard]] std::uint64_t lowest_torch_limit() const {
    const std::uint64_t met = allocator_.counts().asked_peak_bytes;
    return met <= highest_torch_limit_ ? met : 0;
  }

 private:
  struct Allocation {
    std::uint64_t bytes = 0;
    bool is_segment = false;
  };
  struct Reservation {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t mapped_bytes = 0;
    bool is_segment = false;
    std::optional<ClassId> block_class;
    bool small = false;

    [[nodiscard]] std::uint64_t begin() const { return address; }
    [[nodiscard]] std::uint64_t bytes() const { return size_bytes; }
  };
  struct LiveBlock {
    std::uint32_t slot = 0;
    BlockId replayed = 0;
    PeakMemory::Block block;
    std::uint32_t waits = 0;  // number of events that the block waits for
  };
  using Stream = std::optional<std::int64_t>;  // no value: the stream is not recorded
  struct Thread {
    std::vector<DriverCall> calls;  // calls since the thread's last report
    ClassId last_class = 0;
    std::map<Stream, ClassId> last_of_stream;
    std::set<ClassId> classes;
  };
  using FreeParts = std::map<std::uint64_t, BlockId>;  // free parts, by address
  // The free part that begins at or before the address; 0 = none.
  [[nodiscard]] static BlockId part_around(const FreeParts& parts, std::uint64_t address);
  void add_parts(FreeParts& parts, std::initializer_list<BlockId> blocks) const;
  void add_pages(std::uint64_t address, std::uint64_t bytes, PeakMemory::Pool pool);
  void adopt_pages(Thread& thread, Reservation& space, bool is_small);
  [[nodiscard]] BlockId place_earlier(Thread& thread, std::uint64_t address, std::uint64_t bytes);
  void adopt_free_spaces();
  // Begins the next event: all memory from before recording is adopted by then.
  void begin_event();
  struct Sizes {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
  };

  // The driver's side (SegmentSource), answered with the calls in the trace.
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t bytes,
                                                      ClassId block_class) override;
  void release(std::uint64_t address, std::uint64_t bytes) override;
  [[nodiscard]] Space reserve(std::uint64_t page_bytes, ClassId block_class) override;
  [[nodiscard]] bool map(std::uint64_t address, std::uint64_t bytes) override;
  void unmap(std::uint64_t address, std::uint64_t bytes) override;

  [[nodiscard]] bool compares() const { return proof_.mismatches == 0; }
  // Takes the next call of this kind that the present request made; nullptr if there is none.
  [[nodiscard]] const DriverCall* next_call(DriverCall::Kind kind);
  // True if the present request has a call that freed memory and is not taken yet.
  [[nodiscard]] bool gave_back_more() const;
  // Sets the calls that are the driver's answers from here on; the block of the present request
  // lies at the address.
  void begin_answers(const std::vector<DriverCall>& calls, std::uint64_t address);
  [[nodiscard]] BlockId ask_rules(const Thread& thread, std::uint64_t address, std::uint64_t bytes,
                                  ClassId block_class);

  struct Request {
    std::uint32_t writer = kNoWriter;
    trace::StackId stack = trace::StackId::kNone;
    std::uint64_t bytes = 0;
  };
  static constexpr std::uint32_t kNoWriter = ~std::uint32_t{0};

  // A thread's frees of segments between its reports, if not made for the present request, mean
  // that the program emptied the cache.
  void replay_emptied_caches(const Request& present);
  [[nodiscard]] bool is_for(const Request& present, const Thread& thread,
                            const DriverCall& freed) const;
  void empty_cache(const std::vector<DriverCall>& freed);
  void record_kept_classes(const std::set<std::uint64_t>& freed);

  [[nodiscard]] ClassId add_class(Stream stream);
  // The first class for which `suits` is true; a new class of the stream if there is none.
  template <class Suits>
  [[nodiscard]] ClassId first_class_that(const Suits& suits, Stream stream);
  [[nodiscard]] bool is_of_stream(ClassId block_class, Stream stream) const {
    return block_class < stream_of_class_.size() && stream_of_class_[block_class] == stream;
  }
  // Prepares for a block of this stream from the thread: the class used last for the stream is
  // assumed until the request shows another one.
  void switch_stream(Thread& thread, Stream stream);
  [[nodiscard]] std::uint32_t inferred_classes() const;
  [[nodiscard]] ClassId class_of_request(Thread& thread, std::uint64_t address,
                                         std::uint64_t bytes);
  [[nodiscard]] ClassId class_of_new_segment(const Thread& thread, std::uint64_t bytes);
  // The requested size, if the trace has it and the rules can make this block of it; else the range
  // of all possible sizes.
  [[nodiscard]] Sizes sizes_of_request(std::uint64_t bytes, std::uint64_t requested,
                                       ClassId block_class) const;
  [[nodiscard]] Sizes possible_sizes(std::uint64_t bytes, ClassId block_class) const;
  void end_slot(std::uint32_t slot, EventKind how);
  void become_free(const LiveBlock& live);
  void finish_all_waits();
  void compare_totals(const trace::Block& block);
  // Narrows PyTorch's own limit: a segment of these bytes beside the reserved ones exceeded it.
  void narrow_torch_limit(std::uint64_t reserved_bytes, std::uint64_t segment_bytes);
  [[nodiscard]] ClassId class_of_reservation(const Thread& thread, std::uint64_t address,
                                             bool small);

  CachingAllocator allocator_;
  const PythonFrames& python_frames_;
  EventBuffer& out_;
  Proof proof_;
  std::map<std::uint64_t, Allocation> allocations_;
  // The segment of the last block: the next block mostly lies in the same segment.
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
  };
  Range marked_;
  ledger::RangeList<Reservation> reservations_;
  // The classes that have a reservation, with true if it is for small blocks, false for large ones.
  std::set<std::pair<ClassId, bool>> reserved_classes_;
  std::unordered_map<std::uint64_t, LiveBlock> live_;
  // Freed blocks that wait for other streams, by their slots; and the slots of these blocks by the
  // events that they wait for.
  std::map<std::uint32_t, LiveBlock> waiting_;
  std::unordered_map<std::uint64_t, std::uint32_t> slot_of_event_;
  Slots slots_;
  std::map<std::uint32_t, Thread> threads_;
  std::uint64_t segment_bytes_ = 0;
  std::uint64_t highest_torch_limit_ = 0;
  bool knows_allowed_ = false;
  bool has_unknown_sizes_ = false;
  std::vector<Stream> stream_of_class_;
  std::map<Stream, ClassId> first_of_stream_;
  std::map<std::uint64_t, std::map<Stream, ClassId>> classes_of_earlier_pools_;
  // The state in which recording began, while it is adopted:
  FreeParts earlier_free_;
  std::map<std::uint64_t, std::int64_t> earlier_spaces_;  // streams of address spaces, by address
  bool captured_ = false;
  // True if the recorded stream does not prove the class of a block: a block lay in another
  // stream's memory, or private pools exist.
  bool streams_prove_nothing_ = false;

  PeakMemory peak_;

  // The request that is replayed now.
  PeakMemory::Pool pool_;
  const std::vector<DriverCall>* calls_ = nullptr;
  std::vector<bool> used_;
  std::uint64_t address_ = 0;
};

}  // namespace gpumemtrace::analyzer::replay
