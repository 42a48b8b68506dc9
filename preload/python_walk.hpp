// A thread's walk over its Python frames, with the help of its earlier ones.
//
// Between two events a program does other work, and what a walk reads has left the nearest caches.
// A frame names the next outer one, so to follow the frames is to wait for each in turn. But most
// of them are where they were at the last walk: that one's addresses are read, all at once, and
// each frame's own word says afterwards whether the next one is still there. The program reads
// nothing that this walk was not led to; only the processor runs ahead of the comparisons.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/python_frames.hpp"
#include "preload/python_layout.hpp"

namespace gpumemtrace::preload::python {

inline constexpr std::size_t kMaxLinks = 2 * kMaxFrames;  // the interpreter's own are among them

// What a thread's walks found, outermost frame first. All zeros is a thread that never walked.
//
//   links    |#################|/////////////|          |
//            0               count         known
//
// Behind `count` stand the inner frames of earlier walks, which may come again. A link is compared
// with the frame that it stands for before it is used, and where that says the same as before, its
// code object is not looked at again. A code object that another one replaced at the same address
// would go unseen, so whatever is older than the present round is forgotten.
struct Walk {
  struct Link {
    const void* frame;
    RawFrame raw;
    std::uint64_t hash;  // of this frame and all outside it
  };
  struct Note {
    std::uint32_t version;  // of the code object
    std::uint16_t frames;   // the program's own, from the outermost to this one
    bool is_own;            // the program's, not the interpreter's
    bool is_code;
  };
  struct Fresh {
    const void* frame;
    RawFrame raw;
    bool is_own;
  };
  static constexpr std::size_t kPlaces = 256;

  std::uint32_t round;
  std::uint32_t count;
  std::uint32_t known;
  std::uint32_t summed;           // links whose hash and number of frames are up to date
  std::uint16_t places[kPlaces];  // by a frame's address: its place in `links`; a hint
  Link links[kMaxLinks];
  Note notes[kMaxLinks];   // apart, because most walks need only one of them
  Fresh fresh[kMaxLinks];  // of one walk, innermost first
};

// One walk, with a layout that the compiler knows. Between two events a processor forgets code,
// too: what follows is short, and what happens seldom stands apart.
template <std::size_t kLayoutIndex, class Reader>
class Walker {
 public:
  Walker(const void* code_type, Walk& walk) noexcept : code_type_(code_type), walk_(walk) {}

  // False: memory did not look like frames and code objects.
  bool run(const void* thread_state, std::size_t capacity, std::uint32_t round) noexcept {
    if (walk_.round != round) forget();
    walk_.round = round;
    const void* innermost = nullptr;
    if (!first_frame(reader_, kLayout, thread_state, innermost)) return false;
    if (!follow(innermost, capacity)) return fail();
    if (kept_frames_ + own_ > capacity) [[unlikely]] {
      forget();  // what is known reaches farther out than wanted
      return run(thread_state, capacity, round);
    }
    if (!settle()) return fail();
    if (is_cut_) forget();  // the outermost link leads on
    return true;
  }

 private:
  static constexpr const Layout& kLayout = kLayouts[kLayoutIndex];

  void forget() noexcept { walk_.known = walk_.summed = 0; }
  bool fail() noexcept {
    forget();
    walk_.count = 0;
    return false;
  }

  // Collects new frames, from the innermost one to where earlier walks know the way out.
  bool follow(const void* frame, std::size_t capacity) noexcept {
    fresh_ = kept_ = 0;
    own_ = kept_frames_ = 0;
    while (frame != nullptr && own_ < capacity && fresh_ < kMaxLinks) {
      const std::uint32_t place = walk_.places[slot_of(frame)];
      if (place < walk_.known && place + fresh_ < kMaxLinks && walk_.links[place].frame == frame) {
        bool leads_out = false;
        if (!compare(place, leads_out)) return false;
        if (leads_out) {
          kept_ = place + 1;
          if (walk_.summed < kept_) sum(kept_);
          kept_frames_ = walk_.notes[place].frames;
          is_cut_ = false;
          return true;
        }
        forget();
      }
      Walk::Fresh& found = walk_.fresh[fresh_++];
      found.frame = frame;
      if (!plausible_pointer(frame) ||
          !read_frame(reader_, kLayout, frame, found.raw, found.is_own, frame)) {
        return false;
      }
      if (found.is_own) ++own_;
    }
    is_cut_ = frame != nullptr;
    return true;
  }

