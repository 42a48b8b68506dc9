// A session's life in every order of its steps: threads that come while it starts, the program's
// wishes, pauses, the end, a background thread that gives up, and the names that threads meet for
// the first time. What a session is made of (session_start.cpp) is the scenario's.
#include <array>
#include <functional>
#include <set>
#include <string_view>

#include "preload/annotations.cpp"  // NOLINT: one unit, so that a mutant is compiled at once
#include "preload/session.cpp"      // NOLINT
#include "tests/exploration/run_all.hpp"
#include "tests/exploration/world.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::exploration {
namespace {

// What start_session() does in a scenario.
struct Beginning {
  bool fails = false;
  bool is_paused_by_environment = false;
  int count = 0;  // unseen
  // Of a forked child: what a session is made of, instead of what its parent left there.
  const std::vector<std::byte>* session_of_child = nullptr;
  std::atomic<bool> background_thread_began = false;
};
Beginning beginning;

}  // namespace
}  // namespace gpumemtrace::exploration

// The rest of the recorder.
namespace gpumemtrace::preload {

const char* start_session(Wish wish) noexcept {
  exploration::Beginning& beginning = exploration::beginning;
  {
    const exploration::Unseen unseen;
    ++beginning.count;
  }
  if (beginning.fails) return "";
  // Plainly stored: who reads it must have been told.
  Session& session = the_session();
  if (beginning.session_of_child != nullptr) {
    memcpy(static_cast<void*>(&session), beginning.session_of_child->data(), sizeof session);
  }
  session.id = kFirstSessionId + (beginning.session_of_child != nullptr ? 1 : 0);
  session.config.start_paused =
      wish == Wish::kNone ? beginning.is_paused_by_environment : wish == Wish::kPause;
  beginning.background_thread_began.store(true);
  return nullptr;
}
void announce_context(std::uint32_t) noexcept {}
void want_sample() noexcept {}
namespace tracking {
std::uint32_t context_count() noexcept { return 0; }
void reset_if_forked() noexcept {}
}  // namespace tracking

}  // namespace gpumemtrace::preload

namespace gpumemtrace::exploration {
namespace {

// A world without a session; the first thread that wants to record makes it.
class Unbegun : public World {
 public:
  explicit Unbegun(RingSize size, bool fails = false, bool is_paused = false)
      : World(size, /*has_begun=*/false) {
    silence_messages();
    promise(make_thread_end_key(), "there is no key for the ends of threads");
    beginning.fails = fails;
    beginning.is_paused_by_environment = is_paused;
  }
  ~Unbegun() { beginning.fails = beginning.is_paused_by_environment = false; }

