// SPDX-License-Identifier: Apache-2.0
#include "preload/session/background.hpp"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/base/clock.hpp"
#include "preload/base/message.hpp"
#include "preload/checkpoint/checkpoint.hpp"
#include "preload/driver/coverage.hpp"
#include "preload/loader/lazy_symbols.hpp"
#include "preload/loader/own_thread.hpp"
#include "preload/loader/torch_version.hpp"
#include "preload/python/python_collections.hpp"
#include "preload/python/python_frames.hpp"
#include "preload/python/python_interpreter.hpp"
#include "preload/ring/packer.hpp"
#include "preload/ring/recorder.hpp"
#include "preload/ring/writers.hpp"
#include "preload/session/cupti_collection.hpp"
#include "preload/session/sampler.hpp"
#include "preload/session/session.hpp"
#include "preload/session/session_state.hpp"
#include "preload/session/suppressions.hpp"
#include "preload/stacks/module_list.hpp"
#include "preload/stacks/stacks.hpp"
#include "preload/stacks/waiting_request.hpp"
#include "preload/stacks/waiting_watch.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::uint64_t kSamplePeriodNs = 1'000'000'000;
constexpr std::uint64_t kLeastSlackBytes = 256 << 20;
// After a round, threads look at all code objects of their stacks again, so it is not a short one.
constexpr std::uint64_t kPythonRoundNs = 5'000'000;
constexpr long kBusyPauseNs = 500'000;
constexpr long kIdlePauseNs = 10'000'000;

bool thread_is_gone(std::uint32_t thread_id) noexcept {
  return syscall(SYS_tgkill, getpid(), thread_id, 0) != 0;
}

class BackgroundThread {
 public:
  explicit BackgroundThread(Session& session) noexcept : session_(session) {}

  void run() noexcept {
    static_cast<void>(attach_background_thread());  // writer 0 is there
    begin_reading_cupti();
    while (control.session.load() != kOff) {
      const CallGuard guard;
      guard_ = &guard;
      begin_python_round();
      const std::uint32_t wakes = background_wake.count();
      if (is_recording()) waiting_.look(guard);
      const bool packed = pack_sealed();
      replenish_ring();
      read_activities(guard);
      bound_trace();
      obey_control(guard);
      if (is_recording()) periodic_work(guard);
      answer_flush(guard);
      pause(packed || (is_recording() && waiting_look_is_wanted()), wakes);
    }
    const CallGuard guard;
    end_reading_activities(guard);
    // Whoever waits for a flush must not wait for a thread that is gone.
    session_.pool.is_emptied.store(false);
  }

 private:
  // False before the start has ended, while paused, and after the end.
  bool is_recording() const noexcept { return control.session.load() == session_.id(); }

  void begin_python_round() noexcept {
    const std::uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    if (now_ns - last_python_round_ns_ < kPythonRoundNs) return;
    last_python_round_ns_ = now_ns;
    python::next_round();
    if (python_stacks_off().empty()) python::watch_collector();
  }

  // Buffers that CUPTI has completed. Their records fill the ring faster than calls do, so each is
  // packed before the next.
  void read_activities(const CallGuard& guard) noexcept {
    const bool recorded = is_recording();
    if (recorded) write_cupti_notes(guard);
    while (read_cupti_buffer(guard, recorded)) {
      pack_sealed();
      replenish_ring();
    }
  }

  // Before an end that may come: all that CUPTI has. Once the process exits, libcupti's destructors
  // may run at any moment, and it is not called again.
  void end_activities(const CallGuard& guard) noexcept {
    if (cupti_ended_) return;
    if (is_recording()) flush_cupti(guard, true);
    read_activities(guard);
    if (session_.ring.header().exit_seen.load() == 0) return;
    cupti_ended_ = true;
    end_reading_activities(guard);
  }

  // No buffer stays filled: CUPTI, and with it a profiler of the program's, would lack it.
  void end_reading_activities(const CallGuard& guard) noexcept {
    end_reading_cupti();
    read_activities(guard);
  }

