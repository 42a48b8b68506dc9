// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/events.hpp"

#include <algorithm>
#include <array>

#include "analyzer/base/parallel.hpp"
#include "trace/varint.hpp"

namespace gpumemtrace::analyzer::replay {

void EventBuffer::flush() {
  // Starting threads pays off for a full batch only; the calling thread passes on fewer events.
  if (events_.size() == kBatch) {
    in_parallel(sinks_.size(), [this](std::size_t i) { sinks_[i]->apply(events_); });
  } else {
    for (EventSink* sink : sinks_) sink->apply(events_);
  }
  events_.clear();
}

std::size_t EventLog::ShapeHash::operator()(const Shape& shape) const {
  // A hash multiplier: 2^64 divided by the golden ratio, rounded to an odd number.
  constexpr std::uint64_t kOddBits = 0x9e3779b97f4a7c15;
  const auto& [low, high, stack, block_class, kind] = shape;
  std::uint64_t hash = (low ^ high << 32) * kOddBits;
  hash = (hash ^ hash >> 32 ^ number_of(stack) ^ std::uint64_t{block_class} << 32 ^
          static_cast<std::uint64_t>(kind) << 60) *
         kOddBits;
  return hash ^ hash >> 32;
}

// The number of the event's shape (its fields without the slot), given when the shape first comes.
std::uint32_t EventLog::shape_of(const Event& event) {
  const Shape shape{event.low_bytes, event.high_bytes, event.stack, event.block_class, event.kind};
  const auto [found, is_new] =
      shape_numbers_.try_emplace(shape, static_cast<std::uint32_t>(shapes_.size()));
  if (is_new) {
    shapes_.push_back(shape);
    bytes_ += sizeof(Shape) + sizeof(*found) + 4 * sizeof(void*);
  }
  return found->second;
}

void EventLog::apply(const std::vector<Event>& events) {
  if (!is_complete()) return;
  constexpr std::size_t kUsualBytes = 4;  // bytes of a packed event
  std::vector<std::byte> batch;
  batch.reserve(kUsualBytes * events.size());
  std::array<std::byte, 2 * trace::kMaxVarintBytes> packed;
  for (const Event& event : events) {
    const std::byte* const end =
        trace::put_varint(trace::put_varint(packed.data(), shape_of(event)), event.slot);
    batch.insert(batch.end(), packed.cbegin(), end);
  }
  batch.shrink_to_fit();
  bytes_ += batch.size();
  batches_.push_back(std::move(batch));
  if (is_complete()) return;
  batches_ = {};
  shape_numbers_ = {};
  shapes_ = {};
}

void EventLog::replay(const std::vector<EventSink*>& sinks) const {
  EventBuffer out(sinks);
  for (const std::vector<std::byte>& batch : batches_) {
    const std::byte* at = batch.data();
    const std::byte* const end = at + batch.size();
    while (at != end) {
      std::uint64_t shape = 0;
      std::uint64_t slot = 0;
      at = trace::get_varint(trace::get_varint(at, end, shape), end, slot);
      Event event;
      std::tie(event.low_bytes, event.high_bytes, event.stack, event.block_class, event.kind) =
          shapes_[shape];
      event.slot = static_cast<std::uint32_t>(slot);
      out.add(event);
    }
  }
  out.flush();
}

}  // namespace gpumemtrace::analyzer::replay
