// SPDX-License-Identifier: Apache-2.0
// Our own collection of activity records: at most one in a process, through one libcupti.
//
//   kOff --start()--> kCollecting --the program's cuptiFinalize--> kFinalizing --> kLost
//
// - start(): on a thread of the program, after cuInit. Best before the first context: later, CUPTI
//   makes API records of selected functions only if all functions are enabled and then the others
//   disabled.
// - "The thread that records" is one thread. It flushes, reads completed buffers, writes records.
// - CUPTI's callbacks: any thread, no allocation; locks are held for a few instructions and never
//   around a call; errno is kept.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cupti/buffers.hpp"
#include "cupti/library.hpp"
#include "cupti/records.hpp"
#include "cupti/spin_lock.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::cupti {

struct Plan {
  trace::ActivityMode mode = trace::ActivityMode::kCopies;
  bool kernels = false;
  bool is_late = false;  // a CUDA context may exist before start()
};

class Collection final : public LibraryObserver {
 public:
  // Starts collecting through `library`. If that is not possible, notes a state record with the
  // reason, and returns false.
  [[nodiscard]] bool start(Library& library, const Plan& plan, const Recorder& recorder) noexcept;
  // Notes a state record with the reason why nothing is collected. `path` (may be nullptr) is added
  // to the reason.
  void stay_off(const char* reason, const char* path) noexcept;
  // Notes a state record with a remark that a reader of the trace must know.
  void remark(const char* text, const char* path) noexcept;
  // The library through which records are collected; nullptr if none are.
  Library* collecting() const noexcept;

  // --- Called when the program calls the library.
  void program_registered() noexcept override;
  void clock_changes() noexcept override { record_clock(); }
  void clock_changed() noexcept override;
  // Called when the program has flushed: a second pair of times gives the clocks' rate, also in a
  // session that is soon over.
  void program_flushed() noexcept override { record_clock(); }
  void count_dropped(std::uint64_t records) noexcept override {
    dropped_by_cupti_.fetch_add(records);
  }
  void finalize_begins() noexcept override;
  void finalize_ended(bool succeeded) noexcept override;

  // --- The thread that records.

  // Completed buffers are kept only while `reading` is true. Buffers that were kept before are
  // still to be read.
  void set_reading(bool reading) noexcept { reading_.store(reading); }
  // Writes the states, and the pairs of clock times, that other threads have noted.
  void write_notes(const Recorder& recorder) noexcept;
  // Makes CUPTI complete its buffers, `forced` also with activities that are not complete. Writes
  // the clock and the number of dropped records.
  void flush(bool forced, const Recorder& recorder) noexcept;
  // Reads one completed buffer; drops its content if `recorder` is nullptr. False if no completed
  // buffer is left.
  [[nodiscard]] bool read_one(const Recorder* recorder) noexcept;

  // Called in a forked child, which has no collection.
  void reset() noexcept;

 private:
  enum class State { kOff, kCollecting, kFinalizing, kLost };
  static constexpr std::size_t kMostStates = 16;
  static constexpr std::size_t kMostText = 384;
  struct StateEntry {
    trace::ActivityState record;
    char text[kMostText] = {};
  };

  static void request(std::uint8_t** buffer, std::size_t* bytes,
                      std::size_t* most_records) noexcept;
  static void complete(Context context, std::uint32_t stream, std::uint8_t* buffer,
                       std::size_t bytes, std::size_t valid_bytes) noexcept;

  void set_small_device_buffers(Library& library) noexcept;
  [[nodiscard]] bool select_functions(const Functions& real) noexcept;
  Result enable_kinds(const Functions& real, const Plan& plan, OwnUse& own) noexcept;
  void fail(Library& library, Result result, const char* call) noexcept;
  void add_state(trace::ActivityMode mode, Result returned, const char* text,
                 const char* path) noexcept;
  [[nodiscard]] bool begin_call() noexcept;
  void end_call() noexcept { in_call_.store(false); }
  void record_clock() noexcept;
  trace::ActivityClock read_clock(std::uint64_t (*ticks)()) noexcept;
  void write_dropped(const Recorder& recorder) noexcept;

  std::atomic<State> state_ = State::kOff;
  std::atomic<Library*> library_ = nullptr;
  Buffers buffers_;
  TakeOver settings_;
  const Recorder* recorder_ = nullptr;
  trace::ActivityMode mode_ = trace::ActivityMode::kOff;
  std::atomic<bool> in_call_ = false;  // the thread that records is inside CUPTI
  std::atomic<bool> reading_ = false;
  std::atomic<std::uint32_t> epoch_ = 0;
  std::atomic<std::uint64_t> dropped_by_cupti_ = 0;
  std::atomic<std::uint64_t> dropped_by_recorder_ = 0;

  static constexpr std::size_t kMostClocks = 16;
  SpinLock notes_lock_;
  trace::ActivityClock clocks_[kMostClocks];
  std::size_t clock_count_ = 0;
  StateEntry states_[kMostStates];
  std::size_t state_count_ = 0;
  std::size_t states_written_ = 0;
};

// CUPTI's callbacks get no argument of ours, so there is one collection.
Collection& the_collection() noexcept;

}  // namespace gpumemtrace::cupti
