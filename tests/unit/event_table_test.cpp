// SPDX-License-Identifier: Apache-2.0
#include "preload/session/event_table.hpp"

#include <cstdint>
#include <random>
#include <vector>

#include "tests/catch.hpp"

namespace gpumemtrace::preload::event_table_test {

TEST_CASE("an event that is added again has one slot, whichever slots became free before it",
          "[unit]") {
  static EventTable events;
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> handles(2048);  // so many that some compete for the same slot
  for (std::uint64_t& handle : handles) handle = 0x7f0000000000 + random() % (1 << 28) * 16;
  for (const std::uint64_t handle : handles) events.add(handle);
  for (std::size_t i = 0; i < handles.size(); i += 2) events.remove(handles[i]);
  for (std::size_t i = 1; i < handles.size(); i += 2) events.add(handles[i]);
  for (std::size_t i = 1; i < handles.size(); i += 2) {
    CHECK(events.contains(handles[i]));
    events.remove(handles[i]);
    CHECK_FALSE(events.contains(handles[i]));
  }
}

TEST_CASE("a wait for an event is told when it begins and when it ends", "[unit]") {
  static EventTable events;
  constexpr std::uint64_t kEvent = 0x7f0000001000;
  CHECK_FALSE(events.set_waits(kEvent, true));
  events.add(kEvent);
  CHECK_FALSE(events.set_waits(kEvent, false));
  CHECK(events.set_waits(kEvent, true));
  CHECK_FALSE(events.set_waits(kEvent, true));
  CHECK(events.set_waits(kEvent, false));
  events.remove(kEvent);
  CHECK_FALSE(events.set_waits(kEvent, true));
  CHECK_FALSE(events.contains(kEvent));
}

}  // namespace gpumemtrace::preload::event_table_test
