// SPDX-License-Identifier: Apache-2.0
#include "preload/hooks/nvtx_registered.hpp"

#include <string.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "preload/base/map_zeros.hpp"
#include "preload/base/message.hpp"
#include "preload/session/annotations.hpp"

namespace gpumemtrace::preload::nvtx {
namespace {

constexpr std::size_t kSlots = std::size_t{1} << 16;
constexpr std::size_t kMaxProbes = 64;
constexpr std::size_t kArenaBytes = std::size_t{4} << 20;

// The header of a text in the arena: its length. The text's bytes follow.
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

// The registry is mapped at the first use; if two threads map it at once, one of them unmaps its
// memory again.
Registry* get_registry() noexcept {
  // Acquire, here and below: pairs with the exchange that publishes the memory.
  Registry* known = registry.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  auto* const fresh = static_cast<Registry*>(map_zeros(sizeof(Registry)));  // zeros: initial state
  if (fresh == nullptr) return nullptr;
  if (registry.compare_exchange_strong(known, fresh, std::memory_order_acq_rel)) return fresh;
  munmap(fresh, sizeof(Registry));
  return known;
}

const Text* store_text(Registry& in, std::string_view text) noexcept {
  text = slice(text, 0, kMaxNameBytes);
  const std::size_t bytes = (sizeof(Text) + text.size() + 7) / 8 * 8;
  // Relaxed: the addition only reserves room; the text is published with its slot.
  const std::size_t begin = in.used.fetch_add(bytes, std::memory_order_relaxed);
  if (begin > kArenaBytes || kArenaBytes - begin < bytes) return nullptr;
  auto* const stored = reinterpret_cast<Text*>(in.arena + begin);
  stored->bytes = static_cast<std::uint32_t>(text.size());
  memcpy(stored + 1, text.data(), text.size());
  return stored;
}

// The slot of the handle; a new slot if it has none and `add` is set. nullptr if the handle has no
// slot, or no slot is free for it.
Slot* find_text(Registry& in, std::uintptr_t handle, bool add) noexcept {
  const std::size_t first = handle * 0x9e3779b97f4a7c15ull >> 20;
  for (std::size_t probe = 0; probe < kMaxProbes; ++probe) {
    Slot& slot = in.slots[(first + probe) & (kSlots - 1)];
    std::uintptr_t present = slot.handle.load(std::memory_order_relaxed);
    // Relaxed: the later store to the slot's `text` publishes the handle's text.
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
  Slot* const slot = find_text(*in, reinterpret_cast<std::uintptr_t>(handle), true);
  // Release: pairs with text_of_handle().
  if (slot != nullptr) slot->text.store(stored, std::memory_order_release);
  return handle;
}

std::string_view text_of_handle(const void* handle) noexcept {
  Registry* const in = registry.load(std::memory_order_acquire);  // pairs with get_registry()
  if (handle == nullptr || in == nullptr) return {};
  const Slot* const slot = find_text(*in, reinterpret_cast<std::uintptr_t>(handle), false);
  if (slot == nullptr) return {};
  const Text* const text =
      slot->text.load(std::memory_order_acquire);  // pairs with remember_text()
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(text + 1), text->bytes};
}

namespace {

enum class Member : unsigned { kHash, kRanks, kRank, kCudaDevice };

struct MemberName {
  std::string_view name;
  EntryType type;
  Member member;
};
// Names of fields in the NVTX schemas of NCCL 2.18 to 2.30.
constexpr MemberName kMembers[] = {
    {"NCCL communicator ID", EntryType::kUint64, Member::kHash},
    {"No. of ranks", EntryType::kInt, Member::kRanks},
    // ncclCommInitAll() makes one rank for each device, so the number of devices is that of ranks.
    {"No. of devices", EntryType::kInt, Member::kRanks},
    {"Rank", EntryType::kInt, Member::kRank},
    {"CUDA device", EntryType::kInt, Member::kCudaDevice},
};

// Offset of each member in an NCCL structure: 16 bits for each member, with offset + 1; 0 = the
// structure has no such member.
class Layout {
 public:
  explicit constexpr Layout(std::uint64_t bits = 0) noexcept : bits_(bits) {}
  std::uint64_t bits() const noexcept { return bits_; }

  void set(Member member, std::uint64_t offset) noexcept {
    bits_ &= ~(kMask << shift(member));
    bits_ |= (offset + 1) << shift(member);
  }

