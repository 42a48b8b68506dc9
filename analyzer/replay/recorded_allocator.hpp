// SPDX-License-Identifier: Apache-2.0
// The recorded allocator of one device, replayed call by call and compared with the trace: the
// proof that the rules are the right ones, and the source of the program's requests.
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
  std::uint64_t bytes = 0;  // kFreed, kUnmapped: of what was there
  trace::StackId stack = trace::StackId::kNone;

  [[nodiscard]] bool gives_back() const { return kind == Kind::kFreed || kind == Kind::kUnmapped; }
};

struct Proof {
  std::uint64_t placements = 0;        // equal address and size
  std::uint64_t events = 0;            // reports seen, equal or not
  std::uint64_t mismatches = 0;        // 0 or 1: the claim ends with the first
  std::string first_mismatch;          // which event, and what differs
  std::uint32_t classes = 0;           // streams and pools
  std::uint32_t inferred_classes = 0;  // of these, told apart by placements alone
  std::uint64_t moved_segments = 0;    // that had to change their class to fit
  std::uint64_t waits = 0;             // blocks that other streams still used when they were freed
  bool has_earlier_state = false;      // the allocator had memory before the first event
  [[nodiscard]] bool holds() const { return mismatches == 0 && placements != 0; }
  // Blocks of one stream share its free memory, unless pools keep them apart: if each stream is
  // recorded and one class is enough for its blocks, nothing is a guess.
  [[nodiscard]] bool knows_classes() const { return inferred_classes == 0; }
};

// The Python frames of a recorded stack, as a number; 0 if it has none.
class PythonFrames {
 public:
  void add(const trace::Stack& stack);
  [[nodiscard]] std::uint64_t hash_of(trace::StackId stack) const;

 private:
  std::unordered_map<trace::StackId, std::uint64_t> hashes_;
};

// - Calls of the driver and reports of blocks come in the order in which they took effect.
// - Each stream has classes of its own: one, and as many more as its placements show pools. If
//   streams are not recorded all blocks count as one stream's.
// - A report is compared with the replay's own answer. After the first difference nothing is
//   compared any more; the program's requests are still handed on, from the reports alone.
class RecordedAllocator final : private SegmentSource {
 public:
  RecordedAllocator(const AllocatorSettings& settings, const TorchRules& rules,
                    const PythonFrames& python_frames, EventBuffer& out)
      : allocator_(settings, rules, *this), python_frames_(python_frames), out_(out) {}

  // Memory that the driver handed out, to any code, and address space.
  void add_allocation(std::uint32_t writer, const DriverCall& call);
  void add_reservation(std::uint64_t address, std::uint64_t bytes);
  void remove_reservation(std::uint64_t address);
  void add_refusal(std::uint32_t writer, const DriverCall& call) {
    threads_[writer].calls.push_back(call);
  }
  void add_free(std::uint32_t writer, const DriverCall& call);
  void add_mapping(std::uint32_t writer, const DriverCall& call);

  // The state in which recording began, before the first event: its segments, then its blocks. The
  // driver's mappings of expandable segments come with add_mapping() before their blocks.
  struct EarlierSegment {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::int64_t stream = 0;  // as in trace::Block
    std::uint64_t pool = 0;   // number of a private pool; 0 = none
  };
  void adopt(const EarlierSegment& segment);
  // The reservation that begins there is the address space of an expandable segment of the stream.
  void adopt_space(std::uint64_t address, std::int64_t stream) {
    earlier_spaces_[address] = stream;
  }
  void adopt(std::uint32_t writer, const trace::Block& block);

  // A block is about to be handed out there: the driver memory around it is a segment.
  void mark_segment(std::uint64_t address);
  void hand_out(std::uint32_t writer, const trace::Block& block);
  void take_back(const trace::Block& block);
  // The block at the address, which is taken back next, waits for the event.
  void wait(std::uint64_t address, std::uint64_t event);
  void finish_wait(std::uint64_t event);
  void refuse(std::uint32_t writer, const trace::FrameworkOom& oom);
  void finish();

