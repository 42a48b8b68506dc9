// SPDX-License-Identifier: Apache-2.0
#include "preload/session/announce.hpp"

#include <string.h>

#include "preload/base/append_once.hpp"
#include "preload/driver/tracking.hpp"
#include "preload/ring/recorder.hpp"

namespace gpumemtrace::preload {
namespace {

constinit NoteBook<NotedName, kMaxNoted> unwrapped;
constinit NoteBook<const void*, kMaxNoted> requesters;

}  // namespace

void announce_context(std::uint32_t context_id) noexcept {
  const CallGuard guard;
  if (!session_exists() || !recording(false)) return;
  write_event<trace::Context>(guard, [&](trace::Context& record) {
    const tracking::ContextInfo info = tracking::context_info(context_id);
    record.id = context_id;
    record.handle = info.handle;
    record.device = info.device;
    record.primary = info.primary ? 1 : 0;
  });
}

void announce_unwrapped(const char* name, const void* address) noexcept {
  unwrapped.add([&](const NotedName& entry) { return strcmp(entry.name, name) == 0; },
                [&](NotedName& entry) {
                  for (std::size_t i = 0; i < kMaxNotedName && name[i] != '\0'; ++i) {
                    entry.name[i] = name[i];
                  }
                  entry.address = address;
                });
}

void announce_requester(const void* caller) noexcept {
  requesters.add([&](const void* entry) { return entry == caller; },
                 [&](const void*& entry) { entry = caller; });
}

std::size_t noted_unwrapped_count() noexcept { return unwrapped.count(); }
const NotedName& noted_unwrapped(std::size_t index) noexcept { return unwrapped.entries[index]; }
std::size_t noted_requester_count() noexcept { return requesters.count(); }
const void* noted_requester(std::size_t index) noexcept { return requesters.entries[index]; }

}  // namespace gpumemtrace::preload
