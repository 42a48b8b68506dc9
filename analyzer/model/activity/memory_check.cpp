// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/activity/memory_check.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kMaxOthers = std::size_t{1} << 13;

// CUpti_ActivityMemoryOperationType.
constexpr std::uint32_t kAllocation = 1;
constexpr std::uint32_t kRelease = 2;

// The largest pages that CUPTI rounds registered memory to.
constexpr std::uint64_t kLargestPage = 64 * 1024;

std::uint64_t key_of(std::uint64_t address, bool is_release) {
  return address * 2 + (is_release ? 1 : 0);
}

// CUpti_ActivityMemoryKind of memory of ours; 0 = it reports nothing of it.
std::uint32_t expected_kind(Kind kind) {
  switch (kind) {
    case Kind::kDevice:
    case Kind::kPitched:
    case Kind::kStreamOrdered:
      return 3;
    case Kind::kPinned:
    case Kind::kRegistered:
      return 2;
    case Kind::kManaged:
      return 5;
    case Kind::kArray:
      return 4;
    default:
      return 0;
  }
}

bool same_bytes(Kind kind, std::uint64_t ours, std::uint64_t theirs) {
  if (kind != Kind::kRegistered) return ours == theirs;
  return theirs >= ours && theirs - ours < 2 * kLargestPage;
}

std::uint64_t distance(const TickSpan& span, std::uint64_t ticks) {
  if (ticks < span.start) return span.start - ticks;
  return ticks > span.end ? ticks - span.end : 0;
}

}  // namespace

void MemoryCheck::add_call(const trace::CallHeader& call, std::uint64_t address,
                           std::uint64_t bytes, std::optional<Kind> kind, bool is_release) {
  if (address == 0 || (kind && expected_kind(*kind) == 0)) return;
  Call made;
  made.id = next_id_++;
  made.time = {call.record.time, std::max(call.record.time, call.end)};
  made.bytes = bytes;
  made.site = ledger::site_of(call);
  made.site.stack = trace::StackId::kNone;
  made.kind = kind;
  made.is_estimated = (call.record.flags & trace::kFlagEstimated) != 0;
  const std::uint64_t key = key_of(address, is_release);
  pending_[key].push_back(made);
  order_.push_back({key, made.id});
  if (order_.size() <= kMaxPending) return;
  forget(order_.front());
  order_.pop_front();
}

void MemoryCheck::add_other_call(const trace::CallHeader& call) {
  others_.push_back({{call.record.time, call.end}, call.record.api});
  if (others_.size() > kMaxOthers) others_.pop_front();
}

void MemoryCheck::apply(const trace::ActivityMemory& record, const std::optional<TickSpan>& time) {
  if (record.operation != kAllocation && record.operation != kRelease) return;
  ++records_;
  if (time) last_record_ticks_ = std::max(last_record_ticks_, time->start);
  const bool is_release = record.operation == kRelease;
  const auto calls = pending_.find(key_of(record.address, is_release));
  if (calls == pending_.end()) {
    DisagreementKey key;
    key.is_release = is_release;
    key.cupti_kind = record.memory_kind;
    key.during = time ? function_at(time->start) : std::uint16_t{0};
    key.is_at_0 = record.address == 0;
    return count(key, 0, record.bytes);
  }
  // The address may have been handed out several times since.
  const auto nearest = time ? std::ranges::min_element(calls->second, {},
                                                       [&](const Call& call) {
                                                         return distance(call.time, time->start);
                                                       })
                            : calls->second.begin();
  compare(*nearest, record, is_release);
  calls->second.erase(nearest);
  if (calls->second.empty()) pending_.erase(calls);
}

void MemoryCheck::compare(const Call& call, const trace::ActivityMemory& record, bool is_release) {
  DisagreementKey key;
  key.is_release = is_release;
  key.site = call.site;
  key.cupti_kind = record.memory_kind;
  key.kind = call.kind;
  if (call.kind && expected_kind(*call.kind) != record.memory_kind) {
    key.what = Disagreement::kKindDiffers;
    return count(key, call.bytes, record.bytes);
  }
  const bool tells_bytes = record.bytes != 0 || !is_release;
  if (call.kind && tells_bytes && !call.is_estimated && *call.kind != Kind::kArray &&
      !same_bytes(*call.kind, call.bytes, record.bytes)) {
    key.what = Disagreement::kBytesDiffer;
    return count(key, call.bytes, record.bytes);
  }
  ++agreed_;
}

void MemoryCheck::count(const DisagreementKey& key, std::uint64_t bytes,
                        std::uint64_t cupti_bytes) {
  DisagreementSums& sums = disagreements_[key];
  ++sums.count;
  sums.bytes += bytes;
  sums.cupti_bytes += cupti_bytes;
}

std::uint16_t MemoryCheck::function_at(std::uint64_t ticks) const {
  for (auto other = others_.rbegin(); other != others_.rend(); ++other) {
    if (other->time.start <= ticks && ticks <= other->time.end) return other->api;
  }
  return 0;
}

void MemoryCheck::judge_missing(const Call& call, bool is_release) {
  if (call.time.end >= last_record_ticks_) {
    ++not_judged_;
    return;
  }
  DisagreementKey key;
  key.what = Disagreement::kMissingInCupti;
  key.is_release = is_release;
  key.site = call.site;
  key.kind = call.kind;
  count(key, call.bytes, 0);
}

void MemoryCheck::forget(const Order& oldest) {
  const auto calls = pending_.find(oldest.key);
  if (calls == pending_.end()) return;
  const auto call = std::ranges::find(calls->second, oldest.id, &Call::id);
  if (call == calls->second.end()) return;
  judge_missing(*call, oldest.key % 2 == 1);
  calls->second.erase(call);
  if (calls->second.empty()) pending_.erase(calls);
}

void MemoryCheck::finish() {
  for (const auto& [key, calls] : pending_) {
    for (const Call& call : calls) judge_missing(call, key % 2 == 1);
  }
  pending_.clear();
}

}  // namespace gpumemtrace::analyzer