  // Sets the bytes that PyTorch itself allows from here on; AllocatorSettings::kNoLimit = all.
  void set_allowed_bytes(std::uint64_t bytes);
  void change_settings(const AllocatorSettings& settings) { allocator_.change_settings(settings); }
  // Private pools may exist from here on.
  void record_capture() { captured_ = true; }
  // Sets the reason why nothing is compared, and can be proven, from here on.
  void report_mismatch(const std::string& what);

  [[nodiscard]] const Proof& proof() const { return proof_; }
  [[nodiscard]] const CachingAllocator& allocator() const { return allocator_; }
  // The reason why the memory reserved at the peak was not enough, for a run that is proven.
  [[nodiscard]] Unusable unusable_at_peak() const;
  // Driver memory of segments now, by the trace.
  [[nodiscard]] std::uint64_t segment_bytes() const { return segment_bytes_; }
  [[nodiscard]] bool has_unknown_sizes() const { return has_unknown_sizes_; }
  // PyTorch's own limit, by requests that it refused although the driver did not: between the most
  // that it met and this; 0 if there was none, or it is known.
  [[nodiscard]] std::uint64_t limit_of_its_own() const { return limit_of_its_own_; }
  // The lower end of such a limit; 0 if it was another one then.
  [[nodiscard]] std::uint64_t least_limit_of_its_own() const {
    const std::uint64_t met = allocator_.counts().asked_peak_bytes;
    return met <= limit_of_its_own_ ? met : 0;
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
    std::optional<ClassId> of;
    bool small = false;

    [[nodiscard]] std::uint64_t begin() const { return address; }
    [[nodiscard]] std::uint64_t bytes() const { return size_bytes; }
  };
  struct LiveBlock {
    std::uint32_t slot = 0;
    BlockId replayed = 0;
    PeakMemory::Block block;
    std::uint32_t waits = 0;  // for so many events
  };
  using Stream = std::optional<std::int64_t>;  // none: not recorded
  struct Thread {
    std::vector<DriverCall> calls;  // since its last report
    ClassId last_class = 0;
    std::map<Stream, ClassId> last_of_stream;
    std::set<ClassId> classes;
  };
  using FreeParts = std::map<std::uint64_t, BlockId>;  // by address
  // The part that begins at or before the address; 0 = none.
  [[nodiscard]] static BlockId part_around(const FreeParts& parts, std::uint64_t address);
  void add_parts(FreeParts& parts, std::initializer_list<BlockId> blocks) const;
  void add_pages(std::uint64_t address, std::uint64_t bytes, PeakMemory::Pool pool);
  void adopt_pages(Thread& thread, Reservation& space, bool is_small);
  [[nodiscard]] BlockId place_earlier(Thread& thread, std::uint64_t address, std::uint64_t bytes);
  void adopt_free_spaces();
  // The next event: what was there before it is complete.
  void begin_event();
  struct Sizes {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
  };

