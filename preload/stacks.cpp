#include "preload/stacks.hpp"

#include <atomic>
#include <cstddef>

#include "preload/key_table.hpp"
#include "preload/module_list.hpp"
#include "preload/python_frames.hpp"
#include "preload/recorder.hpp"
#include "preload/session_state.hpp"

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
constinit python::Walk* walks = nullptr;  // by writer
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
  const std::uint64_t key = mix(reinterpret_cast<std::uintptr_t>(frame.code), frame.version);
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

// The native frames of one moment. Without initial values: most of it stays unused.
struct NativeFrames {
  std::uint64_t addresses[native::kMaxFrames];
  std::size_t count;
  bool cut;
};

std::size_t at_most(std::size_t value, std::size_t limit) noexcept {
  return value < limit ? value : limit;
}

void write_stack(std::uint32_t id, const python::Walk* walk, const NativeFrames& native) noexcept {
  python::Frame python[python::kMaxFrames];
  std::size_t python_count = walk == nullptr ? 0 : python::copy_frames(*walk, python);
  std::size_t native_count = native.count;
  bool cut = native.cut;
  if (python_count + native_count > kMaxFrames) {
    cut = true;
    native_count =
        at_most(native_count, kMaxFrames - at_most(python_count, kMaxFrames - kMaxFrames / 2));
    python_count = at_most(python_count, kMaxFrames - native_count);
  }
  std::uint64_t words[kMaxFrames];
  std::size_t count = 0;
  for (std::size_t i = 0; i < python_count; ++i) {
    words[count++] = std::uint64_t{intern_code(python[i])} << 32 | python[i].instruction;
  }
  for (std::size_t i = 0; i < native_count; ++i) words[count++] = native.addresses[i];
  trace::Stack record;
  record.record.kind = trace::RecordKind::kStack;
  record.record.flags = cut ? trace::kFlagCut : std::uint16_t{0};
  record.record.time = ticks();
  record.id = id;
  record.python_frames = static_cast<std::uint32_t>(python_count);
  record.python_version = python::version_hex();
  record.native_frames = static_cast<std::uint32_t>(native_count);
  write_record(&record, sizeof record, reinterpret_cast<const char*>(words),
               count * sizeof words[0]);
}

bool wants_native(StackUse use, bool has_python) noexcept {
  switch (native_wanted) {
    case NativeStacks::kNone:
      return false;
    case NativeStacks::kAuto:
      return use == StackUse::kCall || !has_python;
    case NativeStacks::kFull:
      break;
  }
  return true;
}

std::string_view why_off(bool is_wanted, bool has_room, std::string_view unwanted) noexcept {
  if (!is_wanted) return unwanted;
  if (!has_room) return "there is no memory for call stacks";
  if (depth_limit == 0) return "GPUMEMTRACE_STACK_DEPTH is 0";
  return {};
}

}  // namespace

std::uint32_t current_stack(const CallGuard&, const native::Caller& caller, StackUse use) noexcept {
  python::Walk* walk = nullptr;
  std::uint64_t hash = 0;
  if (python_off.empty() && python::state() == python::State::kOn) {
    walk = &walks[thread_state.writer->id];
    hash = python::read_stack(depth_limit, *walk);
    if (hash == 0) walk = nullptr;
  }
  NativeFrames native;
  native.count = 0;
  native.cut = false;
  if (wants_native(use, walk != nullptr)) {
    const native::Walk found = native::read_frames(caller, native.addresses, depth_limit);
    native.count = found.count;
    native.cut = found.cut;
    hash = mix(hash, found.hash);
  }
  if (walk == nullptr && native.count == 0) return 0;
  bool added = false;
  const std::uint32_t id = stacks.intern(hash, added);
  if (id == 0) [[unlikely]] {
    without_room.fetch_add(1, std::memory_order_relaxed);  // a counter, nothing is ordered by it
    return 0;
  }
  if (added) [[unlikely]]
    write_stack(id, walk, native);
  return id;
}

void reset_stacks(const Config& config) noexcept {
  depth_limit = at_most(config.stack_depth, at_most(python::kMaxFrames, native::kMaxFrames));
  without_room.store(0);
  if (walks == nullptr) {
    walks = static_cast<python::Walk*>(map_zeros(kMaxWriters * sizeof *walks));
  }
  const bool has_room = walks != nullptr && stacks.reset(kStackSlots);
  const bool wants_native = config.native_stacks != NativeStacks::kNone;
  python_off = why_off(config.python_stacks, has_room && codes.reset(kCodeSlots),
                       "switched off by GPUMEMTRACE_PYTHON");
  native_off = why_off(wants_native, has_room && (!wants_native || native::prepare(module_serial)),
                       "switched off by GPUMEMTRACE_NATIVE");
  native_wanted = native_off.empty() ? config.native_stacks : NativeStacks::kNone;
}

std::string_view python_stacks_off() noexcept { return python_off; }
std::string_view native_stacks_off() noexcept { return native_off; }
std::uint64_t stacks_without_room() noexcept { return without_room.load(); }

}  // namespace gpumemtrace::preload
