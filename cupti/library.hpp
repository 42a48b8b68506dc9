// SPDX-License-Identifier: Apache-2.0
// One loaded libcupti, as the program sees it. As long as we do not collect through it, every verb
// is the real function, and only the program's wishes are remembered. While we collect (attach() to
// detach()), our callbacks are the registered ones, and each verb gives the program what CUPTI
// alone would give:
//
//   CUPTI --buffer--> our complete callback --copies of the program's records--> its own callbacks
//                                           --the buffer itself--> the thread that records
//
// - Verbs: any thread of the program; results and out-parameters are CUPTI's. No lock is held while
//   they call CUPTI or the program.
// - attach() and detach(): one thread, the collection's.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cupti/client.hpp"
#include "cupti/delivery.hpp"
#include "cupti/functions.hpp"
#include "cupti/records.hpp"
#include "cupti/spin_lock.hpp"

namespace gpumemtrace::cupti {

// Begin times of calls, by the correlation that they share with their activities. The time of the
// call decides whether a copy is the program's, and the copy's own record has only the time at
// which it ran.
//
// The last kCapacity calls, any thread.
class CallTimes {
 public:
  // One thread, before anything else; false if there is no memory.
  [[nodiscard]] bool reserve() noexcept {
    if (calls_ != nullptr) return true;
    void* memory = mmap(nullptr, kCapacity * sizeof(Call), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    calls_ = static_cast<Call*>(memory);
    return true;
  }

  void note(std::uint32_t correlation, std::uint64_t start) noexcept {
    if (calls_ == nullptr) return;
    const SpinGuard guard(lock_);
    calls_[correlation % kCapacity] = {start, correlation};
  }

  // False, and `start` as it was, if the call is not known.
  [[nodiscard]] bool find(std::uint32_t correlation, std::uint64_t& start) noexcept {
    if (calls_ == nullptr || correlation == 0) return false;
    const SpinGuard guard(lock_);
    const Call& call = calls_[correlation % kCapacity];
    if (call.correlation != correlation) return false;
    start = call.start;
    return true;
  }

  void forget() noexcept {
    const SpinGuard guard(lock_);
    if (calls_ != nullptr) madvise(calls_, kCapacity * sizeof(Call), MADV_DONTNEED);  // zeros again
  }

  void free_in_child() noexcept { lock_.free_in_child(); }

 private:
  static constexpr std::size_t kCapacity = std::size_t{1} << 16;
  struct Call {
    std::uint64_t start;
    std::uint32_t correlation;
  };

  SpinLock lock_;
  Call* calls_ = nullptr;
};

inline constexpr std::size_t kMostLibraries = 8;

// Events of a copy of libcupti, for the code that collects through it.
// - Any thread of the program, inside a call of CUPTI's that it makes.
class LibraryObserver {
 public:
  // The program registered callbacks of its own.
  virtual void program_joined() noexcept {}
  // Around the exchange of CUPTI's clock: the last time of the one, the first of the other.
  virtual void clock_changes() noexcept {}
  virtual void clock_changed() noexcept {}
  virtual void program_flushed() noexcept {}
  // CUPTI dropped records, and the program knows.
  virtual void count_dropped(std::uint64_t) noexcept {}
  // Around cuptiFinalize().
  virtual void finalize_begins() noexcept {}
  virtual void finalize_ended(bool) noexcept {}

 protected:
  constexpr LibraryObserver() noexcept = default;
  ~LibraryObserver() = default;
};

// Our own use of CUPTI, kept apart from the program's switches.
struct OwnUse {
  KindSet kinds;
  bool calls = false;  // API records of the functions that copy
};

class Library {
 public:
  // Found in the process; before any verb is called.
  void found(const Functions& functions, std::size_t index, LibraryObserver& observer) noexcept;
  const Functions& real() const noexcept { return real_; }
  std::size_t index() const noexcept { return index_; }

  // --- The program's calls.
#define GPUMEMTRACE_CUPTI_SERVED(symbol, verb, parameters, arguments) \
  Result verb parameters noexcept;
#include "cupti/functions.def"

  // --- The collection's.

