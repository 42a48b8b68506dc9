// SPDX-License-Identifier: Apache-2.0
// A table that only grows and holds each entry once. Any thread adds an entry; the background
// thread writes the entries to the trace.
#pragma once

#include <atomic>
#include <cstddef>

namespace gpumemtrace::preload {

// - Any thread, no lock, no allocation. An entry for which there is no room is left out, and add()
//   returns kMaxEntries.
// - Entries are claimed in order and each becomes complete on its own; readers stop at the first
//   incomplete entry.
template <class Entry, std::size_t kMaxEntries>
struct AppendOnce {
  Entry entries[kMaxEntries] = {};
  std::atomic<bool> complete[kMaxEntries] = {};
  std::atomic<std::size_t> claimed = 0;

  std::size_t count() const noexcept {
    std::size_t i = 0;
    while (i < kMaxEntries && complete[i].load()) ++i;
    return i;
  }
  // Adds an entry unless the table has an equal one. Returns the entry's index, or kMaxEntries if
  // the table is full.
  template <class Equals, class Fill>
  std::size_t add(Equals&& equals, Fill&& fill) noexcept {
    const std::size_t present = count();
    for (std::size_t i = 0; i < present; ++i) {
      if (equals(entries[i])) return i;
    }
    const std::size_t index = claimed.fetch_add(1);
    if (index >= kMaxEntries) return kMaxEntries;
    fill(entries[index]);
    complete[index].store(true);
    return index;
  }
};

}  // namespace gpumemtrace::preload
