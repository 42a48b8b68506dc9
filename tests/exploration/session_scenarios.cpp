// SPDX-License-Identifier: Apache-2.0
// A recording session's life in every order of the threads' steps: threads that come while the
// session starts, the program's requests, the end, a background thread that gives up, and names
// that threads use for the first time.
#include <array>
#include <atomic>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "preload/session/annotations.cpp"  // NOLINT: one unit, so that all of it is instrumented
#include "tests/exploration/session_world.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::exploration {
namespace {

// Several threads come at once: one makes the session, the others wait until it is made, and all
// record.
Outcome start() {
  Unbegun world({4});
  const auto thread = [&](std::uint32_t number) {
    return [&world, number] {
      promise(world.use(number), "a thread that comes while the session starts does not record");
    };
  };
  return world.explore_until({thread(0), thread(100)}, [] {});
}

// The session cannot be made: no thread records, waits for ever or tries again.
Outcome failed_start() {
  Unbegun world({4}, /*fails=*/true);
  const auto thread = [&world] { promise(!world.use(0), "a thread records without a session"); };
  return world.explore_until({thread, thread, thread},
                             [] { promise(control.session.load() == kOff, "it is not off"); });
}

// The program requests a pause before the session, while it starts, or later: the request holds.
Outcome request_for_a_pause() {
  Unbegun world({4});
  return world.explore_until({[&] { world.use(0); }, [&] { world.request(false); }}, [] {
    promise(control.session.load() == kPaused, "a request for a pause is lost");
  });
}
Outcome request_to_record() {
  Unbegun world({4}, /*fails=*/false, /*is_paused=*/true);
  return world.explore_until({[&] { world.use(0); }, [&] { world.request(true); }},
                             [] { promise(is_recording(), "a request to record is lost"); });
}

// The background thread ends the session's start, for which threads wait, and switches the session
// off if it cannot write the file.
void make_session(bool gives_up) {
  while (!beginning.has_begun.load()) wait_for_others();
  start_ends(true);
  static_cast<void>(attach_background_thread());
  const CallGuard guard;
  if (gives_up) end_recording(guard, "the disk is full");
}
Outcome start_ends_elsewhere() {
  Unbegun world({4});
  beginning.ends_elsewhere = true;
  return world.explore_until(
      {[&] { promise(world.use(0), "the thread that starts does not record"); },
       [] { make_session(/*gives_up=*/false); }},
      [] { promise(is_recording(), "the start does not end"); });
}
Outcome background_thread_gives_up() {
  Unbegun world({4});
  beginning.ends_elsewhere = true;
  return world.explore_until({[&] { world.use(0); }, [] { make_session(/*gives_up=*/true); }},
                             [] { promise(control.session.load() == kOff, "it goes on"); });
}

// The process ends while another thread records; one thread ends it, or two do: the records of the
// ending thread are packed before it continues.
Outcome end_while_others_record() {
  World world({5});
  world.session().pool.is_emptied.store(true);
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
  world.session().pool.is_emptied.store(true);
  return explore(world.scenario({[&world] {
                                   world.attach();
                                   process_ends(trace::MarkKind::kExit);
                                   promise_own_is_packed();
                                 },
                                 [] { library_ends(); }, [&] { answer(world, 2); }},
                                false));
}

// The library ends while a checkpoint is made: the ending thread continues only when the half-made
// checkpoint file is gone.
Outcome end_during_checkpoint() {
  World world({5});
  world.session().pool.is_emptied.store(true);
  std::atomic<bool> is_half_made = false;
  const auto pack = [&world] { world.pack_active(); };
  return explore(world.scenario({[&] {
                                   world.attach();
                                   world.call(0);
                                   library_ends();
                                   promise(!is_half_made,
                                           "the end leaves a file that is half made");
                                 },
                                 [&] {
                                   is_half_made = true;
                                   for (int step = 0; step < 2; ++step) {
                                     if (!service_requests(world.session(), pack, pack)) break;
                                   }
                                   is_half_made = false;
                                   answer(world, 1);
                                 }},
                                false));
}

// The running thread forks between any two stores into the ring. The child has a copy of all memory
// except control.session, which the kernel empties, and the ring, which it still shares. The child
// makes its own session and never stores into its parent's ring.
class Family {
 public:
  World& parent() { return parent_; }

