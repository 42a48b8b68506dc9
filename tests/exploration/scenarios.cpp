// The recorder's own code, in every order of its steps: the stacks of free chunks and writers, the
// hand-out of chunks, the commit of records, sealing, packing, recycling, writers that change
// hands, and the process's death at any of these steps.
//
// This file and the recorder's sources in it are compiled with -fsanitize=thread.
#include <stdarg.h>

#include <array>
#include <memory>
#include <string>

#include "preload/packer.hpp"
#include "preload/ring.cpp"     // NOLINT: one unit, so that a mutant is compiled at once
#include "preload/writers.cpp"  // NOLINT
#include "tests/exploration/explorer.hpp"
#include "tests/exploration/ledger.hpp"
#include "tests/exploration/run_all.hpp"
#include "tests/support/raw_trace.hpp"

// What session.cpp has in the recorder.
namespace gpumemtrace::preload {

constinit thread_local ThreadState thread_state [[gnu::tls_model("initial-exec")]];
constinit Control control;
constinit bool counter_is_invariant = true;

namespace {
constinit Session* session_of_scenario = nullptr;
}
Session& the_session() noexcept { return *session_of_scenario; }
// No scenario jumps out of a hook.
bool CallGuard::is_overwritten(const ThreadState&) noexcept { return false; }

}  // namespace gpumemtrace::preload

// Threads are told apart by their numbers; to the system they are one.
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
  return __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3],
                        arguments[4], arguments[5]);
}

