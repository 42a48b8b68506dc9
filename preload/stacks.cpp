#include "preload/stacks.hpp"

#include <atomic>
#include <cstddef>
#include <string_view>

#include "preload/key_table.hpp"
#include "preload/python_frames.hpp"
#include "preload/recorder.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::size_t kStackSlots = std::size_t{1} << 20;
constexpr std::size_t kCodeSlots = std::size_t{1} << 18;
constexpr std::size_t kMaxTextBytes = 1024;
constexpr std::size_t kMaxPieceBytes = 1600;

constinit KeyTable stacks;
constinit KeyTable codes;
constinit bool python_wanted = false;
constinit std::size_t depth_limit = 0;
constinit std::atomic<std::uint64_t> without_room = 0;

void write_code_text(std::uint32_t id, const python::Code& code, trace::CodeText text,
                     std::string_view content) noexcept {
  std::uint32_t part = 0;
  do {
    const std::size_t size = content.size() < kMaxPieceBytes ? content.size() : kMaxPieceBytes;
    trace::Code record;
    record.record.kind = trace::RecordKind::kCode;
    record.record.time = ticks();
    record.id = id;
    record.first_line = code.first_line;
    record.text = text;
    record.part = part++;
    record.bytes = static_cast<std::uint32_t>(size);
    write_record(&record, sizeof record, content.data(), size);
    content.remove_prefix(size);
  } while (!content.empty());
}

// The number of a code object; its texts go into the trace the first time.
std::uint32_t intern_code(const python::Frame& frame) noexcept {
  bool added = false;
  const std::uint64_t key =
      mix(mix(0, reinterpret_cast<std::uintptr_t>(frame.code)), frame.version);
  const std::uint32_t id = codes.intern(key, added);
  if (id == 0 || !added) return id;
  python::Code code;
  if (!python::read_code(frame.code, code)) return id;
  char text[kMaxTextBytes];
  std::size_t size = python::copy_text(code.qualified_name, text, sizeof text);
  write_code_text(id, code, trace::CodeText::kName, {text, size});
  size = python::copy_text(code.file, text, sizeof text);
  write_code_text(id, code, trace::CodeText::kFile, {text, size});
  write_code_text(id, code, trace::CodeText::kLineTable, python::bytes_of(code.line_table));
  return id;
}

void write_stack(std::uint32_t id, const python::Frame* frames, std::size_t count) noexcept {
  std::uint64_t packed[python::kMaxFrames];
  for (std::size_t i = 0; i < count; ++i) {
    packed[i] = std::uint64_t{intern_code(frames[i])} << 32 | frames[i].instruction;
  }
  trace::Stack record;
  record.record.kind = trace::RecordKind::kStack;
  record.record.time = ticks();
  record.id = id;
  record.python_frames = static_cast<std::uint32_t>(count);
  record.python_version = python::version_hex();
  write_record(&record, sizeof record, reinterpret_cast<const char*>(packed),
               count * sizeof packed[0]);
}

}  // namespace

std::uint32_t current_stack(const CallGuard&) noexcept {
  if (!python_wanted || python::state() != python::State::kOn) return 0;
  python::Frame frames[python::kMaxFrames];
  const std::size_t count = python::read_frames(frames, depth_limit);
  if (count == 0) return 0;
  std::uint64_t hash = count;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t place = std::uint64_t{frames[i].version} << 32 | frames[i].instruction;
    hash =
        mix(hash, reinterpret_cast<std::uintptr_t>(frames[i].code) + place * 0x9e3779b97f4a7c15ull);
  }
  bool added = false;
  const std::uint32_t id = stacks.intern(hash, added);
  if (id == 0) [[unlikely]] {
    without_room.fetch_add(1, std::memory_order_relaxed);  // a counter, nothing is ordered by it
    return 0;
  }
  if (added) [[unlikely]]
    write_stack(id, frames, count);
  return id;
}

bool reset_stacks(bool python, std::uint32_t depth) noexcept {
  python_wanted = python;
  depth_limit = depth < python::kMaxFrames ? depth : python::kMaxFrames;
  without_room.store(0);
  return !python || (stacks.map(kStackSlots) && codes.map(kCodeSlots));
}

std::uint64_t stacks_without_room() noexcept { return without_room.load(); }

}  // namespace gpumemtrace::preload
