// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/events.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

namespace gpumemtrace::analyzer::replay {

void EventBuffer::flush() {
  const std::size_t processors = std::max(1u, std::thread::hardware_concurrency());
  const std::size_t threads = std::min(sinks_.size(), processors);
  // A thread costs more than few events do.
  if (threads > 1 && events_.size() == kBatch) {
    hand_on_by_threads(threads);
  } else {
    for (EventSink* sink : sinks_) sink->apply(events_);
  }
  events_.clear();
}

void EventBuffer::hand_on_by_threads(std::size_t threads) {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < sinks_.size(); i = next++) sinks_[i]->apply(events_);
  };
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < threads; ++i) others.emplace_back(work);
  work();
}

}  // namespace gpumemtrace::analyzer::replay
