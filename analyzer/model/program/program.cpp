// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/program/program.hpp"

#include <algorithm>
#include <charconv>

#include "trace/reader.hpp"

namespace gpumemtrace::analyzer {

Category category_of(trace::TensorRole role) {
  switch (role) {
    case trace::TensorRole::kParameter:
      return Category::kParameter;
    case trace::TensorRole::kGradient:
      return Category::kGradient;
    case trace::TensorRole::kOptimizerState:
      return Category::kOptimizerState;
    case trace::TensorRole::kBuffer:
      return Category::kBuffer;
    case trace::TensorRole::kUnknown:
      break;
  }
  return Category::kUnknown;
}

void TensorNames::add(const LiveAllocation& block, const trace::Tensor& record) {
  // Ignores roles that only later versions of the recorder know.
  if (category_of(record.role) == Category::kUnknown) return;
  const TensorName name{record.role, record.name, record.state, record.layer, record.bytes};
  const std::uint32_t known = find(block);
  std::vector<TensorName> all;
  if (known != 0) all = names(known);
  if (all.size() == kMaxNames || std::ranges::find(all, name) != all.end()) return;
  // Names of one role stay in the order in which they were recorded.
  const auto after = std::ranges::upper_bound(all, name.role, {}, &TensorName::role);
  all.insert(after, name);
  if (name.role == trace::TensorRole::kGradient) {
    gradient_places_.insert({block.group, block.bytes});
  }
  NamedBlock* entry = blocks_.find(block.address);
  if (entry == nullptr) entry = blocks_.add(block.address);
  *entry = {block.address, block.born, number_of(all)};
}

std::uint32_t TensorNames::find(const LiveAllocation& block) const {
  const NamedBlock* const entry = blocks_.find(block.address);
  return entry == nullptr || entry->born != block.born ? 0 : entry->number;
}

std::uint32_t TensorNames::number_of(const std::vector<TensorName>& names) {
  const auto next = static_cast<std::uint32_t>(sets_.size() + 1);
  const auto [found, added] = numbers_.try_emplace(names, next);
  if (added) sets_.push_back(&found->first);
  return found->second;
}

namespace {

// More writers than any process has: a damaged record must not make the tables huge.
constexpr std::uint32_t kMaxProgramWriters = 1 << 16;

}  // namespace

// Notes which thread writes a stream from now on. A process's first thread has the process's id.
void Program::add_thread(const trace::Thread& thread) {
  const std::uint32_t stream = thread.writer != 0 ? thread.writer : present_.writer;
  threads_.add(thread, trace::tail_of(thread.record), stream);
  backward_stacks_.add_thread(stream, thread.thread_id);
  if (present_.in_checkpoint || present_.writer >= kMaxProgramWriters) return;
  if (present_.writer >= writer_threads_.size()) writer_threads_.resize(present_.writer + 1);
  WriterThread& writer = writer_threads_[present_.writer];
  if (writer.id == thread.thread_id) return;
  if (writer.id != 0) steps_.thread_changed(present_.writer, present_.time);
  std::uint64_t process_id = 0;
  const std::string text = dictionary_.text(trace::TextKey::kProcessId);
  std::from_chars(text.data(), text.data() + text.size(), process_id);
  writer = {thread.thread_id, thread.thread_id == process_id};
}

void Program::add_stack(const trace::Stack& stack) {
  threads_.add_stack(stack.id, present_.writer);
  backward_stacks_.add_stack(stack);
  dictionary_.add(stack.record);
}

void Program::annotate(const trace::Annotation& annotation) {
  // A checkpoint keeps no annotations except marks.
  if (present_.in_checkpoint && annotation.operation != trace::AnnotationOperation::kMark) return;
  steps_.apply(annotation, present_.writer, present_.time);
}

Phase Program::enter_phase(trace::StackId stack, bool is_block) {
  if (present_.in_checkpoint) return phases_.role_of(stack).phase;
  const std::uint32_t writer = present_.writer;
  const bool may_be_engine = is_block && writer < writer_threads_.size() &&
                             writer_threads_[writer].id != 0 && !writer_threads_[writer].is_first;
  const bool worked_before = phases_.has_worked();
  const Phase phase = phases_.note(stack, may_be_engine, present_.time);
  if (phases_.take_step_end()) steps_.optimizer_ended(present_.time);
  if (phases_.has_worked() && !worked_before) steps_.work_began(present_.time);
  return phase;
}

// True for a block made in backward, but not for the gradient of the loss itself, which is freed
// when backward() returns.
bool Program::may_be_gradient(const LiveAllocation& block) const {
  const GroupKey& key = accounts_.group(block.group).key;
  return key.phase == Phase::kBackward && !phases_.role_of(key.site.stack).first_gradient;
}

void Program::gradient_released(const LiveAllocation& block) {
  // The gradient of an input can also be freed when backward() returns.
  const bool of_parameter = parameter_sizes_.empty() || parameter_sizes_.has(block.bytes);
  phases_.record_gradient_release(of_parameter, present_.time);
  if (phases_.take_step_end()) steps_.optimizer_ended(present_.time);
}

void Program::block_allocated(std::uint32_t group, const trace::Block& block) {
  const GroupKey& key = accounts_.group(group).key;
  const auto bytes = static_cast<std::uint64_t>(block.bytes);
  accounts_.phase_clock().unwinds = false;
  if (key.phase == Phase::kNone && phases_.may_place_parameter(key.site.stack)) {
    parameter_sizes_.insert(bytes);
  }
  if (key.phase == Phase::kBackward) backward_sizes_.insert(bytes);
  if (present_.in_checkpoint) return;
  workspaces_.record_block(block, present_.writer);
  steps_.allocated(group, bytes, present_.time);
}

// A call site's blocks receive input if the code that allocates one copies host memory into it.
void Program::uploaded(const trace::Copy& call, const LiveAllocation& block) {
  if (input_groups_.count(block.group) != 0) return;
  const GroupKey& key = accounts_.group(block.group).key;
  if (dictionary_.python_stacks().are_same(key.site.stack, call.call.stack)) {
    input_groups_.insert(block.group);
  }
}

// Notes a block that was read from a file and copied: the copy takes its place.
void Program::copied_on_device(const trace::Copy& call, const LiveAllocation& block) {
  const GroupKey& key = accounts_.group(block.group).key;
  // A copy of half of the block or less shows a use of the block, not its replacement.
  const bool is_whole = call.bytes > block.bytes / 2;
  if (is_whole && phases_.role_of(key.site.stack).loads) {
    loaded_copies_.emplace(block.address, block.born);
  }
}

void Program::name_tensor(const trace::Tensor& tensor, const LiveAllocation& block) {
  tensor_names_.add(block, tensor);
  if (tensor.role == trace::TensorRole::kParameter) parameter_sizes_.insert(block.bytes);
}

CategoryGuess Program::guess_category(const LiveAllocation& block, const Lifetime& life) const {
  if (const std::uint32_t told = tensor_names_.find(block); told != 0) {
    return {category_of(tensor_names_.names(told).front().role), Confidence::kExact};
  }
  const GroupKey& key = accounts_.group(block.group).key;
  BlockFacts facts;
  facts.born_in = key.phase;
  const JoinedStack* const joined = backward_stacks_.find(key.site.stack);
  const trace::StackId own_stack = joined == nullptr ? key.site.stack : joined->own;
  facts.placed = phases_.site_role_of(own_stack);
  facts.on_engine = joined != nullptr;
  const StackRole& role = phases_.role_of(own_stack);
  facts.recomputed = key.phase == Phase::kBackward && role.recomputes;
  facts.is_of_update = role.updates;
  facts.under_autograd = dictionary_.python_stacks().is_under_autograd(own_stack);
  facts.receives_input = input_groups_.count(block.group) != 0;
  facts.gradient_place = tensor_names_.is_gradient_place(block.group, block.bytes);
  facts.parameter_sized = parameter_sizes_.empty() || parameter_sizes_.has(block.bytes);
  facts.backward_sized = backward_sizes_.has_exactly(block.bytes);
  facts.workspace = workspaces_.sign_of(block.address, block.bytes);
  facts.is_loaded_copy = loaded_copies_.contains({block.address, block.born});
  facts.life = life;
  return categorize(facts);
}

BlockUse Program::use_of(const LiveAllocation& block, const Lifetime& life) const {
  const CategoryGuess guess = guess_category(block, life);
  return {static_cast<std::uint8_t>(guess.category), static_cast<std::uint8_t>(guess.confidence),
          tensor_names_.find(block)};
}

}  // namespace gpumemtrace::analyzer
