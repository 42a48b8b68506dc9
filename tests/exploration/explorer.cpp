// SPDX-License-Identifier: Apache-2.0
#include "tests/exploration/explorer.hpp"

#include <errno.h>
#include <setjmp.h>
#include <ucontext.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/exploration/explorer_access.hpp"
#include "tests/exploration/schedule.hpp"

namespace gpumemtrace::exploration {
namespace {

constexpr std::size_t kStackBytes = 256 << 10;
constexpr std::size_t kMostSteps = 4000;  // of one execution; more are taken for an endless loop
constexpr std::size_t kDeath = kMostThreads;

// The code that runs, which decides how the explorer treats its accesses.
enum class Mode {
  kOutside,  // the explorer itself: accesses are ignored
  kAlone,    // begin() and end(): memory is restored afterwards
  kThread,   // one of the scenario's threads
  kDying,    // death(): its loads read memory, its stores are not published
};

struct Range {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  [[nodiscard]] bool contains(std::uintptr_t place) const { return place - begin < bytes; }
};

struct Fiber {
  ucontext_t context;
  std::unique_ptr<std::byte[]> stack;
  std::vector<std::byte> locals;  // the thread's thread-local objects while it does not run
  Operation next;
  bool is_over = false;
  bool is_waiting = false;
  std::size_t waits_since = 0;  // the value of stores_ when it began to wait
};

class Exploration {
 public:
  explicit Exploration(Reduction reduction) : schedule_(reduction) {}
  Outcome run(const Scenario& scenario);

  [[noreturn]] void violate(const std::string& what) {
    mode_ = Mode::kOutside;
    outcome_.violation = what + describe_steps();
    leave_execution();
  }
  std::size_t current() const { return current_; }
  void watch_file(Range file) { file_ = file; }
  void make_thread_local(Range object);
  Mode exchange_mode(Mode mode) { return std::exchange(mode_, mode); }
  void file_changes();
  void wait_for_others();
  void run_until_left(const std::function<void()>& work);

  void before_plain(std::uintptr_t place, std::size_t bytes, PlainAccess access);
  void before_atomic(std::uintptr_t place, std::size_t bytes, bool writes);
  std::uint64_t load(std::uintptr_t place, std::uint64_t value, Order order);
  void stored(std::uintptr_t place, std::uint64_t old_value, std::uint64_t new_value, Order order,
              bool modifies);
  void read_published(std::uintptr_t place, std::size_t bytes);

 private:
  // Sets the mode while it lives; by default, accesses of the explorer itself are ignored.
  class Inside {
   public:
    explicit Inside(Exploration& exploration, Mode mode = Mode::kOutside)
        : exploration_(exploration), previous_(exploration.mode_) {
      exploration.mode_ = mode;
    }
    ~Inside() { exploration_.mode_ = previous_; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    Exploration& exploration_;
    Mode previous_;
  };
  struct OldBytes {
    std::uintptr_t place;
    std::size_t bytes;
    std::byte content[16];
  };

  void run_execution();
  void run_threads();
  static void fiber_main();
  void make_step(const Operation& operation);
  void hand_over(bool is_over);
  [[noreturn]] void leave_execution();
  void die();
  void remember(std::uintptr_t place, std::size_t bytes);
  void put_back();
  void leave_here(std::uintptr_t place);
  bool is_on_stack(std::uintptr_t place) const;
  [[nodiscard]] std::vector<std::byte> locals() const;
  void set_locals(const std::vector<std::byte>& contents);
  bool is_private(std::uintptr_t place) const;
  std::string describe_steps() const;

