// SPDX-License-Identifier: Apache-2.0
// Call stacks that threads meet for the first time, in every order of the threads' steps: if a
// record names a stack, the trace has the stack and the code objects that the stack names, even if
// the process dies at once, a thread is jumped out of, or the ring has no room for a while. This
// file plays the Python interpreter and the native unwinder.
#include <array>
#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <vector>

#include "preload/stacks/stacks.cpp"  // NOLINT: one unit, so that all of it is instrumented
#include "tests/exploration/run_all.hpp"
#include "tests/exploration/session_stub.hpp"
#include "tests/exploration/world.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::exploration {
namespace {

// The frames of each thread by its number: code objects, innermost first.
std::array<std::vector<int>, kMostThreads> frames_of_thread;

const void* code_object(int number) {
  static const std::array<int, 8> objects = {};
  return &objects[static_cast<std::size_t>(number)];
}

}  // namespace
}  // namespace gpumemtrace::exploration

// Plays the Python interpreter.
namespace gpumemtrace::preload {
namespace python {

constinit std::atomic<State> current_state = State::kNotLooked;
std::uint32_t version_hex() noexcept { return 0x030b0000; }
std::uint64_t read_stack(std::size_t, std::uint64_t, Walk&) noexcept {
  const exploration::Unseen unseen;
  const std::vector<int>& own = exploration::frames_of_thread[exploration::current_thread()];
  std::uint64_t hash = 0;
  for (std::size_t i = own.size(); i-- > 0;) {
    hash = hash_with(hash, {exploration::code_object(own[i]), 0, 0});
  }
  return hash;
}
std::size_t copy_frames(const Walk&, Frame* out) noexcept {
  const exploration::Unseen unseen;
  std::size_t count = 0;
  for (const int number : exploration::frames_of_thread[exploration::current_thread()]) {
    out[count++] = {exploration::code_object(number), 0, 0};
  }
  return count;
}
bool read_code(const void*, Code&) noexcept { return true; }
std::size_t copy_text(const void*, char* out, std::size_t) noexcept {
  out[0] = 'f';
  return 1;
}
std::string_view bytes_of(const void*) noexcept { return {}; }
bool copy_code(const void*, CodeCopy& out) noexcept {
  out.name_bytes = out.file_bytes = 1;
  return true;
}
void watch_collector() noexcept {}
void WaitingLook::look(std::size_t) noexcept {
  const exploration::Unseen unseen;
  outcomes_[0].count = 1;
  outcomes_[0].found[0].count = 1;
  outcomes_[0].found[0].frames[0] = {exploration::code_object(0), 0, 0};
}
std::span<const WaitingThread> WaitingLook::found() const noexcept {
  return {outcomes_[0].found, outcomes_[0].count};
}

}  // namespace python
namespace native {
bool prepare(SerialOf) noexcept { return true; }
RememberedWalk* read_expected(const Caller&, std::size_t, UnwindCache&) noexcept { return nullptr; }
Walk read_frames(const Caller&, std::uint64_t*, std::size_t, UnwindCache*) noexcept { return {}; }
}  // namespace native
std::uint32_t module_serial(const LoadedModule&) noexcept { return 1; }
bool try_begin_waiting_sample(std::uint64_t) noexcept { return true; }
void end_waiting_sample(std::uint64_t) noexcept {}
void reset_waiting_samples() noexcept {}
void python_runs_here() noexcept {}
}  // namespace gpumemtrace::preload

