// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/base/wait.hpp"
#include "preload/loader/own_thread.hpp"
#include "preload/python/python_interpreter.hpp"
#include "preload/ring/control.hpp"
#include "preload/ring/recorder.hpp"
#include "preload/ring/writers.hpp"
#include "preload/session/cupti_collection.hpp"
#include "preload/session/lifecycle.hpp"
#include "preload/session/observation.hpp"
#include "preload/session/session.hpp"
#include "preload/session/trace_packer.hpp"
#include "preload/stacks/stacks.hpp"

namespace gpumemtrace::preload {
namespace {

bool thread_is_gone(std::uint32_t thread_id) noexcept {
  return syscall(SYS_tgkill, getpid(), thread_id, 0) != 0;
}

// Carries out a command that `gpumemtrace ctl` has left in the ring's header, then answers it.
// Calls `resumed()` before the answer if the command resumes the recording.
template <class Resumed>
void handle_control_request(const CallGuard& guard, Session& session, Resumed&& resumed) noexcept {
  trace::ControlMailbox& mailbox = session.ring.header().mailbox;
  const std::uint32_t requested =
      mailbox.requested.load(std::memory_order_acquire);  // pairs with `gpumemtrace ctl`'s store
  if (requested == mailbox.answered.load()) return;
  switch (mailbox.command) {
    case trace::ControlCommand::kStart:
      if (resume_recording(guard)) resumed();
      break;
    case trace::ControlCommand::kStop:
      (void)pause_recording(guard);
      break;
    case trace::ControlCommand::kMark: {
      const std::size_t size =
          mailbox.text_bytes < sizeof mailbox.text ? mailbox.text_bytes : sizeof mailbox.text;
      (void)write_mark(trace::MarkKind::kUser, {mailbox.text, size});
      break;
    }
    case trace::ControlCommand::kNone:
      break;
  }
  mailbox.answered.store(requested);
}

// The jobs of the background thread, and their order in each of its rounds.
class BackgroundThread {
 public:
  explicit BackgroundThread(Session& session) noexcept : session_(session) {}

  void run() noexcept {
    static_cast<void>(attach_background_thread());  // cannot fail: writer 0 is kept free
    begin_reading_cupti();
    while (control.session.load() != kOff) {
      const CallGuard guard;
      round(guard);
    }
    const CallGuard guard;
    activities_.end(guard);
    // Ends the waits of threads that have asked for a flush: no thread will answer them any more.
    session_.pool.is_emptied.store(false);
  }

 private:
  void round(const CallGuard& guard) noexcept {
    pause_.round_begins();
    if (python_stacks_off().empty()) python::watch_collector();
    packer_.pack_sealed(guard);
    packer_.replenish_ring(guard);
    activities_.read(guard);
    limit_trace_size(guard);
    handle_control_request(guard, session_, [&]() noexcept { observation_.observe(guard); });
    if (session_.is_recording()) write_due_records(guard);
    answer_flush(session_, session_.flush_requested.load(), [&]() noexcept { pack_all(guard); });
    const auto has_work = [this]() noexcept {
      return session_.ring.needs_round() || (session_.is_recording() && is_sample_wanted());
    };
    const std::uint64_t longest_ns = session_.is_recording()
                                         ? observation_.pause_ns(RoundPause::kLongestNs)
                                         : RoundPause::kLongestNs;
    pause_.until_woken(has_work, longest_ns);
  }

  void write_due_records(const CallGuard& guard) noexcept {
    switch (observation_.due()) {
      case Observation::Due::kNothing:
        return;
      case Observation::Due::kSamples:
        return observation_.sample(guard);
      case Observation::Due::kEverything:
        observation_.observe(guard);
        reclaim_writers(session_.pool, thread_is_gone);
    }
  }

  bool is_sample_wanted() const noexcept {
    return session_.sample_wanted.load() || session_.driver_memory_changed.load();
  }

  // Keeps the trace file within its size limit. `bound_` calls service_requests() again and again
  // while it makes a checkpoint.
  void limit_trace_size(const CallGuard& guard) noexcept {
    guard_ = &guard;
    const auto service_requests = [](void* owner) noexcept {
      return static_cast<BackgroundThread*>(owner)->service_requests();
    };
    bound_.keep(guard, service_requests, this);
  }

  // Goes on packing and answering flushes while a checkpoint shortens the trace file.
  bool service_requests() noexcept {
    const auto pack = [this]() noexcept {
      packer_.pack_sealed(*guard_);
      packer_.replenish_ring(*guard_);
    };
    return preload::service_requests(session_, pack, [this]() noexcept { pack_all(*guard_); });
  }

  // Observes once more and writes all of the ring to the file, for a flush. At the end of the
  // process the driver may be shut down already, so only losses are observed.
  void pack_all(const CallGuard& guard) noexcept {
    const bool is_last = session_.ending.load();
    if (session_.is_recording() && is_last) observation_.observe_last(guard);
    if (!is_last) {
      activities_.read_all(guard);
      if (session_.is_recording()) observation_.observe_end(guard);
      activities_.read(guard);
    }
    packer_.pack_sealed(guard);
    packer_.pack_active(guard);
    if (session_.ending.load()) session_.ring.release_free_chunks();
  }

  Session& session_;
  const CallGuard* guard_ = nullptr;  // the guard of the present round, for service_requests()
  TracePacker packer_{session_};
  TraceBound bound_{session_, packer_};
  ActivityReader activities_{session_, packer_};
  Observation observation_{session_, activities_};
  RoundPause pause_;
};

// Makes this thread's first allocation, which takes locks that all threads of the process share,
// while the program's thread waits in wait_for_background_thread(). The driver allocates when it is
// asked for its numbers. If that were the thread's first allocation, the program could fork
// meanwhile, and the child would inherit taken locks.
void prepare_allocation() noexcept {
  void* volatile memory = malloc(1);
  free(memory);
}

constinit MakeSession* session_maker = nullptr;  // set before the thread starts

void* thread_main(void*) noexcept {
  prctl(PR_SET_NAME, "gpumemtrace", 0, 0, 0);
  const bool has_session = session_maker();
  start_ends(has_session);
  if (!has_session) return nullptr;
  prepare_allocation();
  the_session().background_is_ready.store(true);
  BackgroundThread(the_session()).run();
  return nullptr;
}

}  // namespace

bool start_background_thread(MakeSession* make) noexcept {
  session_maker = make;
  the_session().pool.is_emptied.store(true);
  return start_own_thread(thread_main);
}

// The wait has a limit: the background thread may need a lock that the calling thread holds.
void wait_for_background_thread() noexcept {
  wait_until([] { return the_session().background_is_ready.load(); }, 2000, 50);
}

}  // namespace gpumemtrace::preload
