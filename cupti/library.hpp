// SPDX-License-Identifier: Apache-2.0
// One loaded libcupti, as the program sees it. A verb is a function of CUPTI that we serve. As long
// as we do not collect through the library, every verb calls the real function, and only the
// program's wishes are remembered. While we collect (attach() to
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
// Keeps the last kCapacity calls. For any thread.
class CallTimes {
 public:
  // Called by one thread, before all other functions; false if there is no memory.
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

  // Sets `start` to the begin of the call; false, and `start` unchanged, if the call is not known.
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
    // sets all entries to zero
    if (calls_ != nullptr) madvise(calls_, kCapacity * sizeof(Call), MADV_DONTNEED);
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
// - Called on any thread of the program, inside a call of CUPTI that this thread makes.
class LibraryObserver {
 public:
  // The program registered callbacks of its own.
  virtual void program_registered() noexcept {}
  // Called before and after the exchange of CUPTI's clock, for the last time of the old clock and
  // the first time of the new one.
  virtual void clock_changes() noexcept {}
  virtual void clock_changed() noexcept {}
  virtual void program_flushed() noexcept {}
  // CUPTI dropped records, and told the program so.
  virtual void count_dropped(std::uint64_t) noexcept {}
  // Called before and after cuptiFinalize().
  virtual void finalize_begins() noexcept {}
  virtual void finalize_ended(bool) noexcept {}

 protected:
  constexpr LibraryObserver() noexcept = default;
  ~LibraryObserver() = default;
};

// Our own use of CUPTI, kept apart from the program's switches.
struct OwnUse {
  KindSet kinds;
  bool calls = false;  // collects API records of the functions that copy
};

class Library {
 public:
  // Called when the library was found in the process, before any verb is called.
  void found(const Functions& functions, std::size_t index, LibraryObserver& observer) noexcept;
  const Functions& real() const noexcept { return real_; }
  std::size_t index() const noexcept { return index_; }

  // --- The program's calls.
#define GPUMEMTRACE_CUPTI_SERVED(symbol, verb, parameters, arguments) \
  Result verb parameters noexcept;
#include "cupti/functions.def"

  // --- Functions for the collection.

  // Called before our callbacks are registered; false if there is no memory.
  [[nodiscard]] bool prepare() noexcept { return call_times_.reserve() && held_.reserve(); }
  void attach(const OwnUse& own) noexcept;
  void detach() noexcept { attached_.store(false); }
  [[nodiscard]] bool is_attached() const noexcept { return attached_.load(); }
  // For a time when a context may exist already: selects API records of the functions that copy,
  // and of no others. False if CUPTI refuses.
  [[nodiscard]] bool select_within_kinds() noexcept;
  [[nodiscard]] bool program_has_callbacks() noexcept {
    return client_.callbacks().complete != nullptr;
  }
  [[nodiscard]] bool program_has_set(Attribute attribute) const noexcept;
  // Keeps the value that an attribute had before we changed it, for a program that asks.
  void keep_default(Attribute attribute, std::size_t value) noexcept;
  void add_dropped(std::uint64_t records) noexcept { client_.add_dropped(records); }
  std::uint64_t now() const noexcept;
  // Called before and after a flush. Records that were held before the flush are decided when the
  // next buffer comes, because the flush has delivered all calls of their time.
  std::uint64_t flush_begins() noexcept { return held_.end_round(); }
  void flush_ended(std::uint64_t round) noexcept { last_flushed_round_.store(round); }

  // Called when a buffer of ours is complete: gives the program its records.
  void serve_program(std::uint8_t* buffer, std::size_t valid_bytes) noexcept;
  // Called when CUPTI needs a buffer, or the program begins to collect: asks the program for a
  // buffer, too.
  void ask_program_for_buffer() noexcept;
  // Passes a buffer that is not ours on to the program's callbacks: it came from callbacks that
  // were registered before ours.
  void pass_on(Context context, std::uint32_t stream, std::uint8_t* buffer, std::size_t bytes,
               std::size_t valid_bytes) noexcept;

  // Called in a forked child, where nothing is attached any more.
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
  void deliver_decided_records() noexcept;
  void decide_held_records(std::uint64_t round) noexcept;
  void finish_program_flush(std::uint64_t round) noexcept;
  void deliver_last_records() noexcept;
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
  std::atomic<bool> flushes_by_period_ = false;  // the program has set a flush period
  // the last round that a flush has ended: calls of records held in later rounds may still come
  std::atomic<std::uint64_t> last_flushed_round_ = 0;
  // True if the whole kind is on inside CUPTI, and its functions are switched off one by one
  // because the program does not have the kind on: [0] DRIVER, [1] RUNTIME.
  std::atomic<bool> kind_left_on_[2] = {};
  KeptAttribute attributes_[kMostAttributes];
};

}  // namespace gpumemtrace::cupti
