// SPDX-License-Identifier: Apache-2.0
#include "preload/native/native_frames.hpp"

#include <string.h>

#include "preload/base/key_table.hpp"
#include "preload/native/stack_memory.hpp"
#include "preload/native/unwind_cache.hpp"

#if defined(__x86_64__)
#include "preload/native/frame_registers.hpp"
#endif

namespace gpumemtrace::preload::native {
namespace {

constexpr std::uint64_t kWord = 8;
constexpr std::uint64_t kFirstCode = 65536;  // no code is mapped below this address
#if defined(__x86_64__)
constexpr std::uint64_t kEndOfUserAddresses = std::uint64_t{1} << 47;
#else
constexpr std::uint64_t kEndOfUserAddresses = std::uint64_t{1} << 48;
#endif

std::uint64_t load(std::uint64_t address) noexcept {
  std::uint64_t value;
  memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
  return value;
}

#if defined(__x86_64__)

constinit RuleCache table;
constinit SerialOf serial_of_module = nullptr;

// True if the bytes before the address are a call instruction: e8 and a displacement, or ff /2
// with its operand (Intel SDM volume 2, CALL).
bool follows_a_call(std::uint64_t address) noexcept {
  constexpr std::uint64_t kLongestCall = 7;
  std::uint8_t code[kLongestCall] = {};
  std::uint64_t bytes = kLongestCall;  // fewer if the first of them are not readable
  while (bytes > 1 && !is_readable(address - bytes, bytes)) --bytes;
  if (bytes == 1) return false;
  memcpy(code + kLongestCall - bytes, reinterpret_cast<const void*>(address - bytes), bytes);
  if (code[2] == 0xe8) return true;
  constexpr std::size_t kIndirect[] = {0, 1, 3, 4, 5};  // possible indexes of the ff byte in `code`
  for (const std::size_t at : kIndirect) {
    if (code[at] == 0xff && (code[at + 1] >> 3 & 7) == 2) return true;
  }
  return false;
}

// Converts unwind rules to a rule of kind kPlain; false if they are too general for that.
bool shorten(const FrameRules& rules, CachedRule& out) noexcept {
  const RegisterRule& rbp = rules.registers[kRbp];
  const RegisterRule& return_address = rules.registers[kReturnAddress];
  const bool by_rbp = rules.frame_register == kRbp;
  const std::int64_t offset = rules.frame_offset;
  const auto fits = [](std::int64_t bytes) noexcept {
    return bytes > 0 && bytes % 8 == 0 && bytes <= std::int64_t{kMaxCachedBytes};
  };
  if (rules.signal_frame || rules.frame_is_expression || !fits(offset) ||
      (!by_rbp && rules.frame_register != kRsp) || rules.registers[kRsp].kind != RuleKind::kSame ||
      return_address.kind != RuleKind::kOffset || return_address.value != -8 ||
      (rbp.kind != RuleKind::kSame && (rbp.kind != RuleKind::kOffset || !fits(-rbp.value)))) {
    return false;
  }
  out.kind = CachedKind::kPlain;
  out.by_rbp = by_rbp;
  out.frame_offset = static_cast<std::uint32_t>(offset);
  out.rbp_distance = rbp.kind == RuleKind::kSame ? 0 : static_cast<std::uint32_t>(-rbp.value);
  return true;
}

// The rule of functions that begin with `push rbp; mov rbp, rsp`, assumed for code without tables.
constexpr CachedRule frame_pointer_rule() noexcept {
  CachedRule rule;
  rule.kind = CachedKind::kPlain;
  rule.by_rbp = true;
  rule.guessed = true;
  rule.frame_offset = 16;
  rule.rbp_distance = 16;
  return rule;
}

bool find_rules(std::uint64_t address, FrameRules& rules) noexcept {
  LoadedModule module;
  return find_module(address, module) && find_rules(module.unwind, address, rules);
}

// The packed rule to cache for an address in a loaded file; 0 if the address lies in no file.
[[gnu::noinline]] std::uint64_t compute_packed_rule(std::uint64_t address) noexcept {
  LoadedModule module;
  if (!find_module(address, module)) return 0;
  CachedRule rule = frame_pointer_rule();
  FrameRules rules;
  if (find_rules(module.unwind, address, rules)) {
    rule = CachedRule{};
    if (rules.registers[kReturnAddress].kind == RuleKind::kUndefined) {
      rule.kind = CachedKind::kOutermost;
    } else if (!shorten(rules, rule)) {
      rule.kind = CachedKind::kGeneral;
    }
  }
  rule.module_serial = serial_of_module(module);
  return pack(rule);
}

std::uint64_t load_place(std::uint64_t begin, std::uint16_t place) noexcept {
  return load(begin + place * kWord);
}

// Hashes the words that now are at a remembered walk's places on the stack. All addresses come from
// the remembered walk, none from the words just read: the processor need not wait for one word
// before it reads the next. For the same reason there are four independent sums.
[[gnu::always_inline]] inline std::uint64_t hash_words(const RememberedWalk& walk,
                                                       const Caller& caller) noexcept {
  constexpr std::size_t kSums = 4;
  // Odd, so a change of one word always changes its sum.
  constexpr std::uint64_t kFactor = 0xff51'afd7'ed55'8ccdu;
  const std::uint64_t begin = caller.stack_pointer;
  const std::size_t count = walk.return_addresses;
  std::uint64_t sums[kSums] = {caller.return_address, 1, 2, 3};
  std::size_t i = 0;
  for (; i + kSums <= count; i += kSums) {
#pragma GCC unroll 4
    for (std::size_t sum = 0; sum < kSums; ++sum) {
      sums[sum] = (sums[sum] + load_place(begin, walk.places[i + sum])) * kFactor;
    }
  }
  for (; i < count; ++i) sums[0] = (sums[0] + load_place(begin, walk.places[i])) * kFactor;
  // A saved rbp points into the stack, so its distance from the walk's begin is hashed.
  for (; i < count + walk.rbps; ++i) {
    const std::uint16_t place = walk.places[i];
    const std::uint64_t rbp =
        place == RememberedWalk::kInRegister ? caller.frame_pointer : load_place(begin, place);
    sums[1] = (sums[1] + (rbp - begin)) * kFactor;
  }
  return mix(mix(sums[0], sums[1]), mix(sums[2], sums[3]));
}

// True if the calling thread's stack has the same frames as this remembered walk.
[[gnu::hot]] bool stack_matches_walk(const RememberedWalk& walk, const Caller& caller,
                                     std::size_t capacity) noexcept {
  if (walk.capacity != capacity || walk.generation != unload_count()) return false;
  if (const std::size_t count = walk.return_addresses; count > 0) {
    const std::uint64_t end = (walk.places[count - 1] + std::uint64_t{1}) * kWord;
    if (caller.stack_pointer + end > own_stack.high) return false;
  }
  return hash_words(walk, caller) == walk.hash_of_words;
}

// One walk of the stack, which knows the registers rsp and rbp only. If a frame's rules need
// another register, read_with_all_registers() makes a second walk, which follows all registers by
// the general rules, from its own frame on; it calls walk_frames(&all).
class Walker {
 public:
  Walker(const Caller& caller, std::uint64_t* out, std::size_t capacity) noexcept
      : memory_(caller.stack_pointer),
        caller_(caller),
        begin_(caller.stack_pointer),
        return_address_(caller.return_address),
        stack_pointer_(caller.stack_pointer),
        frame_pointer_(caller.frame_pointer),
        out_(out),
        capacity_(capacity),
        walk_{out, 0, 0, false} {}

