// Joins the stacks of threads that have no Python frames with that of the Python thread that waits
// for them: PyTorch carries out a backward pass on threads of its own.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analyzer/flat_map.hpp"
#include "analyzer/merge.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

// What stands for a stack number from kFirstJoined on.
struct JoinedStack {
  std::uint32_t own = 0;        // recorded with the event; 0 = none was
  std::uint32_t inferred = 0;   // of the thread that waited
  std::uint64_t thread_id = 0;  // its
  // The recorder saw it wait. Else it is what the thread did last before, which counts only where
  // that was a backward call.
  bool seen_waiting = false;

  friend bool operator==(const JoinedStack&, const JoinedStack&) = default;
};

// A thread that waits records nothing. So a WaitingStack record says where the thread was from its
// last own event before the record until its next own event after it, and events of other threads
// in that time are its doing. The records are known ahead; where a thread's next event stands, the
// merge tells.
//
// An event costs one test in a process without Python stacks, and one comparison more for the
// Python threads' own; what was found for other threads is kept until a Python thread goes on.
class BackwardStacks {
 public:
  static constexpr std::uint32_t kFirstJoined = std::uint32_t{1} << 31;

  BackwardStacks(std::vector<trace::WaitingStack> waits, const LookAhead& look_ahead);

  void add_stack(const trace::Stack& record);
  void add_thread(std::uint32_t writer, std::uint64_t thread_id);

  // The number to use for the stack of an event: its own, or that of a joined one.
  [[nodiscard]] std::uint32_t stack_of_event(std::uint32_t writer, std::uint32_t stack,
                                             std::uint64_t time, bool is_block) {
    return any_python_ ? find_stack(writer, stack, time, is_block) : stack;
  }

  // The thread has had Python frames.
  [[nodiscard]] bool is_python_thread(std::uint32_t writer) {
    return any_python_ && thread_of(writer).has_frames;
  }

  // nullptr where the number stands for a recorded stack.
  [[nodiscard]] const JoinedStack* find(std::uint32_t stack) const {
    const std::size_t index = stack - kFirstJoined;
    return stack >= kFirstJoined && index < joined_.size() ? &joined_[index] : nullptr;
  }

 private:
  struct PythonThread {
    bool has_frames = false;
    std::uint64_t thread_id = 0;
    std::uint64_t last_own = 0;    // time
    std::uint64_t last_block = 0;  // time of its last block with a stack
    std::uint32_t last_block_stack = 0;
  };
  // Whose stack stands for the missing one, and from when on that is asked anew.
  struct Waiting {
    std::uint32_t inferred = 0;
    std::uint64_t thread_id = 0;
    bool seen_waiting = false;
    friend auto operator<=>(const Waiting&, const Waiting&) = default;
  };
  struct Slot {
    std::uint64_t key = 0;  // own stack, and 1 + the number of the Waiting above it
    std::uint32_t joined = 0;
  };

  [[nodiscard]] std::uint32_t find_stack(std::uint32_t writer, std::uint32_t stack,
                                         std::uint64_t time, bool is_block);
  [[nodiscard]] PythonThread& thread_of(std::uint32_t writer);
  [[nodiscard]] bool has_python(std::uint32_t stack) const {
    return stack < has_python_.size() && has_python_[stack] != 0;
  }
  // Who waits for a thread without Python frames at the time.
  [[nodiscard]] Waiting find_waiting(std::uint64_t time);
  void update_waiting(std::uint64_t time);
  [[nodiscard]] std::uint32_t join(std::uint32_t own);

  std::map<std::uint64_t, std::vector<trace::WaitingStack>> waits_;  // by thread, in time order
  const LookAhead& look_ahead_;
  bool any_python_ = false;
  std::vector<std::uint8_t> has_python_;           // by stack
  std::map<std::uint32_t, PythonThread> threads_;  // by writer
  std::uint32_t last_writer_ = 0;
  PythonThread* last_thread_ = nullptr;

  Waiting waiting_;
  std::uint32_t waiting_number_ = 0;
  std::uint64_t waiting_until_ = 0;  // times before this one have the same answer; 0 = ask anew
  std::map<Waiting, std::uint32_t> waiting_numbers_;
  FlatMap<Slot, &Slot::key> slots_;
  std::vector<JoinedStack> joined_;
};

}  // namespace gpumemtrace::analyzer
