// SPDX-License-Identifier: Apache-2.0
#include "analyzer/snapshot/address_spaces.hpp"

#include <algorithm>
#include <iterator>
#include <map>

#include "analyzer/replay/allocator_settings.hpp"

namespace gpumemtrace::analyzer::snapshot {
namespace {

using replay::kMib;

constexpr std::uint64_t kMostReserved = std::uint64_t{1} << 40;
constexpr std::uint64_t kSmallPage = 2 * kMib;
constexpr std::uint64_t kLargePage = 20 * kMib;

class Spaces {
 public:
  void map(std::uint64_t address, const HeldSegment& pages, std::size_t event) {
    Live& live = space_of(address, pages, event);
    live.mapped_bytes += pages.bytes;
    AddressSpace& space = spaces_[live.index];
    const std::uint64_t offset = address - space.address;
    space.bytes = std::max(space.bytes, offset + pages.bytes);
    // A space has large pages only if all its mapped ranges are multiples of large pages.
    if (offset % space.page_bytes != 0 || pages.bytes % space.page_bytes != 0) {
      space.page_bytes = kSmallPage;
    }
  }

  void unmap(const Event& event, std::size_t index) {
    const auto found = at_or_below(event.address);
    if (found == live_.end()) return;
    Live& live = found->second;
    live.mapped_bytes -= std::min(live.mapped_bytes, event.bytes);
    if (live.mapped_bytes != 0) return;
    spaces_[live.index].last_event = index;
    live_.erase(found);
  }

  [[nodiscard]] std::vector<AddressSpace> take() {
    for (AddressSpace& space : spaces_) {
      space.reserved_bytes = std::max(space.reserved_bytes, space.bytes);
    }
    return std::move(spaces_);
  }

 private:
  struct Live {
    std::size_t index = 0;  // index in spaces_
    std::uint64_t mapped_bytes = 0;
    bool is_large = false;
  };
  using LiveSpaces = std::map<std::uint64_t, Live>;  // by address

  [[nodiscard]] LiveSpaces::iterator at_or_below(std::uint64_t address) {
    const auto after = live_.upper_bound(address);
    return after == live_.begin() ? live_.end() : std::prev(after);
  }

  // The space that has the pages, or a new one: each stream has one for small blocks and one for
  // large blocks.
  Live& space_of(std::uint64_t address, const HeldSegment& pages, std::size_t event) {
    const auto below = at_or_below(address);
    if (below != live_.end() && below->second.is_large == pages.is_large &&
        spaces_[below->second.index].stream == pages.stream &&
        address - below->first < kMostReserved) {
      return below->second;
    }
    AddressSpace space;
    space.address = address;
    space.page_bytes = pages.is_large ? kLargePage : kSmallPage;
    space.stream = pages.stream;
    space.first_event = event;
    const auto above = live_.upper_bound(address);
    space.reserved_bytes =
        above == live_.end() ? kMostReserved : std::min(kMostReserved, above->first - address);
    if (below != live_.end()) {
      std::uint64_t& reserved = spaces_[below->second.index].reserved_bytes;
      reserved = std::min(reserved, address - below->first);
    }
    spaces_.push_back(space);
    return live_[address] = {spaces_.size() - 1, 0, pages.is_large};
  }

  std::vector<AddressSpace> spaces_;
  LiveSpaces live_;
};

}  // namespace

std::vector<AddressSpace> address_spaces(const HeldMemory& before, std::span<const Event> events) {
  Spaces spaces;
  for (const auto& [address, segment] : before.segments) {
    if (segment.is_expandable) spaces.map(address, segment, AddressSpace::kNever);
  }
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].action == Action::segment_map) {
      spaces.map(events[i].address, segment_of(events[i], true), i);
    } else if (events[i].action == Action::segment_unmap) {
      spaces.unmap(events[i], i);
    }
  }
  return spaces.take();
}

}  // namespace gpumemtrace::analyzer::snapshot
