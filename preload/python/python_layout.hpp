// SPDX-License-Identifier: Apache-2.0
// The layout of an interpreter's memory, and the types of its contents that the files of this
// folder share.
#pragma once

#include <string.h>

#include <cstddef>
#include <cstdint>

#include "preload/base/checked_memory.hpp"
#include "preload/base/key_table.hpp"
#include "preload/python/reading_log.hpp"

namespace gpumemtrace::preload::python {

inline constexpr std::size_t kMaxFrames = 200;  // as many as fit into one record

struct Frame {
  const void* code;
  std::uint32_t instruction;  // byte offset of the instruction in the code
  std::uint32_t version;      // the code object's version: another may reuse its address

  friend bool operator==(const Frame&, const Frame&) = default;
};

// The content of a frame, without its code object.
struct RawFrame {
  const void* code;
  std::uint64_t instruction;  // address or index of the instruction in the code
};

// Offsets of the state of an interpreter's cycle collector, in bytes.
struct Collector {
  std::size_t collecting = 0;  // in the interpreter: the flag, an int; 0 = not known
  // The lock of the interpreter (the GIL): offset in the runtime, or, from 3.12 on, offset in the
  // interpreter of a pointer to it.
  std::size_t lock = 0;
};

// Adds one frame to the hash of a stack. The outermost frame is added first.
inline std::uint64_t hash_with(std::uint64_t hash, const Frame& frame) noexcept {
  const std::uint64_t instruction = std::uint64_t{frame.version} << 32 | frame.instruction;
  return mix(mix(hash, reinterpret_cast<std::uintptr_t>(frame.code)), instruction);
}

// A key that differs between code objects, also between those that reuse an address. Address and
// version are mixed one after the other: combined into one word first, different pairs could give
// the same key.
inline std::uint64_t key_of_code(const Frame& frame) noexcept {
  return mix(mix(0, reinterpret_cast<std::uintptr_t>(frame.code)), frame.version);
}

// The layout of CPython's structures in memory, and functions that read them: shared by the walks
// of the calling thread's frames and of other threads' frames.

// Offsets in the structures of one minor version, in bytes, on 64-bit Linux. Measured by compiling
// against the headers of 3.9.18, 3.10.13, 3.11.7, 3.12.1 and 3.13.0; those of 3.14 are from its own
// table of offsets (_Py_DebugOffsets), which every interpreter has from 3.13 on. Tried with
// 3.14.10.
struct Layout {
  std::uint8_t minor;
  std::uint16_t first_frame;         // in the thread state: the frame, or what points to it
  std::int16_t frame_behind;         // >= 0: one more pointer to follow, at this offset
  std::uint16_t previous;            // in the frame: pointer to the next outer frame
  std::uint16_t code;                // in the frame: reference to its code object
  std::uint16_t instruction;         // in the frame: its present instruction
  std::int16_t owner;                // in the frame: number of the owner's kind; -1 = no such field
  std::uint8_t first_foreign_owner;  // frames whose owner is >= this are the interpreter's own
  bool instruction_is_index;         // the instruction is an int, else a pointer into the code
  std::uint8_t index_scale;
  std::uint16_t first_line;  // in the code object: number of its first line
  std::uint16_t file;
  std::uint16_t qualified_name;
  std::uint16_t line_table;
  std::uint16_t first_instruction;  // in the code object: base of the instruction pointer
  std::int16_t code_version;        // in the code object: its version; -1 = none
  std::uint16_t ascii_text;         // in a str object: its characters, if they are ASCII
  std::uint16_t other_text;         // in a str object: its characters, if they are not ASCII
  std::uint16_t thread_list;        // in the interpreter: first thread state; 0 = see its own table
  std::uint16_t thread_id;          // in the thread state: kernel's id from 3.11 on, else pthread_t
};

inline constexpr Layout kLayouts[] = {
    {9, 24, -1, 24, 32, 104, -1, 255, true, 1, 40, 104, 112, 120, 0, -1, 48, 72, 8, 176},
    {10, 24, -1, 24, 32, 96, -1, 255, true, 2, 40, 104, 112, 120, 0, -1, 48, 72, 8, 176},
    {11, 56, 8, 48, 32, 56, 69, 255, false, 1, 72, 112, 128, 136, 184, -1, 48, 72, 16, 160},
    {12, 56, 0, 8, 0, 56, 70, 3, false, 1, 68, 112, 128, 136, 192, 92, 40, 56, 72, 144},
    {13, 72, -1, 8, 0, 56, 70, 3, false, 1, 68, 112, 128, 136, 200, 92, 40, 56, 0, 160},
    {14, 72, -1, 8, 0, 56, 74, 3, false, 1, 68, 112, 128, 136, 208, 92, 40, 56, 0, 160},
};

inline constexpr std::uint64_t kTagBits = 3;  // from 3.14 on, tags in a frame's code reference
inline constexpr std::uint16_t kTypeOffset = 8;
inline constexpr std::uint16_t kSizeOffset = 16;
inline constexpr std::uint16_t kTextStateOffset = 32;
inline constexpr std::uint16_t kBytesOffset = 32;
inline constexpr std::uint16_t kNextThread = 8;  // in the thread state: the next thread state

template <class Value>
Value load(const void* base, std::size_t offset) noexcept {
  Value value;
  memcpy(&value, static_cast<const char*>(base) + offset, sizeof value);
  return value;
}

// Two ways to read memory: directly, and through the kernel (Checked) while the offsets are not yet
// trusted or if the memory may go away. Checked reads the start of a structure as a whole, in one
// system call.
struct Straight {
  template <class Value>
  [[nodiscard]] bool read(const void* base, std::size_t offset, Value& out) noexcept {
    out = load<Value>(base, offset);
    return true;
  }
};
class Checked {
 public:
  Checked() noexcept = default;
  // Notes in `log` all bytes that read() returns.
  explicit Checked(ReadingLog& log) noexcept : log_(&log) {}

