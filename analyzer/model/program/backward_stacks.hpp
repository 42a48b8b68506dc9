// SPDX-License-Identifier: Apache-2.0
// Joins the stacks of PyTorch's autograd threads with the stack of the Python thread that waits for
// them: PyTorch runs a backward pass on threads of its own.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analyzer/base/flat_map.hpp"
#include "analyzer/order/merge.hpp"
#include "analyzer/stacks/python_stacks.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

// The two stacks for which one stack id, kFirstJoined or larger, stands.
struct JoinedStack {
  // recorded with the event; 0 = no stack was recorded
  trace::StackId own = trace::StackId::kNone;
  trace::StackId inferred = trace::StackId::kNone;  // stack of the Python thread that waited
  std::uint64_t thread_id = 0;                      // kernel's id of the thread that waited
  // True if the recorder saw that thread wait. Else `inferred` is the stack of the thread's last
  // block: use it only if that stack has a call of backward().
  bool seen_waiting = false;
};

// A thread that waits records nothing. So the stack in its WaitingStack record holds from the
// thread's last own event before that record until its next own event, and events of other threads
// in between are taken to be caused by the waiting thread. A WaitingStack record comes before the
// event that needs it if a thread of the program made it. The recorder's own thread may make it
// later: so the constructor gets these records ahead, and LookAhead tells when the waiting thread's
// next event comes.
//
// The stacks of two kinds of threads are joined: threads that never had Python frames, and those of
// the autograd engine. Python code of an autograd.Function, a compiled function or a hook runs on
// the engine's threads, too. An engine's thread is known by a stack whose outermost frame is the
// function by which PyTorch enters an autograd.Function, or by a block without Python frames while
// another thread is known to wait: a Python thread has no block without Python frames.
//
// An event costs one test in a process without Python stacks, and one comparison more on a Python
// thread; results for other threads are kept until a Python thread goes on.
class BackwardStacks {
 public:
  static constexpr std::uint32_t kFirstJoined = std::uint32_t{1} << 31;

  // `waits`: WaitingStack records that may be needed before their own time. `stacks` must have all
  // stacks and code objects that came before an event.
  BackwardStacks(std::vector<trace::WaitingStack> waits, LookAhead& look_ahead,
                 const PythonStacks& stacks);

  void add_stack(const trace::Stack& record);
  void add_thread(std::uint32_t writer, std::uint64_t thread_id);
  // Adds a waiting stack unless it is known already. Called in the order of events.
  void add_wait(const trace::WaitingStack& wait);
  // Called after the records of a checkpoint, which was taken at the time `cut` and keeps only the
  // waits of threads that still waited at that time.
  void begin_at(std::uint64_t cut);

  // The id to use for the stack of an event: the id of the stack itself, or that of a joined stack.
  [[nodiscard]] trace::StackId stack_of_event(std::uint32_t writer, trace::StackId stack,
                                              std::uint64_t time, bool is_block) {
    return any_python_ ? find_stack(writer, stack, time, is_block) : stack;
  }

  // True if the thread has had Python frames and is none of the autograd engine's.
  [[nodiscard]] bool is_python_thread(std::uint32_t writer) {
    return any_python_ && thread_of(writer).role == Role::kPython;
  }

  // The two stacks behind the id; nullptr if the id is that of a recorded stack.
  [[nodiscard]] const JoinedStack* find(trace::StackId stack) const {
    const std::size_t index = number_of(stack) - kFirstJoined;
    return number_of(stack) >= kFirstJoined && index < joined_.size() ? &joined_[index] : nullptr;
  }

 private:
  enum class Role : std::uint8_t { kWithoutPython, kPython, kEngine };
  // kind of a Python stack's outermost frame
  enum class Root : std::uint8_t { kNone, kNotLooked, kPython, kEngine };

  struct Thread {
    Role role = Role::kWithoutPython;
    std::uint64_t thread_id = 0;
    std::uint64_t last_own = 0;    // time of the thread's last own event
    std::uint64_t last_block = 0;  // time of the thread's last block with a stack
    trace::StackId last_block_stack = trace::StackId::kNone;
  };
  // The thread that waits, and its stack, which other threads' events get in addition.
  struct Waiting {
    trace::StackId inferred = trace::StackId::kNone;
    std::uint64_t thread_id = 0;
    bool seen_waiting = false;
    friend auto operator<=>(const Waiting&, const Waiting&) = default;
  };
  struct RootOfStack {
    std::uint64_t stack = 0;
    Root root = Root::kNotLooked;
  };
  struct Slot {
    std::uint64_t key = 0;  // own stack in the lower 32 bits, waiting_number_ + 1 in the upper
    trace::StackId joined = trace::StackId::kNone;
  };

  [[nodiscard]] trace::StackId find_stack(std::uint32_t writer, trace::StackId stack,
                                          std::uint64_t time, bool is_block);
  [[nodiscard]] Thread& thread_of(std::uint32_t writer);
  [[nodiscard]] Root root_of(trace::StackId stack);
  void record_own_event(Thread& thread, trace::StackId stack, std::uint64_t time, bool is_block);
  // To be called for a thread with the role kPython if one of its blocks has no Python frames. True
  // if another thread waits, so that this thread must be the autograd engine's.
  [[nodiscard]] bool turns_out_engine(Thread& thread, std::uint64_t time);
  // The thread that waits for the autograd engine's threads at the time.
  [[nodiscard]] Waiting find_waiting(std::uint64_t time);
  void update_waiting(std::uint64_t time);
  [[nodiscard]] trace::StackId join(trace::StackId own);

  // waiting stacks by thread id, in the order of time
  std::map<std::uint64_t, std::vector<trace::WaitingStack>> waits_;
  LookAhead& look_ahead_;
  const PythonStacks& stacks_;
  bool any_python_ = false;
  FlatMap<RootOfStack, &RootOfStack::stack> roots_;  // roots of the stacks with Python frames
  std::map<std::uint32_t, Thread> threads_;          // threads by writer
  std::uint32_t last_writer_ = 0;
  Thread* last_thread_ = nullptr;

  Waiting waiting_;
  std::uint32_t waiting_number_ = 0;
  // find_waiting() gives the same before this time; 0 = search again
  std::uint64_t waiting_until_ = 0;
  std::map<Waiting, std::uint32_t> waiting_numbers_;
  FlatMap<Slot, &Slot::key> slots_;
  std::vector<JoinedStack> joined_;
};

}  // namespace gpumemtrace::analyzer