  // Reads the frames of this link and all outside it. `leads_out`: they are still one behind the
  // other; what they say may differ, and is known then.
  bool compare(std::uint32_t place, bool& leads_out) noexcept {
    const void* frame = walk_.links[place].frame;
    for (std::uint32_t i = place + 1; i-- > 0;) {
      const void* const known = walk_.links[i].frame;
      const void* const read_from = another_copy(known);
      if (frame != known) return true;
      Walk::Fresh found;
      found.frame = known;
      if (!read_frame(reader_, kLayout, read_from, found.raw, found.is_own, frame)) return false;
      if (!says_the_same(i, found.raw) && !put(i, found)) return false;
    }
    leads_out = frame == nullptr;
    return true;
  }

  bool says_the_same(std::uint32_t place, const RawFrame& raw) const noexcept {
    const RawFrame& known = walk_.links[place].raw;
    return known.code == raw.code && known.instruction == raw.instruction;
  }

  // Frames that were met for the first time become known.
  bool settle() noexcept {
    for (std::uint32_t i = fresh_; i-- > 0;) {
      const std::uint32_t place = kept_ + fresh_ - 1 - i;
      const Walk::Fresh& found = walk_.fresh[i];
      if (place >= walk_.known || !says_the_same(place, found.raw)) {
        if (!put(place, found)) return false;
      }
      walk_.links[place].frame = found.frame;
      walk_.places[slot_of(found.frame)] = static_cast<std::uint16_t>(place);
    }
    walk_.count = kept_ + fresh_;
    if (walk_.summed < walk_.count) sum(walk_.count);
    return true;
  }

  // Looks at the frame's code object. What the code is tells whose the frame is, too: the
  // interpreter's own frames have code that the program's have not.
  [[gnu::noinline]] bool put(std::uint32_t place, const Walk::Fresh& found) noexcept {
    Walk::Note& note = walk_.notes[place];
    Look look = Look::kOther;
    if (found.is_own) {
      look = look_at_code(reader_, kLayout, code_type_, found.raw.code, note.version);
      if (look == Look::kNoMemory) return false;
    }
    note.is_own = found.is_own;
    note.is_code = look == Look::kCode;
    walk_.links[place].raw = found.raw;
    if (walk_.known <= place) walk_.known = place + 1;
    if (walk_.summed > place) walk_.summed = place;
    return true;
  }

  // Brings hashes and numbers of frames up to date, as far as `end`.
  [[gnu::noinline]] void sum(std::uint32_t end) noexcept {
    std::uint64_t hash = 0;
    std::uint16_t frames = 0;
    if (walk_.summed > 0) {
      hash = walk_.links[walk_.summed - 1].hash;
      frames = walk_.notes[walk_.summed - 1].frames;
    }
    for (std::uint32_t i = walk_.summed; i < end; ++i) {
      Walk::Link& link = walk_.links[i];
      Walk::Note& note = walk_.notes[i];
      if (note.is_own) ++frames;
      if (note.is_code) hash = hash_with(hash, frame_of(kLayout, link.raw, note.version));
      link.hash = hash;
      note.frames = frames;
    }
    walk_.summed = end;
  }

  static std::size_t slot_of(const void* frame) noexcept {
    constexpr int kBits = 8;
    static_assert(Walk::kPlaces == std::size_t{1} << kBits);
    return reinterpret_cast<std::uintptr_t>(frame) * 0x9e37'79b9'7f4a'7c15u >> (64 - kBits);
  }

  // The same address, of which the compiler does not know that. Where it has just been compared
  // with another one, it would read through that one, for which the processor has to wait.
  static const void* another_copy(const void* address) noexcept {
    __asm__("" : "+r"(address));
    return address;
  }

  Reader reader_;
  const void* code_type_;
  Walk& walk_;
  std::uint32_t fresh_ = 0;      // frames in `fresh`
  std::uint32_t kept_ = 0;       // links outside them
  std::size_t own_ = 0;          // of the fresh ones, the program's own
  std::size_t kept_frames_ = 0;  // likewise of the kept ones
  bool is_cut_ = false;          // there are frames outside the outermost one
};

}  // namespace gpumemtrace::preload::python
