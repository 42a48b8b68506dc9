// SPDX-License-Identifier: Apache-2.0
// A thread's walk over its Python frames, with the help of the thread's earlier walks.
//
// Between two events a program does other work, and the memory that a walk reads has left the
// nearest caches. Only a frame gives the address of the next outer one, so a simple walk waits for
// each frame in turn. But most frames are at the same addresses as at the last walk. So this walk
// reads those addresses, all at once, and each frame's own pointer shows afterwards whether the
// next frame is still there. The code uses no frame that the pointers did not lead to; only the
// processor reads ahead of the comparisons.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/base/clock.hpp"
#include "preload/python/python_layout.hpp"

namespace gpumemtrace::preload::python {

inline constexpr std::size_t kMaxLinks = 2 * kMaxFrames;  // includes the interpreter's own frames

// The frames that a thread's walks found, outermost first. All zeros: the thread never walked.
//
//   links    |#################|/////////////|          |
//            0               count         known
//
// Behind `count` stand the inner frames of earlier walks, which may come again. A link is compared
// with its frame before it is used, and if the frame is unchanged, its code object is not read
// again. A code object that another one replaced at the same address would go unseen, so everything
// is forgotten after some milliseconds.
struct Walk {
  struct Link {
    const void* frame;
    RawFrame raw;
    std::uint64_t hash;  // hash of this frame and all outside it
  };
  struct Note {
    std::uint32_t version;  // version of the code object
    bool is_own;            // the frame is the program's, not the interpreter's
    bool is_code;
  };
  struct Fresh {
    const void* frame;
    RawFrame raw;
    bool is_own;
  };
  static constexpr std::size_t kIndexes = 64;

  std::uint64_t looked_at;  // ticks() when the oldest of the known links was read
  std::uint32_t count;
  std::uint32_t known;
  std::uint32_t summed;             // number of links whose hash is up to date
  bool is_cut;                      // the stack has frames outside the outermost link
  std::uint16_t indexes[kIndexes];  // hint: a link's index, by a hash of its frame's address
  Link links[kMaxLinks];
  Note notes[kMaxLinks];   // separate from Link, because most walks need only one Note
  Fresh fresh[kMaxLinks];  // new frames of one walk, innermost first

  // Makes the next walk read all code objects again if the oldest known link is too old, or the
  // clock went back.
  void forget_what_is_old(std::uint64_t now) noexcept {
    constexpr std::uint64_t kMostUs = 10'000;
    if (now - looked_at < kMostUs * ticks_per_us) [[likely]]
      return;
    known = summed = 0;
    looked_at = now;
  }
};

// One walk over a thread's frames, with the layout as a compile-time constant. Between two events
// code leaves the processor's caches, too: so the common path is short and in one piece, and rare
// cases are not inlined.
template <std::size_t kLayoutIndex, class Reader>
class Walker {
 public:
  Walker(const void* code_type, Walk& walk) noexcept : code_type_(code_type), walk_(walk) {}

  // Walks the thread's frames. False if memory did not look like frames and code objects.
  [[gnu::always_inline]] bool run(const void* thread_state, std::size_t capacity) noexcept {
    const void* innermost = nullptr;
    if (!first_frame(reader_, kLayout, thread_state, innermost)) return false;
    if (innermost == nullptr) {  // a thread that runs no Python now
      walk_.count = 0;
      return true;
    }
    std::uint32_t index = 0;
    std::uint32_t changed = 0;
    if (!is_known(innermost, index) || index >= capacity || !leads_out(index, changed)) [[unlikely]]
      return follow(innermost, capacity);
    return reread_changed_links(index, changed) ? finish_walk(index + 1) : fail();
  }

 private:
  static constexpr const Layout& kLayout = kLayouts[kLayoutIndex];

  void forget() noexcept { walk_.known = walk_.summed = 0; }
  [[nodiscard]] bool fail() noexcept {
    forget();
    walk_.count = 0;
    walk_.is_cut = false;
    return false;
  }
  [[nodiscard]] bool finish_walk(std::uint32_t count) noexcept {
    walk_.count = count;
    update_hashes();
    return true;
  }

  // True if earlier walks found this frame; `index` is then the index of its link.
  [[nodiscard]] bool is_known(const void* frame, std::uint32_t& index) const noexcept {
    index = walk_.indexes[slot_of(frame)];
    return index < walk_.known && !walk_.is_cut && walk_.links[index].frame == frame;
  }

  // True if the frames of this link and all outside it still follow each other. Their content may
  // differ: `changed` is the outermost link whose frame has changed.
  [[nodiscard]] bool leads_out(std::uint32_t index, std::uint32_t& changed) noexcept {
    const void* frame = walk_.links[index].frame;
    changed = index + 1;
    for (std::uint32_t i = index + 1; i-- > 0;) {
      const Walk::Link& link = walk_.links[i];
      const void* const known = link.frame;
      const void* const read_from = another_copy(known);
      if (frame != known) return false;
      RawFrame raw;
      if (!read_frame(reader_, kLayout, read_from, raw, frame)) return false;
      if (!says_the_same(link, raw)) changed = i;
    }
    return frame == nullptr;
  }

  [[nodiscard]] static bool says_the_same(const Walk::Link& link, const RawFrame& raw) noexcept {
    return link.raw.code == raw.code && link.raw.instruction == raw.instruction;
  }