  // Walks with rsp and rbp only, and remembers the walk in the thread's `memory`. False if a
  // frame's rules need another register.
  bool walk_and_remember(UnwindCache& memory) noexcept {
    RememberedWalk fresh;
    std::uint16_t rbp_places[RememberedWalk::kMaxPlaces];
    fresh.capacity = static_cast<std::uint16_t>(capacity_);
    fresh.generation = generation_;
    fresh.return_addresses = fresh.rbps = 0;
    if (keeps_rules_) fresh_ = &fresh;
    rbp_places_ = rbp_places;
    const bool done = walk_frames(nullptr);
    if (fresh_ != nullptr) {
      memcpy(fresh.places + fresh.return_addresses, rbp_places, fresh.rbps * sizeof rbp_places[0]);
      fresh.hash = walk_.hash;
      fresh.hash_of_words = hash_words(fresh, caller_);
      memory.remember_new_walk(begin_, fresh);
    }
    return done;
  }

  // Walks to the outermost frame, or until `capacity_` frames are found. `all` holds all registers
  // of the first frame, or is nullptr; then false means that a frame's rules need more than rsp and
  // rbp.
  bool walk_frames(Registers* all) noexcept {
    bool suspicious = false;  // the last step followed a guessed frame pointer
    while (return_address_ < kEndOfUserAddresses) {
      const std::uint64_t address = return_address_ - 1;
      std::uint64_t packed = keeps_rules_ ? table.find(address, generation_) : 0;
      if (packed == 0) [[unlikely]] {
        if (return_address_ < kFirstCode) return true;
        if (suspicious && !follows_a_call(return_address_)) return true;
        packed = compute_packed_rule(address);
        if (packed != 0 && keeps_rules_) table.insert(address, generation_, packed);
        if (packed == 0) {  // the code lies in no loaded file
          if (!follows_a_call(return_address_)) return stop();
          packed = pack(frame_pointer_rule());
        }
      }
      const CachedRule rule = unpack(packed);
      if (walk_.count == capacity_) {
        walk_.cut = true;
        return true;
      }
      const std::uint64_t hash =
          mix(walk_.hash, return_address_ + (std::uint64_t{rule.module_serial} << 48));
      if (fresh_ != nullptr) remember(rule);
      out_[walk_.count++] = return_address_;
      walk_.hash = hash;
      if (rule.kind == CachedKind::kPlain && all == nullptr) [[likely]] {
        if (!step_short(rule)) return stop();
      } else {
        const Step outcome = step_general(rule, address, all);
        if (outcome != Step::kDone) return outcome != Step::kRegisterNotKnown || all != nullptr;
      }
      suspicious = rule.guessed;
    }
    return true;
  }