  bool pack_sealed() noexcept {
    return preload::pack_sealed(session_.ring,
                                [this](const Piece& piece) noexcept { return append(piece); });
  }
  void pack_active() noexcept {
    preload::pack_active(session_.ring,
                         [this](const Piece& piece) noexcept { return append(piece); });
  }

  bool append(const Piece& piece) noexcept {
    if (session_.writer.bytes() > most_bytes()) {
      disable(*guard_,
              "the trace is far beyond --max-trace-bytes, and checkpoints do not make it smaller");
      return false;
    }
    const int error =
        session_.writer.append(piece.writer, piece.sequence, piece.begin, piece.records);
    if (error != 0) stop_for_file("the trace file cannot be written", error);
    return error == 0;
  }

  // What is live may need more room than the bound, and a call that does not return keeps all that
  // came after it from being folded. There is an end to that.
  std::uint64_t most_bytes() const noexcept {
    const std::uint64_t bound = session_.config.max_trace_bytes;
    return bound + (bound > kLeastSlackBytes ? bound : kLeastSlackBytes);
  }

  void replenish_ring() noexcept {
    if (session_.ending.load() || session_.ring.replenish()) return;
    stop_for_file("the ring file cannot grow", session_.ring.growth_error());
  }

  // Replaces the oldest part of the trace by a checkpoint before the file reaches its bound. The
  // pause until the next one grows with the file, so that the cost an event stays the same.
  void bound_trace() noexcept {
    const std::uint64_t bound = session_.config.max_trace_bytes;
    if (next_checkpoint_bytes_ == 0) next_checkpoint_bytes_ = bound - bound / 8;
    if (session_.writer.bytes() < next_checkpoint_bytes_ || session_.ending.load()) return;
    CheckpointRequest request;
    request.path = session_.path.c_str();
    request.keep_bytes = bound / 2;
    request.limit_ticks = ticks();
    pack_sealed();
    pack_active();
    request.limit_ticks = first_unpacked_ticks(session_.ring, request.limit_ticks);
    request.owner = this;
    request.keep_up = [](void* owner) noexcept {
      return static_cast<BackgroundThread*>(owner)->keep_up();
    };
    int error = 0;
    if (make_checkpoint(session_.writer, request, error) == CheckpointResult::kFailed) {
      stop_for_file("a checkpoint of the trace could not be made", error);
    }
    const std::uint64_t later = session_.writer.bytes() + bound / 4;
    next_checkpoint_bytes_ = later > bound - bound / 8 ? later : bound - bound / 8;
  }

  // The work that goes on while a checkpoint is made. False where there is no time for it any more.
  bool keep_up() noexcept {
    if (session_.ending.load() || control.session.load() == kOff) return false;
    pack_sealed();
    replenish_ring();
    answer_flush(*guard_);
    return true;
  }

  void stop_for_file(std::string_view what, int error) noexcept {
    Line reason;
    reason << what << ": " << errno_text(error);
    disable(*guard_, reason.c_str());
  }

  void periodic_work(const CallGuard& guard) noexcept {
    // The first time follows the start at once: until it has told the devices, nobody can say that
    // two processes share one.
    const std::uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    if (now_ns - last_sample_ns_ < kSamplePeriodNs && !session_.sample_wanted.exchange(false))
      return;
    last_sample_ns_ = now_ns;
    observe(guard);
    reclaim_writers(session_.pool, thread_is_gone);
  }

  void observe(const CallGuard& guard) noexcept {
    write_clock(guard);
    if (!cupti_ended_) flush_cupti(guard, false);
    if (!devices_written_) {
      record_devices(guard);
      write_driver_version();
      devices_written_ = true;
    }
    record_modules(guard, session_.modules);
    python::refresh(session_.modules);
    write_notes(guard);
    write_common_losses(guard);
    record_samples(guard);
  }

  void write_clock(const CallGuard& guard) noexcept {
    write_event<trace::Clock>(guard, [](trace::Clock& clock) {
      const std::uint64_t before = ticks();
      clock.monotonic_ns = clock_ns(CLOCK_MONOTONIC);
      clock.realtime_ns = clock_ns(CLOCK_REALTIME);
      clock.uncertainty_ticks = ticks() - before;
      clock.background_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    });
  }