  // False where nothing is to be recorded.
  bool use(std::uint32_t number) {
    if (!recording(/*may_start=*/true)) return false;
    record(number);
    return true;
  }
  void wish(bool to_record) {
    const CallGuard guard;
    want_recording(guard, to_record);
  }
  Outcome explore_until(std::vector<std::function<void()>> threads, std::function<void()> check) {
    Scenario whole = scenario(std::move(threads), /*may_die=*/false);
    whole.begin = [this] {
      begin();
      const Unseen unseen;
      beginning.count = 0;
    };
    whole.end = [this, check = std::move(check)] {
      promise(beginning.count == 1, "a session is made twice");
      check();
      end();
    };
    return explore(whole);
  }
};

bool is_recording() { return control.session.load() == the_session().id; }
// Threads come at once: one makes the session, the others wait for it, and all record.
Outcome start() {
  Unbegun world({4});
  const auto thread = [&](std::uint32_t number) {
    return [&world, number] {
      promise(world.use(number), "a thread that comes while the session starts does not record");
    };
  };
  return world.explore_until({thread(0), thread(100)}, [] {});
}

// There can be no session: nobody records, nobody waits, nobody tries again.
Outcome failed_start() {
  Unbegun world({4}, /*fails=*/true);
  const auto thread = [&world] { promise(!world.use(0), "a thread records without a session"); };
  return world.explore_until({thread, thread, thread},
                             [] { promise(control.session.load() == kOff, "it is not off"); });
}

// The program's wish comes before the session, while it starts, or later: it holds.
Outcome wish_for_a_pause() {
  Unbegun world({4});
  return world.explore_until({[&] { world.use(0); }, [&] { world.wish(false); }}, [] {
    promise(control.session.load() == kPaused, "a wish for a pause is lost");
  });
}
Outcome wish_to_record() {
  Unbegun world({4}, /*fails=*/false, /*is_paused=*/true);
  return world.explore_until({[&] { world.use(0); }, [&] { world.wish(true); }},
                             [] { promise(is_recording(), "a wish to record is lost"); });
}

// The background thread cannot write the file before the start has ended: nothing is recorded after
// that, whatever the thread that starts does later.
Outcome background_thread_gives_up() {
  Unbegun world({4});
  return world.explore_until({[&] { world.use(0); },
                              [] {
                                while (!beginning.background_thread_began.load()) wait_for_others();
                                attach_background_thread();
                                const CallGuard guard;
                                disable(guard, "the disk is full");
                              }},
                             [] { promise(control.session.load() == kOff, "it goes on"); });
}

// The process ends while another thread records, by one thread or by two: what the ending thread
// has recorded is packed before it goes on.
void promise_own_is_packed() {
  const Unseen unseen;
  const trace::ChunkHeader& chunk = *thread_state.chunk;
  promise(chunk.packed == chunk.committed.load(),
          "the end came before what was recorded is packed");
}
// What the background thread does when it is asked `times`.
void answer(World& world, std::uint32_t times) {
  const auto answers = [&world] {
    const Unseen unseen;
    return world.session().flush_answered.load();
  };
  for (std::uint32_t before = answers(); before < times; before = answers()) {
    answer_flush(world.session(), [&world] {
      world.pack_sealed();
      world.pack_active();
    });
    if (answers() == before) wait_for_others();
  }
}
Outcome end_while_others_record() {
  World world({5});
  world.session().background_runs.store(true);
  return explore(world.scenario({[&] {
                                   world.attach();
                                   world.call(0);
                                   library_ends();
                                   promise_own_is_packed();
                                 },
                                 [&] {
                                   world.attach();
                                   world.call(100);
                                 },
                                 [&] { answer(world, 1); }},
                                false));
}
Outcome two_ends() {
  World world({5});
  world.session().background_runs.store(true);
  const auto thread = [&world](std::uint32_t number) {
    return [&world, number] {
      world.attach();
      world.call(number);
      ending_comes(trace::MarkKind::kExit);
      promise_own_is_packed();
    };
  };
  return explore(world.scenario({thread(0), thread(100), [&] { answer(world, 2); }}, false));
}

// The thread that runs forks, between any two stores into the ring. The child has a copy of all
// memory but the session's word, which the kernel empties, and of the ring, which it still shares.
// It makes a session of its own and never touches its parent's ring.
class Family {
 public:
  World& parent() { return parent_; }

  void fork() {
    const std::vector<std::byte> before = ring_of_parent();
    control.session.store(kNotStarted);
    beginning.session_of_child = &session_of_child_.bytes;
    promise(recording(/*may_start=*/true), "a forked child does not record");
    child_.record(0);
    promise(thread_state.session == the_session().id, "a forked child has its parent's session");
    const Unseen unseen;
    beginning.session_of_child = nullptr;
    promise(ring_of_parent() == before, "a forked child stores into its parent's ring");
  }

 private:
  static std::vector<std::byte> bytes_of_session() {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&the_session());
    return {bytes, bytes + sizeof(Session)};
  }
  // Sessions stand in one place: the child's is kept while the parent's does.
  struct KeptSession {
    ~KeptSession() { std::memcpy(static_cast<void*>(&the_session()), bytes.data(), bytes.size()); }
    const std::vector<std::byte> bytes = bytes_of_session();
  };
  std::vector<std::byte> ring_of_parent() const {
    const Unseen unseen;
    return {ring_begin_, ring_begin_ + kRingBytes};
  }

