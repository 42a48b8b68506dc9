// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/memory/nccl_memory.hpp"

#include <algorithm>
#include <iterator>

namespace gpumemtrace::analyzer {
namespace {

// True for ranges of ncclCommInitRank, ncclCommInitRankConfig, ncclCommInitRankScalable and
// ncclCommInitAll.
bool is_init(std::string_view range) { return range.starts_with("ncclCommInit"); }

// True for calls that make a communicator from a parent: their ranges have the hash and the ranks
// of the parent, not of the child.
bool makes_child(std::string_view range) {
  return range == "ncclCommSplit" || range == "ncclCommShrink" || range == "ncclCommGrow";
}

}  // namespace

void NcclMemory::annotate(const trace::Annotation& annotation, std::string_view name,
                          std::uint32_t writer, std::uint64_t now) {
  using trace::AnnotationOperation;
  if (annotation.operation == AnnotationOperation::kPop) {
    const auto known = writers_.find(writer);
    if (known != writers_.end()) end_range(annotation, known->second);
    return;
  }
  if (annotation.operation != AnnotationOperation::kPush || !name.starts_with("nccl")) return;
  Writer& writer_state = writers_[writer];
  writer_state.domain = annotation.domain;
  writer_state.calls_nccl = true;
  writer_state.ranges.push_back(begin_range(annotation, name, writer_state, now));
}

// Returns the range with the communicator that its call makes or uses. ncclGroupEnd carries out the
// calls of its group, so its range is about their communicator, if that is the same for all.
NcclMemory::Range NcclMemory::begin_range(const trace::Annotation& annotation,
                                          std::string_view name, Writer& writer_state,
                                          std::uint64_t now) {
  if (name == "ncclGroupStart") {
    if (writer_state.group.depth == 0) writer_state.group = Group{};
    ++writer_state.group.depth;
    return {};
  }
  if (name == "ncclGroupEnd") {
    if (writer_state.group.depth > 0) --writer_state.group.depth;
    return {.subject = writer_state.group.depth == 0 ? writer_state.group.subject : Subject{}};
  }
  Range range;
  if (is_init(name) || makes_child(name)) {
    // If the first recorded communicator is a child, its parent was made before the recording.
    if (makes_child(name) && communicators_.empty()) knows_all_ = false;
    range.makes = true;
    range.is_init = is_init(name);
    range.subject = {Subject::Kind::kMade, communicators_.size()};
    communicators_.emplace_back().time = now;
    if (range.is_init) describe(communicators_.back(), annotation);
  } else if (annotation.communicator != 0) {
    range.subject = {Subject::Kind::kHash, annotation.communicator};
    const bool may_be_a_child = by_hash_.size() < communicators_.size();
    if (!by_hash_.contains(annotation.communicator) && !may_be_a_child) knows_all_ = false;
  }
  if (writer_state.group.depth > 0) {
    const bool is_same = writer_state.group.is_empty || writer_state.group.subject == range.subject;
    writer_state.group.subject = is_same ? range.subject : Subject{};
    writer_state.group.is_empty = false;
  }
  return range;
}

void NcclMemory::end_range(const trace::Annotation& annotation, Writer& writer_state) {
  if (writer_state.ranges.empty() || annotation.domain != writer_state.domain) return;
  const Range range = writer_state.ranges.back();
  writer_state.ranges.pop_back();
  if (!range.makes) return;
  NcclCommunicator& made = communicators_[range.subject.number];
  made.is_made = true;
  if (range.is_init) describe(made, annotation);
}

void NcclMemory::describe(NcclCommunicator& communicator, const trace::Annotation& annotation) {
  if (annotation.communicator != 0 && communicator.hash == 0) {
    communicator.hash = annotation.communicator;
    const auto index = static_cast<std::size_t>(&communicator - communicators_.data());
    by_hash_.emplace(communicator.hash, index);
  }
  if (annotation.ranks == 0) return;
  communicator.ranks = annotation.ranks;
  communicator.rank = annotation.rank;
  communicator.device = annotation.cuda_device;
}

// Finds the communicator that a range is about. Ranks of one communicator on several devices of the
// process have the same hash, and differ by the device.
std::optional<std::size_t> NcclMemory::find(const Subject& subject, std::int32_t device) const {
  if (subject.kind == Subject::Kind::kUnknown) return std::nullopt;
  if (subject.kind == Subject::Kind::kMade) return subject.number;
  const auto [first, last] = by_hash_.equal_range(subject.number);
  if (first != last && std::next(first) == last) return first->second;
  std::optional<std::size_t> found;
  for (auto candidate = first; candidate != last; ++candidate) {
    if (communicators_[candidate->second].device != device) continue;
    if (found) return std::nullopt;
    found = candidate->second;
  }
  return found;
}

std::optional<std::size_t> NcclMemory::present(const Writer& writer_state,
                                               std::int32_t device) const {
  // From the innermost range outwards: in traces of older recorders, which missed ends of ranges,
  // the innermost range may name no communicator.
  for (auto range = writer_state.ranges.rbegin(); range != writer_state.ranges.rend(); ++range) {
    if (const auto found = find(range->subject, device)) return found;
  }
  return std::nullopt;
}

std::optional<std::size_t> NcclMemory::present_elsewhere(std::int32_t device) const {
  std::optional<std::size_t> found;
  for (const auto& [writer, writer_state] : writers_) {
    if (writer_state.ranges.empty()) continue;
    const auto present = find(writer_state.ranges.back().subject, device);
    if (!present || (found && found != present)) return std::nullopt;
    found = present;
  }
  return found;
}

// For a thread that allocates outside of NCCL's calls: concludes that it allocates for the
// communicator that the threads in NCCL's calls make or use, if that is the same one for all.
void NcclMemory::guess_thread_communicator(NcclThread& thread, std::int32_t device) {
  const auto present = present_elsewhere(device);
  if (!present) return;
  if (thread.communicator && thread.communicator != present)
    thread.communicator_is_ambiguous = true;
  thread.communicator = present;
}

std::optional<std::size_t> NcclMemory::communicator_of(const NcclThread& thread,
                                                       std::int32_t device) const {
  const bool is_known = thread.communicator && !thread.communicator_is_ambiguous;
  // thread.communicator is not certain if the range that makes it has no end in the trace: an older
  // recorder may have missed an end long before.
  if (is_known && communicators_[*thread.communicator].is_made) return thread.communicator;
  std::optional<std::size_t> only;
  if (!knows_all_) return only;
  for (std::size_t i = 0; i < communicators_.size(); ++i) {
    const std::int32_t on = communicators_[i].device;
    if (on >= 0 && on != device) continue;
    if (only) return std::nullopt;
    only = i;
  }
  return only;
}

void NcclMemory::set_thread(std::uint32_t writer, std::uint64_t thread_id) {
  Writer& writer_state = writers_[writer];
  if (writer_state.thread_id == thread_id) return;
  writer_state = Writer();
  writer_state.thread_id = thread_id;
}

NcclOwner& NcclMemory::owner_of(const Live& live) {
  if (live.communicator) return communicators_[*live.communicator];
  return threads_[live.thread_id];
}

// Called before the owner's bytes change. If they have not changed since the last peak of NCCL's
// bytes on the device (a mark), stores them as the bytes at that peak.
void NcclMemory::store_bytes_at_peak(NcclUse& use, const Device& device) {
  if (use.mark == device.mark) return;
  use.bytes_at_mark = use.bytes;
  use.mark = device.mark;
}

void NcclMemory::allocate(std::uint32_t writer, const CallSite& site, std::int32_t device,
                          std::uint64_t bytes, std::uint64_t now) {
  const Writer& writer_state = writers_[writer];
  const Live live{bytes, device, present(writer_state, device), writer_state.thread_id};
  NcclOwner& owner = owner_of(live);
  if (!live.communicator) {
    NcclThread& thread = threads_[live.thread_id];
    if (writer_state.calls_nccl) thread.communicator_is_ambiguous = true;
    guess_thread_communicator(thread, device);
  }
  if (owner.time == 0) owner.time = now;
  if (owner.site == CallSite{}) owner.site = site;
  Device& on = devices_[device];
  NcclUse& use = owner.uses[device];
  store_bytes_at_peak(use, on);
  ++use.allocations;
  use.bytes += bytes;
  use.most_bytes = std::max(use.most_bytes, use.bytes);
  on.bytes += bytes;
  if (on.bytes > on.most_bytes) {
    on.most_bytes = on.bytes;
    ++on.mark;
  }
  live_[now] = live;
}

void NcclMemory::release(std::uint64_t born) {
  const auto found = live_.find(born);
  if (found == live_.end()) return;
  const Live live = found->second;
  live_.erase(found);
  Device& device = devices_[live.device];
  NcclUse& use = owner_of(live).uses[live.device];
  store_bytes_at_peak(use, device);
  use.bytes -= live.bytes;
  device.bytes -= live.bytes;
}

std::uint64_t NcclMemory::bytes_at_peak(std::int32_t device, const NcclUse& use) const {
  const auto found = devices_.find(device);
  if (found == devices_.end()) return 0;
  return use.mark == found->second.mark ? use.bytes_at_mark : use.bytes;
}

}  // namespace gpumemtrace::analyzer
