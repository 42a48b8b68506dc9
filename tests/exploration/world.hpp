// SPDX-License-Identifier: Apache-2.0
// A session with a ring of few chunks, and the steps that threads make in it: shared by the
// exploring programs. Each program is one translation unit with the recorder's sources in it,
// compiled with -fsanitize=thread.
#pragma once

#include <errno.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <sys/syscall.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "preload/base/file_thread.cpp"  // NOLINT: one unit, so that all of it is instrumented
#include "preload/ring/control.cpp"      // NOLINT
#include "preload/ring/packer.hpp"
#include "preload/ring/recorder.hpp"
#include "preload/ring/ring.cpp"          // NOLINT
#include "preload/ring/thread_state.cpp"  // NOLINT
#include "preload/ring/writers.cpp"       // NOLINT
#include "preload/session/session.hpp"
#include "tests/exploration/explorer.hpp"
#include "tests/exploration/ledger.hpp"
#include "tests/support/raw_trace.hpp"

namespace gpumemtrace::preload {
constinit bool counter_is_invariant = true;
}  // namespace gpumemtrace::preload

namespace gpumemtrace::exploration {

// Plays the kernel's futex, except that timeouts never expire.
inline long futex(const long (&arguments)[6]) {
  if ((arguments[1] & FUTEX_CMD_MASK) != FUTEX_WAIT) return 0;
  const auto is_expected = [&] {
    const Unseen unseen;  // the check and the sleep are one step
    return reinterpret_cast<const std::atomic<std::uint32_t>*>(arguments[0])->load() ==
           static_cast<std::uint32_t>(arguments[2]);
  };
  errno = EAGAIN;
  if (!is_expected()) return -1;
  while (is_expected()) wait_for_others();
  return 0;
}

}  // namespace gpumemtrace::exploration

// Replaces system calls. Scenario threads are fibers of one system thread: each has its own thread
// id, waits in the explorer instead of the kernel, and needs no closed descriptors or blocked
// signals.
extern "C" long __real_syscall(long number, ...);
extern "C" long __wrap_syscall(long number, ...) {
  if (number == SYS_gettid) {
    return 1 + static_cast<long>(gpumemtrace::exploration::current_thread());
  }
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  if (number == SYS_futex) return gpumemtrace::exploration::futex(arguments);
  if (number == SYS_nanosleep) {
    gpumemtrace::exploration::wait_for_others();
    return 0;
  }
  if (number == SYS_close_range || number == SYS_rt_sigprocmask) return 0;
  return __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3],
                        arguments[4], arguments[5]);
}