  // Before our callbacks are registered; false if there is no memory.
  [[nodiscard]] bool prepare() noexcept { return call_times_.reserve() && held_.reserve(); }
  void attach(const OwnUse& own) noexcept;
  void detach() noexcept { attached_.store(false); }
  [[nodiscard]] bool is_attached() const noexcept { return attached_.load(); }
  // If there may be a context already: selects API records of the functions that copy, and of no
  // others. False if CUPTI refuses.
  [[nodiscard]] bool select_within_kinds() noexcept;
  [[nodiscard]] bool program_has_callbacks() noexcept {
    return client_.callbacks().complete != nullptr;
  }
  [[nodiscard]] bool program_has_set(Attribute attribute) const noexcept;
  // Keeps the library's value before we changed it, for a program that asks.
  void keep_default(Attribute attribute, std::size_t value) noexcept;
  void add_dropped(std::uint64_t records) noexcept { client_.add_dropped(records); }
  std::uint64_t now() const noexcept;
  // Called around a flush: records held before it are decided when the next buffer comes, because
  // the program has all calls of that time.
  std::uint64_t flush_begins() noexcept { return held_.end_round(); }
  void flush_ended(std::uint64_t round) noexcept { told_round_.store(round); }

  // A buffer of ours is complete: gives the program its part.
  void serve_program(std::uint8_t* buffer, std::size_t valid_bytes) noexcept;
  // CUPTI needs a buffer, or the program begins to collect: the program is asked for one, too.
  void open_program_buffer() noexcept;
  // For a buffer that is not ours, but of callbacks which were registered before we came.
  void pass_on(Context context, std::uint32_t stream, std::uint8_t* buffer, std::size_t bytes,
               std::size_t valid_bytes) noexcept;

  // In a forked child: nothing is attached any more.
  void reset() noexcept;

 private:
  struct KeptAttribute {
    std::atomic<bool> kept = false;
    std::atomic<bool> set_by_program = false;
    std::size_t value = 0;
  };
  static constexpr std::size_t kMostAttributes = 16;

  [[nodiscard]] bool is_shared(Kind kind) const noexcept;
  std::uint64_t time_of_switch() const noexcept;
  void switch_kind(Kind kind, Context context, bool on) noexcept;
  Result enable_calls(Kind kind, Result result) noexcept;
  Result disable_calls(Kind kind) noexcept;
  Result enable_function(trace::ActivityDomain domain, CallbackId function,
                         std::uint8_t on) noexcept;
  Result call_enable_function(trace::ActivityDomain domain, CallbackId function,
                              std::uint8_t on) noexcept;
  enum class Owner { kProgram, kNotProgram, kNotKnown };
  Owner owner_of(const RawRecord& record) noexcept;
  Owner guess_owner_of(const RawRecord& record) noexcept;
  void record_calls(std::uint8_t* buffer, std::size_t valid_bytes) noexcept;
  void deliver_held(Delivery& delivery, bool wait) noexcept;
  void decide_held() noexcept;
  void settle_held(std::uint64_t round) noexcept;
  void flushed(std::uint64_t round) noexcept;
  [[nodiscard]] bool get_callbacks(Callbacks& callbacks) noexcept;
  void restore_defaults() noexcept;

  Functions real_;
  std::size_t index_ = 0;
  LibraryObserver* observer_ = nullptr;
  std::atomic<bool> attached_ = false;
  std::atomic<KindSet> own_kinds_ = KindSet{};
  std::atomic<bool> own_calls_ = false;
  Client client_;
  CallTimes call_times_;
  HeldRecords held_;
  OpenBuffer open_;
  std::atomic<bool> flushes_by_period_ = false;  // by the program's setting
  std::atomic<std::uint64_t> told_round_ = 0;    // records held since may still get their call
  // The whole kind is on inside CUPTI, and its functions are switched off one by one because the
  // program does not have it on: [0] DRIVER, [1] RUNTIME.
  std::atomic<bool> kind_left_on_[2] = {};
  KeptAttribute attributes_[kMostAttributes];
};

}  // namespace gpumemtrace::cupti