namespace gpumemtrace::exploration {
namespace {

// The stacks and code objects that stand in the trace, by their ids.
class Written {
 public:
  void add(const trace::RecordHeader& record) {
    if (record.kind == trace::RecordKind::kStack) {
      const auto& stack = trace::as<trace::Stack>(record);
      stacks_[stack.id] = &record;
      for (const std::uint64_t frame : trace::python_frames_of(stack)) {
        codes_of_[stack.id].insert(static_cast<std::uint32_t>(frame >> 32));
      }
    } else if (record.kind == trace::RecordKind::kCode) {
      const auto& code = trace::as<trace::Code>(record);
      texts_of_[code.id][code.text] = &record;
    } else if (record.kind == trace::RecordKind::kFree) {
      named_.insert(trace::as<trace::Free>(record).call.stack);
    } else if (record.kind == trace::RecordKind::kWaitingStack) {
      waiting_ = trace::as<trace::WaitingStack>(record).stack;
      named_.insert(waiting_);
    }
  }
  // Adds all records of the ring, those of the writer `own_writer` first.
  void add_ring(std::uint32_t own_writer) {
    for (const bool adds_own : {false, true}) {
      for_each_record_in_ring([&](std::uint32_t writer, const trace::RecordHeader& record) {
        if ((writer == own_writer) == adds_own) add(record);
      });
    }
  }

  // Checks that the trace has all stacks and code objects that calls and stacks name.
  void promise_all() const {
    for (const trace::StackId stack : named_) {
      promise(stacks_.count(stack) != 0, "a call names a stack that no record tells");
    }
    constexpr std::size_t kTexts = 3;
    for (const auto& [stack, codes] : codes_of_) {
      for (const std::uint32_t code : codes) {
        const auto texts = texts_of_.find(code);
        promise(texts != texts_of_.end() && texts->second.size() == kTexts,
                "a stack names a code object that no record tells");
      }
    }
  }
  // The record of a stack and those of its code objects.
  std::vector<const trace::RecordHeader*> records_of(trace::StackId stack) const {
    std::vector<const trace::RecordHeader*> records = {stacks_.at(stack)};
    for (const std::uint32_t code : codes_of_.at(stack)) {
      for (const auto& [text, record] : texts_of_.at(code)) records.push_back(record);
    }
    return records;
  }

  trace::StackId waiting() const { return waiting_; }

 private:
  trace::StackId waiting_ =
      trace::StackId::kNone;  // the stack that a waiting thread was last seen with
  std::map<trace::StackId, const trace::RecordHeader*> stacks_;
  std::map<trace::StackId, std::set<std::uint32_t>> codes_of_;
  std::map<std::uint32_t, std::map<trace::CodeText, const trace::RecordHeader*>> texts_of_;
  std::set<trace::StackId> named_;
};

class StackWorld : public World {
 public:
  StackWorld(RingSize size, std::vector<std::vector<int>> frames) : World(size) {
    Config config;
    config.native_stacks = NativeStacks::kNone;
    reset_stacks(config);
    python::current_state.store(python::State::kOn);
    attach_before(frames.size());
    for (std::size_t i = 0; i < frames.size(); ++i) frames_of_thread[i] = std::move(frames[i]);
  }
  ~StackWorld() { python::current_state.store(python::State::kNotLooked); }

  // Makes a call under the calling thread's stack and checks that the stack is recorded.
  void use(std::uint32_t number) {
    const CallGuard guard;
    const trace::StackId stack = current_stack(guard, {}, StackUse::kCall);
    call(number, stack);
    promise_is_told(stack);
  }
  // The calling thread has no Python frames and records the stack of a thread that waits in code
  // object 0.
  void look_at_waiting() {
    const CallGuard guard;
    current_stack(guard, {}, StackUse::kCall);
    trace::StackId stack = trace::StackId::kNone;
    {
      const Unseen unseen;
      Written written;
      written.add_ring(thread_state.writer_id);
      stack = written.waiting();
    }
    promise_is_told(stack);
  }

