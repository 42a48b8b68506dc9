// SPDX-License-Identifier: Apache-2.0
// The requests of a program to its caching allocator, without that allocator's answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "analyzer/replay/caching_allocator.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer::replay {

enum class EventKind : std::uint8_t {
  kRequest,     // the program asks for block `slot`
  kFree,        // the program gives block `slot` back
  kFreeLater,   // the program frees block `slot`, which other streams still use
  kWaitIsOver,  // the other streams are done: the block is free now
  kRefused,     // a request that the recorded run could not meet
  kEmptyCache,  // the program emptied the cache
  kKeepCache,   // from now on, kEmptyCache leaves the free segments of class `block_class`
  kLimit,       // the driver has `high_bytes` for segments from now on
  kAllowed,     // PyTorch itself allows `high_bytes`; AllocatorSettings::kNoLimit = all
};

// A request or another event of the program.
// - The requested size is known if low_bytes equals high_bytes; else it is a multiple of kUnitBytes
//   from low_bytes to high_bytes.
// - Slots are small numbers, reused after their block was freed.
struct Event {
  EventKind kind = EventKind::kRequest;
  ClassId block_class = 0;
  std::uint32_t slot = 0;
  trace::StackId stack = trace::StackId::kNone;
  std::uint64_t low_bytes = 0;
  std::uint64_t high_bytes = 0;

  [[nodiscard]] bool knows_bytes() const { return low_bytes == high_bytes; }
};

// Hands out slots for blocks, reusing those of freed blocks.
class Slots {
 public:
  [[nodiscard]] std::uint32_t take() {
    if (unused_.empty()) return next_++;
    const std::uint32_t slot = unused_.back();
    unused_.pop_back();
    return slot;
  }
  void give_back(std::uint32_t slot) { unused_.push_back(slot); }

 private:
  std::vector<std::uint32_t> unused_;
  std::uint32_t next_ = 0;
};

// The most refused requests of a recorded run that are kept one by one; others are only counted.
inline constexpr std::size_t kMostRefusals = 64;

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void apply(const std::vector<Event>& events) = 0;
};

// Collects events for the replays (sinks).
// - Passes events on by the thousand, so that each of many sinks stays in the processor's cache.
// - Sinks know nothing of each other: if there are several, threads share them. Each gets its
//   events in their order, from one thread at a time.
class EventBuffer {
 public:
  explicit EventBuffer(std::vector<EventSink*> sinks) : sinks_(std::move(sinks)) {}
  void add(const Event& event) {
    events_.push_back(event);
    if (events_.size() == kBatch) flush();
  }
  void flush();

 private:
  static constexpr std::size_t kBatch = 8192;

  std::vector<EventSink*> sinks_;
  std::vector<Event> events_;
};

// The packed events of a device, so that a run is checked once and replayed often.
// - It takes at most kMostBytes; if a run needs more, the log is not complete and keeps nothing.
class EventLog final : public EventSink {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{96} << 20;

  explicit EventLog(std::size_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}
  void apply(const std::vector<Event>& events) override;
  [[nodiscard]] bool is_complete() const { return bytes_ <= most_bytes_; }
  // Passes all events to the sinks; for a complete log only.
  void replay(const std::vector<EventSink*>& sinks) const;

 private:
  // The fields of an event without its slot; a run repeats the same ones.
  using Shape = std::tuple<std::uint64_t, std::uint64_t, trace::StackId, ClassId, EventKind>;
  struct ShapeHash {
    std::size_t operator()(const Shape& shape) const;
  };
  [[nodiscard]] std::uint32_t shape_of(const Event& event);

  std::size_t most_bytes_;
  std::size_t bytes_ = 0;
  std::vector<std::vector<std::byte>> batches_;  // packed events, one batch per call of apply()
  std::unordered_map<Shape, std::uint32_t, ShapeHash> shape_numbers_;
  std::vector<Shape> shapes_;
};

}  // namespace gpumemtrace::analyzer::replay