  const Scenario* scenario_ = nullptr;
  Outcome outcome_;
  Schedule schedule_;
  MemoryModel memory_;
  Mode mode_ = Mode::kOutside;
  std::size_t current_ = 0;
  std::size_t steps_ = 0;
  std::size_t stores_ = 0;
  std::size_t leaver_ = kDeath;  // the thread inside run_until_left(); kDeath = none
  jmp_buf place_to_go_on_;
  bool is_complete_ = false;
  Range file_;
  std::vector<Range> locals_;
  std::vector<std::byte> initial_locals_;
  std::array<Fiber, kMostThreads> fibers_;
  ucontext_t main_;
  std::vector<OldBytes> undo_;
};

Exploration* exploring = nullptr;

Outcome Exploration::run(const Scenario& scenario) {
  scenario_ = &scenario;
  for (std::size_t i = 0; i < scenario.threads.size(); ++i) {
    fibers_[i].stack = std::make_unique<std::byte[]>(kStackBytes);
  }
  do {
    run_execution();
    put_back();
  } while (outcome_.violation.empty() && schedule_.advance());
  return outcome_;
}

void Exploration::run_execution() {
  schedule_.restart();
  memory_.reset();
  steps_ = stores_ = 0;
  leaver_ = kDeath;
  is_complete_ = false;
  {
    const Inside inside(*this, Mode::kAlone);
    scenario_->begin();
  }
  initial_locals_ = locals();
  run_threads();
  ++outcome_.executions;
  outcome_.steps += steps_;
  set_locals(initial_locals_);
  if (!is_complete_ || !outcome_.violation.empty()) return;
  volatile bool came_back = false;  // execution continues at getcontext() if end() calls violate()
  getcontext(&main_);
  if (came_back) {
    mode_ = Mode::kOutside;
    return;
  }
  came_back = true;
  const Inside inside(*this, Mode::kAlone);
  scenario_->end();
}

void Exploration::run_threads() {
  volatile bool is_running = false;
  for (std::size_t i = 0; i < scenario_->threads.size(); ++i) {
    Fiber& fiber = fibers_[i];
    fiber.is_over = fiber.is_waiting = false;
    fiber.next = Operation{};
    fiber.locals = initial_locals_;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, fiber_main, 0);
  }
  current_ = kDeath;
  getcontext(&main_);  // leave_execution() continues here
  if (is_running) {
    mode_ = Mode::kOutside;
    return;
  }
  is_running = true;
  hand_over(/*is_over=*/false);
}

void Exploration::fiber_main() {
  Exploration& self = *exploring;
  {
    const Inside inside(self, Mode::kThread);
    self.scenario_->threads[self.current_]();
  }
  self.hand_over(/*is_over=*/true);
}

// Called when the running thread is about to make a step; returns when it is the thread's turn.
void Exploration::make_step(const Operation& operation) {
  fibers_[current_].next = operation;
  hand_over(/*is_over=*/false);
  if (++steps_ > kMostSteps) violate("a thread makes steps without end");
}

// Chooses the thread that makes the next step and switches to it; it may be the running one.
void Exploration::hand_over(bool is_over) {
  if (is_over) fibers_[current_].is_over = true;
  std::array<Operation, kMostThreads + 1> next;
  ThreadSet enabled = 0;
  ThreadSet waiting = 0;
  ThreadSet woken = 0;
  for (std::size_t i = 0; i < scenario_->threads.size(); ++i) {
    const Fiber& fiber = fibers_[i];
    if (fiber.is_over) continue;
    next[i] = fiber.next;
    (fiber.is_waiting ? waiting : enabled) |= ThreadSet{1} << i;
    if (fiber.is_waiting && fiber.waits_since != stores_) woken |= ThreadSet{1} << i;
  }
  if (enabled == 0 && waiting != 0 && woken == 0) violate("a thread waits for ever");
  if (enabled == 0) enabled = woken;
  if (scenario_->death != nullptr) {
    next[kDeath].is_death = true;
    enabled |= ThreadSet{1} << kDeath;
  }
  const ThreadSet death = ThreadSet{1} << kDeath;
  is_complete_ = (enabled & ~death) == 0;
  if (enabled == 0) leave_execution();
  const std::size_t thread =
      schedule_.next_thread(enabled, next, current_ == kDeath ? 0 : current_);
  if (thread == Schedule::kNone) leave_execution();
  if (thread == kDeath) {
    is_complete_ = false;
    die();
    leave_execution();
  }
  if (thread == current_ && !is_over) return;
  const std::size_t previous = current_;
  current_ = thread;
  if (previous != kDeath) fibers_[previous].locals = locals();
  set_locals(fibers_[thread].locals);
  if (previous == kDeath) {
    setcontext(&fibers_[thread].context);
  } else {
    swapcontext(&fibers_[previous].context, &fibers_[thread].context);
  }
}

void Exploration::leave_execution() {
  setcontext(&main_);
  std::abort();  // not reached
}

void Exploration::die() {
  const std::size_t last = current_;
  current_ = kDeath;
  {
    const Inside inside(*this, Mode::kDying);
    scenario_->death();
  }
  current_ = last;
}

void Exploration::wait_for_others() {
  if (mode_ == Mode::kDying) violate("after a death or fork, one waits for what is gone");
  if (mode_ != Mode::kThread) return;
  const Inside inside(*this);
  Fiber& fiber = fibers_[current_];
  fiber.is_waiting = true;
  fiber.waits_since = stores_;
  make_step(Operation{});
  fiber.is_waiting = false;
}

void Exploration::remember(std::uintptr_t place, std::size_t bytes) {
  while (bytes > 0) {
    OldBytes old{place, bytes < sizeof old.content ? bytes : sizeof old.content, {}};
    std::memcpy(old.content, reinterpret_cast<const void*>(place), old.bytes);
    undo_.push_back(old);
    place += old.bytes;
    bytes -= old.bytes;
  }
}

void Exploration::put_back() {
  for (; !undo_.empty(); undo_.pop_back()) {
    const OldBytes& old = undo_.back();
    std::memcpy(reinterpret_cast<void*>(old.place), old.content, old.bytes);
  }
}

void Exploration::run_until_left(const std::function<void()>& work) {
  {
    const Unseen unseen;
    leaver_ = current_;
  }
  if (setjmp(place_to_go_on_) == 0) work();
  const Unseen unseen;
  leaver_ = kDeath;
}

// Called before an access of a thread in run_until_left(). In one execution the thread makes the
// access, in another one it jumps out to the caller of run_until_left().
void Exploration::leave_here(std::uintptr_t place) {
  if (mode_ != Mode::kThread || leaver_ != current_ || is_on_stack(place)) return;
  {
    const Inside inside(*this);
    if (schedule_.next_value(2) == 0) return;
    leaver_ = kDeath;
  }
  longjmp(place_to_go_on_, 1);
}

// Each execution declares its thread-local objects again; a known object is not added twice.
void Exploration::make_thread_local(Range object) {
  for (const Range& known : locals_) {
    if (known.begin == object.begin) return;
  }
  locals_.push_back(object);
}

std::vector<std::byte> Exploration::locals() const {
  std::vector<std::byte> contents;
  for (const Range& object : locals_) {
    const auto* from = reinterpret_cast<const std::byte*>(object.begin);
    contents.insert(contents.end(), from, from + object.bytes);
  }
  return contents;
}

void Exploration::set_locals(const std::vector<std::byte>& contents) {
  const std::byte* from = contents.data();
  for (const Range& object : locals_) {
    std::memcpy(reinterpret_cast<void*>(object.begin), from, object.bytes);
    from += object.bytes;
  }
}

// True if the address belongs to one thread alone: a thread-local object, errno or a stack.
bool Exploration::is_private(std::uintptr_t place) const {
  for (const Range& object : locals_) {
    if (object.contains(place)) return true;
  }
  if (Range{reinterpret_cast<std::uintptr_t>(&errno), sizeof errno}.contains(place)) return true;
  return is_on_stack(place);
}

bool Exploration::is_on_stack(std::uintptr_t place) const {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  bool is_in_fiber = false;  // true also in death(); memory near a fiber's stack may be anything
  for (const Fiber& fiber : fibers_) {
    const Range stack{reinterpret_cast<std::uintptr_t>(fiber.stack.get()), kStackBytes};
    if (stack.contains(place)) return true;
    is_in_fiber |= stack.contains(here);
  }
  // The thread's original stack, on which begin() and end() run.
  return !is_in_fiber && place - (here - kStackBytes) < 2 * kStackBytes;
}

std::string Exploration::describe_steps() const {
  std::string text = "\n  steps by thread:";
  std::size_t run = 0;
  const std::vector<std::size_t> threads = schedule_.threads();
  for (std::size_t i = 0; i < threads.size(); ++i) {
    ++run;
    if (i + 1 < threads.size() && threads[i + 1] == threads[i]) continue;
    text += threads[i] == kDeath ? " death"
                                 : " " + std::to_string(threads[i]) + "x" + std::to_string(run);
    run = 0;
  }
  return text;
}

void Exploration::before_plain(std::uintptr_t place, std::size_t bytes, PlainAccess access) {
  leave_here(place);
  if (mode_ == Mode::kOutside || is_private(place)) return;
  const Mode mode = mode_;
  const Inside inside(*this);
  if (mode == Mode::kThread) {
    if (access == PlainAccess::kWrite && scenario_->death != nullptr && file_.contains(place)) {
      Operation operation;
      operation.changes_file = true;
      make_step(operation);
    }
    const std::string problem = memory_.plain(current_, place, bytes, access);
    if (!problem.empty()) violate(problem);
  }
  if (access == PlainAccess::kWrite) remember(place, bytes);
}

void Exploration::before_atomic(std::uintptr_t place, std::size_t bytes, bool writes) {
  leave_here(place);
  if (mode_ == Mode::kOutside || is_private(place)) return;
  const Mode mode = mode_;
  const Inside inside(*this);
  if (mode == Mode::kThread) {
    Operation operation;
    operation.place = place;
    operation.writes = writes;
    operation.changes_file = writes && file_.contains(place);
    make_step(operation);
    memory_.tick(current_);
  }
  if (mode != Mode::kAlone) {
    const std::string problem = memory_.atomic(current_, place, bytes, writes);
    if (!problem.empty()) violate(problem);
  }
  if (writes) remember(place, bytes);
}

std::uint64_t Exploration::load(std::uintptr_t place, std::uint64_t value, Order order) {
  if (mode_ == Mode::kOutside || mode_ == Mode::kAlone || is_private(place)) return value;
  const Mode mode = mode_;
  const Inside inside(*this);
  const std::size_t options = memory_.loadable(current_, place, value, order);
  const std::size_t age = mode == Mode::kThread ? schedule_.next_value(options) : 0;
  const std::uint64_t chosen = memory_.load(current_, place, age, order);
  // In death() loads return what is in memory: death() may have stored there itself.
  return mode == Mode::kThread ? chosen : value;
}

void Exploration::stored(std::uintptr_t place, std::uint64_t old_value, std::uint64_t new_value,
                         Order order, bool modifies) {
  if (mode_ != Mode::kThread || is_private(place)) return;
  const Inside inside(*this);
  ++stores_;
  memory_.store(current_, place, old_value, new_value, order, modifies);
  memory_.tick(current_);  // later steps do not happen before an acquiring load
}

void Exploration::file_changes() {
  if (mode_ != Mode::kThread) return;
  const Inside inside(*this);
  Operation operation;
  operation.changes_file = true;
  make_step(operation);
}

void Exploration::read_published(std::uintptr_t place, std::size_t bytes) {
  if (mode_ != Mode::kThread && mode_ != Mode::kDying) return;
  const Inside inside(*this);
  const std::string problem = memory_.plain(current_, place, bytes, PlainAccess::kRead);
  if (!problem.empty()) violate(problem);
}

std::uintptr_t number_of(const void* place) { return reinterpret_cast<std::uintptr_t>(place); }

}  // namespace

Outcome explore(const Scenario& scenario, Reduction reduction) {
  Exploration exploration(reduction);
  exploring = &exploration;
  Outcome outcome = exploration.run(scenario);
  exploring = nullptr;
  return outcome;
}

Unseen::Unseen()
    : mode_(exploring == nullptr ? 0 : static_cast<int>(exploring->exchange_mode(Mode::kOutside))) {
}
Unseen::~Unseen() {
  if (exploring != nullptr) exploring->exchange_mode(static_cast<Mode>(mode_));
}

void violate(const std::string& what) {
  if (exploring != nullptr) exploring->violate(what);
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}
std::size_t current_thread() { return exploring == nullptr ? 0 : exploring->current(); }
void watch_file(const void* begin, std::size_t bytes) {
  exploring->watch_file({number_of(begin), bytes});
}
void file_changes() { exploring->file_changes(); }
void wait_for_others() { exploring->wait_for_others(); }
void run_until_left(const std::function<void()>& work) { exploring->run_until_left(work); }
void make_thread_local(void* object, std::size_t bytes) {
  exploring->make_thread_local({number_of(object), bytes});
}
void read_published(const void* begin, std::size_t bytes) {
  exploring->read_published(number_of(begin), bytes);
}

void before_plain(const void* place, std::size_t bytes, PlainAccess access) {
  if (exploring != nullptr) exploring->before_plain(number_of(place), bytes, access);
}
void before_atomic(const void* place, std::size_t bytes, bool writes) {
  if (exploring != nullptr) exploring->before_atomic(number_of(place), bytes, writes);
}
std::uint64_t load(const void* place, std::uint64_t value, Order order) {
  return exploring == nullptr ? value : exploring->load(number_of(place), value, order);
}
void stored(const void* place, std::uint64_t old_value, std::uint64_t new_value, Order order,
            bool modifies) {
  if (exploring != nullptr) {
    exploring->stored(number_of(place), old_value, new_value, order, modifies);
  }
}

}  // namespace gpumemtrace::exploration
