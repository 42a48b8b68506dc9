// SPDX-License-Identifier: Apache-2.0
// Replays the requests of a program with an allocator that has other settings.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/replay/caching_allocator.hpp"
#include "analyzer/replay/events.hpp"

namespace gpumemtrace::analyzer::replay {

// Chooses one size if a request may have had several: the least, the most, or one computed from
// `sample` and either the request's number, or its stack and largest size.
struct SizeChoice {
  enum class By { kLow, kHigh, kRequest, kSite };
  By by = By::kHigh;
  std::uint32_t sample = 0;
  [[nodiscard]] std::uint64_t size_of(const Event& request, std::uint64_t number) const;
};

// The place of a new segment in the driver's address space, which only the driver knows: the first
// gap, or, if `sample` is set, one that is computed from that number.
struct Placing {
  std::optional<std::uint32_t> sample;
};

// The parts of the driver's address space that segments take.
class AddressSpace {
 public:
  explicit AddressSpace(Placing placing) : placing_(placing) {}
  [[nodiscard]] std::uint64_t take(std::uint64_t bytes);
  void give_back(std::uint64_t address) { taken_.erase(address); }
  // Moves all segments that exist, and places later ones by `placing`. Returns the new addresses by
  // the old ones.
  [[nodiscard]] std::map<std::uint64_t, std::uint64_t> place_again(Placing placing);
  [[nodiscard]] Placing placing() const { return placing_; }

 private:
  [[nodiscard]] std::uint64_t first_gap(std::uint64_t bytes) const;
  [[nodiscard]] std::uint64_t any_gap(std::uint64_t bytes);

  Placing placing_;
  std::uint64_t takes_ = 0;
  std::map<std::uint64_t, std::uint64_t> taken_;  // address and length
};

struct ReplayCounts {
  AllocatorCounts allocator;
  std::uint64_t refused = 0;  // number of requests refused for lack of memory
};

// A replay of a run's requests under one policy.
// - apply() takes the events in their order, from one thread at a time.
// - The replay ends with the first request that is refused: the program's reaction is not known.
//   Requests that the recorded run was refused, too, do not end it.
// - A copy continues on its own from the original's state.
// - Up to the first request whose block depends on where segments lie, all placings are the same.
class PolicyReplay final : public EventSink, private SegmentSource {
 public:
  PolicyReplay(const AllocatorSettings& settings, const TorchRules& rules, SizeChoice sizes,
               Placing placing)
      : sizes_(sizes), space_(placing), allocator_(settings, rules, *this) {}
  PolicyReplay& operator=(const PolicyReplay&) = delete;
  [[nodiscard]] std::unique_ptr<PolicyReplay> copy() const;

  void set_sizes(SizeChoice sizes) { sizes_ = sizes; }
  // Moves all segments to other places at this point of the replay.
  void place_again(Placing placing) { allocator_.move_segments(space_.place_again(placing)); }
  [[nodiscard]] Placing placing() const { return space_.placing(); }
  // Sets the driver's bytes; events of the trace (kLimit) do not change them any more.
  void set_capacity(std::uint64_t bytes) {
    capacity_ = bytes;
    keeps_capacity_ = true;
  }
  // Sets PyTorch's own limit; events of the trace (kAllowed) do not change it any more.
  void set_allowed_bytes(std::uint64_t bytes) {
    allocator_.set_allowed_bytes(bytes);
    keeps_allowed_ = true;
  }
  // Scales PyTorch's own limits of the trace for a card of another size: they are fractions of it.
  void scale_allowed_bytes(double scale) { allowed_scale_ = scale; }
  // For the first few requests that both the recorded run and the replay refuse: finds the largest
  // request that would have been met instead.
  void measure_refusals() { measures_refusals_ = true; }
  void apply(const std::vector<Event>& events) override { (void)apply(std::span(events)); }
  // Returns the number of events that were applied: all, unless the replay stops before the first
  // request whose block depends on the addresses of segments. The next call applies that request.
  [[nodiscard]] std::size_t apply(std::span<const Event> events);
  void stop_at_first_tie() { allocator_.stop_at_first_tie(); }
  [[nodiscard]] ReplayCounts counts() const { return {allocator_.counts(), refused_}; }
  // True if a request was refused that the recorded program had got.
  [[nodiscard]] bool ended() const { return ended_; }
  // The outcome in this replay of a request that the recorded run was refused. refused_before() has
  // the first kMostRefusals of those that the replay came to.
  struct RefusedBefore {
    bool is_met = false;
    std::uint64_t largest_met_bytes = 0;  // see measure_refusals(); 0 = none, or not looked for
  };
  [[nodiscard]] const std::vector<RefusedBefore>& refused_before() const { return refused_before_; }

 private:
  // The copy's allocator would still call the original as its driver: use copy().
  PolicyReplay(const PolicyReplay&) = default;

  // False if the replay stops before the event.
  [[nodiscard]] bool apply(const Event& event);
  [[nodiscard]] bool apply_request(const Event& event);
  [[nodiscard]] bool apply_refused(const Event& event);
  [[nodiscard]] bool would_meet(std::uint64_t bytes, ClassId block_class) const;
  [[nodiscard]] std::uint64_t largest_met_below(std::uint64_t bytes, ClassId block_class) const;
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t bytes,
                                                      ClassId block_class) override;
  void release(std::uint64_t address, std::uint64_t bytes) override;
  [[nodiscard]] Space reserve(std::uint64_t page_bytes, ClassId block_class) override;
  [[nodiscard]] bool map(std::uint64_t address, std::uint64_t bytes) override;
  void unmap(std::uint64_t address, std::uint64_t bytes) override;
  void allow(std::uint64_t bytes);
  [[nodiscard]] bool has_room(std::uint64_t bytes) const;

  SizeChoice sizes_;
  AddressSpace space_;
  CachingAllocator allocator_;
  std::vector<BlockId> blocks_;  // blocks, by slot
  std::uint64_t capacity_ = AllocatorSettings::kNoLimit;
  bool keeps_capacity_ = false;
  bool keeps_allowed_ = false;
  double allowed_scale_ = 1;
  bool measures_refusals_ = false;
  bool ended_ = false;
  std::uint64_t taken_ = 0;  // bytes that the driver handed out
  std::uint64_t requests_ = 0;
  std::uint64_t refused_ = 0;
  std::vector<RefusedBefore> refused_before_;
};

// The most bytes in use of the driver's pool for stream-ordered memory; the bytes that the pool
// reserves beside these are not known outside the driver.
class UsedBytes final : public EventSink {
 public:
  void apply(const std::vector<Event>& events) override;
  [[nodiscard]] std::uint64_t peak_bytes() const { return peak_; }

 private:
  std::vector<std::uint64_t> blocks_;  // sizes of blocks, by slot
  std::uint64_t used_ = 0;
  std::uint64_t peak_ = 0;
};

}  // namespace gpumemtrace::analyzer::replay