  // Reads the frames of the links from `changed` to `index` again.
  [[nodiscard]] bool reread_changed_links(std::uint32_t index, std::uint32_t changed) noexcept {
    for (std::uint32_t i = changed; i <= index; ++i) {
      const Walk::Link& link = walk_.links[i];
      RawFrame raw;
      const void* outer = nullptr;
      if (!read_frame(reader_, kLayout, link.frame, raw, outer)) return false;
      if (!says_the_same(link, raw) && !update_link(i, link.frame, raw)) return false;
    }
    return true;
  }

  // Collects new frames, from the innermost one to the first that earlier walks know.
  [[gnu::noinline]] bool follow(const void* innermost, std::size_t capacity) noexcept {
    std::uint32_t kept = 0;
    std::uint32_t fresh = 0;
    if (!collect(innermost, capacity, kept, fresh)) return fail();
    if (kept + fresh > capacity && own_frames(kept, fresh) > capacity) {
      walk_.is_cut = true;  // no known link is used: they lead to more than `capacity` frames
      if (!collect(innermost, capacity, kept, fresh)) return fail();
    }
    for (std::uint32_t i = fresh; i-- > 0;) {
      const std::uint32_t index = kept + fresh - 1 - i;
      const Walk::Fresh& found = walk_.fresh[i];
      if (index >= walk_.known || !says_the_same(walk_.links[index], found.raw)) {
        if (!update_link(index, found.frame, found.raw)) return fail();
      }
      walk_.links[index].frame = found.frame;
      walk_.indexes[slot_of(found.frame)] = static_cast<std::uint16_t>(index);
    }
    walk_.is_cut = is_cut_;
    return finish_walk(kept + fresh);
  }

  [[nodiscard]] bool collect(const void* frame, std::size_t capacity, std::uint32_t& kept,
                             std::uint32_t& fresh) noexcept {
    kept = fresh = 0;
    is_cut_ = false;
    std::size_t own = 0;
    while (frame != nullptr && own < capacity && fresh < kMaxLinks) {
      std::uint32_t index = 0;
      if (is_known(frame, index) && index + fresh < kMaxLinks) {
        std::uint32_t changed = 0;
        if (leads_out(index, changed)) {
          kept = index + 1;
          return reread_changed_links(index, changed);
        }
        forget();
      }
      Walk::Fresh& found = walk_.fresh[fresh++];
      found.frame = frame;
      if (!plausible_pointer(frame) || !read_owner(reader_, kLayout, frame, found.is_own) ||
          !read_frame(reader_, kLayout, frame, found.raw, frame)) {
        return false;
      }
      if (found.is_own) ++own;
    }
    is_cut_ = frame != nullptr;
    return true;
  }

  // The number of the program's own frames among the `kept` known and the `fresh` new ones.
  std::size_t own_frames(std::uint32_t kept, std::uint32_t fresh) const noexcept {
    std::size_t count = 0;
    for (std::uint32_t i = 0; i < kept; ++i) count += walk_.notes[i].is_own ? 1 : 0;
    for (std::uint32_t i = 0; i < fresh; ++i) count += walk_.fresh[i].is_own ? 1 : 0;
    return count;
  }

  // Puts the frame's present content into the link at `index`. Its code object also shows whether
  // the frame is the program's: the interpreter's own frames have code of their own.
  [[nodiscard]] bool update_link(std::uint32_t index, const void* frame,
                                 const RawFrame& raw) noexcept {
    Walk::Note& note = walk_.notes[index];
    if (walk_.summed > index) walk_.summed = index;
    if (index < walk_.known && note.is_code && walk_.links[index].raw.code == raw.code) {
      std::uint32_t version = 0;
      if (!read_version(reader_, kLayout, raw.code, version)) return false;
      if (version == note.version) {  // the same code, at another instruction
        walk_.links[index].raw = raw;
        return true;
      }
    }
    Look look = Look::kOther;
    if (!read_owner(reader_, kLayout, frame, note.is_own)) return false;
    if (note.is_own) {
      look = look_at_code(reader_, kLayout, code_type_, raw.code, note.version);
      if (look == Look::kNoMemory) return false;
    }
    note.is_code = look == Look::kCode;
    walk_.links[index].raw = raw;
    if (walk_.known <= index) walk_.known = index + 1;
    return true;
  }

  // Brings the hashes of this walk up to date.
  void update_hashes() noexcept {
    if (walk_.summed >= walk_.count) return;
    std::uint64_t hash = walk_.summed == 0 ? 0 : walk_.links[walk_.summed - 1].hash;
    for (std::uint32_t i = walk_.summed; i < walk_.count; ++i) {
      Walk::Link& link = walk_.links[i];
      const Walk::Note& note = walk_.notes[i];
      if (note.is_code) hash = hash_with(hash, frame_of(kLayout, link.raw, note.version));
      link.hash = hash;
    }
    walk_.summed = walk_.count;
  }

  static std::size_t slot_of(const void* frame) noexcept {
    constexpr int kBits = 6;
    static_assert(Walk::kIndexes == std::size_t{1} << kBits);
    return reinterpret_cast<std::uintptr_t>(frame) * 0x9e37'79b9'7f4a'7c15u >> (64 - kBits);
  }

  // Returns the same address, but hides that from the compiler. After a comparison with another
  // address, the compiler might read through that other one, for which the processor has to wait.
  static const void* another_copy(const void* address) noexcept {
    __asm__("" : "+r"(address));
    return address;
  }

  Reader reader_;
  const void* code_type_;
  Walk& walk_;
  bool is_cut_ = false;  // there are frames outside the outermost frame that was read
};

}  // namespace gpumemtrace::preload::python