  // Follows the frames from `all`, the registers of an inner frame, up to the caller that the walk
  // begins at. False if the frames do not lead there.
  bool climb_to_caller(Registers& all) noexcept {
    constexpr std::size_t kMostOwnFrames = 16;
    StackMemory memory(all.values[kRsp]);
    for (std::size_t i = 0; i < kMostOwnFrames && all.values[kRsp] < stack_pointer_; ++i) {
      FrameRules rules;
      if (!find_rules(all.values[kReturnAddress] - 1, rules)) return false;
      if (step(rules, all, memory) != Step::kDone) return false;
    }
    return all.values[kRsp] == stack_pointer_ && all.values[kReturnAddress] == return_address_;
  }

  const Walk& walk() const noexcept { return walk_; }

 private:
  // Ends the walk and does not remember it: the words on the stack alone do not show why it ends.
  bool stop() noexcept {
    fresh_ = nullptr;
    return true;
  }

  // Notes which words on the stack the step from this frame to its caller reads. If these cannot be
  // noted, the walk is not remembered.
  void remember(const CachedRule& rule) noexcept {
    if (rule.kind == CachedKind::kOutermost) return;
    const std::uint64_t frame = (rule.by_rbp ? frame_pointer_ : stack_pointer_) + rule.frame_offset;
    const std::uint64_t place = (frame - begin_) / kWord;
    // 2: this frame adds a return address and at most one rbp.
    const std::size_t used = std::size_t{fresh_->return_addresses} + fresh_->rbps + 2;
    if (rule.kind != CachedKind::kPlain || rule.guessed || used > RememberedWalk::kMaxPlaces ||
        frame <= stack_pointer_ || frame % kWord != 0 || place >= RememberedWalk::kInRegister ||
        frame - rule.rbp_distance < stack_pointer_) {
      fresh_ = nullptr;
      return;
    }
    fresh_->places[fresh_->return_addresses++] = static_cast<std::uint16_t>(place - 1);
    if (rule.by_rbp) rbp_places_[fresh_->rbps++] = rbp_place_;
    if (rule.rbp_distance != 0) {
      rbp_place_ = static_cast<std::uint16_t>(place - rule.rbp_distance / kWord);
    }
  }

  // Steps to the caller by a rule of kind kPlain. False if this does not lead up the readable
  // stack.
  bool step_short(const CachedRule& rule) noexcept {
    const std::uint64_t frame = (rule.by_rbp ? frame_pointer_ : stack_pointer_) + rule.frame_offset;
    if (frame <= stack_pointer_ || frame % kWord != 0 || !memory_.reaches(frame)) return false;
    return_address_ = load(frame - kWord);
    if (rule.rbp_distance != 0) {
      const std::uint64_t saved = frame - rule.rbp_distance;
      if (saved >= stack_pointer_) [[likely]] {
        frame_pointer_ = load(saved);
      } else if (!memory_.read(saved, frame_pointer_)) {  // a signal came just after `pop rbp`
        return false;
      }
    }
    stack_pointer_ = frame;
    return true;
  }

  // Steps to the caller by the module's unwind tables, with all registers if `all` is not nullptr,
  // else with rsp and rbp. Without tables, the cached rule is used.
  Step step_general(const CachedRule& rule, std::uint64_t address, Registers* all) noexcept {
    if (rule.kind == CachedKind::kOutermost) return Step::kEnd;
    FrameRules rules;
    if (rule.guessed || !find_rules(address, rules)) {
      if (rule.kind != CachedKind::kPlain || !step_short(rule)) return Step::kEnd;
      if (all != nullptr) copy_registers_to(*all);
      return Step::kDone;
    }
    Registers few;
    few.set(kRsp, stack_pointer_);
    few.set(kRbp, frame_pointer_);
    few.set(kReturnAddress, return_address_);
    Registers& registers = all == nullptr ? few : *all;
    const Step outcome = step(rules, registers, memory_);
    if (outcome != Step::kDone) return outcome;
    // A signal frame gives the address of the interrupted instruction itself. All look-ups subtract
    // 1, as from a return address, so 1 is added.
    return_address_ = registers.values[kReturnAddress] + (rules.signal_frame ? 1 : 0);
    stack_pointer_ = registers.values[kRsp];
    frame_pointer_ = registers.has(kRbp) ? registers.values[kRbp] : 0;
    return Step::kDone;
  }