namespace gpumemtrace::exploration {
namespace {

using namespace gpumemtrace::preload;

// Two such records fill a chunk of the smallest size.
constexpr std::size_t kBigTailBytes = 1912;

// How large the ring is before the threads begin, and what it has left.
struct RingSize {
  std::uint32_t chunks = 0;  // free ones, of the smallest size
  bool can_grow = false;     // by one chunk of the largest size
};

// One session with a ring of few chunks. Made before the exploration, which puts back whatever
// happens to it.
class World {
 public:
  explicit World(RingSize size) : size_(size) {
    constexpr std::uint32_t kExtentsOfReserve = 13;  // what replenish() wants of all sizes
    const std::uint32_t extents = size.can_grow ? kExtentsOfReserve + 1 : 1;
    const int error = session_.ring.create(ledger_.ring_path().c_str(), tests::RawTrace::kId,
                                           extents * trace::kMaxChunkBytes);
    if (error != 0) violate("the ring could not be made");
    session_.writers = static_cast<Writer*>(map(sizeof(Writer) * kMaxWriters));
    session_.writer_links = static_cast<std::atomic<std::uint32_t>*>(
        map(sizeof(std::atomic<std::uint32_t>) * kMaxWriters));
    session_.id = kFirstSessionId;
    session_.writer_count.store(1);
    // No thread waits for a chunk: there is no background thread to wait for.
    session_.config.on_full = OnFull::kBlock;
    control.session.store(session_.id);
    session_of_scenario = &session_;
    take_away(size);
  }
  ~World() {
    munmap(session_.writers, sizeof(Writer) * kMaxWriters);
    munmap(session_.writer_links, sizeof(std::atomic<std::uint32_t>) * kMaxWriters);
    session_of_scenario = nullptr;
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Session& session() { return session_; }
  Ledger& ledger() { return ledger_; }

  // --- What threads do.

  void attach() {
    acquire_writer(session_, take_writer(session_));
    // Where there is no chunk, the record that names the thread is dropped.
    if (thread_state.chunk == nullptr) ledger_.drops_unnumbered();
  }
  void attach_with_large_chunks() {
    const std::uint32_t index = take_writer(session_);
    session_.writers[index].size_class = Ring::kSizeClasses - 1;
    acquire_writer(session_, index);
    if (thread_state.chunk == nullptr) ledger_.drops_unnumbered();
  }
  // One record that fills half a chunk.
  void record(std::uint32_t number) {
    static const char tail[kBigTailBytes] = {};
    trace::Text text;
    text.record.kind = trace::RecordKind::kText;
    text.record.time = ticks();
    text.part = number;
    ledger_.begins(number);
    ledger_.ends(number, write_record(&text, sizeof text, tail, sizeof tail));
  }
  // A call that is recorded before and completed after.
  void call(std::uint32_t number) {
    const CallGuard guard;
    ledger_.begins(number);
    Slot<trace::Free> slot(guard, 0, 0, reinterpret_cast<void*>(std::uintptr_t{number}), 0, 0,
                           [](trace::Free& free) { free.address = 1; });
    if (slot) slot.complete(kCallResult, 1);
    ledger_.ends(number, static_cast<bool>(slot));
  }
  bool append(const Piece& piece) {
    read_published(piece.records.data(), piece.records.size());
    file_changes();
    ledger_.append(piece);
    return true;
  }
  void pack_sealed() {
    preload::pack_sealed(session_.ring, [this](const Piece& piece) { return append(piece); });
  }
  void pack_active() {
    preload::pack_active(session_.ring, [this](const Piece& piece) { return append(piece); });
  }

  // --- Around an execution.

  void begin() {
    ledger_.reset();
    make_thread_local(&thread_state, sizeof thread_state);
    watch_file(&session_.ring.header(), session_.ring.capacity());
  }
  // Nothing is lost, every chunk is somewhere, once.
  void end() {
    ledger_.check_left(session_.ring);
    pack_sealed();
    pack_active();
    ledger_.check_left(session_.ring);
    check_chunks();
    std::uint64_t counted = 0;
    for (const auto& dropped : session_.ring.header().dropped) counted += dropped.load();
    promise(counted == ledger_.dropped(), "drops are not counted to the last one");
  }
  // What a reader of the file takes must have been published to it.
  void die() {
    session_.ring.for_each_chunk([](const trace::ChunkHeader& chunk) {
      if (chunk.state.load(std::memory_order_acquire) == trace::ChunkState::kFree) return;
      const std::uint32_t committed = chunk.committed.load(std::memory_order_acquire);
      read_published(&chunk.writer, sizeof chunk.writer + sizeof chunk.sequence);
      read_published(content_of(chunk), committed);
    });
    ledger_.check_left(session_.ring);
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
  // All chunks but `size.chunks` are nobody's, for good.
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

  static void* map(std::size_t bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) violate("no memory");
    return memory;
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
  Session session_;
  Ledger ledger_;
};

// Three threads at the stack of free indexes: nobody gets one that another one has.
Outcome index_stack() {
  static IndexStack stack;
  static std::atomic<std::uint32_t> links[3];
  std::array<bool, 3> is_held = {};  // unseen: told apart by whether it is so, not by who knows it
  const auto take = [&] {
    const std::uint32_t index = stack.pop(links);
    if (index == kNoIndex) return index;
    const Unseen unseen;
    promise(!is_held[index], "two threads have the same index");
    is_held[index] = true;
    return index;
  };
  const auto give_back = [&](std::uint32_t index) {
    if (index == kNoIndex) return;
    {
      const Unseen unseen;
      is_held[index] = false;
    }
    stack.push(index, links);
  };
  Scenario scenario;
  scenario.begin = [&] {
    const Unseen unseen;
    is_held = {};
  };
  scenario.threads = {[&] { give_back(take()); },
                      [&] {
                        const std::uint32_t first = take();
                        take();
                        give_back(first);
                      }};
  scenario.end = [&] {
    int count = 0;
    for (std::uint32_t index = stack.pop(links); index != kNoIndex; index = stack.pop(links)) {
      promise(!is_held[index], "an index is free and held");
      promise(++count <= 3, "the stack has an index twice");
    }
    for (const bool held : is_held) count += held ? 1 : 0;
    promise(count == 3, "an index is lost");
  };
  for (std::uint32_t i = 0; i < 3; ++i) stack.push(i, links);
  Outcome outcome = explore(scenario);
  while (stack.pop(links) != kNoIndex) {
  }
  return outcome;
}

// Two threads fill chunks, the background thread packs them and gives them back.
Outcome hand_out() {
  World world({3});
  const auto thread = [&](std::uint32_t first, std::uint32_t count) {
    return [&world, first, count] {
      world.attach();
      for (std::uint32_t i = 0; i < count; ++i) world.record(first + i);
    };
  };
  return explore(
      world.scenario({thread(0, 3), thread(100, 1), [&] { world.pack_sealed(); }}, false));
}

// The same chunk again and again: what is packed and recycled is filled anew at once.
Outcome recycling() {
  World world({2});
  return explore(world.scenario({[&] {
                                   world.attach();
                                   for (std::uint32_t i = 0; i < 5; ++i) world.record(i);
                                 },
                                 [&] {
                                   for (int i = 0; i < 2; ++i) world.pack_sealed();
                                 }},
                                false));
}

// Calls that have not returned stay in the ring, and the packer goes on behind what it has packed.
Outcome active_chunks() {
  World world({2});
  return explore(world.scenario({[&] {
                                   world.attach();
                                   world.call(0);
                                   world.record(1);
                                   world.record(2);
                                   world.call(3);
                                 },
                                 [&] {
                                   world.pack_active();
                                   world.pack_sealed();
                                   world.pack_active();
                                 }},
                                false));
}

// A ring that is too small: what does not fit is counted.
Outcome full_ring() {
  World world({2});
  const auto thread = [&](std::uint32_t first) {
    return [&world, first] {
      world.attach();
      for (std::uint32_t i = 0; i < 3; ++i) world.record(first + i);
    };
  };
  return explore(world.scenario({thread(0), thread(100)}, false));
}

// Two threads find the ring empty and make it larger.
Outcome growth() {
  World world({0, true});
  const auto thread = [&](std::uint32_t first) {
    return [&world, first] {
      world.attach_with_large_chunks();
      world.record(first);
    };
  };
  return explore(world.scenario({thread(0), thread(100)}, false));
}

// The background thread walks over a ring that is being made larger.
Outcome walk_in_growth() {
  World world({0, true});
  return explore(world.scenario({[&] {
                                   world.attach_with_large_chunks();
                                   world.record(0);
                                 },
                                 [&] { world.pack_active(); }},
                                false));
}

// A thread ends and returns its writer, a new one takes it and goes on in its chunk.
Outcome change_of_hands() {
  World world({3});
  const auto thread = [&](std::uint32_t first) {
    return [&world, first] {
      world.attach();
      world.record(first);
      return_writer(world.session());
    };
  };
  return explore(world.scenario({thread(0), thread(100)}, false));
}

// The background thread takes a writer back from a thread that died, while another one returns its
// own and a third one begins.
std::array<std::atomic<bool>, kMostThreads> dead;
bool is_dead(std::uint32_t thread_id) { return dead[thread_id - 1].load(); }

Outcome reclaimed_writers() {
  World world({4});
  return explore(world.scenario({[&] {
                                   world.attach();
                                   world.record(0);
                                   return_writer(world.session());
                                   dead[0].store(true);
                                 },
                                 [&] {
                                   world.attach();
                                   world.record(100);
                                   world.record(101);
                                 },
                                 [&] { reclaim_writers(world.session(), is_dead); }},
                                false));
}

// A thread dies with a writer that it had from another one, and the next thread begins with it.
Outcome abandoned_writer() {
  World world({4});
  return explore(world.scenario({[&] {
                                   world.attach();
                                   world.record(0);
                                   return_writer(world.session());
                                   world.attach();
                                   world.record(1);
                                   dead[0].store(true);
                                 },
                                 [&] {
                                   reclaim_writers(world.session(), is_dead);
                                   world.pack_sealed();
                                   world.attach();
                                   world.record(100);
                                 }},
                                false));
}

// The process dies before any store, of the recording thread or of the packing one.
Outcome death() {
  World world({2});
  return explore(world.scenario({[&] {
                                   world.attach();
                                   world.record(0);
                                   world.call(1);
                                   world.record(2);
                                   world.record(3);
                                 },
                                 [&] {
                                   world.pack_active();
                                   world.pack_sealed();
                                 }},
                                true));
}

// Likewise where a chunk is used again: what it held must not come back under its new name.
Outcome death_in_reuse() {
  World world({2});
  return explore(world.scenario({[&] {
                                   world.attach();
                                   for (std::uint32_t i = 0; i < 5; ++i) world.record(i);
                                 },
                                 [&] { world.pack_sealed(); }},
                                true));
}

}  // namespace

const std::vector<Proof>& proofs() {
  static const std::vector<Proof> all = {
      // The quick ones first: a mutant ends with the first that notices it.
      {"index_stack", index_stack},
      {"change_of_hands", change_of_hands},
      {"abandoned_writer", abandoned_writer},
      {"reclaimed_writers", reclaimed_writers},
      {"death_in_reuse", death_in_reuse},
      {"full_ring", full_ring},
      {"growth", growth},
      {"walk_in_growth", walk_in_growth},
      {"active_chunks", active_chunks},
      {"death", death},
      {"recycling", recycling},
      {"hand_out", hand_out},
  };
  return all;
}

}  // namespace gpumemtrace::exploration
