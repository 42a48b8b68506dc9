// SPDX-License-Identifier: Apache-2.0
// A walk of Python's stack that remembers the last walk finds the same frames as a walk without
// memory. The frames lie in memory as those of the interpreter do.

#include "preload/python/python_walk.hpp"

#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "tests/catch.hpp"

namespace gpumemtrace::preload::python::python_walk_test {

namespace {

constexpr std::size_t kCodes = 12;
constexpr std::size_t kDeepest = 90;

// A simulated thread of an interpreter. Each depth has two places for frames, so that a frame may
// come to where another one was, as on the interpreter's stack.
template <std::size_t kLayoutIndex>
class Thread {
 public:
  Thread() {
    for (std::size_t i = 0; i < kCodes; ++i) {
      const void* type = &code_type_;
      put(codes_[i], kTypeOffset, type);
      put_version(i, static_cast<std::uint32_t>(i));
    }
  }

  void call(std::mt19937& random) {
    if (depth_ == kDeepest) return;
    const void* previous = innermost();
    const std::size_t kind = random() % 2;
    frames_in_use_[depth_++] = kind;
    Bytes& frame = frame_at(depth_ - 1);
    const bool foreign = kLayout.first_foreign_owner != 255 && random() % 4 == 0;
    const void* code = foreign ? foreign_code_.data() : codes_[random() % kCodes].data();
    put(frame, kLayout.code, code);
    put(frame, kLayout.previous, previous);
    if (kLayout.owner >= 0) {
      const std::uint8_t owner = foreign ? kLayout.first_foreign_owner : 0;
      put(frame, static_cast<std::size_t>(kLayout.owner), owner);
    }
    go_on(random);
  }
  void leave() {
    if (depth_ > 0) --depth_;
  }
  // The innermost frame goes on to another instruction.
  void go_on(std::mt19937& random) {
    if (depth_ == 0) return;
    Bytes& frame = frame_at(depth_ - 1);
    const auto index = static_cast<std::int32_t>(random() % 5);
    if (kLayout.instruction_is_index) {
      put(frame, kLayout.instruction, index);
    } else {
      const char* code = nullptr;
      std::memcpy(&code, frame.data() + kLayout.code, sizeof code);
      const auto instruction = reinterpret_cast<std::uintptr_t>(code) + kLayout.first_instruction +
                               static_cast<std::size_t>(index);
      put(frame, kLayout.instruction, instruction);
    }
  }
  void put_version(std::size_t code, std::uint32_t version) {
    const std::size_t offset = kLayout.code_version >= 0
                                   ? static_cast<std::size_t>(kLayout.code_version)
                                   : kLayout.first_line;
    put(codes_[code], offset, version);
  }

  bool walk(Walk& walk, std::size_t capacity, std::uint64_t now) {
    const void* frame = innermost();
    put(indirection_, static_cast<std::size_t>(kLayout.frame_behind < 0 ? 0 : kLayout.frame_behind),
        frame);
    const void* first = kLayout.frame_behind < 0 ? frame : indirection_.data();
    put(state_, kLayout.first_frame, first);
    walk.forget_what_is_old(now);
    return Walker<kLayoutIndex, Straight>(&code_type_, walk).run(state_.data(), capacity);
  }

 private:
  static constexpr const Layout& kLayout = kLayouts[kLayoutIndex];
  using Bytes = std::array<char, 256>;

  template <class Value>
  static void put(Bytes& object, std::size_t offset, const Value& value) {
    std::memcpy(object.data() + offset, &value, sizeof value);
  }
  Bytes& frame_at(std::size_t depth) { return frames_[depth * 2 + frames_in_use_[depth]]; }
  const void* innermost() { return depth_ == 0 ? nullptr : frame_at(depth_ - 1).data(); }