  template <class Value>
  [[nodiscard]] bool read(const void* base, std::size_t offset, Value& out) noexcept {
    const Block* block = block_at(base);
    if (block != nullptr && offset + sizeof out <= sizeof block->content) {
      memcpy(&out, block->content + offset, sizeof out);
      if (log_ != nullptr) log_->note(static_cast<const char*>(base) + offset, &out, sizeof out);
      return true;
    }
    return read_noted(log_, static_cast<const char*>(base) + offset, &out, sizeof out);
  }

 private:
  struct Block {
    const void* base = nullptr;
    char content[112] = {};
  };

  // The block at `base`; nullptr if fewer bytes than a block can be read.
  const Block* block_at(const void* base) noexcept {
    for (const Block& block : blocks_) {
      if (block.base == base) return &block;
    }
    Block& block = blocks_[next_];
    next_ = 1 - next_;
    block.base = nullptr;
    if (!read_through_kernel(base, block.content, sizeof block.content)) return nullptr;
    block.base = base;
    return &block;
  }

  Block blocks_[2];  // the last two blocks read: mostly a frame's and its code object's
  std::size_t next_ = 0;
  ReadingLog* log_ = nullptr;
};

// The parts of a str's state word: how it was interned (two bits), the bytes of a character (kind,
// three bits), whether it is compact, and whether it is ASCII. While 3.14 was developed the first
// part had 16 bits (python/cpython pull request 128196); 3.14.10 has two again. As no kind is 0,
// the word shows which form it has.
struct TextForm {
  std::uint32_t kind;
  bool compact;
  bool ascii;
};
inline TextForm text_form(const Layout& layout, std::uint32_t state) noexcept {
  const unsigned kind_shift = layout.minor >= 14 && (state >> 2 & 7) == 0 ? 16 : 2;
  return {(state >> kind_shift) & 7, ((state >> (kind_shift + 3)) & 1) != 0,
          ((state >> (kind_shift + 4)) & 1) != 0};
}

[[nodiscard]] inline bool plausible_pointer(const void* pointer) noexcept {
  return pointer != nullptr && (reinterpret_cast<std::uintptr_t>(pointer) & 7) == 0;
}

// Finds the innermost frame of a thread, nullptr if the thread has none. False if memory cannot be
// read.
template <class Reader>
[[nodiscard, gnu::always_inline]] inline bool first_frame(Reader& reader, const Layout& layout,
                                                          const void* thread_state,
                                                          const void*& frame) noexcept {
  if (!reader.read(thread_state, layout.first_frame, frame)) return false;
  return layout.frame_behind < 0 || frame == nullptr ||
         reader.read(frame, static_cast<std::size_t>(layout.frame_behind), frame);
}

// Reads a frame, and the pointer to the next outer one.
template <class Reader>
[[nodiscard, gnu::always_inline]] inline bool read_frame(Reader& reader, const Layout& layout,
                                                         const void* frame, RawFrame& out,
                                                         const void*& previous) noexcept {
  std::uint64_t reference = 0;
  if (!reader.read(frame, layout.code, reference) ||
      !reader.read(frame, layout.previous, previous)) {
    return false;
  }
  if (layout.minor >= 14) reference &= ~kTagBits;
  out.code = reinterpret_cast<const void*>(reference);
  if (!layout.instruction_is_index) {
    return reader.read(frame, layout.instruction, out.instruction);
  }
  std::int32_t index = -1;
  if (!reader.read(frame, layout.instruction, index)) return false;
  out.instruction = index < 0 ? 0 : static_cast<std::uint64_t>(index);
  return true;
}

// Reads whether a frame runs code of the program (`is_own`) or is the interpreter's own.
template <class Reader>
[[nodiscard, gnu::always_inline]] inline bool read_owner(Reader& reader, const Layout& layout,
                                                         const void* frame, bool& is_own) noexcept {
  std::uint8_t owner = 0;
  if (layout.owner >= 0 && !reader.read(frame, static_cast<std::size_t>(layout.owner), owner)) {
    return false;
  }
  is_own = owner < layout.first_foreign_owner;
  return true;
}

// Reads frames, innermost first; returns their number, or -1 if memory did not look like frames.
template <class Reader>
std::ptrdiff_t walk(Reader& reader, const Layout& layout, const void* thread_state, RawFrame* out,
                    std::size_t capacity) noexcept {
  const void* frame = nullptr;
  if (!first_frame(reader, layout, thread_state, frame)) return -1;
  std::size_t count = 0;
  for (std::size_t steps = 0; frame != nullptr && count < capacity && steps < 4 * kMaxFrames;
       ++steps) {
    RawFrame found;
    bool is_own = false;
    if (!plausible_pointer(frame) || !read_owner(reader, layout, frame, is_own) ||
        !read_frame(reader, layout, frame, found, frame)) {
      return -1;
    }
    if (is_own) out[count++] = found;
  }
  return static_cast<std::ptrdiff_t>(count);
}

enum class Look : std::uint8_t { kCode, kOther, kNoMemory };

// Reads a version that distinguishes a code object from an earlier one at its address. Interpreters
// before 3.12 give code objects no version; the first line and the addresses of file name and line
// table stand for it. Only if all three are the same, the object is taken for the earlier one.
template <class Reader>
[[nodiscard, gnu::always_inline]] inline bool read_version(Reader& reader, const Layout& layout,
                                                           const void* code,
                                                           std::uint32_t& version) noexcept {
  if (layout.code_version >= 0) {
    return reader.read(code, static_cast<std::size_t>(layout.code_version), version);
  }
  std::uint64_t file = 0;
  std::uint64_t line_table = 0;
  if (!reader.read(code, layout.first_line, version) || !reader.read(code, layout.file, file) ||
      !reader.read(code, layout.line_table, line_table)) {
    return false;
  }
  version = static_cast<std::uint32_t>(mix(mix(version, file), line_table));
  return true;
}

// Checks whether `code` points to a code object, and reads the object's version.
template <class Reader>
[[gnu::always_inline]] inline Look look_at_code(Reader& reader, const Layout& layout,
                                                const void* code_type, const void* code,
                                                std::uint32_t& version) noexcept {
  const void* type = nullptr;
  if (!plausible_pointer(code) || !reader.read(code, kTypeOffset, type)) return Look::kNoMemory;
  // From 3.13 on a frame may hold something else than a code object.
  if (type != code_type) return layout.minor < 13 ? Look::kNoMemory : Look::kOther;
  return read_version(reader, layout, code, version) ? Look::kCode : Look::kNoMemory;
}

inline Frame frame_of(const Layout& layout, const RawFrame& raw, std::uint32_t version) noexcept {
  std::uint64_t offset = raw.instruction * layout.index_scale;
  if (!layout.instruction_is_index) {
    offset =
        raw.instruction - (reinterpret_cast<std::uintptr_t>(raw.code) + layout.first_instruction);
  }
  return {raw.code, offset < (1u << 30) ? static_cast<std::uint32_t>(offset) : 0, version};
}

}  // namespace gpumemtrace::preload::python
