// SPDX-License-Identifier: Apache-2.0
#include "tests/exploration/memory_model.hpp"

#include <algorithm>

namespace gpumemtrace::exploration {
namespace {

constexpr std::size_t kEndBytes = 32;

}  // namespace

void MemoryModel::reset() {
  ++execution_;
  clocks_ = {};
  for (std::size_t thread = 0; thread < clocks_.size(); ++thread) clocks_[thread][thread] = 1;
}

MemoryModel::Place& MemoryModel::place_at(std::uintptr_t place, std::uint64_t value) {
  Place& found = places_[place];
  Byte& first_byte = byte_at(place);
  if (found.execution != execution_ || !first_byte.has_place) {
    found.execution = execution_;
    found.seen = {};
    found.stores.resize(1);
    found.stores[0] = Store{};
    found.stores[0].value = value;
    first_byte.has_place = true;
  }
  return found;
}

MemoryModel::Byte& MemoryModel::byte_at(std::uintptr_t place) {
  Word& word = words_[place / 8];
  if (word.execution != execution_) word = Word{execution_, {}};
  return word.bytes[place % 8];
}

std::size_t MemoryModel::loadable(std::size_t thread, std::uintptr_t place, std::uint64_t value,
                                  Order order) {
  const Place& found = place_at(place, value);
  if (order.newest) return 1;
  // A load returns no store to `place` that is older than one which its thread has seen or than one
  // which happened before the load.
  std::size_t oldest = found.stores.size() - 1;
  while (oldest > found.seen[thread]) {
    const Store& store = found.stores[oldest];
    if (store.thread < kMostThreads && store.clock <= clocks_[thread][store.thread]) break;
    --oldest;
  }
  return found.stores.size() - oldest;
}

std::uint64_t MemoryModel::load(std::size_t thread, std::uintptr_t place, std::size_t age,
                                Order order) {
  Place& found = places_[place];
  const std::size_t index = found.stores.size() - 1 - age;
  const Store& store = found.stores[index];
  found.seen[thread] = std::max(found.seen[thread], index);
  if (order.acquires) clocks_[thread].join(store.published);
  return store.value;
}

void MemoryModel::store(std::size_t thread, std::uintptr_t place, std::uint64_t old_value,
                        std::uint64_t new_value, Order order, bool modifies) {
  Place& found = place_at(place, old_value);
  if (modifies && order.acquires) clocks_[thread].join(found.stores.back().published);
  Store store;
  store.value = new_value;
  store.thread = thread;
  store.clock = clocks_[thread][thread];
  // A read-modify-write continues the release sequence of the store that it read.
  if (modifies) store.published = found.stores.back().published;
  if (order.releases) store.published.join(clocks_[thread]);
  found.stores.push_back(store);
  found.seen[thread] = found.stores.size() - 1;
}

bool MemoryModel::is_known(std::size_t thread, const Clock& accesses) const {
  for (std::size_t other = 0; other <= kMostThreads; ++other) {
    if (other != thread && accesses[other] > clocks_[thread][other]) return false;
  }
  return true;
}

std::string MemoryModel::plain(std::size_t thread, std::uintptr_t place, std::size_t bytes,
                               PlainAccess access) {
  for (std::size_t i = 0; i < bytes; ++i) {
    // A long copy is checked only at its two ends, which stand for the whole.
    if (i == kEndBytes && bytes > 2 * kEndBytes) i = bytes - kEndBytes;
    Byte& byte = byte_at(place + i);
    const bool writes = access == PlainAccess::kWrite;
    if (!is_known(thread, byte.plain_writes) || !is_known(thread, byte.atomic_writes)) {
      return writes ? "a store that another thread's store does not happen before"
                    : "a read of what another thread has stored and not published";
    }
    if (writes && (!is_known(thread, byte.plain_reads) || !is_known(thread, byte.atomic_reads))) {
      return "a store over what another thread may still read";
    }
    (writes ? byte.plain_writes : byte.plain_reads)[thread] = clocks_[thread][thread];
    // A plain store over an atomic object ends the object's history: it constructs another object
    // there, or the same one again.
    if (writes) byte.has_place = false;
  }
  return {};
}

std::string MemoryModel::atomic(std::size_t thread, std::uintptr_t place, std::size_t bytes,
                                bool writes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    Byte& byte = byte_at(place + i);
    if (!is_known(thread, byte.plain_writes)) {
      return "an atomic access to what another thread has stored plainly and not published";
    }
    if (writes && !is_known(thread, byte.plain_reads)) {
      return "an atomic store over what another thread may still read";
    }
    (writes ? byte.atomic_writes : byte.atomic_reads)[thread] = clocks_[thread][thread];
  }
  return {};
}

}  // namespace gpumemtrace::exploration
