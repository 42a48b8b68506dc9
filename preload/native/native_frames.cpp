// SPDX-License-Identifier: Apache-2.0
#include "preload/native/native_frames.hpp"

#include <string.h>

#include "preload/base/key_table.hpp"
#include "preload/native/stack_memory.hpp"
#include "preload/native/unwind_cache.hpp"

#if defined(__x86_64__)
#include "preload/native/frame_registers.hpp"
#include "preload/native/frame_rule_cache.hpp"
#endif

namespace gpumemtrace::preload::native {
namespace {

constexpr std::uint64_t kWord = 8;
constexpr std::uint64_t kMostRemembered = std::uint64_t{1} << 31;  // bytes of stack
constexpr std::uint64_t kFirstCode = 65536;                        // nothing is mapped below
constexpr std::uint64_t kEndOfUserAddresses = std::uint64_t{1} << 47;

std::uint64_t load(std::uint64_t address) noexcept {
  std::uint64_t value;
  memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
  return value;
}

#if defined(__x86_64__)

constinit RuleCache table;
constinit SerialOf serial_of_module = nullptr;

// True where the bytes before the address are a call instruction: e8 and a displacement, or ff /2
// with its operand (Intel SDM volume 2, CALL).
bool follows_a_call(std::uint64_t address) noexcept {
  constexpr std::uint64_t kLongestCall = 7;
  std::uint8_t code[kLongestCall] = {};
  std::uint64_t bytes = kLongestCall;  // fewer at the start of a mapping
  while (bytes > 1 && !is_readable(address - bytes, bytes)) --bytes;
  if (bytes == 1) return false;
  memcpy(code + kLongestCall - bytes, reinterpret_cast<const void*>(address - bytes), bytes);
  if (code[2] == 0xe8) return true;
  constexpr std::size_t kIndirect[] = {0, 1, 3, 4, 5};  // where ff may stand
  for (const std::size_t at : kIndirect) {
    if (code[at] == 0xff && (code[at + 1] >> 3 & 7) == 2) return true;
  }
  return false;
}

// The short form of rules; false where they need the general one.
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

// push rbp; mov rbp, rsp
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

// What is to be kept of an address in a loaded file; 0 where it lies in none.
[[gnu::noinline]] std::uint64_t work_out(std::uint64_t address) noexcept {
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

bool is_usable(const RememberedWalk& walk, std::size_t capacity,
               std::uint32_t generation) noexcept {
  return walk.count > 0 && walk.generation == generation && walk.count <= capacity;
}

// The same address, which the compiler keeps in a register instead of working it out again.
template <class Value>
const Value* opaque(const Value* address) noexcept {
  __asm__("" : "+r"(address));
  return address;
}

std::uint64_t rbp_at(std::uint32_t offset, const Caller& caller) noexcept {
  return offset == RememberedWalk::kNotSaved ? caller.frame_pointer
                                             : load(caller.stack_pointer + offset);
}

// How many steps lead from one expected frame to the next expected one. All addresses come from
// what is remembered, none from what was just read: the processor need not wait for one before it
// reads the next. The stack can be read up to `readable_end`.
[[gnu::always_inline]] inline std::size_t agreeing_steps(const RememberedWalk& expected,
                                                         const Caller& caller,
                                                         std::uint64_t readable_end) noexcept {
  const std::uint64_t begin = caller.stack_pointer;
  const std::size_t most = expected.count - std::size_t{1};
  if (caller.return_address != expected.return_addresses[0] ||
      (most > 0 && begin + expected.frames[most - 1] > readable_end)) {
    return 0;
  }
  std::size_t steps = 0;
  while (steps < most &&
         load(begin + expected.frames[steps] - kWord) == expected.return_addresses[steps + 1]) {
    ++steps;
  }
  for (std::size_t i = 0; i < expected.by_rbp_count; ++i) {
    const RememberedWalk::ByRbp& by_rbp = expected.by_rbp[i];
    if (by_rbp.frame >= steps) break;
    if (rbp_at(expected.rbp_places[by_rbp.frame], caller) != begin + by_rbp.rbp)
      return by_rbp.frame;
  }
  return steps;
}

// One walk. `all` follows every register through the general rules, from the walk's own frame; it
// is needed where a frame is found by a register that the short way does not follow.
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

  // With the help of the thread's memory. False where more registers are needed.
  bool run(UnwindCache& memory) noexcept {
    const RememberedWalk& expected = memory.expected();
    std::size_t steps = 0;
    if (keeps_rules_ && is_usable(expected, capacity_, generation_)) {
      steps = agreeing_steps(expected, caller_, memory_.known_end());
      if (steps + 1 == expected.count) {
        memory.expected_came();
        go_to(steps, expected);
        return run(nullptr);
      }
    }
    return run_and_remember(steps, memory, expected);
  }

  // False where more registers are needed.
  bool run(Registers* all) noexcept {
    bool suspicious = false;  // the last step followed a guessed frame pointer
    while (return_address_ < kEndOfUserAddresses) {
      const std::uint64_t address = return_address_ - 1;
      std::uint64_t packed = keeps_rules_ ? table.find(address, generation_) : 0;
      if (packed == 0) [[unlikely]] {
        if (return_address_ < kFirstCode) return true;
        if (suspicious && !follows_a_call(return_address_)) return true;
        packed = work_out(address);
        if (packed != 0 && keeps_rules_) table.insert(address, generation_, packed);
        if (packed == 0) {  // no file's code
          if (!follows_a_call(return_address_)) return true;
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
      if (fresh_ != nullptr) remember(rule, hash);
      out_[walk_.count++] = return_address_;
      walk_.hash = hash;
      if (rule.kind == CachedKind::kPlain && all == nullptr) [[likely]] {
        if (!step_short(rule)) return true;
      } else {
        const Step outcome = step_general(rule, address, all);
        if (outcome != Step::kDone) return outcome != Step::kRegisterNotKnown || all != nullptr;
      }
      suspicious = rule.guessed;
    }
    return true;
  }

  // Goes up to the caller where the walk begins, with all registers.
  bool climb(Registers& all) noexcept {
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
  // To the frame to which these steps of the expected walk lead.
  void go_to(std::size_t steps, const RememberedWalk& expected) noexcept {
    if (steps == 0) return;
    memcpy(out_, expected.return_addresses, steps * sizeof out_[0]);
    walk_.count = steps;
    walk_.hash = expected.hashes[steps - 1];
    stack_pointer_ = begin_ + expected.frames[steps - 1];
    return_address_ = load(stack_pointer_ - kWord);
    rbp_place_ = expected.rbp_places[steps];
    frame_pointer_ = rbp_at(rbp_place_, caller_);
  }

  // From where the stack is not the expected one.
  [[gnu::noinline]] bool run_and_remember(std::size_t steps, UnwindCache& memory,
                                          const RememberedWalk& expected) noexcept {
    RememberedWalk fresh;
    fresh.generation = generation_;
    fresh.count = static_cast<std::uint16_t>(steps);
    fresh.is_whole = false;
    copy_steps(fresh, expected, steps);
    go_to(steps, expected);
    if (keeps_rules_) fresh_ = &fresh;
    const bool done = run(nullptr);
    fresh_ = nullptr;
    fresh.hash = walk_.hash;
    if (done && keeps_rules_) memory.other_came(fresh);
    return done;
  }

  // The frame that is about to be left.
  void remember(const CachedRule& rule, std::uint64_t hash) noexcept {
    const std::uint64_t frame = (rule.by_rbp ? frame_pointer_ : stack_pointer_) + rule.frame_offset;
    const std::size_t index = fresh_->count++;
    fresh_->return_addresses[index] = return_address_;
    fresh_->hashes[index] = hash;
    fresh_->frames[index] = static_cast<std::uint32_t>(frame - begin_);
    fresh_->rbp_places[index] = rbp_place_;
    if (rule.by_rbp && fresh_->by_rbp_count < RememberedWalk::kMaxByRbp) {
      fresh_->by_rbp[fresh_->by_rbp_count++] = {
          static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(frame_pointer_ - begin_)};
    }
    if (rule.rbp_distance != 0) {
      rbp_place_ = static_cast<std::uint32_t>(frame - begin_ - rule.rbp_distance);
    }
    fresh_->is_whole = rule.kind == CachedKind::kOutermost;
    // What follows is not known by these alone.
    if (rule.kind != CachedKind::kPlain || rule.guessed ||
        fresh_->count == RememberedWalk::kMaxFrames ||
        fresh_->by_rbp_count == RememberedWalk::kMaxByRbp || frame <= stack_pointer_ ||
        frame - begin_ > kMostRemembered || frame - rule.rbp_distance < stack_pointer_) {
      fresh_ = nullptr;
    }
  }

  bool step_short(const CachedRule& rule) noexcept {
    const std::uint64_t frame = (rule.by_rbp ? frame_pointer_ : stack_pointer_) + rule.frame_offset;
    if (frame <= stack_pointer_ || frame % kWord != 0 || !memory_.reaches(frame)) return false;
    return_address_ = load(frame - kWord);
    if (rule.rbp_distance != 0) {
      const std::uint64_t saved = frame - rule.rbp_distance;
      if (saved >= stack_pointer_) [[likely]] {
        frame_pointer_ = load(saved);
      } else if (!memory_.read(saved, frame_pointer_)) {  // interrupted where it was just popped
        return false;
      }
    }
    stack_pointer_ = frame;
    return true;
  }

  Step step_general(const CachedRule& rule, std::uint64_t address, Registers* all) noexcept {
    if (rule.kind == CachedKind::kOutermost) return Step::kEnd;
    FrameRules rules;
    if (rule.guessed || !find_rules(address, rules)) {
      if (rule.kind != CachedKind::kPlain || !step_short(rule)) return Step::kEnd;
      if (all != nullptr) take_over(*all);
      return Step::kDone;
    }
    Registers few;
    few.set(kRsp, stack_pointer_);
    few.set(kRbp, frame_pointer_);
    few.set(kReturnAddress, return_address_);
    Registers& registers = all == nullptr ? few : *all;
    const Step outcome = step(rules, registers, memory_);
    if (outcome != Step::kDone) return outcome;
    // What a signal interrupted is no return address: its own instruction counts.
    return_address_ = registers.values[kReturnAddress] + (rules.signal_frame ? 1 : 0);
    stack_pointer_ = registers.values[kRsp];
    frame_pointer_ = registers.has(kRbp) ? registers.values[kRbp] : 0;
    return Step::kDone;
  }

  void take_over(Registers& all) const noexcept {
    all.set(kRsp, stack_pointer_);
    all.set(kRbp, frame_pointer_);
    all.set(kReturnAddress, return_address_);
  }

  const bool keeps_rules_ = !unload_is_running();
  const std::uint32_t generation_ = unload_count();
  StackMemory memory_;
  RememberedWalk* fresh_ = nullptr;  // what this walk is remembered by
  const Caller caller_;
  const std::uint64_t begin_;  // the first stack pointer
  std::uint64_t return_address_;
  std::uint64_t stack_pointer_;
  std::uint64_t frame_pointer_;
  std::uint32_t rbp_place_ = RememberedWalk::kNotSaved;  // where `frame_pointer_` was read
  std::uint64_t* out_;
  std::size_t capacity_;
  Walk walk_;
};

[[gnu::noinline]] Walk read_with_all_registers(const Caller& caller, std::uint64_t* out,
                                               std::size_t capacity) noexcept {
  Registers all = registers_here();
  Walker walker(caller, out, capacity);
  if (walker.climb(all)) walker.run(&all);
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

[[gnu::hot]] bool read_expected(const Caller& caller, std::size_t capacity, UnwindCache& memory,
                                Walk& out) noexcept {
  const RememberedWalk& expected = *opaque(&memory.expected());
  const OwnStack& own = own_stack;
  if (unload_is_running() || !is_usable(expected, capacity, unload_count()) || !expected.is_whole ||
      caller.stack_pointer < own.low ||
      agreeing_steps(expected, caller, own.high) + 1 != expected.count) {
    return false;
  }
  out = {expected.return_addresses, expected.count, expected.hash, false};
  memory.expected_came();
  return true;
}

Walk read_frames(const Caller& caller, std::uint64_t* out, std::size_t capacity,
                 UnwindCache* memory) noexcept {
  Walker walker(caller, out, capacity);
  if (memory == nullptr ? walker.run(nullptr) : walker.run(*memory)) return walker.walk();
  const Walk all = read_with_all_registers(caller, out, capacity);
  return all.count > walker.walk().count ? all : walker.walk();
}

#else

bool prepare(SerialOf) noexcept {
  choose_module_lookup();
  return true;
}

bool read_expected(const Caller&, std::size_t, UnwindCache&, Walk&) noexcept { return false; }

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
