// SPDX-License-Identifier: Apache-2.0
#include "cupti/collection.hpp"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "trace/schema.hpp"

namespace gpumemtrace::cupti {
namespace {

using trace::ActivityDomain;
using trace::ActivityMode;

// In a section of its own, because the loader writes addresses into small objects in every process,
// and this large object between them would spread them over more pages.
[[gnu::section(".data.collection")]] constinit Collection collection;

constexpr std::size_t kDeviceBufferBytes = std::size_t{256} << 10;
constexpr long kWaitStepNs = 100'000;
constexpr int kMostWaitSteps = 10'000;  // one second of waiting

// CUPTI before CUDA 12.9 gets this buffer if no other is free, for one record at a time so that
// lost records can be counted. The record is not read: several threads may have the buffer at once.
alignas(8) constinit std::uint8_t spare_buffer[std::size_t{64} << 10] = {};

const char* explanation(Result result) noexcept {
  if (result == kMultipleSubscribers) {
    return "another tool (a debugger, ncu, nsys, compute-sanitizer, or a profiler that came first "
           "with cuptiSubscribe_v2) holds CUPTI";
  }
  if (result == kNotInitialized) return "CUPTI does not work with this driver";
  return "CUPTI refused";
}

}  // namespace

Collection& the_collection() noexcept { return collection; }

// --- Start

bool Collection::start(Library& library, const Plan& plan, const Recorder& recorder) noexcept {
  const Functions& real = library.real();
  if (!real.complete()) {
    stay_off("this libcupti lacks functions of the Activity API", nullptr);
    return false;
  }
  std::uint32_t version = 0;
  real.cuptiGetVersion(&version);
  recorder_ = &recorder;
  settings_ = TakeOver{};
  settings_.version = version;
  settings_.library = static_cast<std::uint16_t>(library.index());
  if (version < kOldestVersion) {
    stay_off("this libcupti is older than CUDA 11.8", nullptr);
    return false;
  }
  if (!buffers_.reserve() || !library.prepare()) {
    stay_off("there is no memory for CUPTI's buffers", nullptr);
    return false;
  }
  const bool program_was_first = library.program_has_callbacks();
  if (!program_was_first) set_small_device_buffers(library);
  library_.store(&library);
  OwnUse own;
  own.calls =
      real.cuptiActivityEnableDriverApi != nullptr && real.cuptiActivityEnableRuntimeApi != nullptr;
  library.attach(own);
  Result result = real.cuptiActivityRegisterCallbacks(&Collection::request, &Collection::complete);
  if (result != kSuccess) {
    fail(library, result, "cuptiActivityRegisterCallbacks");
    return false;
  }
  own.calls = own.calls && (plan.is_late ? library.select_within_kinds() : select_functions(real));
  result = enable_kinds(real, plan, own);
  if (result != kSuccess) {
    fail(library, result, "cuptiActivityEnable");
    return false;
  }
  library.attach(own);
  settings_.kinds = own.kinds;  // mutant: collecting_before_settled
  settings_.calls = own.calls;
  mode_ = plan.mode;
  state_.store(State::kCollecting);
  const char* const remark =
      !own.calls ? "before CUDA 12.5 CUPTI cannot name the calls of copies alone"
      : plan.is_late
          ? "since the program first used CUPTI: it loaded libcupti after it initialised CUDA"
          : nullptr;
  add_state(mode_, kSuccess, remark, nullptr);
  return true;
}

// Makes CUPTI's buffers on the device small, which take 14 MiB of its memory by default. A program
// that registers callbacks of its own gets the defaults back.
void Collection::set_small_device_buffers(Library& library) noexcept {
  const Functions& real = library.real();
  if (real.cuptiActivityGetAttribute == nullptr || real.cuptiActivitySetAttribute == nullptr)
    return;
  struct Wanted {
    Attribute attribute;
    std::size_t value;
  };
  for (const Wanted& wanted :
       {Wanted{kDeviceBufferSize, kDeviceBufferBytes}, Wanted{kDeviceBufferPreAllocate, 1}}) {
    if (library.program_has_set(wanted.attribute)) continue;
    std::size_t before = 0;
    std::size_t value = wanted.value;
    std::size_t bytes = sizeof before;
    if (real.cuptiActivityGetAttribute(wanted.attribute, &bytes, &before) != kSuccess) continue;
    bytes = sizeof value;
    if (real.cuptiActivitySetAttribute(wanted.attribute, &bytes, &value) != kSuccess) continue;
    library.keep_default(wanted.attribute, before);
  }
}

// Enables API records of the functions that copy, and of no others. True if CUPTI accepted any.
bool Collection::select_functions(const Functions& real) noexcept {
  bool any = false;
  for (const CopyFunction& function : kCopyFunctions) {
    const Result result = function.domain == ActivityDomain::kDriver
                              ? real.cuptiActivityEnableDriverApi(function.id, 1)
                              : real.cuptiActivityEnableRuntimeApi(function.id, 1);
    any = any || result == kSuccess;  // older versions do not know the newest functions
  }
  return any;
}

// kSuccess if copies are collected; other kinds that CUPTI refuses are left out.
Result Collection::enable_kinds(const Functions& real, const Plan& plan, OwnUse& own) noexcept {
  const auto enable = [&](Kind kind) noexcept {
    const Result result = real.cuptiActivityEnable(kind);
    if (result == kSuccess) own.kinds.add(kind);
    return result;
  };
  const Result result = enable(Kind::kMemcpy);
  if (result != kSuccess) return result;
  enable(Kind::kMemcpy2);
  enable(Kind::kMemset);
  if (plan.kernels) enable(Kind::kConcurrentKernel);
  if (plan.mode != ActivityMode::kFull) return kSuccess;
  enable(Kind::kMemory2);
  enable(Kind::kMemoryPool);
  enable(Kind::kOverhead);
  ManagedCounterConfig counters[] = {{kAllDevices, kHostToDeviceBytes, 0, 1},
                                     {kAllDevices, kDeviceToHostBytes, 0, 1},
                                     {kAllDevices, kHostFaults, 0, 1},
                                     {kAllDevices, kDeviceFaults, 0, 1}};
  if (real.cuptiActivityConfigureUnifiedMemoryCounter != nullptr &&
      real.cuptiActivityConfigureUnifiedMemoryCounter(counters, 4) == kSuccess) {
    enable(Kind::kUnifiedMemoryCounter);
  }
  return kSuccess;
}

void Collection::fail(Library& library, Result result, const char* call) noexcept {
  library.detach();
  library_.store(nullptr);
  add_state(ActivityMode::kOff, result, explanation(result),
            result == kMultipleSubscribers ? nullptr : call);
}

void Collection::stay_off(const char* reason, const char* path) noexcept {
  add_state(ActivityMode::kOff, kSuccess, reason, path);
}

void Collection::remark(const char* text, const char* path) noexcept {
  add_state(mode_, kSuccess, text, path);
}

Library* Collection::collecting() const noexcept {
  return state_.load() == State::kCollecting ? library_.load() : nullptr;
}

// Notes the state, with a reason or remark. The thread that records writes it to the trace.
void Collection::add_state(ActivityMode mode, Result returned, const char* text,
                           const char* path) noexcept {
  const SpinGuard guard(notes_lock_);
  if (state_count_ == kMostStates) return;
  StateEntry& entry = states_[state_count_++];
  entry = StateEntry{};
  Library* const library = library_.load();
  entry.record.version = settings_.version;
  entry.record.returned = static_cast<std::uint32_t>(returned);
  entry.record.mode = mode;
  entry.record.is_shared = library != nullptr && library->program_has_callbacks() ? 1 : 0;
  entry.record.library = settings_.library;
  std::size_t size = 0;
  const auto append = [&](const char* from) noexcept {
    for (; from != nullptr && *from != '\0' && size + 1 < kMostText; ++from) {
      entry.text[size++] = *from;
    }
  };
  append(text);
  if (path != nullptr) {
    append(": ");
    append(path);
  }
}

// --- CUPTI's callbacks

void Collection::request(std::uint8_t** buffer, std::size_t* bytes,
                         std::size_t* most_records) noexcept {
  const int saved_errno = errno;
  if (Library* const library = collection.library_.load()) library->ask_program_for_buffer();
  errno = saved_errno;
  *most_records = 0;
  *bytes = Buffers::kBytes;
  *buffer = collection.buffers_.take();
  if (*buffer != nullptr) return;
  const bool takes_none = collection.settings_.version >= kVersionThatTakesNoBuffer;
  *buffer = takes_none ? nullptr : spare_buffer;
  *bytes = takes_none ? 0 : sizeof spare_buffer;
  *most_records = takes_none ? 0 : 1;
}

// Called by CUPTI when it returns a buffer. Copies the program's records out of a buffer of ours,
// then keeps that buffer to be read, or frees it. Passes any other buffer on to the program.
void Collection::complete(Context context, std::uint32_t stream, std::uint8_t* buffer,
                          std::size_t bytes, std::size_t valid_bytes) noexcept {
  const int saved_errno = errno;
  Library* const library = collection.library_.load();
  if (buffer == spare_buffer) {
    if (valid_bytes != 0) collection.dropped_by_recorder_.fetch_add(1);
    const bool is_shared = library != nullptr && library->program_has_callbacks();
    if (valid_bytes != 0 && is_shared) library->add_dropped(1);
  } else if (library != nullptr && !collection.buffers_.is_ours(buffer)) {
    library->pass_on(context, stream, buffer, bytes, valid_bytes);
  } else if (library != nullptr) {
    library->serve_program(buffer, valid_bytes);  // mutant: served_after_completed
    // Buffers are kept only once start() is over, because only then `settings_` is complete.
    const bool keep = collection.reading_.load() && collection.state_.load() != State::kOff;
    collection.buffers_.completed(buffer, valid_bytes, library->index(), !keep);
    // The reading may have ended meanwhile. The thread that ends it and the one that fills a buffer
    // each check the other's store, in the one order of sequentially consistent operations: no
    // buffer stays filled.
    // mutant: filled_behind_the_end
    if (keep && !collection.reading_.load()) collection.buffers_.drop_unread(buffer);
    if (collection.buffers_.many_are_filled()) collection.recorder_->wake();
  }
  errno = saved_errno;
}

// --- Calls of the program

// The new state says that the program has callbacks of its own.
void Collection::program_registered() noexcept { add_state(mode_, kSuccess, nullptr, nullptr); }

void Collection::record_clock() noexcept {
  const trace::ActivityClock clock = read_clock(recorder_->ticks);
  const SpinGuard guard(notes_lock_);
  if (clock_count_ < kMostClocks) clocks_[clock_count_++] = clock;
}

void Collection::clock_changed() noexcept {
  epoch_.fetch_add(1);
  record_clock();
}

void Collection::finalize_begins() noexcept {
  state_.store(State::kFinalizing);
  // CUPTI must not be finalized while our thread is in it. The wait has a limit, because that
  // thread may wait for the program.
  // mutant: call_not_awaited
  for (int step = 0; in_call_.load() && step < kMostWaitSteps; ++step) {
    const timespec pause{0, kWaitStepNs};
    syscall(SYS_nanosleep, &pause, nullptr);  // libc's nanosleep is a cancellation point
  }
  record_clock();
}

void Collection::finalize_ended(bool succeeded) noexcept {
  if (!succeeded) {
    state_.store(State::kCollecting);
    return;
  }
  library_.load()->detach();
  mode_ = ActivityMode::kLost;
  add_state(ActivityMode::kLost, kSuccess, "the program called cuptiFinalize", nullptr);
  state_.store(State::kLost);
}

// --- The thread that records

// begin_call() and finalize_begins() raise their own flag and then check the other's, in the one
// order of sequentially consistent operations: at least one of them sees the other's flag.
bool Collection::begin_call() noexcept {
  in_call_.store(true);  // mutant: call_begins_unseen
  if (state_.load() == State::kCollecting) return true;
  in_call_.store(false);
  return false;
}

void Collection::flush(bool forced, const Recorder& recorder) noexcept {
  if (!begin_call()) return;
  Library& library = *library_.load();
  const Functions& real = library.real();
  const std::uint64_t round = library.flush_begins();  // mutant: call_ends_early
  real.cuptiActivityFlushAll(forced ? 1 : 0);
  library.flush_ended(round);
  std::size_t dropped = 0;
  if (real.cuptiActivityGetNumDroppedRecords != nullptr &&
      real.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) == kSuccess && dropped != 0) {
    dropped_by_cupti_.fetch_add(dropped);
    if (library.program_has_callbacks()) library.add_dropped(dropped);
  }
  const trace::ActivityClock clock = read_clock(recorder.ticks);
  end_call();
  // If the epochs differ, CUPTI's clock was exchanged after `clock` was read.
  if (clock.epoch == epoch_.load()) recorder.write(&clock, sizeof clock, nullptr, 0);
  write_dropped(recorder);
}

