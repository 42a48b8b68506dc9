// SPDX-License-Identifier: Apache-2.0
#include "preload/session/annotations.hpp"

#include "preload/base/key_table.hpp"
#include "preload/base/message.hpp"
#include "preload/ring/recorder.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::size_t kNameSlots = std::size_t{1} << 16;

constinit KeyTable names;

std::uint64_t hash_of(std::string_view text) noexcept {
  std::uint64_t hash = text.size();
  for (const char letter : text) hash = mix(hash, static_cast<unsigned char>(letter));
  return hash;
}

// The number of a text; the text goes into the trace the first time. 0 for an empty one.
std::uint32_t intern_name(std::string_view text) noexcept {
  if (text.empty()) return 0;
  text = slice(text, 0, kMaxNameBytes);
  bool emitted = false;
  const std::uint32_t id = names.intern(hash_of(text), emitted);
  if (id != 0 && !emitted) {
    trace::Name record;
    record.id = id;
    if (write_record(record, text)) names.mark_emitted(id);
  }
  return id;
}

}  // namespace

void annotate(const Annotation& given) noexcept {
  const CallGuard guard;
  if (!guard.outermost() || !recording(false)) return;
  const std::uint32_t name = intern_name(given.name);
  const std::uint32_t domain = intern_name(given.domain);
  write_event<trace::Annotation>(guard, [&](trace::Annotation& annotation) {
    annotation.value = given.value;
    annotation.operation = given.operation;
    annotation.name = name;
    annotation.domain = domain;
    annotation.source = given.source;
  });
}

// Without memory for the table every name is unknown.
void reset_names() noexcept { static_cast<void>(names.map(kNameSlots)); }

}  // namespace gpumemtrace::preload
