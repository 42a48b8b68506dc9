#include "preload/python_frames.hpp"

#include <string.h>

#include <atomic>

#include "preload/checked_memory.hpp"
#include "preload/elf_symbols.hpp"
#include "preload/loader_list.hpp"

namespace gpumemtrace::preload::python {
namespace {

// Where things stand in the structures of one minor version, in bytes, on 64-bit Linux. Measured by
// compiling against the headers of 3.9.18, 3.10.13, 3.11.7, 3.12.1 and 3.13.0; 3.14 from its own
// table of offsets (_Py_DebugOffsets), which from 3.13 on every interpreter carries and which is
// compared with these at start.
struct Layout {
  std::uint8_t minor;
  std::uint16_t first_frame;         // in the thread state: the frame, or what points to it
  std::int16_t frame_behind;         // >= 0: one more pointer to follow, at this offset
  std::uint16_t previous;            // in the frame
  std::uint16_t code;                // in the frame
  std::uint16_t instruction;         // in the frame
  std::int16_t owner;                // in the frame; -1 = none
  std::uint8_t first_foreign_owner;  // frames of this owner and above are the interpreter's own
  bool instruction_is_index;         // an int, else a pointer into the code
  std::uint8_t index_scale;
  std::uint16_t first_line;  // in the code object
  std::uint16_t file;
  std::uint16_t qualified_name;
  std::uint16_t line_table;
  std::uint16_t first_instruction;  // in the code object: base of the instruction pointer
  std::int16_t code_version;        // in the code object; -1 = none
  std::uint16_t ascii_text;         // in a str object: its characters, if they are ASCII
  std::uint16_t other_text;         // likewise, if they are not
};

constexpr Layout kLayouts[] = {
    {9, 24, -1, 24, 32, 104, -1, 0, true, 1, 40, 104, 112, 120, 0, -1, 48, 72},
    {10, 24, -1, 24, 32, 96, -1, 0, true, 2, 40, 104, 112, 120, 0, -1, 48, 72},
    {11, 56, 8, 48, 32, 56, 69, 2, false, 1, 72, 112, 128, 136, 184, -1, 48, 72},
    {12, 56, 0, 8, 0, 56, 70, 3, false, 1, 68, 112, 128, 136, 192, 92, 40, 56},
    {13, 72, -1, 8, 0, 56, 70, 3, false, 1, 68, 112, 128, 136, 200, 92, 40, 56},
    {14, 72, -1, 8, 0, 56, 74, 3, false, 1, 68, 112, 128, 136, 208, 92, 40, 56},
};

constexpr std::uint64_t kTagBits = 3;  // 3.14: low bits of a frame's code reference
constexpr std::uint16_t kTypeOffset = 8;
constexpr std::uint16_t kSizeOffset = 16;
constexpr std::uint16_t kTextStateOffset = 32;
constexpr std::uint16_t kBytesOffset = 32;
constexpr std::size_t kCheckedWalks = 64;

struct Interpreter {
  const Layout* layout = nullptr;
  std::uint32_t version = 0;
  const void* code_type = nullptr;
  void* (*this_thread_state)() = nullptr;
  int (*is_initialized)() = nullptr;
  int (*is_finalizing)() = nullptr;
};

constinit Interpreter interpreter;
constinit std::atomic<State> current_state = State::kNotLooked;
constinit std::atomic<std::size_t> checked_walks = 0;
constinit char off_reason[128] = {};
constinit std::uint32_t looked_changes = 0;  // of the modules that were looked through last

template <class Value>
Value load(const void* base, std::size_t offset) noexcept {
  Value value;
  memcpy(&value, static_cast<const char*>(base) + offset, sizeof value);
  return value;
}

// Two ways to read: straight, and through the kernel while the offsets are not yet trusted.
struct Straight {
  template <class Value>
  static bool read(const void* base, std::size_t offset, Value& out) noexcept {
    out = load<Value>(base, offset);
    return true;
  }
};
struct Checked {
  template <class Value>
  static bool read(const void* base, std::size_t offset, Value& out) noexcept {
    return read_through_kernel(static_cast<const char*>(base) + offset, &out, sizeof out);
  }
};

bool plausible_pointer(const void* pointer) noexcept {
  return pointer != nullptr && (reinterpret_cast<std::uintptr_t>(pointer) & 7) == 0;
}

// Offset of the running instruction in the byte code.
template <class Reader>
bool read_instruction(const Layout& layout, const void* frame, const void* code,
                      std::uint32_t& offset) noexcept {
  if (layout.instruction_is_index) {
    std::int32_t index = -1;
    if (!Reader::read(frame, layout.instruction, index)) return false;
    offset = index < 0 ? 0 : static_cast<std::uint32_t>(index) * layout.index_scale;
    return true;
  }
  const char* instruction = nullptr;
  if (!Reader::read(frame, layout.instruction, instruction)) return false;
  const char* begin = static_cast<const char*>(code) + layout.first_instruction;
  const std::ptrdiff_t distance = instruction - begin;
  offset = distance >= 0 && distance < (1 << 30) ? static_cast<std::uint32_t>(distance) : 0;
  return true;
}

// -1: memory did not look like frames.
template <class Reader>
std::ptrdiff_t walk(const Interpreter& python, const void* thread_state, Frame* out,
                    std::size_t capacity) noexcept {
  const Layout& layout = *python.layout;
  const void* frame = nullptr;
  if (!Reader::read(thread_state, layout.first_frame, frame)) return -1;
  if (layout.frame_behind >= 0 && frame != nullptr &&
      !Reader::read(frame, static_cast<std::size_t>(layout.frame_behind), frame)) {
    return -1;
  }
  std::size_t count = 0;
  for (std::size_t steps = 0; frame != nullptr && count < capacity && steps < 4 * kMaxFrames;
       ++steps) {
    if (!plausible_pointer(frame)) return -1;
    std::uint64_t reference = 0;
    const void* previous = nullptr;
    char owner = 0;
    if (!Reader::read(frame, layout.code, reference) ||
        !Reader::read(frame, layout.previous, previous) ||
        (layout.owner >= 0 &&
         !Reader::read(frame, static_cast<std::size_t>(layout.owner), owner))) {
      return -1;
    }
    const bool foreign = layout.owner >= 0 && layout.first_foreign_owner != 0 &&
                         owner >= static_cast<char>(layout.first_foreign_owner) &&
                         layout.minor >= 12;
    if (!foreign) {
      if (layout.minor >= 14) reference &= ~kTagBits;
      const void* code = reinterpret_cast<const void*>(reference);
      const void* type = nullptr;
      if (!plausible_pointer(code) || !Reader::read(code, kTypeOffset, type)) return -1;
      // From 3.13 on a frame may hold something else than a code object.
      if (type == python.code_type) {
        Frame& found = out[count++];
        found.code = code;
        if (!read_instruction<Reader>(layout, frame, code, found.instruction)) return -1;
        const std::size_t version_offset = layout.code_version >= 0
                                               ? static_cast<std::size_t>(layout.code_version)
                                               : layout.first_line;
        if (!Reader::read(code, version_offset, found.version)) return -1;
      } else if (layout.minor < 13) {
        return -1;
      }
    }
    frame = previous;
  }
  return static_cast<std::ptrdiff_t>(count);
}

// "3.12.4 (main, ...)" as PY_VERSION_HEX; the release level does not matter here.
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

// From 3.13 on the interpreter describes itself; a build that moved its fields is noticed here.
// The first words of _PyRuntime: "xdebugpy", version, whether it is free-threaded.
bool agrees_with_debug_offsets(const void* runtime, std::uint32_t version) noexcept {
  struct {
    char cookie[8];
    std::uint64_t version;
    std::uint64_t free_threaded;
  } head;
  if (runtime == nullptr || !read_through_kernel(runtime, &head, sizeof head)) return false;
  return memcmp(head.cookie, "xdebugpy", sizeof head.cookie) == 0 &&
         (head.version >> 16) == (version >> 16) && head.free_threaded == 0;
}

void set_off(std::string_view why) noexcept {
  const std::size_t size = why.size() < sizeof off_reason - 1 ? why.size() : sizeof off_reason - 1;
  memcpy(off_reason, why.data(), size);
  off_reason[size] = '\0';
  current_state.store(State::kOff);
}

}  // namespace

State state() noexcept { return current_state.load(std::memory_order_relaxed); }
std::string_view reason() noexcept { return off_reason; }
std::uint32_t version_hex() noexcept { return interpreter.version; }
void turn_off(std::string_view why) noexcept { set_off(why); }

void look(LoaderList& modules) noexcept {
  if (state() == State::kOn || state() == State::kOff) return;
  modules.look();
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
  found.is_initialized = reinterpret_cast<int (*)()>(find("Py_IsInitialized"));
  void* finalizing = find("Py_IsFinalizing");
  if (finalizing == nullptr) finalizing = find("_Py_IsFinalizing");
  found.is_finalizing = reinterpret_cast<int (*)()>(finalizing);
  if (version_text == nullptr || found.code_type == nullptr || found.is_initialized == nullptr) {
    set_off("the interpreter does not export the functions that are needed");
    return;
  }
  if (found.is_initialized() == 0) return;
  found.version = parse_version(version_text());
  for (const Layout& layout : kLayouts) {
    if ((found.version >> 16) == (3u << 8 | layout.minor)) found.layout = &layout;
  }
  interpreter = found;
  if (found.layout == nullptr) {
    set_off("this version of Python is not known; 3.9 to 3.14 are");
  } else if (found.layout->minor >= 13 &&
             !agrees_with_debug_offsets(find("_PyRuntime"), found.version)) {
    set_off("the interpreter is free-threaded or its layout is not the expected one");
  } else {
    // Release: pairs with the acquire in read_frames().
    current_state.store(State::kOn, std::memory_order_release);
  }
}

std::size_t read_frames(Frame* out, std::size_t capacity) noexcept {
  if (current_state.load(std::memory_order_acquire) != State::kOn) return 0;  // pairs with look()
  const Interpreter& python = interpreter;
  if (python.is_finalizing != nullptr && python.is_finalizing() != 0) return 0;
  const void* thread_state = python.this_thread_state();
  if (thread_state == nullptr) return 0;
  if (checked_walks.load(std::memory_order_relaxed) >= kCheckedWalks) [[likely]] {
    const std::ptrdiff_t count = walk<Straight>(python, thread_state, out, capacity);
    return count < 0 ? 0 : static_cast<std::size_t>(count);
  }
  const std::ptrdiff_t count = walk<Checked>(python, thread_state, out, capacity);
  if (count < 0) {
    set_off("the interpreter's frames are not where its version has them");
    return 0;
  }
  if (count > 0) checked_walks.fetch_add(1, std::memory_order_relaxed);
  return static_cast<std::size_t>(count);
}

bool read_code(const void* code, Code& out) noexcept {
  const Layout& layout = *interpreter.layout;
  if (load<const void*>(code, kTypeOffset) != interpreter.code_type) return false;
  out.first_line = load<std::uint32_t>(code, layout.first_line);
  out.qualified_name = load<const void*>(code, layout.qualified_name);
  out.file = load<const void*>(code, layout.file);
  out.line_table = load<const void*>(code, layout.line_table);
  return plausible_pointer(out.qualified_name) && plausible_pointer(out.file) &&
         plausible_pointer(out.line_table);
}

namespace {

std::size_t put_utf8(std::uint32_t point, char* out, std::size_t room) noexcept {
  if (point < 0x80 && room >= 1) {
    out[0] = static_cast<char>(point);
    return 1;
  }
  if (point < 0x800 && room >= 2) {
    out[0] = static_cast<char>(0xc0 | (point >> 6));
    out[1] = static_cast<char>(0x80 | (point & 0x3f));
    return 2;
  }
  if (point < 0x10000 && room >= 3) {
    out[0] = static_cast<char>(0xe0 | (point >> 12));
    out[1] = static_cast<char>(0x80 | ((point >> 6) & 0x3f));
    out[2] = static_cast<char>(0x80 | (point & 0x3f));
    return 3;
  }
  if (point >= 0x10000 && point < 0x110000 && room >= 4) {
    out[0] = static_cast<char>(0xf0 | (point >> 18));
    out[1] = static_cast<char>(0x80 | ((point >> 12) & 0x3f));
    out[2] = static_cast<char>(0x80 | ((point >> 6) & 0x3f));
    out[3] = static_cast<char>(0x80 | (point & 0x3f));
    return 4;
  }
  return 0;
}

}  // namespace

// The state word of a str: how it was interned, then the bytes of a character (kind, three bits),
// then whether it is compact and whether it is ASCII. 3.14 widened the first part to 16 bits.
std::size_t copy_text(const void* text, char* out, std::size_t capacity) noexcept {
  const Layout& layout = *interpreter.layout;
  const auto length = load<std::int64_t>(text, kSizeOffset);
  const auto state_word = load<std::uint32_t>(text, kTextStateOffset);
  const unsigned kind_shift = layout.minor >= 14 ? 16 : 2;
  const std::uint32_t kind = (state_word >> kind_shift) & 7;
  const bool compact = ((state_word >> (kind_shift + 3)) & 1) != 0;
  const bool ascii = ((state_word >> (kind_shift + 4)) & 1) != 0;
  if (length < 0 || !compact || (kind != 1 && kind != 2 && kind != 4)) return 0;
  const auto count = static_cast<std::size_t>(length);
  if (ascii) {
    const std::size_t copied = count < capacity ? count : capacity;
    memcpy(out, static_cast<const char*>(text) + layout.ascii_text, copied);
    return copied;
  }
  std::size_t used = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = layout.other_text + i * kind;
    std::uint32_t point = 0;
    memcpy(&point, static_cast<const char*>(text) + at, kind);
    const std::size_t put = put_utf8(point, out + used, capacity - used);
    if (put == 0) break;
    used += put;
  }
  return used;
}

std::string_view bytes_of(const void* bytes) noexcept {
  constexpr std::int64_t kMaxBytes = 1 << 20;
  const auto length = load<std::int64_t>(bytes, kSizeOffset);
  if (length < 0 || length > kMaxBytes) return {};
  return {static_cast<const char*>(bytes) + kBytesOffset, static_cast<std::size_t>(length)};
}

}  // namespace gpumemtrace::preload::python
