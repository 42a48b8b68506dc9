// SPDX-License-Identifier: Apache-2.0
// The program of one process: its code and threads, its phases, steps and ranges, and how it uses
// the framework's blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/base/flat_map.hpp"
#include "analyzer/model/accounts/accounts.hpp"
#include "analyzer/model/accounts/present_record.hpp"
#include "analyzer/model/program/backward_stacks.hpp"
#include "analyzer/model/program/categories.hpp"
#include "analyzer/model/program/phases.hpp"
#include "analyzer/model/program/steps.hpp"
#include "analyzer/order/merge.hpp"
#include "analyzer/stacks/dictionary.hpp"
#include "trace/file_layout.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

struct ThreadName {
  std::uint64_t id = 0;  // the kernel's id; 0 = not known
  std::string name;      // empty = the thread has no name
};

// Names of threads, and the thread on which each stack was first met.
class Threads {
 public:
  // `writer`: the writer whose stream has the record; kCheckpointWriter if the record is in a
  // checkpoint and its writer is not known, or is the recorder's own thread.
  void add(const trace::Thread& record, std::string_view name, std::uint32_t writer) {
    if (writer != trace::kCheckpointWriter) program_threads_.insert(record.thread_id);
    ThreadName& thread = by_writer_[writer];
    // The records at the beginnings of chunks do not have the thread's name.
    if (thread.id == record.thread_id && name.empty()) return;
    thread = {record.thread_id, std::string(name)};
    by_id_[record.thread_id] = thread.name;
  }
  void add_stack(trace::StackId stack, std::uint32_t writer) {
    if (writer == trace::kCheckpointWriter) return add_stack_of_checkpoint(stack);
    const auto thread = by_writer_.find(writer);
    if (thread != by_writer_.end()) stacks_.try_emplace(stack, thread->second.id);
  }
  [[nodiscard]] ThreadName of_stack(trace::StackId stack) const {
    const auto found = stacks_.find(stack);
    return found == stacks_.end() ? ThreadName() : of_id(found->second);
  }
  [[nodiscard]] ThreadName of_id(std::uint64_t id) const {
    const auto found = by_id_.find(id);
    return {id, found == by_id_.end() ? std::string() : found->second};
  }

 private:
  // A checkpoint does not tell which thread wrote a stack. It keeps the order of records, and a
  // thread's record comes before its stacks: so the thread is known if it is the only one so far.
  void add_stack_of_checkpoint(trace::StackId stack) {
    if (program_threads_.size() == 1) stacks_.try_emplace(stack, *program_threads_.begin());
  }

  std::map<std::uint32_t, ThreadName> by_writer_;
  std::map<std::uint64_t, std::string> by_id_;
  std::set<std::uint64_t> program_threads_;         // kernel's ids of the program's threads
  std::map<trace::StackId, std::uint64_t> stacks_;  // kernel's id of the first thread, by stack
};

// The name that the program gave one tensor, as numbers of texts (trace::Name).
struct TensorName {
  trace::TensorRole role = trace::TensorRole::kUnknown;
  std::uint32_t name = 0;
  std::uint32_t state = 0;
  std::uint32_t layer = 0;
  std::uint64_t bytes = 0;  // size of the tensor's storage, as the program asked for it

  friend auto operator<=>(const TensorName&, const TensorName&) = default;
};

[[nodiscard]] Category category_of(trace::TensorRole role);

// The names of tensors, by the framework's block that holds them.
// - A name holds for the block that is live at the tensor's address when the name is recorded. A
//   later block at that address has no name until one is recorded.
// - Each set of names that blocks have gets a number, which all blocks with those names share; 0 =
//   no name. Memory grows with the tensors of the program, not with how often they are named.
class TensorNames {
 public:
  // The most names of a block, of which the first are kept: a flat parameter can have more.
  static constexpr std::size_t kMaxNames = 1024;

  void add(const LiveAllocation& block, const trace::Tensor& record);
  [[nodiscard]] std::uint32_t find(const LiveAllocation& block) const;
  // True if the program named a block of this size in this group of allocations a gradient: another
  // block of the group and size that lives from backward to zero_grad is likely a gradient, too.
  [[nodiscard]] bool is_gradient_place(std::uint32_t group, std::uint64_t bytes) const {
    return gradient_places_.count({group, bytes}) != 0;
  }

  [[nodiscard]] bool empty() const { return sets_.empty(); }
  // All names of a block; the first one decides the block's category. A parameter that is also
  // listed in an optimizer's state is a parameter.
  [[nodiscard]] const std::vector<TensorName>& names(std::uint32_t number) const {
    return *sets_[number - 1];
  }

 private:
  struct NamedBlock {
    std::uint64_t address = 0;
    std::uint64_t born = 0;
    std::uint32_t number = 0;
  };
  [[nodiscard]] std::uint32_t number_of(const std::vector<TensorName>& names);

  FlatMap<NamedBlock, &NamedBlock::address> blocks_;
  std::map<std::vector<TensorName>, std::uint32_t> numbers_;
  std::vector<const std::vector<TensorName>*> sets_;  // pointers to the keys of numbers_
  std::set<std::pair<std::uint32_t, std::uint64_t>> gradient_places_;
};

