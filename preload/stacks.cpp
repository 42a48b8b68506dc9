#include "preload/stacks.hpp"

#include <atomic>
#include <cstddef>

#include "preload/background.hpp"
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

void write_code_text(std::uint32_t id, std::uint32_t first_line, trace::CodeText text,
                     std::string_view content) noexcept {
  std::uint32_t part = 0;
  do {
    const std::size_t size = content.size() < kMaxPieceBytes ? content.size() : kMaxPieceBytes;
    trace::Code record;
    record.record.kind = trace::RecordKind::kCode;
    record.record.time = ticks();
    record.id = id;
    record.first_line = first_line;
    record.text = text;
    record.part = part++;
    record.bytes = static_cast<std::uint32_t>(size);
    write_record(&record, sizeof record, content.data(), size);
    content.remove_prefix(size);
  } while (!content.empty());
}

// Whose frames they are decides how their code objects may be read.
enum class Owner { kThisThread, kAnotherThread };

void write_own_code(std::uint32_t id, const void* object) noexcept {
  python::Code code;
  if (!python::read_code(object, code)) return;
  char text[kMaxTextBytes];
  std::size_t size = python::copy_text(code.qualified_name, text, sizeof text);
  write_code_text(id, code.first_line, trace::CodeText::kName, {text, size});
  size = python::copy_text(code.file, text, sizeof text);
  write_code_text(id, code.first_line, trace::CodeText::kFile, {text, size});
  write_code_text(id, code.first_line, trace::CodeText::kLineTable,
                  python::bytes_of(code.line_table));
}

void write_other_code(std::uint32_t id, const void* object) noexcept {
  static constinit python::CodeCopy code = {};  // large, and the background thread's alone
  if (!python::copy_code(object, code)) return;
  write_code_text(id, code.first_line, trace::CodeText::kName, {code.name, code.name_bytes});
  write_code_text(id, code.first_line, trace::CodeText::kFile, {code.file, code.file_bytes});
  write_code_text(id, code.first_line, trace::CodeText::kLineTable,
                  {code.line_table, code.line_table_bytes});
}

// The number of a code object; its texts go into the trace the first time.
std::uint32_t intern_code(const python::Frame& frame, Owner owner) noexcept {
  bool added = false;
  const std::uint64_t key =
      mix(mix(0, reinterpret_cast<std::uintptr_t>(frame.code)), frame.version);
  const std::uint32_t id = codes.intern(key, added);
  if (id == 0 || !added) return id;
  if (owner == Owner::kThisThread) {
    write_own_code(id, frame.code);
  } else {
    write_other_code(id, frame.code);
  }
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

void write_stack(std::uint32_t id, Frames& frames, Owner owner) noexcept {
  fit_into_record(frames);
  std::uint64_t words[kMaxFrames];
  std::size_t count = 0;
  for (std::size_t i = 0; i < frames.python_count; ++i) {
    const python::Frame& frame = frames.python[i];
    words[count++] = std::uint64_t{intern_code(frame, owner)} << 32 | frame.instruction;
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

// The upper and the lower half of the product: every bit of both factors counts.
std::uint64_t multiply(std::uint64_t left, std::uint64_t right) noexcept {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{left} * right;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// A sum of one product a frame, of the frame and its place: unlike a chain of steps, the processor
// works at several at once.
std::uint64_t hash_of(const python::Frame* frames, std::size_t count) noexcept {
  constexpr std::uint64_t kFirst = 0x9e37'79b9'7f4a'7c15;
  constexpr std::uint64_t kSecond = 0xff51'afd7'ed55'8ccd;
  std::uint64_t sum = count;
  for (std::size_t i = 0; i < count; ++i) {
    const python::Frame& frame = frames[i];
    const std::uint64_t place = std::uint64_t{frame.version} << 32 | frame.instruction;
    sum += multiply(reinterpret_cast<std::uintptr_t>(frame.code) ^ ((i + 1) * kFirst),
                    place ^ kSecond);
  }
  return mix(0, sum);
}

void read_python(Frames& frames) noexcept {
  frames.python_count = 0;
  if (!python_off.empty() || python::state() != python::State::kOn) return;
  frames.python_count = python::read_frames(frames.python, depth_limit);
  if (frames.python_count == 0) note_thread_without_python();
}

// 0: there is no room.
std::uint32_t intern_stack(std::uint64_t hash, Frames& frames, Owner owner) noexcept {
  bool added = false;
  const std::uint32_t id = stacks.intern(hash, added);
  if (id == 0) [[unlikely]]
    without_room.fetch_add(1, std::memory_order_relaxed);  // a counter, nothing is ordered by it
  if (added) [[unlikely]]
    write_stack(id, frames, owner);
  return id;
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
  read_python(frames);
  std::uint64_t hash = hash_of(frames.python, frames.python_count);
  native::Walk walk;
  if (wants_native(use, frames.python_count)) {
    walk = native::read_frames(caller, frames.native, depth_limit);
    hash = mix(hash, walk.hash);
  }
  frames.native_count = walk.count;
  frames.cut = walk.cut;
  if (frames.python_count + frames.native_count == 0) return 0;
  return intern_stack(hash, frames, Owner::kThisThread);
}

std::uint32_t waiting_stack(const CallGuard&, const python::WaitingThread& thread) noexcept {
  Frames frames;
  frames.python_count = thread.count;
  frames.native_count = 0;
  frames.cut = false;
  for (std::size_t i = 0; i < thread.count; ++i) frames.python[i] = thread.frames[i];
  return intern_stack(hash_of(frames.python, thread.count), frames, Owner::kAnotherThread);
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

std::size_t stack_depth() noexcept { return depth_limit; }
std::string_view python_stacks_off() noexcept { return python_off; }
std::string_view native_stacks_off() noexcept { return native_off; }
std::uint64_t stacks_without_room() noexcept { return without_room.load(); }

}  // namespace gpumemtrace::preload
