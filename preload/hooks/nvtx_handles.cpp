// SPDX-License-Identifier: Apache-2.0
#include "preload/hooks/nvtx_handles.hpp"

#include <string.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/base/map_zeros.hpp"
#include "preload/base/message.hpp"
#include "preload/session/annotations.hpp"

namespace gpumemtrace::preload::nvtx {
namespace {

constexpr std::size_t kSlots = std::size_t{1} << 16;
constexpr std::size_t kMaxProbes = 64;
constexpr std::size_t kArenaBytes = std::size_t{4} << 20;

// Length, then the text.
struct Text {
  std::uint32_t bytes = 0;
};

struct Slot {
  std::atomic<std::uintptr_t> handle;
  std::atomic<const Text*> text;
};

struct Registry {
  Slot slots[kSlots];
  std::atomic<std::size_t> used;
  alignas(8) std::byte arena[kArenaBytes];
};

constinit std::atomic<Registry*> registry = nullptr;

// Mapped at the first use; of two threads that come at once, one gives its memory back.
Registry* get_registry() noexcept {
  // Acquire, here and below: pairs with the exchange that publishes the memory.
  Registry* known = registry.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  auto* const fresh = static_cast<Registry*>(map_zeros(sizeof(Registry)));  // its initial state
  if (fresh == nullptr) return nullptr;
  if (registry.compare_exchange_strong(known, fresh, std::memory_order_acq_rel)) return fresh;
  munmap(fresh, sizeof(Registry));
  return known;
}

const Text* store_text(Registry& in, std::string_view text) noexcept {
  text = slice(text, 0, kMaxNameBytes);
  const std::size_t bytes = (sizeof(Text) + text.size() + 7) / 8 * 8;
  // Relaxed: reserves room only; the text is published with its slot.
  const std::size_t begin = in.used.fetch_add(bytes, std::memory_order_relaxed);
  if (begin > kArenaBytes || kArenaBytes - begin < bytes) return nullptr;
  auto* const stored = reinterpret_cast<Text*>(in.arena + begin);
  stored->bytes = static_cast<std::uint32_t>(text.size());
  memcpy(stored + 1, text.data(), text.size());
  return stored;
}

// The handle's slot; if there is none and `add` is set, a new one. nullptr if it is not there or
// finds no room.
Slot* find_slot(Registry& in, std::uintptr_t handle, bool add) noexcept {
  const std::size_t first = handle * 0x9e3779b97f4a7c15ull >> 20;
  for (std::size_t probe = 0; probe < kMaxProbes; ++probe) {
    Slot& slot = in.slots[(first + probe) & (kSlots - 1)];
    std::uintptr_t present = slot.handle.load(std::memory_order_relaxed);
    // Relaxed: the handle's text is published with `text`.
    if (present == 0 && add &&
        slot.handle.compare_exchange_strong(present, handle, std::memory_order_relaxed)) {
      return &slot;
    }
    if (present == handle) return &slot;
    if (present == 0) return nullptr;
  }
  return nullptr;
}

}  // namespace

const void* remember_text(const void* handle, std::string_view text) noexcept {
  Registry* const in = get_registry();
  if (in == nullptr) return handle;
  const Text* const stored = store_text(*in, text);
  if (stored == nullptr) return handle;
  if (handle == nullptr) handle = stored;
  Slot* const slot = find_slot(*in, reinterpret_cast<std::uintptr_t>(handle), true);
  // Release: pairs with text_of_handle().
  if (slot != nullptr) slot->text.store(stored, std::memory_order_release);
  return handle;
}

std::string_view text_of_handle(const void* handle) noexcept {
  Registry* const in = registry.load(std::memory_order_acquire);  // pairs with get_registry()
  if (handle == nullptr || in == nullptr) return {};
  const Slot* const slot = find_slot(*in, reinterpret_cast<std::uintptr_t>(handle), false);
  if (slot == nullptr) return {};
  const Text* const text =
      slot->text.load(std::memory_order_acquire);  // pairs with remember_text()
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(text + 1), text->bytes};
}

}  // namespace gpumemtrace::preload::nvtx