  void write_text(trace::TextKey key, std::string_view text, std::uint32_t part = 0) noexcept {
    trace::Text record;
    record.record.kind = trace::RecordKind::kText;
    record.record.time = ticks();
    record.key = key;
    record.part = part;
    write_record(&record, sizeof record, text.data(), text.size());
  }

  void write_driver_version() noexcept {
    const int version = driver_version();
    if (version <= 0) return;
    Line text;
    text << static_cast<std::uint64_t>(version);
    write_text(trace::TextKey::kDriverVersion, text.text());
  }

  // Which interpreter runs here, and why its stacks are not recorded where they are not.
  void write_python_state() noexcept {
    const python::State state = python::state();
    if (state == python_state_written_) return;
    python_state_written_ = state;
    if (const std::uint32_t version = python::version_hex(); version != 0) {
      Line text;
      text << (version >> 24) << "." << (version >> 16 & 0xff) << "." << (version >> 8 & 0xff);
      write_text(trace::TextKey::kPythonVersion, text.text());
    }
    if (state == python::State::kOff) {
      write_text(trace::TextKey::kPythonStacksOff, python::reason());
    } else if (state == python::State::kOn && !python_stacks_off().empty()) {
      write_text(trace::TextKey::kPythonStacksOff, python_stacks_off());
    } else if (state == python::State::kOn && !python::knows_collector()) {
      write_text(
          trace::TextKey::kNote,
          "What Python's cycle collector frees is not told apart: this interpreter keeps its "
          "state elsewhere.");
    }
  }

  void write_native_state() noexcept {
    if (native_state_written_) return;
    native_state_written_ = true;
    if (!native_stacks_off().empty()) {
      write_text(trace::TextKey::kNativeStacksOff, native_stacks_off());
    }
  }

  void write_torch_version() noexcept {
    if (torch_version_written_ || torch_looked_ == session_.modules.changes()) return;
    torch_looked_ = session_.modules.changes();
    char version[64];
    const std::size_t size = read_torch_version(session_.modules, version, sizeof version);
    if (size == 0) return;
    write_text(trace::TextKey::kTorchVersion, {version, size});
    torch_version_written_ = true;
  }

  // What is counted for all threads together.
  void write_common_losses(const CallGuard& guard) noexcept {
    const std::uint64_t stacks = stacks_without_room();
    // Relaxed: a counter, nothing is ordered by it.
    const std::uint64_t parts =
        session_.ring.header().calls_taken_for_parts.load(std::memory_order_relaxed);
    if (stacks == lost_stacks_written_ && parts == lost_parts_written_) return;
    write_event<trace::Gap>(guard, [&](trace::Gap& gap) {
      gap.since = losses_since_;
      gap.stacks = stacks - lost_stacks_written_;
      gap.parts = parts - lost_parts_written_;
    });
    lost_stacks_written_ = stacks;
    lost_parts_written_ = parts;
    losses_since_ = ticks();
  }

  void write_suppressions() noexcept {
    for (; suppressions_written_ < noted_suppression_count(); ++suppressions_written_) {
      const std::string_view text = noted_suppression(suppressions_written_);
      write_text(trace::TextKey::kSuppression, text,
                 static_cast<std::uint32_t>(suppressions_written_));
    }
  }

  void write_notes(const CallGuard& guard) noexcept {
    write_python_state();
    write_native_state();
    write_torch_version();
    write_suppressions();
    for (; runtime_callers_written_ < driver::runtime_caller_count(); ++runtime_callers_written_) {
      write_event<trace::Requester>(guard, [&](trace::Requester& record) {
        record.caller =
            reinterpret_cast<std::uintptr_t>(driver::runtime_caller_at(runtime_callers_written_));
      });
    }
    for (; unwrapped_written_ < driver::unwrapped_count(); ++unwrapped_written_) {
      const driver::Unwrapped& entry = driver::unwrapped_at(unwrapped_written_);
      trace::Unwrapped record;
      record.record.kind = trace::RecordKind::kUnwrapped;
      record.record.time = ticks();
      record.address = reinterpret_cast<std::uintptr_t>(entry.address);
      write_record(&record, sizeof record, entry.name, strlen(entry.name));
    }
  }

