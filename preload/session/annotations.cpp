// SPDX-License-Identifier: Apache-2.0
#include "preload/session/annotations.hpp"

#include <string.h>

#include <atomic>
#include <cstddef>

#include "preload/base/append_once.hpp"
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

// The number by which records name a text; the text itself is written to the trace the first time.
// 0 for an empty text, or if the table has no room.
std::uint32_t intern_name(std::string_view text) noexcept {
  if (text.empty()) return 0;
  text = slice(text, 0, kMaxNameBytes);
  bool emitted = false;
  const std::uint32_t id = names.intern(hash_of(text), emitted);
  if (id != 0 && !emitted) {
    trace::Name record;  // mutant: emitted_before_written
    record.id = id;
    if (write_record(record, text)) names.mark_emitted(id);
  }
  return id;
}

}  // namespace

void annotate(const Annotation& given) noexcept {
  const CallGuard guard;
  if (!guard.outermost() || !recording(/*may_start=*/false)) return;
  const std::uint32_t name = intern_name(given.name);
  const std::uint32_t domain = intern_name(given.domain);
  (void)write_event<trace::Annotation>(guard, [&](trace::Annotation& annotation) {
    annotation.value = given.value;
    annotation.operation = given.operation;
    annotation.name = name;
    annotation.domain = domain;
    annotation.source = given.source;
    annotation.communicator = given.communicator.hash;
    annotation.ranks = given.communicator.ranks;
    annotation.rank = given.communicator.rank;
    annotation.cuda_device = given.communicator.cuda_device;
  });
}

void annotate(const NamedStorage& given) noexcept {
  const CallGuard guard;
  if (!guard.outermost() || !recording(/*may_start=*/false)) return;
  // Relaxed: a flag that orders no other data.
  a_storage_was_named.store(true, std::memory_order_relaxed);
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
  // Relaxed: a flag that orders no other data.
  return a_storage_was_named.load(std::memory_order_relaxed);
}

// If there is no memory for the table of names, every name in the trace is unknown.
void reset_names() noexcept {
  static_cast<void>(names.map(kNameSlots));
  a_storage_was_named.store(false, std::memory_order_relaxed);  // relaxed: no thread records yet
}

namespace {

constexpr std::size_t kMaxSuppressions = 128;
constexpr std::size_t kMaxSuppressionBytes = 248;

struct Suppression {
  std::size_t size = 0;
  char text[kMaxSuppressionBytes] = {};

  std::string_view view() const noexcept { return {text, size}; }
};

constinit AppendOnce<Suppression, kMaxSuppressions> suppressions;

// Keeps one line of suppressions, equal lines once; false if it is too long or there is no room.
bool keep(std::string_view line) noexcept {
  if (line.size() > kMaxSuppressionBytes) return false;
  const auto is_it = [&](const Suppression& entry) { return entry.view() == line; };
  const auto fill = [&](Suppression& entry) {
    memcpy(entry.text, line.data(), line.size());
    entry.size = line.size();
  };
  return suppressions.add(is_it, fill) < kMaxSuppressions;
}

// Not inlined: the message's buffer must not lie on the stack of a thread that prints nothing.
[[gnu::noinline]] void warn_left_out() noexcept {
  message(Line() << "some suppressions of the program are left out: more than " << kMaxSuppressions
                 << " lines, or a line of more than " << kMaxSuppressionBytes
                 << " bytes; put them into a file for --suppressions");
}

}  // namespace

void keep_suppressions(std::string_view text) noexcept {
  bool all = true;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = slice(text, 0, end);
    if (!line.empty()) all = keep(line) && all;
    text = slice(text, end == std::string_view::npos ? text.size() : end + 1);
  }
  static constinit std::atomic<bool> said = false;
  if (!all && !said.exchange(true)) warn_left_out();
}

std::size_t suppression_count() noexcept { return suppressions.count(); }
std::string_view suppression_at(std::size_t index) noexcept {
  return suppressions.entries[index].view();
}

namespace {

// Recorded instead of allocator options that are too many or too long to be kept. It is not valid
// as options, so that no replay can take it for them.
constexpr std::string_view kNotKept = "(too long, or too many, to be recorded)";
constexpr std::size_t kMaxTexts = 32;

struct Options {
  static constexpr std::size_t kMaxBytes = 504;

  std::size_t size = 0;
  char text[kMaxBytes] = {};

  std::string_view view() const noexcept { return {text, size}; }
};

constinit AppendOnce<Options, kMaxTexts> options_texts;
// The index in `options_texts` of the options that PyTorch's allocator took last, or one of these
// values.
constexpr std::size_t kIsNotKept = kMaxTexts;
constexpr std::size_t kNoneYet = kMaxTexts + 1;
constinit std::atomic<std::size_t> last_options_index = kNoneYet;

}  // namespace

void keep_allocator_options(std::string_view text) noexcept {
  const auto is_it = [&](const Options& entry) noexcept { return entry.view() == text; };
  const auto fill = [&](Options& entry) noexcept {
    memcpy(entry.text, text.data(), text.size());
    entry.size = text.size();
  };
  last_options_index.store(text.size() <= Options::kMaxBytes ? options_texts.add(is_it, fill)
                                                             : kIsNotKept);
}

std::string_view last_allocator_options() noexcept {
  const std::size_t index = last_options_index.load();
  if (index == kNoneYet) return {};
  return index == kIsNotKept ? kNotKept : options_texts.entries[index].view();
}

}  // namespace gpumemtrace::preload