namespace gpumemtrace::exploration {
namespace {

using namespace gpumemtrace::preload;

// Tail of a record; two such records fill a chunk of the smallest size.
constexpr std::size_t kBigTailBytes = 1912;

// The ring's free space when the threads begin.
struct RingSize {
  std::uint32_t chunks = 0;  // free chunks of the smallest size
  bool can_grow = false;     // the ring can grow by one chunk of the largest size
};

// Calls `work` with each record in the bytes of a chunk or of a span.
template <class Work>
void for_each_record(std::span<const std::byte> records, Work&& work) {
  for (std::size_t offset = 0; offset < records.size();) {
    const auto* record = reinterpret_cast<const trace::RecordHeader*>(records.data() + offset);
    work(*record);
    offset += record->words * trace::kWordBytes;
  }
}

// Calls `work` with each record that is committed in the ring and with its writer.
template <class Work>
void for_each_record_in_ring(Work&& work) {
  the_session().ring.for_each_chunk([&](const trace::ChunkHeader& chunk) {
    if (chunk.state.load() == trace::ChunkState::kFree) return;
    for_each_record({content_of(chunk), chunk.committed.load()},
                    [&](const trace::RecordHeader& record) { work(chunk.writer, record); });
  });
}

// A session with a ring of few chunks. Constructed before the exploration, which restores its
// memory after each execution.
class World {
 public:
  explicit World(RingSize size, bool has_begun = true) : size_(size) {
    constexpr std::uint32_t kExtentsOfReserve = 13;  // room for all chunks that replenish() makes
    const std::uint32_t extents = size.can_grow ? kExtentsOfReserve + 1 : 1;
    const int error = session_.ring.create(ledger_.ring_path().c_str(), tests::RawTrace::kId,
                                           extents * trace::kMaxChunkBytes);
    if (error != 0) violate("the ring could not be made");
    if (!session_.pool.map_writers()) violate("no memory");
    writer_pool = &session_.pool;
    // Even with kBlock, threads wait for a chunk only in scenarios that set `is_emptied`.
    session_.pool.on_full = OnFull::kBlock;
    take_away(size);
    if (has_begun) start();
  }
  ~World() {
    munmap(session_.pool.writers, sizeof(Writer) * kMaxWriters);
    munmap(session_.pool.links, sizeof(std::atomic<std::uint32_t>) * kMaxWriters);
    session_.~Session();
    control.session.store(kNotStarted);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Session& session() { return session_; }
  Ledger& ledger() { return ledger_; }

  // Starts the session before the threads run.
  void start() {
    session_.pool.session_id = kFirstSessionId;
    control.session.store(session_.id());
  }

  // --- Steps of the scenario's threads.

  void attach() {
    promise(acquire_writer(session_.pool, take_writer(session_.pool)), "there is no writer");
    // If there is no chunk, the record that names the thread is dropped.
    if (thread_state.chunk == nullptr) ledger_.drops_unnumbered();
  }
  // Attaches `count` threads before the exploration, which then covers only their later steps.
  void attach_before(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      attach();
      attached_[i] = std::exchange(thread_state, ThreadState{});
    }
  }
  // Gives the calling thread the state of the attached thread that has its number.
  void be_attached() { thread_state = attached_[current_thread()]; }
  void attach_with_large_chunks() {
    const std::uint32_t index = take_writer(session_.pool);
    session_.pool.writers[index].size_class = Ring::kSizeClasses - 1;
    promise(acquire_writer(session_.pool, index), "there is no writer");
    if (thread_state.chunk == nullptr) ledger_.drops_unnumbered();
  }
  // Makes one record that fills half a chunk.
  void record(std::uint32_t number) {
    static const char tail[kBigTailBytes] = {};
    trace::Text text;
    text.part = number;
    ledger_.begins(number);
    ledger_.ends(number, write_record(text, {tail, sizeof tail}));
  }
  // Makes a call's record: it is written before the call and completed after it.
  void call(std::uint32_t number, trace::StackId stack = trace::StackId::kNone) {
    const CallGuard guard;
    ledger_.begins(number);
    Slot<trace::Free> slot(guard, 0, 0, reinterpret_cast<void*>(std::uintptr_t{number}), stack,
                           trace::ContextId::kNone, [](trace::Free& free) { free.address = 1; });
    if (slot) slot.complete(kCallResult, 1);
    ledger_.ends(number, static_cast<bool>(slot));
  }
  bool append(const Span& span) {
    read_published(span.records.data(), span.records.size());
    file_changes();
    ledger_.append(span);
    return true;
  }
  void pack_sealed() {
    preload::pack_sealed(session_.ring, [this](const Span& span) { return append(span); });
  }
  void pack_active() {
    preload::pack_active(session_.ring, [this](const Span& span) { return append(span); });
  }

  // Runs as the file thread until all of its users have called leave_file_thread().
  void be_file_thread() {
    file_thread::is_file_thread = true;
    file_thread::work_until_stopped();
  }
  void leave_file_thread() {
    const bool is_last = [this] {
      const Unseen unseen;
      return --users_of_file_thread_ == 0;
    }();
    if (is_last) file_thread::stop();
  }

  // --- Begin, end and death of an execution.