// Takes the narrowest of a few pairs of clock times: a thread that is interrupted between two
// readings gets a wide pair.
trace::ActivityClock Collection::read_clock(std::uint64_t (*ticks)()) noexcept {
  constexpr int kTries = 4;
  trace::ActivityClock best;
  best.record.kind = trace::kind_of<trace::ActivityClock>();
  best.uncertainty_ticks = ~std::uint64_t{0};
  best.epoch = epoch_.load();
  best.library = settings_.library;
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t before = ticks();
    const std::uint64_t timestamp = library_.load()->now();
    const std::uint64_t passed = ticks() - before;
    if (passed >= best.uncertainty_ticks) continue;
    best.record.time = before;
    best.timestamp = timestamp;
    best.uncertainty_ticks = passed;
  }
  return best;
}

void Collection::write_dropped(const Recorder& recorder) noexcept {
  trace::ActivityDropped record;
  record.by_cupti = dropped_by_cupti_.exchange(0);
  record.by_recorder = dropped_by_recorder_.exchange(0);  // mutant: drops_cleared_unread
  if (record.by_cupti == 0 && record.by_recorder == 0) return;
  record.record.kind = trace::kind_of<trace::ActivityDropped>();
  record.record.time = recorder.ticks();
  if (recorder.write(&record, sizeof record, nullptr, 0)) return;
  dropped_by_cupti_.fetch_add(record.by_cupti);
  dropped_by_recorder_.fetch_add(record.by_recorder);  // mutant: drops_given_up
}