  void copy_registers_to(Registers& all) const noexcept {
    all.set(kRsp, stack_pointer_);
    all.set(kRbp, frame_pointer_);
    all.set(kReturnAddress, return_address_);
  }

  const bool keeps_rules_ = !unload_is_running();
  const std::uint32_t generation_ = unload_count();
  StackMemory memory_;
  RememberedWalk* fresh_ = nullptr;  // this walk's notes; nullptr: do not remember it
  const Caller caller_;
  const std::uint64_t begin_;  // the stack pointer with which the walk began
  std::uint64_t return_address_;
  std::uint64_t stack_pointer_;
  std::uint64_t frame_pointer_;
  std::uint16_t* rbp_places_ = nullptr;
  std::uint16_t rbp_place_ =
      RememberedWalk::kInRegister;  // the word of the stack that `frame_pointer_` was read from
  std::uint64_t* out_;
  std::size_t capacity_;
  Walk walk_;
};

// Repeats a walk that needs more registers than rsp and rbp: takes all registers of this function
// and follows them, first up to `caller`, then along the walk.
[[gnu::noinline]] Walk read_with_all_registers(const Caller& caller, std::uint64_t* out,
                                               std::size_t capacity) noexcept {
  Registers all = registers_here();
  Walker walker(caller, out, capacity);
  if (walker.climb_to_caller(all)) walker.walk_frames(&all);
  return walker.walk();
}

#endif

}  // namespace

#if defined(__x86_64__)

bool prepare(SerialOf serial_of) noexcept {
  serial_of_module = serial_of;
  choose_module_lookup();
  return table.reset();
}

// Tries two remembered walks: the one that mostly follows the last walks, and the last one that
// began at this stack pointer.
[[gnu::hot]] RememberedWalk* read_expected(const Caller& caller, std::size_t capacity,
                                           UnwindCache& memory) noexcept {
  if (unload_is_running() || caller.stack_pointer < own_stack.low) return nullptr;
  RememberedWalk& follower = memory.walk(memory.follower());
  if (stack_matches_walk(follower, caller, capacity)) [[likely]] {
    memory.remember_follower();
    return &follower;
  }
  const UnwindCache::Slot slot = memory.seen_at(caller.stack_pointer);
  RememberedWalk& seen = memory.walk(slot);
  if (!stack_matches_walk(seen, caller, capacity)) return nullptr;
  memory.remember_known_walk(slot);
  return &seen;
}

Walk read_frames(const Caller& caller, std::uint64_t* out, std::size_t capacity,
                 UnwindCache* memory) noexcept {
  Walker walker(caller, out, capacity);
  if (memory == nullptr ? walker.walk_frames(nullptr) : walker.walk_and_remember(*memory))
    return walker.walk();
  const Walk all = read_with_all_registers(caller, out, capacity);
  return all.count > walker.walk().count ? all : walker.walk();
}

#else

bool prepare(SerialOf) noexcept {
  choose_module_lookup();
  return true;
}

RememberedWalk* read_expected(const Caller&, std::size_t, UnwindCache&) noexcept { return nullptr; }

// A frame record is two words, the caller's frame pointer and its return address (AAPCS64, 6.4.6).
// Bits above the address are a signature (pointer authentication).
Walk read_frames(const Caller& caller, std::uint64_t* out, std::size_t capacity,
                 UnwindCache*) noexcept {
  constexpr std::uint64_t kAddressBits = kEndOfUserAddresses - 1;
  Walk walk{out};
  StackMemory memory(caller.stack_pointer);
  std::uint64_t return_address = caller.return_address & kAddressBits;
  std::uint64_t frame = caller.frame_pointer;
  std::uint64_t below = caller.stack_pointer - kWord;
  while (return_address >= kFirstCode && return_address < kEndOfUserAddresses) {
    LoadedModule module;
    if (!find_module(return_address - 1, module)) break;
    if (walk.count == capacity) {
      walk.cut = true;
      break;
    }
    out[walk.count++] = return_address;
    walk.hash = mix(walk.hash, return_address);
    if (frame <= below || frame % kWord != 0 || !memory.reaches(frame + 2 * kWord)) break;
    below = frame;
    return_address = load(frame + kWord) & kAddressBits;
    frame = load(frame);
  }
  return walk;
}

#endif

}  // namespace gpumemtrace::preload::native
