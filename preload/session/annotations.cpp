// SPDX-License-Identifier: Apache-2.0
#include "preload/session/annotations.hpp"

#include <atomic>

#include "preload/base/key_table.hpp"
#include "preload/base/message.hpp"
#include "preload/ring/recorder.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::size_t kNameSlots = std::size_t{1} << 16;

constinit KeyTable names;
constinit std::atomic<bool> a_storage_was_named = false;

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
  (void)write_event<trace::Annotation>(guard, [&](trace::Annotation& annotation) {
    annotation.value = given.value;
    annotation.operation = given.operation;
    annotation.name = name;
    annotation.domain = domain;
    annotation.source = given.source;
  });
}

void annotate(const NamedStorage& given) noexcept {
  const CallGuard guard;
  if (!guard.outermost() || !recording(false)) return;
  a_storage_was_named.store(true, std::memory_order_relaxed);  // a fact, nothing is ordered by it
  const std::uint32_t name = intern_name(given.name);
  const std::uint32_t state = intern_name(given.state);
  const std::uint32_t layer = intern_name(given.layer);
  (void)write_event<trace::Tensor>(guard, [&](trace::Tensor& tensor) {
    tensor.address = given.address;
    tensor.bytes = given.bytes;
    tensor.role = given.role;
    tensor.name = name;
    tensor.state = state;
    tensor.layer = layer;
  });
}

bool storages_were_named() noexcept {
  return a_storage_was_named.load(std::memory_order_relaxed);  // written by threads that are done
}

// Without memory for the table every name is unknown.
void reset_names() noexcept {
  static_cast<void>(names.map(kNameSlots));
  a_storage_was_named.store(false, std::memory_order_relaxed);  // before the session's first record
}

}  // namespace gpumemtrace::preload