  void begin() {
    ledger_.reset();
    make_thread_local(&thread_state, sizeof thread_state);
    watch_file(&session_.ring.header(), session_.ring.capacity());
  }
  // Checks that no record is lost and that every chunk is either free or in use, once.
  void end() {
    ledger_.check_left(session_.ring);
    pack_sealed();
    pack_active();
    ledger_.check_left(session_.ring);
    check_chunks();
    std::uint64_t counted = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(trace::DropClass::kCount); ++i) {
      counted += trace::dropped_records(session_.ring.header(), static_cast<trace::DropClass>(i));
    }
    promise(counted == ledger_.dropped(), "drops are not counted to the last one");
  }
  // Checks that everything which a reader of the file uses was published.
  void die() {
    session_.ring.for_each_chunk([](const trace::ChunkHeader& chunk) {
      if (chunk.state.load(std::memory_order_acquire) == trace::ChunkState::kFree) return;
      const std::uint32_t committed = chunk.committed.load(std::memory_order_acquire);
      read_published(&chunk.writer, sizeof chunk.writer + sizeof chunk.sequence);
      read_published(content_of(chunk), committed);
    });
    ledger_.check_left(session_.ring);
  }

  // A scenario with the file thread as an additional, last thread.
  Scenario scenario_with_file_thread(std::vector<std::function<void()>> threads, bool may_die) {
    const auto users = threads.size();
    for (std::function<void()>& thread : threads) {
      thread = [this, work = std::move(thread)] {
        work();
        leave_file_thread();
      };
    }
    threads.push_back([this] { be_file_thread(); });
    Scenario whole = scenario(std::move(threads), may_die);
    whole.begin = [this, users] {
      begin();
      make_thread_local(&file_thread::is_file_thread, sizeof file_thread::is_file_thread);
      file_thread::state.life.store(file_thread::kRuns);
      const Unseen unseen;
      users_of_file_thread_ = users;
    };
    return whole;
  }
  Scenario scenario(std::vector<std::function<void()>> threads, bool may_die) {
    Scenario scenario;
    scenario.begin = [this] { begin(); };
    scenario.threads = std::move(threads);
    scenario.end = [this] { end(); };
    if (may_die) scenario.death = [this] { die(); };
    return scenario;
  }

 private:
  // Takes all chunks but `size.chunks` out of the ring for good.
  void take_away(RingSize size) {
    constexpr std::uint32_t kExtents[] = {1, 1, 1, 1, 1, 2, 6};
    for (std::uint32_t size_class = 0; size_class < Ring::kSizeClasses; ++size_class) {
      const std::uint32_t chunks_of_extent = 64u >> size_class;
      std::uint32_t count = kExtents[size_class] * chunks_of_extent;
      if (size_class == 0) count -= size.chunks;
      if (size_class > 0 && !size.can_grow) break;
      for (std::uint32_t i = 0; i < count; ++i) session_.ring.take(size_class, true);
    }
  }

  void check_chunks() {
    std::uint32_t active = 0;
    session_.ring.for_each_chunk([&](const trace::ChunkHeader& chunk) {
      promise(chunk.state.load() != trace::ChunkState::kSealed, "a sealed chunk is forgotten");
      active += chunk.state.load() == trace::ChunkState::kActive ? 1 : 0;
    });
    const std::uint32_t chunks = size_.chunks + (size_.can_grow ? 1 : 0);
    std::uint32_t free = 0;
    while (session_.ring.take(0, true) != nullptr) {
      promise(++free <= chunks, "the list of free chunks has one of them twice");
    }
    promise(active + free == chunks, "a chunk is neither free nor anybody's");
  }

  const RingSize size_;
  Session& session_ = *new (&the_session()) Session;
  Ledger ledger_;
  std::array<ThreadState, kMostThreads> attached_ = {};
  std::size_t users_of_file_thread_ = 0;  // accesses are not explored
};

}  // namespace
}  // namespace gpumemtrace::exploration
