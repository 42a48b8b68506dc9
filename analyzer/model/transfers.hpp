// Copies and memory sets, counted by kind.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "analyzer/model/accounts.hpp"
#include "analyzer/model/address_map.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

enum class Direction : std::uint8_t {
  kHostToDevice,
  kDeviceToHost,
  kDeviceToDevice,
  kPeer,
  kHostToHost,
  kUnknown,
};

// As the report says it.
[[nodiscard]] std::string_view name_of(Direction direction);
[[nodiscard]] std::string_view name_of(MemoryClass memory);

// One end of a copy. The address decides; what the arguments say counts only where nothing is
// known about the address. `blind`: allocations are missing from the trace, so an address that
// nobody knows may be anything.
[[nodiscard]] Location locate(const AddressMap& map, std::uint64_t address, trace::EndType told,
                              std::int32_t context_device, bool blind);
[[nodiscard]] Direction direction_of(const Location& source, const Location& destination);

struct TransferKey {
  CallSite site;
  std::int32_t device = kUnknownDevice;
  Direction direction = Direction::kUnknown;
  MemoryClass source = MemoryClass::kUnknown;
  MemoryClass destination = MemoryClass::kUnknown;
  bool asynchronous = false;
  bool is_set = false;

  friend bool operator==(const TransferKey&, const TransferKey&) = default;
  friend auto operator<=>(const TransferKey&, const TransferKey&) = default;
};

struct TransferRow {
  TransferKey key;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t host_ticks = 0;
  std::uint64_t returned_count = 0;  // of these copies, those that RoundTrips saw come back
  std::uint64_t returned_bytes = 0;
};

class Transfers {
 public:
  TransferRow& count(const TransferKey& key, std::uint64_t bytes, std::uint64_t host_ticks,
                     std::uint64_t calls = 1) {
    const std::size_t slot = slot_of(
        key.site, static_cast<unsigned>(key.source) * 8 + static_cast<unsigned>(key.destination));
    Cached& cached = cache_[slot];
    if (!cached.valid || !(cached.key == key)) cached = {key, find_or_add(key), true};
    TransferRow& row = rows_[cached.row];
    row.count += calls;
    row.bytes += bytes;
    row.host_ticks += host_ticks;
    return row;
  }
  [[nodiscard]] const std::vector<TransferRow>& rows() const { return rows_; }

 private:
  struct Cached {
    TransferKey key;
    std::uint32_t row = 0;
    bool valid = false;
  };

  std::uint32_t find_or_add(const TransferKey& key);

  std::vector<TransferRow> rows_;
  std::map<TransferKey, std::uint32_t> index_;
  std::array<Cached, 256> cache_{};
};

}  // namespace gpumemtrace::analyzer