  void fork() {
    const std::string before = ring_of_parent();
    control.session.store(kNotStarted);
    beginning.session_of_child = &session_of_child_.bytes;
    promise(recording(/*may_start=*/true), "a forked child does not record");
    child_.record(0);
    promise(thread_state.session == the_session().id(), "a forked child has its parent's session");
    const Unseen unseen;
    beginning.session_of_child = nullptr;
    promise(ring_of_parent() == before, "a forked child stores into its parent's ring");
  }

 private:
  static std::vector<std::byte> bytes_of_session() {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&the_session());
    return {bytes, bytes + sizeof(Session)};
  }
  // Both sessions use the same memory: this object keeps the bytes of the child's session while the
  // parent's session lives.
  struct KeptSession {
    ~KeptSession() { std::memcpy(static_cast<void*>(&the_session()), bytes.data(), bytes.size()); }
    const std::vector<std::byte> bytes = bytes_of_session();
  };
  // Returns a string, because libc compares strings without a call into the explorer for each byte.
  std::string ring_of_parent() const {
    const Unseen unseen;
    return {ring_begin_, kRingBytes};
  }

  static constexpr std::size_t kRingBytes = trace::kRingHeaderBytes + trace::kMaxChunkBytes;
  World child_{{4}, /*has_begun=*/false};
  const KeptSession session_of_child_ = {};
  World parent_{{4}};
  const char* const ring_begin_ = reinterpret_cast<const char*>(&the_session().ring.header());
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

// Two threads use the same new name: if a thread's record that names it is left, the name's own
// record is left, too, even if the process dies at once.
const trace::RecordHeader* find_name(std::uint32_t of_writer) {
  const trace::RecordHeader* found = nullptr;
  for_each_record_in_ring([&](std::uint32_t writer, const trace::RecordHeader& record) {
    if (writer == of_writer && record.kind == trace::RecordKind::kName) found = &record;
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
    Annotation annotation;
    annotation.name = "step";
    annotate(annotation);
    promise_name_is_left();
  };
  return explore(world.scenario({thread, thread}, false));
}

// Keys that the table looks up in the same place, its first bucket.
std::vector<std::uint64_t> keys_of_one_bucket(std::size_t count) {
  constexpr std::uint32_t kBucketSlots = 8;
  KeyTable empty;
  std::vector<std::uint64_t> keys;
  for (std::uint64_t key = 4; keys.size() < count; key += 4) {
    promise(empty.map(1), "there is no memory");
    bool emitted = false;
    if (empty.intern(key, emitted) <= kBucketSlots) keys.push_back(key);
  }
  return keys;
}

// The table has room for one more key, and two threads intern one key each: one key gets a number,
// which no other key has.
Outcome full_table() {
  const std::vector<std::uint64_t> keys = keys_of_one_bucket(10);
  KeyTable table;
  promise(table.map(1), "there is no memory");
  std::set<std::uint32_t> taken;
  bool emitted = false;
  for (std::size_t i = 0; i < 8; ++i) taken.insert(table.intern(keys[i], emitted));
  std::array<std::uint32_t, 2> numbers = {};
  const auto thread = [&](std::size_t i) {
    return [&, i] {
      bool is_emitted = false;
      const std::uint32_t number = table.intern(keys[8 + i], is_emitted);
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
      {"request_for_a_pause", request_for_a_pause},
      {"request_to_record", request_to_record},
      {"background_thread_gives_up", background_thread_gives_up},
      {"start_ends_elsewhere", start_ends_elsewhere},
      {"new_name", new_name},
      {"full_table", full_table},
      {"forked_child", forked_child},
      {"two_ends", two_ends},
      {"end_during_checkpoint", end_during_checkpoint},
      {"end_while_others_record", end_while_others_record},
  };
  return all;
}

}  // namespace gpumemtrace::exploration