 private:
  // The stack's records must stay complete, whatever happens to the process from now on.
  static void promise_is_told(trace::StackId stack) {
    std::vector<const trace::RecordHeader*> records;
    {
      const Unseen unseen;
      Written written;
      written.add_ring(thread_state.writer_id);
      written.promise_all();
      records = written.records_of(stack);
    }
    for (const trace::RecordHeader* record : records) {
      read_published(record, record->words * trace::kWordBytes);
    }
    const Unseen unseen;
    records = {};  // freed now: the explorer may abandon the function before its end
  }
};

// A thread that makes one call under its stack.
std::function<void()> user(StackWorld& world, std::uint32_t number) {
  return [&world, number] {
    world.be_attached();
    world.use(number);
  };
}

// Two threads meet the same new stack at once.
Outcome new_stack() {
  StackWorld world({4}, {{0}, {0}});
  return explore(world.scenario({user(world, 0), user(world, 100)}, false));
}

// Two threads meet two new stacks that have a new code object in common.
Outcome new_code() {
  StackWorld world({4}, {{0, 1}, {2, 1}});
  return explore(world.scenario({user(world, 0), user(world, 100)}, false));
}

// A thread writes the stack of a waiting thread while another one meets the same stack itself.
Outcome stack_of_waiting_thread() {
  StackWorld world({4}, {{0}, {}});
  return explore(world.scenario({user(world, 0),
                                 [&] {
                                   world.be_attached();
                                   world.look_at_waiting();
                                 }},
                                false));
}

// The process dies before any store: if a stack's record is there, so are its code objects.
Outcome death_at_new_stack() {
  StackWorld world({4}, {{0, 1}});
  Scenario scenario = world.scenario({user(world, 0)}, true);
  scenario.death = [&] {
    {
      const Unseen unseen;
      Written written;
      written.add_ring(0);
      written.promise_all();
    }
    world.die();
  };
  return explore(scenario);
}

// A signal handler jumps out, before any access, while a thread interns a stack; the same thread
// meets the stack again, or another thread does.
Outcome stack_left_anywhere() {
  StackWorld world({4}, {{0, 1}});
  return explore(world.scenario({[&] {
                                  world.be_attached();
                                  run_until_left([&] { world.use(0); });
                                  world.use(1);
                                }},
                                false));
}
Outcome stack_left_to_another() {
  StackWorld world({4}, {{0}, {0}});
  return explore(world.scenario({[&] {
                                   world.be_attached();
                                   run_until_left([&] { world.use(0); });
                                 },
                                 user(world, 100)},
                                false));
}

// The ring has no room while a stack is met for the first time, and gets room at any later moment:
// a stack that is named when there is room for all its records is in the trace.
Outcome stack_without_room() {
  StackWorld world({2}, {{0}, {}});
  Written written;
  std::list<std::vector<std::byte>> packed;  // not explored; `written` points into them
  static std::atomic<bool> has_room = false;
  const auto pack = [&] {
    preload::pack_sealed(world.session().ring, [&](const Span& span) {
      const Unseen unseen;
      packed.emplace_back(span.records.begin(), span.records.end());
      for_each_record(packed.back(),
                      [&](const trace::RecordHeader& record) { written.add(record); });
      return true;
    });
    has_room.store(true);
  };
  Scenario scenario;
  scenario.begin = [&] {
    world.begin();
    const Unseen unseen;
    written = Written{};
    packed.clear();
  };
  scenario.threads = {[&] {
                        world.be_attached();
                        for (std::uint32_t i = 0; i < 4; ++i) world.record(i);
                        current_stack(CallGuard(), {}, StackUse::kCall);
                        while (!has_room.load()) wait_for_others();
                        world.call(5, current_stack(CallGuard(), {}, StackUse::kCall));
                      },
                      pack};
  scenario.end = [&] {
    const Unseen unseen;
    written.add_ring(0);
    written.promise_all();
  };
  return explore(scenario);
}

}  // namespace

const std::vector<Proof>& proofs() {
  static const std::vector<Proof> all = {
      {"stack_without_room", stack_without_room},
      {"death_at_new_stack", death_at_new_stack},
      {"new_stack", new_stack},
      {"stack_of_waiting_thread", stack_of_waiting_thread},
      {"new_code", new_code},
      {"stack_left_anywhere", stack_left_anywhere},
      {"stack_left_to_another", stack_left_to_another},
  };
  return all;
}

}  // namespace gpumemtrace::exploration
