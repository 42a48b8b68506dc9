// SPDX-License-Identifier: Apache-2.0
#include "preload/stacks/stacks.hpp"

#include <atomic>
#include <cstddef>

#include "preload/base/clock.hpp"
#include "preload/base/key_table.hpp"
#include "preload/base/map_zeros.hpp"
#include "preload/base/sections.hpp"
#include "preload/base/thread_guards.hpp"
#include "preload/loader/function_behind.hpp"
#include "preload/loader/loaded_module.hpp"
#include "preload/native/hook_search.hpp"
#include "preload/native/unwind_cache.hpp"
#include "preload/python/python_frames.hpp"
#include "preload/python/python_interpreter.hpp"
#include "preload/python/python_waiting.hpp"
#include "preload/python/python_walk.hpp"
#include "preload/ring/recorder.hpp"
#include "preload/ring/writers.hpp"
#include "preload/stacks/module_list.hpp"
#include "preload/stacks/waiting_watch.hpp"

namespace gpumemtrace::preload {
namespace {

using trace::StackId;

constexpr std::size_t kStackSlots = std::size_t{1} << 20;
constexpr std::size_t kCodeSlots = std::size_t{1} << 18;
constexpr std::size_t kUnwindCaches = 32;
constexpr std::size_t kMaxTextBytes = 1024;
constexpr std::size_t kMaxPartBytes = 1600;
// The same frames with and without autograd are two stacks.
constexpr std::uint64_t kAutogradSalt = 0x6772'6164;
// A record stores its length in words in one byte.
constexpr std::size_t kMaxFrames = 255 - sizeof(trace::Stack) / trace::kWordBytes;
static_assert(python::kMaxFrames <= kMaxFrames && native::kMaxFrames <= kMaxFrames);

[[GPUMEMTRACE_HOT_DATA]] constinit KeyTable stacks;
constinit KeyTable codes;
constinit std::string_view python_off;
constinit std::string_view native_off;

// Settings that every stack needs.
struct Settings {
  python::Walk* walks = nullptr;                 // indexed by writer
  native::UnwindCache* unwind_caches = nullptr;  // for the first kUnwindCaches writers
  std::size_t depth_limit = 0;
  bool python = false;
  NativeStacks native = NativeStacks::kNone;
};
[[GPUMEMTRACE_HOT_DATA]] constinit Settings settings;

constinit std::atomic<std::uint64_t> without_room = 0;

// The functions that write code objects return false if the ring had no room.
bool write_code_text(std::uint32_t id, std::uint32_t first_line, trace::CodeText text,
                     std::string_view content) noexcept {
  std::uint32_t part = 0;
  do {
    const std::size_t size = content.size() < kMaxPartBytes ? content.size() : kMaxPartBytes;
    trace::Code record;
    record.id = id;
    record.first_line = first_line;
    record.text = text;
    record.part = part++;
    record.bytes = static_cast<std::uint32_t>(size);
    if (!write_record(record, {content.data(), size})) return false;
    content.remove_prefix(size);
  } while (!content.empty());
  return true;
}

// The thread that frames belong to, which decides how their code objects may be read.
enum class Owner { kThisThread, kAnotherThread };

// Writes name, file and line table of a code object that the calling thread runs. True also if the
// object cannot be read, which is not tried again.
bool write_own_code(std::uint32_t id, const void* object) noexcept {
  python::Code code;
  if (!python::read_code(object, code)) return true;
  char name[kMaxTextBytes];
  char file[kMaxTextBytes];
  const std::size_t name_bytes = python::copy_text(code.qualified_name, name, sizeof name);
  const std::size_t file_bytes = python::copy_text(code.file, file, sizeof file);
  return write_code_text(id, code.first_line, trace::CodeText::kName, {name, name_bytes}) &&
         write_code_text(id, code.first_line, trace::CodeText::kFile, {file, file_bytes}) &&
         write_code_text(id, code.first_line, trace::CodeText::kLineTable,
                         python::bytes_of(code.line_table));
}

// As write_own_code(), for a code object of another thread, which is copied before it is read.
bool write_copied_code(std::uint32_t id, const void* object) noexcept {
  static constinit python::CodeCopy code =
      {};  // too large for the stack; for the thread that samples waiting threads
  if (!python::copy_code(object, code)) return true;
  return write_code_text(id, code.first_line, trace::CodeText::kName,
                         {code.name, code.name_bytes}) &&
         write_code_text(id, code.first_line, trace::CodeText::kFile,
                         {code.file, code.file_bytes}) &&
         write_code_text(id, code.first_line, trace::CodeText::kLineTable,
                         {code.line_table, code.line_table_bytes});
}

// The number of a code object; its texts go into the trace the first time. `has_room` becomes false
// if the ring had no room for the texts.
std::uint32_t intern_code(const python::Frame& frame, Owner owner, bool& has_room) noexcept {
  bool emitted = false;
  const std::uint32_t id = codes.intern(python::key_of_code(frame), emitted);
  if (id == 0 || emitted) return id;
  // mutant: code_emitted_early
  const bool written = owner == Owner::kThisThread ? write_own_code(id, frame.code)
                                                   : write_copied_code(id, frame.code);
  if (written) codes.mark_emitted(id);  // mutant: code_emitted_without_room
  has_room = has_room && written;
  return id;
}

// The Python frames of a new stack. Members have no initial values: most of them stay unused.
struct PythonFrames {
  python::Frame frames[python::kMaxFrames];  // innermost first
  std::size_t count;
  Owner owner;
  bool under_autograd;
};

std::size_t at_most(std::size_t value, std::size_t limit) noexcept {
  return value < limit ? value : limit;
}

// Writes the code objects that are not in the trace yet, then the stack that names them.
void write_stack(StackId id, const PythonFrames& python, const native::Walk& native) noexcept {
  // Python and native frames are shortened to what a record has room for.
  const bool fits = python.count + native.count <= kMaxFrames;
  const std::size_t native_count =
      fits ? native.count
           : at_most(native.count, kMaxFrames - at_most(python.count, kMaxFrames - kMaxFrames / 2));
  const std::size_t python_count = at_most(python.count, kMaxFrames - native_count);
  std::uint64_t words[kMaxFrames];
  std::size_t count = 0;
  bool has_room = true;
  for (std::size_t i = 0; i < python_count; ++i) {
    const python::Frame& frame = python.frames[i];
    const std::uint64_t code = intern_code(frame, python.owner, has_room);
    words[count++] = code << 32 | frame.instruction;
  }
  for (std::size_t i = 0; i < native_count; ++i) words[count++] = native.addresses[i];
  trace::Stack record;  // mutant: stack_emitted_early
  if (native.cut || !fits) record.record.flags |= trace::kFlagCut;
  if (python.under_autograd) record.record.flags |= trace::kFlagAutograd;
  record.id = id;
  record.python_frames = static_cast<std::uint32_t>(python_count);
  record.python_version = python::version_hex();
  record.native_frames = static_cast<std::uint32_t>(native_count);
  const bool written =
      write_record(record, {reinterpret_cast<const char*>(words), count * sizeof words[0]});
  // If a code object is missing, the next thread that meets the stack writes code and stack again.
  // mutant: stack_emitted_without_code
  if (written && has_room) stacks.mark_emitted(trace::number_of(id));
}

// The id of the stack with this hash; kNone if the table is full. `is_new`: it must be written.
[[gnu::always_inline]] inline StackId intern_stack(std::uint64_t hash, bool& is_new) noexcept {
  bool emitted = false;
  const std::uint32_t id = stacks.intern(hash, emitted);
  if (id == 0) [[unlikely]]
    without_room.fetch_add(1, std::memory_order_relaxed);  // a counter, nothing is ordered by it
  is_new = id != 0 && !emitted;
  return StackId{id};
}

[[gnu::noinline]] void write_own_stack(StackId id, const python::Walk* walk,
                                       const native::Walk& native, bool under_autograd) noexcept {
  PythonFrames python;
  python.count = walk == nullptr ? 0 : python::copy_frames(*walk, python.frames);
  python.owner = Owner::kThisThread;
  python.under_autograd = under_autograd;
  write_stack(id, python, native);
}

// The id of the calling thread's stack. `walk`: the thread's Python frames; nullptr: it has none.
[[gnu::always_inline]] inline StackId id_of(std::uint64_t hash, const python::Walk* walk,
                                            const native::Walk& native,
                                            bool under_autograd) noexcept {
  bool is_new = false;
  const StackId id = intern_stack(hash, is_new);
  if (is_new) [[unlikely]]
    write_own_stack(id, walk, native, under_autograd);
  return id;
}

// The id of another thread's stack, whose code objects are copied through the kernel; kNone if the
// table is full.
StackId id_of_waiting(const python::WaitingThread& thread) noexcept {
  std::uint64_t hash = 0;
  for (std::size_t i = thread.count; i-- > 0;) hash = python::hash_with(hash, thread.frames[i]);
  bool is_new = false;
  const StackId id = intern_stack(hash, is_new);
  if (!is_new) return id;
  PythonFrames python;
  python.count = thread.count;
  python.owner = Owner::kAnotherThread;
  python.under_autograd = false;
  for (std::size_t i = 0; i < thread.count; ++i) python.frames[i] = thread.frames[i];
  write_stack(id, python, native::Walk{});
  return id;
}

bool write_waiting_stack(const CallGuard& guard, std::uint64_t thread_id, StackId stack) noexcept {
  return stack != StackId::kNone &&
         write_event<trace::WaitingStack>(guard, [&](trace::WaitingStack& record) {
           record.thread_id = thread_id;
           record.stack = stack;
         });
}

// Writes a WaitingStack record for each Python thread that waits. Takes some microseconds, mostly
// for one system call.
[[gnu::noinline, gnu::cold]] void look_who_waits(const CallGuard& guard) noexcept {
  static constinit python::WaitingLook waiting;  // too large for the stack; for the sampling thread
  const ErrnoKeeper errno_keeper;
  waiting.look(settings.depth_limit);
  for (const python::WaitingThread& thread : waiting.found()) {
    (void)write_waiting_stack(guard, thread.thread_id, id_of_waiting(thread));
  }
}

// The id of the calling thread's stack if its native frames are those of the remembered walk that
// is expected next. kNone if they differ, or if the stack was not written yet. `hash` is that of
// the Python frames; without Python frames the walk's label keeps the stack's id.
[[gnu::always_inline]] inline StackId find_remembered_stack(const native::Caller& caller,
                                                            native::UnwindCache& memory,
                                                            std::uint64_t hash,
                                                            bool has_python) noexcept {
  native::RememberedWalk* const walk = native::read_expected(caller, settings.depth_limit, memory);
  if (walk == nullptr) [[unlikely]]
    return StackId::kNone;
  memory.fetch_follower();
  if (!has_python && walk->label != 0) return StackId{walk->label};
  bool is_new = false;
  const StackId id = intern_stack(mix(hash, walk->hash), is_new);
  if (is_new) return StackId::kNone;
  if (!has_python) walk->label = trace::number_of(id);
  return id;
}

// Walks the native frames to find the id. Not inlined: the addresses are too large for the caller's
// stack.
[[gnu::noinline]] StackId find_stack_by_walk(const native::Caller& caller,
                                             native::UnwindCache* memory, std::uint64_t hash,
                                             const python::Walk* walk,
                                             bool under_autograd) noexcept {
  std::uint64_t addresses[native::kMaxFrames];
  const native::Walk native = native::read_frames(caller, addresses, settings.depth_limit, memory);
  if (walk == nullptr && native.count == 0) return StackId::kNone;
  return id_of(mix(hash, native.hash), walk, native, under_autograd);
}

// c10::GradMode::is_enabled() reads a thread-local of the library whose hook is running. PyTorch
// before 1.11 has this function elsewhere, so the result is false there.
bool autograd_is_on() noexcept {
  [[GPUMEMTRACE_HOT_DATA]] static constinit FunctionBehind behind("_ZN3c108GradMode10is_enabledEv");
  void* const function = behind.in_libc10();
  return function != nullptr && reinterpret_cast<bool (*)()>(function)();
}

bool wants_native(StackUse use, bool has_python) noexcept {
  switch (settings.native) {
    case NativeStacks::kNone:
      return false;
    case NativeStacks::kAuto:
      return use == StackUse::kCall || !has_python;
    case NativeStacks::kFull:
      break;
  }
  return true;
}

// The reason why one kind of frames is off; empty if it is on. `unwanted` is the reason if the
// settings switch it off.
std::string_view why_off(bool is_wanted, bool has_room, std::string_view unwanted) noexcept {
  if (!is_wanted) return unwanted;
  if (!has_room) return "there is no memory for call stacks";
  if (settings.depth_limit == 0) return "GPUMEMTRACE_STACK_DEPTH is 0";
  return {};
}

// Maps the memory in which threads remember their walks; no walk is remembered at first.
bool map_walks() noexcept {
  if (settings.walks == nullptr) {
    settings.walks = static_cast<python::Walk*>(map_zeros(kMaxWriters * sizeof *settings.walks));
  }
  settings.unwind_caches = static_cast<native::UnwindCache*>(
      map_zeros_anew(settings.unwind_caches, kUnwindCaches * sizeof(native::UnwindCache)));
  return settings.walks != nullptr && settings.unwind_caches != nullptr;
}

}  // namespace

// Reads the Python frames; a thread that has none samples the waiting threads if a sample is due.
// Native frames are walked only if they differ from those of the expected earlier walk.
[[gnu::hot]] StackId walk_current_stack(const CallGuard& guard, const native::Caller& caller,
                                        StackUse use) noexcept {
  const std::uint32_t writer = thread_state.writer_id;
  const python::Walk* walk = nullptr;
  std::uint64_t hash = 0;
  bool under_autograd = false;
  if (settings.python && python::state() == python::State::kOn) [[likely]] {
    python::Walk& last = settings.walks[writer];
    const std::uint64_t now = ticks();
    hash = python::read_stack(settings.depth_limit, now, last);
    if (hash != 0) [[likely]] {
      walk = &last;
      python_runs_here();
      if (use == StackUse::kTorchBlock && autograd_is_on()) {
        under_autograd = true;
        hash = mix(hash, kAutogradSalt);
      }
    } else if (try_begin_waiting_sample(now)) [[unlikely]] {
      look_who_waits(guard);
      end_waiting_sample(ticks());  // the time that a sample takes does not count as quiet
    }
  }
  if (wants_native(use, walk != nullptr)) {
    native::UnwindCache* const memory =
        writer < kUnwindCaches ? &settings.unwind_caches[writer] : nullptr;
    const StackId id = memory == nullptr
                           ? StackId::kNone
                           : find_remembered_stack(caller, *memory, hash, walk != nullptr);
    if (id != StackId::kNone) [[likely]]
      return id;
    return find_stack_by_walk(caller, memory, hash, walk, under_autograd);
  }
  return walk == nullptr ? StackId::kNone : id_of(hash, walk, native::Walk{}, under_autograd);
}

bool record_waiting_stack(const CallGuard& guard) noexcept {
  if (!settings.python || python::state() != python::State::kOn) return false;
  python::Walk& last = settings.walks[thread_state.writer_id];
  const std::uint64_t hash = python::read_stack(settings.depth_limit, ticks(), last);
  return hash != 0 && write_waiting_stack(guard, thread_state.writer->thread_id.load(),
                                          id_of(hash, &last, native::Walk{}, false));
}

bool is_called_from_library_of(const void* address) noexcept {
  const std::uint64_t begin = find_module_begin(reinterpret_cast<std::uintptr_t>(address));
  return begin != 0 && native::is_called_from(begin);
}

void reset_stacks(const Config& config) noexcept {
  settings.depth_limit =
      at_most(config.stack_depth, at_most(python::kMaxFrames, native::kMaxFrames));
  without_room.store(0);
  reset_waiting_samples();
  const bool wants_native = config.native_stacks != NativeStacks::kNone;
  const bool has_room = map_walks() && stacks.map(kStackSlots) && codes.map(kCodeSlots);
  python_off = why_off(config.python_stacks, has_room, "switched off by GPUMEMTRACE_PYTHON");
  native_off = why_off(wants_native, has_room && (!wants_native || native::prepare(module_serial)),
                       "switched off by GPUMEMTRACE_NATIVE");
  settings.python = python_off.empty();
  if (settings.python) python::watch_collector();
  settings.native = native_off.empty() ? config.native_stacks : NativeStacks::kNone;
}

std::string_view python_stacks_off() noexcept { return python_off; }
std::string_view native_stacks_off() noexcept { return native_off; }
std::uint64_t stacks_without_room() noexcept { return without_room.load(); }

}  // namespace gpumemtrace::preload
