// SPDX-License-Identifier: Apache-2.0
// Joins the stacks of PyTorch's autograd threads with that of the Python thread that waits for
// them: a backward pass is carried out on threads of PyTorch's own.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analyzer/base/flat_map.hpp"
#include "analyzer/order/merge.hpp"
#include "analyzer/stacks/python_stacks.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

// The two stacks behind a stack number from kFirstJoined on.
struct JoinedStack {
  trace::StackId own = trace::StackId::kNone;       // recorded with the event; 0 = none was
  trace::StackId inferred = trace::StackId::kNone;  // of the thread that waited
  std::uint64_t thread_id = 0;                      // its
  // The recorder saw it wait. Else it is what the thread did last before, which counts only if
  // that was a backward call.
  bool seen_waiting = false;
};

// A waiting thread records nothing. So a WaitingStack record holds its stack from its last own
// event before the record until its next own event after it, and events of other threads in that
// time are caused by it. A thread of the program makes the record before that of an event that
// needs it; if a recorder's own thread took the sample, the records are known ahead, and the merge
// shows the thread's next event.
//
// Two kinds of threads are joined: those that never had Python frames, and the engine's. Python
// code of an autograd.Function, a compiled function or a hook runs on the engine's threads, too.
// Such a thread is known by a stack that begins in PyTorch's way into a Function, or by a block
// without Python frames while another thread is known to wait: a Python thread has none of those.
//
// An event costs one test in a process without Python stacks, and one comparison more for the
// Python threads' own; results for other threads are kept until a Python thread goes on.
class BackwardStacks {
 public:
  static constexpr std::uint32_t kFirstJoined = std::uint32_t{1} << 31;

  // `waits`: those that are needed ahead of their time. `stacks` has all stacks and code objects
  // that came before an event.
  BackwardStacks(std::vector<trace::WaitingStack> waits, LookAhead& look_ahead,
                 const PythonStacks& stacks);

  void add_stack(const trace::Stack& record);
  void add_thread(std::uint32_t writer, std::uint64_t thread_id);
  // In the order of events, unless it is known already.
  void add_wait(const trace::WaitingStack& wait);
  // A checkpoint's cut: of the threads before it only the waits that go on there are left.
  void begin_at(std::uint64_t cut);

  // The id to use for the stack of an event: its own, or that of a joined one.
  [[nodiscard]] trace::StackId stack_of_event(std::uint32_t writer, trace::StackId stack,
                                              std::uint64_t time, bool is_block) {
    return any_python_ ? find_stack(writer, stack, time, is_block) : stack;
  }

  // The thread has had Python frames and is none of the engine's.
  [[nodiscard]] bool is_python_thread(std::uint32_t writer) {
    return any_python_ && thread_of(writer).role == Role::kPython;
  }

  // nullptr if the id stands for a recorded stack.
  [[nodiscard]] const JoinedStack* find(trace::StackId stack) const {
    const std::size_t index = number_of(stack) - kFirstJoined;
    return number_of(stack) >= kFirstJoined && index < joined_.size() ? &joined_[index] : nullptr;
  }

 private:
  enum class Role : std::uint8_t { kWithoutPython, kPython, kEngine };
  enum class Root : std::uint8_t { kNone, kNotLooked, kPython, kEngine };  // of a Python stack

  struct Thread {
    Role role = Role::kWithoutPython;
    std::uint64_t thread_id = 0;
    std::uint64_t last_own = 0;    // time
    std::uint64_t last_block = 0;  // time of its last block with a stack
    trace::StackId last_block_stack = trace::StackId::kNone;
  };
  // The stack that stands for the missing one, and the time from which to search again.
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
    std::uint64_t key = 0;  // own stack, and 1 + the number of the Waiting above it
    trace::StackId joined = trace::StackId::kNone;
  };

  [[nodiscard]] trace::StackId find_stack(std::uint32_t writer, trace::StackId stack,
                                          std::uint64_t time, bool is_block);
  [[nodiscard]] Thread& thread_of(std::uint32_t writer);
  [[nodiscard]] Root root_of(trace::StackId stack);
  void record_own_event(Thread& thread, trace::StackId stack, std::uint64_t time, bool is_block);
  // For a Python thread that has a block without Python frames: true if it is the engine's.
  [[nodiscard]] bool turns_out_engine(Thread& thread, std::uint64_t time);
  // The thread that waits for the engine's threads at the time.
  [[nodiscard]] Waiting find_waiting(std::uint64_t time);
  void update_waiting(std::uint64_t time);
  [[nodiscard]] trace::StackId join(trace::StackId own);

  std::map<std::uint64_t, std::vector<trace::WaitingStack>> waits_;  // by thread, in time order
  LookAhead& look_ahead_;
  const PythonStacks& stacks_;
  bool any_python_ = false;
  FlatMap<RootOfStack, &RootOfStack::stack> roots_;  // of the stacks with Python frames
  std::map<std::uint32_t, Thread> threads_;          // by writer
  std::uint32_t last_writer_ = 0;
  Thread* last_thread_ = nullptr;

  Waiting waiting_;
  std::uint32_t waiting_number_ = 0;
  std::uint64_t waiting_until_ = 0;  // times before this one have the same answer; 0 = search again
  std::map<Waiting, std::uint32_t> waiting_numbers_;
  FlatMap<Slot, &Slot::key> slots_;
  std::vector<JoinedStack> joined_;
};

}  // namespace gpumemtrace::analyzer