  // SegmentSource, answered by the trace.
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t bytes, ClassId of) override;
  void release(std::uint64_t address, std::uint64_t bytes) override;
  [[nodiscard]] Space reserve(std::uint64_t page_bytes, ClassId of) override;
  [[nodiscard]] bool map(std::uint64_t address, std::uint64_t bytes) override;
  void unmap(std::uint64_t address, std::uint64_t bytes) override;

  [[nodiscard]] bool compares() const { return proof_.mismatches == 0; }
  // Takes the next call of this kind that the present request made; nullptr if there is none.
  [[nodiscard]] const DriverCall* next_call(DriverCall::Kind kind);
  // True if memory was freed in a call that is not taken yet.
  [[nodiscard]] bool gave_back_more() const;
  // From here on these calls are the driver's answers; the block lies at the address.
  void begin_answers(const std::vector<DriverCall>& calls, std::uint64_t address);
  [[nodiscard]] BlockId ask_rules(const Thread& thread, std::uint64_t address, std::uint64_t bytes,
                                  ClassId of);

  struct Request {
    std::uint32_t writer = kNoWriter;
    trace::StackId stack = trace::StackId::kNone;
    std::uint64_t bytes = 0;
  };
  static constexpr std::uint32_t kNoWriter = ~std::uint32_t{0};

  // A thread's frees between its reports, if not for the present request, are the cache that the
  // program emptied.
  void settle(const Request& present);
  [[nodiscard]] bool is_for(const Request& present, const Thread& thread,
                            const DriverCall& freed) const;
  void empty_cache(const std::vector<DriverCall>& freed);
  void record_kept_classes(const std::set<std::uint64_t>& freed);

  [[nodiscard]] ClassId add_class(Stream stream);
  // A new one if none suits.
  template <class Suits>
  [[nodiscard]] ClassId first_class_that(const Suits& suits, Stream stream);
  [[nodiscard]] bool is_of_stream(ClassId of, Stream stream) const {
    return of < stream_of_class_.size() && stream_of_class_[of] == stream;
  }
  // The class is the thread's present one until the request shows otherwise.
  void switch_stream(Thread& thread, Stream stream);
  [[nodiscard]] std::uint32_t inferred_classes() const;
  [[nodiscard]] ClassId class_of_request(Thread& thread, std::uint64_t address,
                                         std::uint64_t bytes);
  [[nodiscard]] ClassId class_of_new_segment(const Thread& thread, std::uint64_t bytes);
  // The requested size, if the trace has it and the rules can make this block of it; else all that
  // are possible.
  [[nodiscard]] Sizes sizes_of_request(std::uint64_t bytes, std::uint64_t requested,
                                       ClassId of) const;
  [[nodiscard]] Sizes possible_sizes(std::uint64_t bytes, ClassId of) const;
  void end_slot(std::uint32_t slot, EventKind how);
  void become_free(const LiveBlock& live);
  void finish_all_waits();
  void compare_totals(const trace::Block& block);
  // There was no room for a segment of so many bytes beside those reserved.
  void update_own_limit(std::uint64_t reserved_bytes, std::uint64_t segment_bytes);
  [[nodiscard]] ClassId class_of_reservation(const Thread& thread, std::uint64_t address,
                                             bool small);

  CachingAllocator allocator_;
  const PythonFrames& python_frames_;
  EventBuffer& out_;
  Proof proof_;
  std::map<std::uint64_t, Allocation> allocations_;
  // The segment of the last block: the next one mostly lies there, too.
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
  };
  Range marked_;
  ledger::RangeList<Reservation> reservations_;
  std::set<std::pair<ClassId, bool>> reserved_classes_;  // with a reservation, small or large
  std::unordered_map<std::uint64_t, LiveBlock> live_;
  // Blocks taken back, by their slots; and the slots by the events.
  std::map<std::uint32_t, LiveBlock> waiting_;
  std::unordered_map<std::uint64_t, std::uint32_t> slot_of_event_;
  Slots slots_;
  std::map<std::uint32_t, Thread> threads_;
  std::uint64_t segment_bytes_ = 0;
  std::uint64_t limit_of_its_own_ = 0;
  bool knows_allowed_ = false;
  bool has_unknown_sizes_ = false;
  std::vector<Stream> stream_of_class_;
  std::map<Stream, ClassId> first_of_stream_;
  std::map<std::uint64_t, std::map<Stream, ClassId>> classes_of_earlier_pools_;
  // While the state in which recording began is adopted:
  FreeParts earlier_free_;
  std::map<std::uint64_t, std::int64_t> earlier_spaces_;  // streams, by address
  bool captured_ = false;
  bool streams_do_not_tell_ = false;  // the class: a block lies elsewhere, or a pool is beside them

  PeakMemory peak_;

  // The request that is replayed now.
  PeakMemory::Pool pool_;
  const std::vector<DriverCall>* calls_ = nullptr;
  std::vector<bool> used_;
  std::uint64_t address_ = 0;
};

}  // namespace gpumemtrace::analyzer::replay
