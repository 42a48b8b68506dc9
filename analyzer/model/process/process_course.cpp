// SPDX-License-Identifier: Apache-2.0
// The program's own course: threads, phases, steps and ranges, and what blocks are for.
#include <charconv>

#include "analyzer/model/process/process.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::analyzer {
namespace {

// Far above what any process has; a damaged record must not make the tables huge.
constexpr std::uint32_t kMaxWriters = 1 << 16;

}  // namespace

void ProcessModel::apply_thread(const trace::Thread& thread) {
  if (in_checkpoint_ || writer_ >= kMaxWriters) return;
  if (writer_ >= writer_threads_.size()) writer_threads_.resize(writer_ + 1);
  WriterThread& writer = writer_threads_[writer_];
  if (writer.id == thread.thread_id) return;
  if (writer.id != 0) steps_.thread_changed(writer_, now_);
  std::uint64_t process_id = 0;
  const std::string text = dictionary_.text(trace::TextKey::kProcessId);
  std::from_chars(text.data(), text.data() + text.size(), process_id);
  writer = {thread.thread_id, thread.thread_id == process_id};
}

void ProcessModel::apply_annotation(const trace::Annotation& annotation) {
  // Of the others a checkpoint has none.
  if (in_checkpoint_ && annotation.operation != trace::AnnotationOperation::kMark) return;
  steps_.apply(annotation, writer_, now_);
}

Phase ProcessModel::note_phase(std::uint32_t stack, bool is_block) {
  if (in_checkpoint_) return phases_.role_of(stack).phase;
  const bool may_be_engine = is_block && writer_ < writer_threads_.size() &&
                             writer_threads_[writer_].id != 0 && !writer_threads_[writer_].is_first;
  const bool worked_before = phases_.has_worked();
  const Phase phase = phases_.note(stack, may_be_engine, now_);
  if (phases_.take_step_end()) steps_.optimizer_ended(now_);
  if (phases_.has_worked() && !worked_before) steps_.work_began(now_);
  return phase;
}

void ProcessModel::note_block_release(const trace::Block& block) {
  if (block.stack != 0) {
    static_cast<void>(note_phase(block.stack, true));
    return;
  }
  if (in_checkpoint_) return;
  const LiveAllocation* const live =
      backward_stacks_.is_python_thread(writer_) ? framework_.find_block(block.address) : nullptr;
  if (live == nullptr || accounts_.group(live->group).key.phase != Phase::kBackward) {
    return phases_.note_other_release();
  }
  phases_.note_gradient_release(now_);
  if (phases_.take_step_end()) steps_.optimizer_ended(now_);
}

void ProcessModel::note_block(std::uint32_t group, std::uint64_t bytes) {
  const GroupKey& key = accounts_.group(group).key;
  if (key.phase == Phase::kNone && parameter_sizes_.size() < kMaxParameterSizes &&
      phases_.placed_by(key.site.stack) == Placed::kAsParameter) {
    parameter_sizes_.insert(bytes);
  }
  if (!in_checkpoint_) steps_.allocated(group, bytes, now_);
}

// A copy from the host into a block that the same code got just before.
void ProcessModel::note_upload(const trace::Copy& call) {
  const LiveAllocation* const block = framework_.find_block(call.destination);
  if (block == nullptr) return;
  if (input_groups_.count(block->group) != 0) return;
  const GroupKey& key = accounts_.group(block->group).key;
  if (dictionary_.python_stacks().are_same(key.site.stack, call.call.stack)) {
    input_groups_.insert(block->group);
  }
}

Verdict ProcessModel::verdict_on(std::uint32_t group, std::uint64_t bytes,
                                 const Lifetime& life) const {
  const GroupKey& key = accounts_.group(group).key;
  BlockFacts facts;
  facts.born_in = key.phase;
  if (key.phase == Phase::kNone) facts.placed = phases_.placed_by(key.site.stack);
  facts.receives_input = input_groups_.count(group) != 0;
  facts.parameter_sized = parameter_sizes_.empty() || parameter_sizes_.count(bytes) != 0;
  facts.life = life;
  return categorize(facts);
}

BlockUse ProcessModel::use_of(const LiveAllocation& block, const Lifetime& life) const {
  const Verdict verdict = verdict_on(block.group, block.bytes, life);
  return {static_cast<std::uint8_t>(verdict.category),
          static_cast<std::uint8_t>(verdict.confidence)};
}

// Of a block that is live.
HolderKey ProcessModel::holder_of_block(const LiveAllocation& block) const {
  const Lifetime life = accounts_.phase_clock().lifetime_of_live(block.born);
  return {block.group, block.link != 0, verdict_on(block.group, block.bytes, life)};
}

Holders ProcessModel::live_block_holders(std::int32_t device) const {
  Holders holders;
  framework_.for_each_block([&](const LiveAllocation& block) {
    if (!belongs(block, Level::kFramework, device)) return;
    holders[holder_of_block(block)].add(block.bytes, block.born);
  });
  return holders;
}

template <class Visit>
void ProcessModel::for_each_block_at(const PeakSnapshot& moment, std::int32_t device,
                                     Visit&& visit) const {
  framework_.for_each_block([&](const LiveAllocation& block) {
    if (!moment.was_live(block) || !belongs(block, Level::kFramework, device)) return;
    visit(block, holder_of_block(block));
  });
  for (const auto& [block, use] : moment.released()) {
    if (!belongs(block, Level::kFramework, device)) continue;
    const Verdict verdict{static_cast<Category>(use.category),
                          static_cast<Confidence>(use.confidence)};
    visit(block, HolderKey{block.group, block.link != 0, verdict});
  }
}

Holders ProcessModel::block_holders_at(const PeakSnapshot& moment, std::int32_t device) const {
  Holders holders;
  for_each_block_at(moment, device, [&](const LiveAllocation& block, const HolderKey& holder) {
    holders[holder].add(block.bytes, block.born);
  });
  return holders;
}

// What was born before the optimizer began last has been used by it.
Holders ProcessModel::gradients_left_at_peak(const Account& account) const {
  Holders holders;
  const PhaseClock& clock = account.clock_at_peak;
  if (account.level != Level::kFramework || clock.phase == Phase::kOptimizer) return holders;
  for_each_block_at(account.peak, account.device,
                    [&](const LiveAllocation& block, const HolderKey& holder) {
                      if (block.born >= clock.optimizer_began) return;
                      if (holder.verdict.category != Category::kGradient) return;
                      holders[holder].add(block.bytes, block.born);
                    });
  return holders;
}

}  // namespace gpumemtrace::analyzer