  void obey_control(const CallGuard& guard) noexcept {
    trace::ControlMailbox& mailbox = session_.ring.header().mailbox;
    const std::uint32_t requested =
        mailbox.requested.load(std::memory_order_acquire);  // pairs with ctl's release
    if (requested == mailbox.answered.load()) return;
    switch (mailbox.command) {
      case trace::ControlCommand::kStart:
        if (resume_recording(guard)) observe(guard);
        break;
      case trace::ControlCommand::kStop:
        pause_recording(guard);
        break;
      case trace::ControlCommand::kMark: {
        const std::size_t size =
            mailbox.text_bytes < sizeof mailbox.text ? mailbox.text_bytes : sizeof mailbox.text;
        write_mark(trace::MarkKind::kUser, {mailbox.text, size});
        break;
      }
      case trace::ControlCommand::kNone:
        break;
    }
    mailbox.answered.store(requested);
  }

  void answer_flush(const CallGuard& guard) noexcept {
    preload::answer_flush(session_, [&]() noexcept { pack_all(guard); });
  }

  void pack_all(const CallGuard& guard) noexcept {
    // At the very end the driver may have been shut down already.
    if (is_recording() && session_.ending.load()) write_common_losses(guard);
    if (!session_.ending.load()) {
      end_activities(guard);
      if (is_recording()) observe(guard);
      read_activities(guard);
    }
    pack_sealed();
    pack_active();
    if (session_.ending.load()) session_.ring.release_free_chunks();
  }

  // Sleeps until the next round, not at all where somebody asked for one since this one began.
  void pause(bool busy, std::uint32_t wakes) noexcept {
    pause_ns_ = busy ? kBusyPauseNs : (pause_ns_ * 2 < kIdlePauseNs ? pause_ns_ * 2 : kIdlePauseNs);
    background_wake.pause(wakes, pause_ns_);
  }

  Session& session_;
  const CallGuard* guard_ = nullptr;  // of the present round
  std::uint64_t next_checkpoint_bytes_ = 0;
  std::uint64_t last_sample_ns_ = 0;
  std::uint64_t last_python_round_ns_ = 0;
  long pause_ns_ = kBusyPauseNs;
  bool devices_written_ = false;
  bool native_state_written_ = false;
  bool cupti_ended_ = false;
  std::uint64_t lost_stacks_written_ = 0;
  std::uint64_t lost_parts_written_ = 0;
  std::uint64_t losses_since_ = ticks();
  WaitingWatch waiting_;
  std::size_t suppressions_written_ = 0;
  python::State python_state_written_ = python::State::kNotLooked;
  bool torch_version_written_ = false;
  std::uint32_t torch_looked_ = 0;  // changes of the modules at the last look for PyTorch
  std::size_t runtime_callers_written_ = 0;
  std::size_t unwrapped_written_ = 0;
};

// The driver allocates when it is asked something. A thread's first allocation takes locks that all
// threads of the process share: now, while start_background_thread() waits, and not at a moment at
// which the program makes a child that would inherit them.
void prepare_allocation() noexcept {
  void* volatile memory = malloc(1);
  free(memory);
}

void* thread_main(void*) noexcept {
  prctl(PR_SET_NAME, "gpumemtrace", 0, 0, 0);
  prepare_allocation();
  the_session().background_is_ready.store(true);
  BackgroundThread(the_session()).run();
  return nullptr;
}

}  // namespace

bool start_background_thread() noexcept {
  the_session().pool.is_emptied.store(true);
  pthread_t thread;
  const bool started = start_own_thread(thread_main, thread);
  if (started) libc_pthread_detach(thread);
  if (!started) the_session().pool.is_emptied.store(false);
  // Not for ever: a lock of the program that it holds here may be needed there.
  for (int tries = 0; started && tries < 2000 && !the_session().background_is_ready.load();
       ++tries) {
    const timespec pause{0, 50'000};
    nanosleep(&pause, nullptr);
  }
  return started;
}

}  // namespace gpumemtrace::preload
