#include "preload/stacks.hpp"

#include <atomic>
#include <cstddef>

#include "preload/key_table.hpp"
#include "preload/module_list.hpp"
#include "preload/python_frames.hpp"
#include "preload/recorder.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::size_t kStackSlots = std::size_t{1} << 20;
constexpr std::size_t kCodeSlots = std::size_t{1} << 18;
constexpr std::size_t kMaxTextBytes = 1024;
constexpr std::size_t kMaxPieceBytes = 1600;
// A record's length is told in one byte, in words.
constexpr std::size_t kMaxFrames = 255 - sizeof(trace::Stack) / trace::kWordBytes;
static_assert(python::kMaxFrames <= kMaxFrames && native::kMaxFrames <= kMaxFrames);

constinit KeyTable stacks;
constinit KeyTable codes;
constinit std::string_view python_off;
constinit std::string_view native_off;
constinit NativeStacks native_wanted = NativeStacks::kNone;
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

// Both kinds of frames of one moment. Without initial values: most of it stays unused.
struct Frames {
  python::Frame python[python::kMaxFrames];
  std::uint64_t native[native::kMaxFrames];
  std::size_t python_count;
  std::size_t native_count;
  bool cut;
};

std::size_t at_most(std::size_t value, std::size_t limit) noexcept {
  return value < limit ? value : limit;
}

// Shortens both to what a record has room for.
void fit_into_record(Frames& frames) noexcept {
  if (frames.python_count + frames.native_count <= kMaxFrames) return;
  frames.cut = true;
  frames.native_count = at_most(
      frames.native_count, kMaxFrames - at_most(frames.python_count, kMaxFrames - kMaxFrames / 2));
  frames.python_count = at_most(frames.python_count, kMaxFrames - frames.native_count);
}

void write_stack(std::uint32_t id, Frames& frames) noexcept {
  fit_into_record(frames);
  std::uint64_t words[kMaxFrames];
  std::size_t count = 0;
  for (std::size_t i = 0; i < frames.python_count; ++i) {
    const python::Frame& frame = frames.python[i];
    words[count++] = std::uint64_t{intern_code(frame)} << 32 | frame.instruction;
  }
  for (std::size_t i = 0; i < frames.native_count; ++i) words[count++] = frames.native[i];
  trace::Stack record;
  record.record.kind = trace::RecordKind::kStack;
  record.record.flags = frames.cut ? trace::kFlagCut : std::uint16_t{0};
  record.record.time = ticks();
  record.id = id;
  record.python_frames = static_cast<std::uint32_t>(frames.python_count);
  record.python_version = python::version_hex();
  record.native_frames = static_cast<std::uint32_t>(frames.native_count);
  write_record(&record, sizeof record, reinterpret_cast<const char*>(words),
               count * sizeof words[0]);
}

// Their hash; 0 where there are none.
std::uint64_t read_python(Frames& frames) noexcept {
  frames.python_count = 0;
  if (!python_off.empty() || python::state() != python::State::kOn) return 0;
  const std::size_t count = python::read_frames(frames.python, depth_limit);
  frames.python_count = count;
  std::uint64_t hash = count;
  for (std::size_t i = 0; i < count; ++i) {
    const python::Frame& frame = frames.python[i];
    const std::uint64_t place = std::uint64_t{frame.version} << 32 | frame.instruction;
    hash = mix(hash, reinterpret_cast<std::uintptr_t>(frame.code) + place * 0x9e3779b97f4a7c15ull);
  }
  return hash;
}

bool wants_native(StackUse use, std::size_t python_count) noexcept {
  if (native_wanted == NativeStacks::kFull || use == StackUse::kCall) {
    return native_wanted != NativeStacks::kNone;
  }
  return native_wanted == NativeStacks::kAuto && use == StackUse::kBlock && python_count == 0;
}

std::string_view why_off(bool is_wanted, bool has_room, std::string_view unwanted) noexcept {
  if (!is_wanted) return unwanted;
  if (!has_room) return "there is no memory for call stacks";
  if (depth_limit == 0) return "GPUMEMTRACE_STACK_DEPTH is 0";
  return {};
}

}  // namespace

std::uint32_t current_stack(const CallGuard&, const native::Caller& caller, StackUse use) noexcept {
  Frames frames;
  std::uint64_t hash = read_python(frames);
  native::Walk walk;
  if (wants_native(use, frames.python_count)) {
    walk = native::read_frames(caller, frames.native, depth_limit);
    hash = mix(hash, walk.hash);
  }
  frames.native_count = walk.count;
  frames.cut = walk.cut;
  if (frames.python_count + frames.native_count == 0) return 0;
  bool added = false;
  const std::uint32_t id = stacks.intern(hash, added);
  if (id == 0) [[unlikely]] {
    without_room.fetch_add(1, std::memory_order_relaxed);  // a counter, nothing is ordered by it
    return 0;
  }
  if (added) [[unlikely]]
    write_stack(id, frames);
  return id;
}

void reset_stacks(const Config& config) noexcept {
  depth_limit = at_most(config.stack_depth, at_most(python::kMaxFrames, native::kMaxFrames));
  without_room.store(0);
  const bool has_room = stacks.map(kStackSlots);
  const bool wants_native = config.native_stacks != NativeStacks::kNone;
  python_off = why_off(config.python_stacks, has_room && codes.map(kCodeSlots),
                       "switched off by GPUMEMTRACE_PYTHON");
  native_off = why_off(wants_native, has_room && (!wants_native || native::prepare(module_serial)),
                       "switched off by GPUMEMTRACE_NATIVE");
  native_wanted = native_off.empty() ? config.native_stacks : NativeStacks::kNone;
}

std::string_view python_stacks_off() noexcept { return python_off; }
std::string_view native_stacks_off() noexcept { return native_off; }
std::uint64_t stacks_without_room() noexcept { return without_room.load(); }

}  // namespace gpumemtrace::preload