  static constexpr std::size_t kRingBytes = trace::kRingHeaderBytes + trace::kMaxChunkBytes;
  World child_{{4}, /*has_begun=*/false};
  const KeptSession session_of_child_;
  World parent_{{4}};
  const std::byte* const ring_begin_ =
      reinterpret_cast<const std::byte*>(&the_session().ring.header());
};
Outcome forked_child() {
  Family family;
  promise(make_thread_end_key(), "there is no key for the ends of threads");
  World& parent = family.parent();
  Scenario scenario = parent.scenario({[&] {
                                         parent.attach();
                                         parent.call(0);
                                         parent.record(1);
                                         parent.record(2);
                                       },
                                       [&] { parent.pack_active(); }},
                                      true);
  scenario.death = [&] { family.fork(); };
  return explore(scenario);
}

// Two threads meet the same new name: where one's record is left, what it names is left, too, even
// if the process dies at once.
const trace::RecordHeader* find_name(std::uint32_t writer) {
  const trace::RecordHeader* found = nullptr;
  the_session().ring.for_each_chunk([&](const trace::ChunkHeader& chunk) {
    if (chunk.state.load() == trace::ChunkState::kFree || chunk.writer != writer) return;
    const std::byte* const content = content_of(chunk);
    for (std::uint32_t offset = 0; offset < chunk.committed.load();) {
      const auto* record = reinterpret_cast<const trace::RecordHeader*>(content + offset);
      if (record->kind == trace::RecordKind::kName) found = record;
      offset += record->words * static_cast<std::uint32_t>(trace::kWordBytes);
    }
  });
  return found;
}
void promise_name_is_left() {
  const trace::RecordHeader* name = nullptr;
  {
    const Unseen unseen;
    const std::uint32_t own = thread_state.writer_id;
    name = find_name(own);
    if (name == nullptr) name = find_name(own == 1 ? 2 : 1);
  }
  promise(name != nullptr, "a record names what no record tells");
  read_published(name, sizeof(trace::Name));
}
Outcome new_name() {
  World world({4});
  reset_names();
  const auto thread = [&world] {
    world.attach();
    Note note;
    note.name = "step";
    annotate(note);
    promise_name_is_left();
  };
  return explore(world.scenario({thread, thread}, false));
}

// Keys that the table looks for in the same place, its first bucket.
std::vector<std::uint64_t> keys_of_one_bucket(std::size_t count) {
  constexpr std::uint32_t kBucketSlots = 8;
  KeyTable empty;
  std::vector<std::uint64_t> keys;
  for (std::uint64_t key = 4; keys.size() < count; key += 4) {
    promise(empty.map(1), "there is no memory");
    bool told = false;
    if (empty.intern(key, told) <= kBucketSlots) keys.push_back(key);
  }
  return keys;
}

// There is room for one key more, and two threads come with one each: one of them gets a number,
// and it is nobody else's.
Outcome full_table() {
  const std::vector<std::uint64_t> keys = keys_of_one_bucket(10);
  KeyTable table;
  promise(table.map(1), "there is no memory");
  std::set<std::uint32_t> taken;
  bool told = false;
  for (std::size_t i = 0; i < 8; ++i) taken.insert(table.intern(keys[i], told));
  std::array<std::uint32_t, 2> numbers = {};
  const auto thread = [&](std::size_t i) {
    return [&, i] {
      bool is_told = false;
      const std::uint32_t number = table.intern(keys[8 + i], is_told);
      const Unseen unseen;
      numbers[i] = number;
    };
  };
  Scenario scenario;
  scenario.begin = [] {};
  scenario.threads = {thread(0), thread(1)};
  scenario.end = [&] {
    promise((numbers[0] == 0) != (numbers[1] == 0), "not one of two keys has the last place");
    promise(taken.count(numbers[0]) + taken.count(numbers[1]) == 0, "two keys have one number");
  };
  return explore(scenario);
}

}  // namespace

const std::vector<Proof>& proofs() {
  static const std::vector<Proof> all = {
      {"failed_start", failed_start},
      {"start", start},
      {"wish_for_a_pause", wish_for_a_pause},
      {"wish_to_record", wish_to_record},
      {"background_thread_gives_up", background_thread_gives_up},
      {"new_name", new_name},
      {"full_table", full_table},
      {"forked_child", forked_child},
      {"two_ends", two_ends},
      {"end_while_others_record", end_while_others_record},
  };
  return all;
}

}  // namespace gpumemtrace::exploration