bool Collection::read_one(const Recorder* recorder) noexcept {
  Buffers::Filled filled;
  if (!buffers_.take_filled(filled)) return false;
  if (recorder != nullptr) {  // mutant: read_after_release
    Walk walk(library_.load()->real(), filled.bytes, filled.valid_bytes);
    for (RawRecord record; walk.next(record);) {
      if (take_over(record, settings_, *recorder) == Taken::kNoRoom)
        dropped_by_recorder_.fetch_add(1);
    }
  }
  buffers_.release(filled);
  return true;
}

// A note for which `recorder` has no room is kept, and written by a later call.
void Collection::write_notes(const Recorder& recorder) noexcept {
  for (;;) {
    StateEntry entry;
    {
      const SpinGuard guard(notes_lock_);
      if (states_written_ == state_count_) break;
      entry = states_[states_written_];
    }
    entry.record.record.kind = trace::kind_of<trace::ActivityState>();
    entry.record.record.time = recorder.ticks();
    if (!recorder.write(&entry.record, sizeof entry.record, entry.text, strlen(entry.text))) return;
    const SpinGuard guard(notes_lock_);
    ++states_written_;
  }
  for (;;) {
    trace::ActivityClock clock;
    {
      const SpinGuard guard(notes_lock_);
      if (clock_count_ == 0) return;
      clock = clocks_[0];
    }
    if (!recorder.write(&clock, sizeof clock, nullptr, 0)) return;
    const SpinGuard guard(notes_lock_);
    for (std::size_t i = 1; i < clock_count_; ++i) clocks_[i - 1] = clocks_[i];
    --clock_count_;
  }
}

void Collection::reset() noexcept {
  notes_lock_.free_in_child();  // mutant: child_has_parents_lock
  state_.store(State::kOff);
  library_.store(nullptr);
  buffers_.reset();  // mutant: child_has_parents_buffers
  settings_ = TakeOver{};
  mode_ = ActivityMode::kOff;
  in_call_.store(false);
  reading_.store(false);
  epoch_.store(0);
  dropped_by_cupti_.store(0);
  dropped_by_recorder_.store(0);
  state_count_ = states_written_ = clock_count_ = 0;
}

}  // namespace gpumemtrace::cupti
