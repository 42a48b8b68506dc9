// SPDX-License-Identifier: Apache-2.0
#include "preload/python/python_interpreter.hpp"

#include <string.h>

#include <atomic>
#include <iterator>
#include <utility>

#include "preload/base/checked_memory.hpp"
#include "preload/base/sections.hpp"
#include "preload/loader/elf_symbols.hpp"
#include "preload/loader/loaded_module.hpp"
#include "preload/loader/loader_list.hpp"
#include "preload/python/python_layout.hpp"
#include "preload/python/python_walk.hpp"

namespace gpumemtrace::preload::python {
namespace {

// The collector's offsets by minor version, measured like the layouts in
// preload/python/python_layout.hpp.
struct Known {
  unsigned minor;
  Collector collector;
};
constexpr Known kKnown[] = {{9, {816, 352}}, {10, {816, 352}}, {11, {848, 360}}, {12, {312, 384}}};
constexpr unsigned kFirstWithTable = 13;
constexpr unsigned kLastWithThreeGenerations = 13;

// Up to 3.13, these fields stand before the collecting flag in the collector's state: three
// generations, then a pointer to the first generation. The constants are distances from the flag in
// bytes. In 3.13.5 the generations begin four bytes earlier than in 3.13.0.
constexpr std::size_t kFirstGenerationBefore[] = {176, 180};
constexpr std::size_t kPointerToItBefore = 104;

// Indexes of words in the interpreter's own table of offsets (_Py_DebugOffsets). The words are the
// offsets of an interpreter's collector state, of the pointer to its lock (the GIL), of its own
// lock and of the lock's last holder; then, at the other end of the table, the bytes of an ASCII
// str's header. The next two words are the size of the collector's state and the offset of the
// collecting flag in it.
struct TableWords {
  unsigned minor;
  std::size_t collector;
  std::size_t lock_pointer;
  std::size_t lock;
  std::size_t last_holder;
  std::size_t ascii_header;
};
constexpr TableWords kTableWords[] = {{13, 10, 14, 15, 18, 70}, {14, 11, 15, 16, 19, 80}};
constexpr std::size_t kTableBytes = 83 * sizeof(std::uint64_t);

// Reads the collector's offsets from the interpreter's own table; {} if words whose values are
// known from elsewhere show that the table has another form.
Collector read_table(unsigned minor, const void* runtime) noexcept {
  std::uint64_t table[kTableBytes / sizeof(std::uint64_t)];
  for (const TableWords& words : kTableWords) {
    if (words.minor != minor || !read_through_kernel(runtime, table, sizeof table)) continue;
    constexpr std::uint64_t kAsciiHeaderBytes = 40;
    const std::uint64_t state_bytes = table[words.ascii_header + 1];
    const std::uint64_t flag = table[words.ascii_header + 2];
    if (table[words.ascii_header] != kAsciiHeaderBytes || flag >= state_bytes ||
        table[words.last_holder] - table[words.lock] != kLastHolderOffset) {
      return {};
    }
    return {table[words.collector] + flag, table[words.lock_pointer]};
  }
  return {};
}

Collector collector_of(unsigned minor, const void* runtime) noexcept {
  if (minor >= kFirstWithTable) return read_table(minor, runtime);
  for (const Known& known : kKnown) {
    if (known.minor == minor) return known.collector;
  }
  return {};
}

// True if the memory before the flag looks like a collector's state.
bool has_generations(const char* flag) noexcept {
  const char* first = nullptr;
  if (!read_through_kernel(flag - kPointerToItBefore, first)) return false;
  for (const std::size_t before : kFirstGenerationBefore) {
    if (first == flag - before) return true;
  }
  return false;
}

// True if the last holder of the lock is a thread state of this interpreter, as it is for its GIL.
bool is_held_by_a_thread_of(const void* interpreter, const char* lock) noexcept {
  const char* holder = nullptr;
  const void* its_interpreter = nullptr;
  return read_through_kernel(lock + kLastHolderOffset, holder) && plausible_pointer(holder) &&
         read_through_kernel(holder + kInterpreterOffset, its_interpreter) &&
         its_interpreter == interpreter;
}

}  // namespace

Collector find_collector(unsigned minor, const void* runtime, const void* interpreter) noexcept {
  if (runtime == nullptr || interpreter == nullptr) return {};
  const Collector found = collector_of(minor, runtime);
  if (found.collecting == 0) return {};
  const char* const flag = static_cast<const char*>(interpreter) + found.collecting;
  std::uint32_t collecting = 0;
  if (!read_through_kernel(flag, collecting) || collecting > 1) return {};
  if (minor <= kLastWithThreeGenerations && !has_generations(flag)) return {};
  const char* lock = static_cast<const char*>(runtime) + found.lock;
  if (minor >= kFirstWithOwnLock &&
      !read_through_kernel(static_cast<const char*>(interpreter) + found.lock, lock)) {
    return {};
  }
  return is_held_by_a_thread_of(interpreter, lock) ? found : Collector{};
}

namespace {

constexpr std::uint8_t kFirstWithDebugOffsets = 13;

constinit std::atomic<const void*> main_interpreter = nullptr;
constinit char off_reason[128] = {};
constinit std::uint32_t looked_changes = 0;  // modules.changes() at the last search

// Converts "3.12.4 (main, ...)" to the form of PY_VERSION_HEX, with "final" as release level.
std::uint32_t parse_version(const char* text) noexcept {
  std::uint32_t parts[3] = {};
  for (std::uint32_t& part : parts) {
    while (*text >= '0' && *text <= '9') {
      part = part * 10 + static_cast<std::uint32_t>(*text++ - '0');
    }
    if (*text == '.') ++text;
  }
  return parts[0] << 24 | parts[1] << 16 | parts[2] << 8 | 0xf0;
}

// Reads the addresses of the runtime's fields from the table of offsets at the begin of _PyRuntime,
// which exists from 3.13 on: "xdebugpy", version, whether the build is free-threaded, offsets.
// False if the table does not fit the interpreter's version or the build is free-threaded.
bool read_debug_offsets(Interpreter& found) noexcept {
  struct {
    char cookie[8];
    std::uint64_t version;
    std::uint64_t free_threaded;
    std::uint64_t runtime_state[3];  // size, offsets of fields: finalizing, interpreters
    std::uint64_t interpreter[4];    // size, offsets of fields: id, next, threads
  } head;
  constexpr std::uint64_t kFarthest = 1 << 16;
  if (!read_through_kernel(found.runtime, &head, sizeof head) ||
      memcmp(head.cookie, "xdebugpy", sizeof head.cookie) != 0 ||
      (head.version >> 16) != (found.version >> 16) || head.free_threaded != 0 ||
      head.runtime_state[1] > kFarthest || head.runtime_state[2] > kFarthest) {
    return false;
  }
  const auto* const runtime = static_cast<const char*>(found.runtime);
  found.finalizing = reinterpret_cast<const void* const*>(runtime + head.runtime_state[1]);
  found.interpreters = reinterpret_cast<const Interpreters*>(runtime + head.runtime_state[2]);
  found.thread_list = head.interpreter[3];
  return true;
}

// Searches the runtime's first words for the two known interpreters. Before 3.13, four of these
// words are: a flag for the runtime's end, a lock, its newest interpreter, its main interpreter
// (pycore_runtime.h of 3.9 to 3.12).
bool search_first_words(const Interpreters& known, Interpreter& found) noexcept {
  constexpr std::size_t kWords = 16;
  const void* words[kWords];
  if (!read_through_kernel(found.runtime, words, sizeof words)) return false;
  for (std::size_t i = 0; i + 3 < kWords; ++i) {
    if (words[i + 2] != known.newest || words[i + 3] != known.main) continue;
    found.finalizing = static_cast<const void* const*>(found.runtime) + i;
    found.interpreters = reinterpret_cast<const Interpreters*>(found.finalizing + 2);
  }
  return found.interpreters != nullptr;
}

// Finds the fields of the runtime that the layout does not give. False if the newest and the main
// interpreter of the runtime are not the `known` ones.
bool look_at_runtime(const Interpreters& known, Interpreter& found) noexcept {
  if (found.runtime == nullptr || known.main == nullptr) return false;
  const bool describes_itself = found.layout->minor >= kFirstWithDebugOffsets;
  Interpreters there;
  return (describes_itself ? read_debug_offsets(found) : search_first_words(known, found)) &&
         read_through_kernel(found.interpreters, there) && there.newest == known.newest &&
         there.main == known.main;
}

// The start of the loaded file that has the address; 0 if no file has it.
std::uint64_t begin_of(const LoaderList& modules, const void* address) noexcept {
  AddressRange range;
  const bool is_found = modules.visit([&](const dl_phdr_info& info) noexcept {
    range = range_of(info);
    return range.contains(reinterpret_cast<std::uintptr_t>(address));
  });
  return is_found ? range.begin : 0;
}

// The functions that walk a thread's frames, one for each Python version: its layout is a constant.
template <std::size_t kIndex>
[[gnu::hot]] bool read_by_layout(const void* code_type, const void* thread_state,
                                 std::size_t capacity, Walk& last) noexcept {
  return Walker<kIndex, Straight>(code_type, last).run(thread_state, capacity);
}
template <std::size_t kIndex>
[[gnu::cold]] bool check_by_layout(const void* code_type, const void* thread_state,
                                   std::size_t capacity, Walk& last) noexcept {
  return Walker<kIndex, Checked>(code_type, last).run(thread_state, capacity);
}

template <std::size_t... kIndex>
void choose_walk(Interpreter& found, std::size_t index, std::index_sequence<kIndex...>) noexcept {
  constexpr Interpreter::Read kReads[] = {read_by_layout<kIndex>...};
  constexpr Interpreter::Read kChecks[] = {check_by_layout<kIndex>...};
  found.read = kReads[index];
  found.read_checked = kChecks[index];
}

void choose_layout(Interpreter& found) noexcept {
  constexpr std::size_t kCount = std::size(kLayouts);
  for (std::size_t i = 0; i < kCount; ++i) {
    if ((found.version >> 16) != (3u << 8 | kLayouts[i].minor)) continue;
    found.layout = &kLayouts[i];
    choose_walk(found, i, std::make_index_sequence<kCount>());
    found.thread_list = kLayouts[i].thread_list;
  }
}

}  // namespace

[[GPUMEMTRACE_HOT_DATA]] constinit Interpreter known_interpreter;
[[GPUMEMTRACE_HOT_DATA]] constinit std::atomic<std::uint32_t> seen_after_unloads = 0;
[[GPUMEMTRACE_HOT_DATA]] constinit std::atomic<State> current_state = State::kNotLooked;

std::string_view reason() noexcept { return off_reason; }
std::uint32_t version_hex() noexcept { return known_interpreter.version; }
void turn_off(std::string_view why) noexcept {
  const std::size_t size = why.size() < sizeof off_reason - 1 ? why.size() : sizeof off_reason - 1;
  memcpy(off_reason, why.data(), size);
  off_reason[size] = '\0';
  current_state.store(State::kOff);
}

// True if the runtime still points to the known main interpreter: other memory that has come to
// this address does not. Does not ask the loader, which before glibc 2.35 finds no module for a
// while after an unload.
bool look_whether_loaded() noexcept {
  if (state() != State::kOn) return false;
  const std::uint32_t unloads_before = unload_count();
  Interpreters now;
  // Relaxed: the pointer is only compared.
  const bool found = read_through_kernel(known_interpreter.interpreters, now) &&
                     now.main != nullptr &&
                     now.main == main_interpreter.load(std::memory_order_relaxed);
  // Relaxed: is_loaded() only compares the number.
  if (found && !unload_is_running()) {
    seen_after_unloads.store(unloads_before, std::memory_order_relaxed);
  }
  return found;
}

namespace {

// Checks the known interpreter again: it may have ended, and then been initialized again or
// unloaded.
void recheck_known_interpreter() noexcept {
  // The loader gives the start of the page in which a file begins, so the starts of files are
  // compared by page. The largest page has 64 KiB.
  const auto page_of = [](std::uint64_t address) noexcept { return address >> 16; };
  const auto begin_of = [](const void* address) noexcept {
    return find_module_begin(reinterpret_cast<std::uintptr_t>(address));
  };
  // The loader finds no module at present, not even this library.
  if (begin_of(reinterpret_cast<const void*>(&refresh)) == 0) return;
  // The file is recognised by its start, not by its headers: another thread may be unloading it.
  if (page_of(begin_of(known_interpreter.runtime)) != page_of(known_interpreter.begin)) {
    turn_off("the interpreter has ended and was unloaded");
    return;
  }
  Interpreters now;
  if (read_through_kernel(known_interpreter.interpreters, now)) main_interpreter.store(now.main);
}

}  // namespace

void refresh(LoaderList& modules) noexcept {
  if (state() == State::kOff) return;
  if (state() == State::kOn) return recheck_known_interpreter();
  const std::uint32_t unloads_before = unload_count();
  (void)modules.refresh();
  if (state() == State::kAbsent && looked_changes == modules.changes()) return;
  looked_changes = modules.changes();
  const auto find = [&](const char* symbol) noexcept { return find_symbol(modules, symbol); };
  Interpreter found;
  found.this_thread_state = reinterpret_cast<void* (*)()>(find("PyGILState_GetThisThreadState"));
  if (found.this_thread_state == nullptr) {
    current_state.store(State::kAbsent);
    return;
  }
  auto* version_text = reinterpret_cast<const char* (*)()>(find("Py_GetVersion"));
  found.code_type = find("PyCode_Type");
  auto* is_initialized = reinterpret_cast<int (*)()>(find("Py_IsInitialized"));
  auto* newest = reinterpret_cast<const void* (*)()>(find("PyInterpreterState_Head"));
  auto* main = reinterpret_cast<const void* (*)()>(find("PyInterpreterState_Main"));
  found.runtime = find("_PyRuntime");
  found.begin = begin_of(modules, found.runtime);
  if (version_text == nullptr || found.code_type == nullptr || is_initialized == nullptr ||
      newest == nullptr || main == nullptr) {
    turn_off("the interpreter does not export the functions that are needed");
    return;
  }
  if (is_initialized() == 0) {
    // Not kAbsent, which lasts until the list of modules changes: an initialization does not
    // change it.
    current_state.store(State::kNotLooked);
    return;
  }
  found.version = parse_version(version_text());
  choose_layout(found);
  const Interpreters known = {newest(), main()};
  const bool agrees = found.layout != nullptr && look_at_runtime(known, found);
  if (agrees && is_finalizing(found)) return;
  if (agrees) found.collector = find_collector(found.layout->minor, found.runtime, known.main);
  known_interpreter = found;
  main_interpreter.store(known.main);
  seen_after_unloads.store(unloads_before);
  if (found.layout == nullptr) {
    turn_off("this version of Python is not known; 3.9 to 3.14 are");
  } else if (!agrees) {
    turn_off("the interpreter is free-threaded or its layout is not the expected one");
  } else {
    // Release: pairs with state().
    current_state.store(State::kOn, std::memory_order_release);
  }
}

namespace {

constexpr unsigned kFirstWithStaticInterpreter = 11;

constexpr std::uint32_t kNever = 0;
constexpr std::uint32_t kPerhaps = 1;

}  // namespace

[[GPUMEMTRACE_HOT_DATA]] constinit std::atomic<const std::uint32_t*> some_thread_collects = &kNever;

bool knows_collector() noexcept { return this_interpreter().collector.collecting != 0; }

void watch_collector() noexcept {
  const Interpreter& python = this_interpreter();
  const std::uint32_t* flag = &kNever;
  Interpreters interpreters;
  if (state() == State::kOn && knows_collector() &&
      read_through_kernel(python.interpreters, interpreters)) {
    flag = &kPerhaps;
    // `main` is null once the interpreter has ended. Before 3.11 the end frees the interpreter's
    // memory, so the flag in it is not used.
    if (interpreters.main != nullptr && interpreters.main == interpreters.newest &&
        python.layout->minor >= kFirstWithStaticInterpreter) {
      flag = reinterpret_cast<const std::uint32_t*>(static_cast<const char*>(interpreters.main) +
                                                    python.collector.collecting);
    }
  }
  // Relaxed: the flag that the pointer leads to was initialized long before.
  some_thread_collects.store(flag, std::memory_order_relaxed);
}

// True if the calling thread's interpreter collects, and the calling thread is the one that does
// so.
bool collects_here() noexcept {
  const Interpreter& python = this_interpreter();
  const void* const thread_state = python.this_thread_state();
  if (thread_state == nullptr) return false;
  const auto* const interpreter = load<const void*>(thread_state, kInterpreterOffset);
  if (load<std::uint32_t>(interpreter, python.collector.collecting) == 0) [[likely]]
    return false;
  if (is_finalizing(python)) return false;
  // Some thread of this interpreter collects. It is the thread that last had the lock, even while
  // it frees memory without the lock.
  const bool own_lock = python.layout->minor >= kFirstWithOwnLock;
  const void* const lock = own_lock
                               ? load<const void*>(interpreter, python.collector.lock)
                               : static_cast<const char*>(python.runtime) + python.collector.lock;
  return load<const void*>(lock, kLastHolderOffset) == thread_state;
}

}  // namespace gpumemtrace::preload::python