// The model of one process's program. Keeps a reference to the PresentRecord given to the
// constructor, which its owner updates for each record.
class Program final : public BlockUses {
 public:
  // `waits` is given to BackwardStacks.
  Program(const PresentRecord& present, Accounts& accounts, LookAhead& look_ahead,
          std::vector<trace::WaitingStack> waits)
      : present_(present),
        accounts_(accounts),
        backward_stacks_(std::move(waits), look_ahead, dictionary_.python_stacks()) {}
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void add_thread(const trace::Thread& thread);
  void add_stack(const trace::Stack& stack);
  void add_wait(const trace::WaitingStack& wait) { backward_stacks_.add_wait(wait); }
  // Called when all records of the checkpoint have come.
  void begin_after(const trace::Checkpoint& checkpoint) {
    backward_stacks_.begin_at(checkpoint.record.time);
  }
  // Gives a record of text to the dictionary.
  void add_text(const trace::RecordHeader& record) { dictionary_.add(record); }
  void annotate(const trace::Annotation& annotation);

  // The stack to which the present event is attributed. In a checkpoint it is the event's own:
  // too few records are left to find a thread that waited.
  [[nodiscard]] trace::StackId stack_of_event(trace::StackId stack, bool is_block) {
    if (present_.in_checkpoint) return stack;
    return backward_stacks_.stack_of_event(present_.writer, stack, present_.time, is_block);
  }
  // Finds the phase of an event by its stack. Must be called for each event with a stack.
  Phase enter_phase(trace::StackId stack, bool is_block);
  // Notes that a call of the driver returned memory.
  void memory_allocated(const trace::Allocation& call) {
    if (!present_.in_checkpoint) workspaces_.record_allocation(call, present_.writer);
  }
  void block_allocated(std::uint32_t group, const trace::Block& block);
  // Notes that the framework refused a request of the program.
  void ran_out_of_memory() { accounts_.phase_clock().unwinds = !present_.in_checkpoint; }
  // Forgets a freed block. Called after the block's category was chosen.
  void block_gone(std::uint64_t address) { workspaces_.record_release(address); }
  // Notes that a block was freed. If the free has a stack, the stack shows the phase. If not, a
  // gradient freed by a Python thread stands for zero_grad(), which ends a step. `find` returns the
  // block, or nullptr if it is not known.
  template <class Find>
  void block_released(const trace::Block& block, Find&& find);
  // Notes a copy from the host into the block.
  void uploaded(const trace::Copy& call, const LiveAllocation& block);
  // Notes a copy of the contents of a live block to other memory of the device.
  void copied_on_device(const trace::Copy& call, const LiveAllocation& block);
  // Notes the program's name of the content of a live block.
  void name_tensor(const trace::Tensor& tensor, const LiveAllocation& block);
  // Called at the end of the trace; `shortest_period` as in Steps::finish().
  void finish(std::uint64_t shortest_period) {
    steps_.finish(phases_.has_open_step(), shortest_period);
  }
  // Makes the steps as if the trace ended now; they are valid until go_on().
  void pause(std::uint64_t shortest_period) {
    steps_by_now_.emplace(steps_.by_now(phases_.has_open_step(), shortest_period));
  }
  void go_on() { steps_by_now_.reset(); }

  [[nodiscard]] BlockUse use_of(const LiveAllocation& block, const Lifetime& life) const override;

  [[nodiscard]] const Dictionary& dictionary() const { return dictionary_; }
  [[nodiscard]] const BackwardStacks& backward_stacks() const { return backward_stacks_; }
  [[nodiscard]] const Threads& threads() const { return threads_; }
  [[nodiscard]] const Steps& steps() const { return steps_by_now_ ? *steps_by_now_ : steps_; }
  [[nodiscard]] Steps& steps() { return steps_; }
  [[nodiscard]] std::uint64_t backward_passes() const { return phases_.backward_passes(); }
  [[nodiscard]] const TensorNames& tensor_names() const { return tensor_names_; }

 private:
  struct WriterThread {
    std::uint64_t id = 0;
    bool is_first = false;  // the thread that the process began with
  };

  void gradient_released(const LiveAllocation& block);
  [[nodiscard]] bool may_be_gradient(const LiveAllocation& block) const;
  [[nodiscard]] CategoryGuess guess_category(const LiveAllocation& block,
                                             const Lifetime& life) const;

  const PresentRecord& present_;
  Accounts& accounts_;
  Dictionary dictionary_;
  Threads threads_;
  BackwardStacks backward_stacks_;
  Workspaces workspaces_{dictionary_};
  Phases phases_{dictionary_.python_stacks(), accounts_.phase_clock()};
  Steps steps_{accounts_};
  std::optional<Steps> steps_by_now_;  // set between pause() and go_on()
  std::vector<WriterThread> writer_threads_;
  TensorNames tensor_names_;
  SizeSet parameter_sizes_;
  SizeSet backward_sizes_;  // sizes of all blocks that backward made
  std::set<std::uint32_t> input_groups_;
  // Blocks whose content was read from a file and then copied: address and time of birth.
  std::set<std::pair<std::uint64_t, std::uint64_t>> loaded_copies_;
};

template <class Find>
void Program::block_released(const trace::Block& block, Find&& find) {
  if (block.stack != trace::StackId::kNone) {
    static_cast<void>(enter_phase(block.stack, /*is_block=*/true));
    return;
  }
  if (present_.in_checkpoint) return;
  const LiveAllocation* const live =
      backward_stacks_.is_python_thread(present_.writer) ? find() : nullptr;
  if (live == nullptr || !may_be_gradient(*live)) return phases_.record_other_release();
  gradient_released(*live);
}

}  // namespace gpumemtrace::analyzer