  alignas(8) Bytes state_{};
  alignas(8) Bytes indirection_{};
  alignas(8) Bytes foreign_code_{};
  alignas(8) std::array<Bytes, kCodes> codes_{};
  alignas(8) std::array<Bytes, 2 * kDeepest> frames_{};
  std::array<std::size_t, kDeepest> frames_in_use_{};
  std::size_t depth_ = 0;
  int code_type_ = 0;
};

// The recorded Python frames of a stack, innermost first. Frames of the interpreter itself are left
// out, because walks differ in how many of them they read after the last Python frame.
std::vector<std::array<std::uint64_t, 3>> stack_of(const Walk& walk) {
  std::vector<std::array<std::uint64_t, 3>> stack;
  for (std::size_t i = walk.count; i-- > 0;) {
    if (!walk.notes[i].is_code) continue;
    const RawFrame& raw = walk.links[i].raw;
    stack.push_back(
        {reinterpret_cast<std::uintptr_t>(raw.code), raw.instruction, walk.notes[i].version});
  }
  return stack;
}
std::uint64_t hash_of(const Walk& walk) {
  return walk.count == 0 ? 0 : walk.links[walk.count - 1].hash;
}

template <std::size_t kLayoutIndex>
void check_random_program() {
  std::mt19937 random(static_cast<unsigned>(kLayoutIndex) + 3);
  const auto thread = std::make_unique<Thread<kLayoutIndex>>();
  const auto remembering = std::make_unique<Walk>();
  std::uint64_t now = 0;
  constexpr std::uint64_t kWhile = 1'000, kLong = 100'000'000;  // in ticks
  int kept = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t steps = random() % 6;
    for (std::size_t step = 0; step < steps; ++step) {
      switch (random() % 5) {
        case 0:
        case 1:
          thread->call(random);
          break;
        case 2:
        case 3:
          thread->leave();
          break;
        default:
          thread->go_on(random);
      }
    }
    if (random() % 400 == 0) {  // a new code object gets an old one's address; walks notice it late
      thread->put_version(random() % kCodes, static_cast<std::uint32_t>(random()));
      now += kLong;
    }
    const std::size_t capacity = random() % 100 == 0 ? random() % 40 : 64;
    const auto fresh = std::make_unique<Walk>();
    now += kWhile;
    const std::uint32_t known = remembering->known;
    REQUIRE(thread->walk(*remembering, capacity, now));
    if (known > 0 && remembering->looked_at != now) ++kept;
    REQUIRE(thread->walk(*fresh, capacity, now));
    REQUIRE(stack_of(*remembering) == stack_of(*fresh));
    REQUIRE(hash_of(*remembering) == hash_of(*fresh));
  }
  CHECK(kept > 10'000);
}

}  // namespace

TEST_CASE("a Python walk that remembers finds what one that does not remember finds", "[unit]") {
  check_random_program<0>();
  check_random_program<2>();
  check_random_program<3>();
  check_random_program<4>();
  check_random_program<5>();
}

TEST_CASE("text is what every version says of it", "[unit]") {
  constexpr std::uint32_t kCompactAscii = 0b11'001;  // a string with one byte a character
  constexpr std::uint32_t kInterned = 2;
  for (const Layout& layout : kLayouts) {
    const TextForm form = text_form(layout, kCompactAscii << 2 | kInterned);
    INFO("3." << int{layout.minor});
    CHECK(form.kind == 1);
    CHECK(form.compact);
    CHECK(form.ascii);
  }
  const TextForm wide = text_form(kLayouts[5], 0b01'010u << 16 | kInterned);
  CHECK(wide.kind == 2);
  CHECK(wide.compact);
  CHECK_FALSE(wide.ascii);
}

TEST_CASE("code objects whose addresses and versions differ alike are not taken for each other",
          "[unit]") {
  constexpr std::uintptr_t kAddress = 0x7f0012345670;
  constexpr std::uint32_t kVersion = 0xcafe0010;
  const auto key = [](std::uintptr_t address, std::uint32_t version) {
    return key_of_code({reinterpret_cast<const void*>(address), 0, version});
  };
  for (const std::uint32_t difference : {0x10u, 0x1230u, 0x45670u, 0x8000'0000u}) {
    CHECK(key(kAddress, kVersion) != key(kAddress ^ difference, kVersion ^ difference));
    CHECK(key(kAddress, kVersion) != key(kAddress + difference, kVersion - difference));
    CHECK(key(kAddress, kVersion) != key(kAddress, kVersion + difference));
  }
}

}  // namespace gpumemtrace::preload::python::python_walk_test