  template <class T>
  void read(Member member, const PayloadData& from, T& value) const noexcept {
    const std::uint64_t place = bits_ >> shift(member) & kMask;
    if (place == 0 || from.bytes < place - 1 + sizeof value) return;
    memcpy(&value, static_cast<const char*>(from.content) + (place - 1), sizeof value);
  }

  static constexpr std::uint64_t kMaxOffset = 0xfffe;

 private:
  static constexpr std::uint64_t kMask = 0xffff;
  static constexpr unsigned shift(Member member) noexcept {
    return 16 * static_cast<unsigned>(member);
  }

  std::uint64_t bits_;
};

// The offsets of the fields in kMembers, as far as the schema has them. Offset 0 is valid only for
// the first field; for later ones it means that the program left the offset to the tool.
Layout layout_of(const SchemaAttributes& attributes) noexcept {
  Layout layout;
  for (std::size_t i = 0; i < attributes.entry_count; ++i) {
    const SchemaEntry& entry = attributes.entries[i];
    const bool has_offset = i == 0 || entry.offset != 0;
    if (entry.name == nullptr || entry.flags != 0 || !has_offset) continue;
    if (entry.offset > Layout::kMaxOffset) continue;
    for (const MemberName& known : kMembers) {
      if (known.type == entry.type && known.name == entry.name) {
        layout.set(known.member, entry.offset);
      }
    }
  }
  return layout;
}

// The most NVTX schemas that are kept; a copy of NCCL registers some 20.
constexpr std::size_t kSchemas = 256;
struct Schema {
  std::atomic<std::uint64_t> key;
  std::atomic<std::uint64_t> layout;
};
constinit Schema schemas[kSchemas] = {};

// The key of a schema is made of its domain and its id: ids are unique only within a domain.
std::uint64_t key_of(const void* domain, std::uint64_t id) noexcept {
  return (reinterpret_cast<std::uintptr_t>(domain) ^ id * 0x9e3779b97f4a7c15ull) | 1;
}

// The slot of the schema with this key; a new slot if there is none and `add` is set. nullptr if no
// slot is found or free.
Schema* find_schema(std::uint64_t key, bool add) noexcept {
  const std::size_t first = key * 0x9e3779b97f4a7c15ull >> 32;
  for (std::size_t probe = 0; probe < kSchemas; ++probe) {
    Schema& slot = schemas[(first + probe) % kSchemas];
    // Relaxed, here and below: each value is complete in itself and publishes no other data.
    std::uint64_t present = slot.key.load(std::memory_order_relaxed);
    if (present == 0 && add &&
        slot.key.compare_exchange_strong(present, key, std::memory_order_relaxed)) {
      return &slot;
    }
    if (present == key) return &slot;
    if (present == 0) return nullptr;
  }
  return nullptr;
}

}  // namespace

void remember_schema(const void* domain, std::uint64_t id,
                     const SchemaAttributes& attributes) noexcept {
  constexpr std::uint64_t kNeeded = kSchemaHasType | kSchemaHasEntries | kSchemaHasEntryCount;
  if ((attributes.set_members & kNeeded) != kNeeded || attributes.type != kStaticSchema) return;
  if (attributes.entries == nullptr || text_of_handle(domain) != "NCCL") return;
  const Layout layout = layout_of(attributes);
  if (layout.bits() == 0) return;
  Schema* const slot = find_schema(key_of(domain, id), true);
  if (slot != nullptr) slot->layout.store(layout.bits(), std::memory_order_relaxed);
}

Communicator communicator_of(const void* domain, const PayloadData* structures,
                             std::size_t count) noexcept {
  Communicator communicator;
  if (structures == nullptr) return communicator;
  for (std::size_t i = 0; i < count; ++i) {
    const PayloadData& from = structures[i];
    const Schema* const slot = find_schema(key_of(domain, from.schema), false);
    if (slot == nullptr || from.content == nullptr) continue;
    const Layout layout(slot->layout.load(std::memory_order_relaxed));
    layout.read(Member::kHash, from, communicator.hash);
    layout.read(Member::kRanks, from, communicator.ranks);
    layout.read(Member::kRank, from, communicator.rank);
    layout.read(Member::kCudaDevice, from, communicator.cuda_device);
  }
  return communicator;
}

}  // namespace gpumemtrace::preload::nvtx
