// SPDX-License-Identifier: Apache-2.0
#include "cupti/buffers.hpp"

#include <string.h>
#include <sys/mman.h>

namespace gpumemtrace::cupti {

bool Buffers::reserve() noexcept {
  if (range_ != nullptr) return true;
  void* memory = mmap(nullptr, kCount * kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  range_ = static_cast<std::uint8_t*>(memory);
  memset(range_, 0, kTouched * kBytes);
  return true;
}

std::uint8_t* Buffers::find(State from, State to) noexcept {
  for (std::size_t i = 0; range_ != nullptr && i < kCount; ++i) {
    State expected = from;
    if (slots_[i].state.load() != from) continue;  // mutant: filled_without_acquire
    // mutant: filled_without_acquire, buffer_taken_without_exchange
    if (slots_[i].state.compare_exchange_strong(expected, to)) return range_ + i * kBytes;
  }
  return nullptr;
}

// Searches from the front, so that buffers which were touched before are used again.
std::uint8_t* Buffers::take() noexcept { return find(State::kFree, State::kWithCupti); }

bool Buffers::is_ours(const std::uint8_t* buffer) const noexcept {
  return range_ != nullptr && buffer >= range_ && buffer < range_ + kCount * kBytes;
}

std::size_t Buffers::index_of(const std::uint8_t* buffer) const noexcept {
  return static_cast<std::size_t>(buffer - range_) / kBytes;
}

void Buffers::completed(std::uint8_t* buffer, std::size_t valid_bytes, std::size_t library,
                        bool discard) noexcept {
  Slot& slot = slots_[index_of(buffer)];
  slot.valid_bytes = valid_bytes < kBytes ? valid_bytes : kBytes;
  slot.library = library;
  const bool is_read = !discard && valid_bytes != 0;
  // Counted first: the count must never be 0 while a buffer is filled.
  // mutant: filled_without_release, filled_counted_late
  if (is_read) filled_count_.fetch_add(1);
  slot.state.store(is_read ? State::kFilled : State::kFree);  // mutant: filled_without_release
}

bool Buffers::take_filled(Filled& filled) noexcept {
  if (filled_count_.load() == 0) return false;
  std::uint8_t* const buffer = find(State::kFilled, State::kBeingRead);
  if (buffer == nullptr) return false;
  filled_count_.fetch_sub(1);
  const Slot& slot = slots_[index_of(buffer)];
  filled = {buffer, slot.valid_bytes, slot.library};
  return true;
}

void Buffers::release(const Filled& filled) noexcept {
  slots_[index_of(filled.bytes)].state.store(State::kFree);  // mutant: free_without_release
}

void Buffers::drop_unread(const std::uint8_t* buffer) noexcept {
  State expected = State::kFilled;
  if (slots_[index_of(buffer)].state.compare_exchange_strong(expected, State::kFree)) {
    filled_count_.fetch_sub(1);
  }
}

void Buffers::reset() noexcept {
  for (Slot& slot : slots_) slot.state.store(State::kFree);
  filled_count_.store(0);
}

}  // namespace gpumemtrace::cupti
