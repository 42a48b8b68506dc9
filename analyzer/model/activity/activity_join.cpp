// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/activity/activity_join.hpp"

#include <algorithm>
#include <utility>

#include "trace/order.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kMaxEarlyCalls = 64;
constexpr std::size_t kMaxSizes = std::size_t{1} << 16;

std::uint16_t library_of(std::uint64_t activity) {
  return static_cast<std::uint16_t>((activity >> 32) - 1);
}

bool contains(const TickSpan& outer, std::uint64_t ticks) {
  return outer.start <= ticks && ticks <= outer.end;
}

std::uint64_t middle(const TickSpan& span) { return span.start + (span.end - span.start) / 2; }

// The ticks by which `inner` reaches beyond `outer`.
std::uint64_t violation(const TickSpan& outer, const TickSpan& inner) {
  const std::uint64_t before = inner.start < outer.start ? outer.start - inner.start : 0;
  const std::uint64_t after = inner.end > outer.end ? inner.end - outer.end : 0;
  return std::max(before, after);
}

// True for copies that have begun on the GPU when their call returns.
bool waits_for_start(const TransferKey& key) {
  return !key.asynchronous && key.direction == Direction::kDeviceToHost;
}

std::uint64_t size_key(std::uint64_t bytes, bool is_set) { return bytes * 2 + (is_set ? 1 : 0); }

}  // namespace

// A part other than 0 continues the batch that the latest call of the same writer began.
void ActivityJoin::add_call(std::uint32_t writer, const trace::CallHeader& call, CallWork work,
                            const CallSize& size, std::uint32_t counted) {
  ++counts_.calls;
  PendingCall& pending = calls_.add(writer, call.record.time, std::max(call.record.time, call.end));
  CallId id = calls_.last();
  pending.bytes = size.bytes;
  pending.batch_bytes = size.part == 0 ? size.bytes : 0;
  pending.counted = counted;
  pending.work = work;
  Batch& batch = batch_of(writer);
  if (size.part == 0) {
    batch = {id, id};
  } else if (PendingCall* first = calls_.find(batch.first)) {
    first->batch_bytes += size.bytes;
    calls_.find(batch.last)->next = id;
    batch.last = id;
    id = batch.first;
  }
  if (without_api_records_) index_by_size(id, *calls_.find(id));
}

ActivityJoin::Batch& ActivityJoin::batch_of(std::uint32_t writer) {
  if (latest_batch_ == nullptr || latest_writer_ != writer) {
    latest_writer_ = writer;
    latest_batch_ = &batches_[writer];
  }
  return *latest_batch_;
}

void ActivityJoin::add_launch(std::uint32_t writer, const trace::CallHeader& call,
                              const CallSite& site) {
  const auto next = static_cast<std::uint32_t>(launch_sites_.size());
  const auto [known, is_new] = launch_site_index_.try_emplace(site, next);
  if (is_new) launch_sites_.push_back(site);
  add_call(writer, call, CallWork::kLaunch, {}, known->second);
  if (early_.empty()) return;
  // The trace orders a launch by its return, so CUPTI's record about the launch may come before it.
  const std::deque<ApiSpan> early = std::exchange(early_, {});
  for (const ApiSpan& waiting : early) {
    if (!match(waiting, false)) early_.push_back(waiting);
  }
}

void ActivityJoin::apply(const trace::ActivityCall& record) {
  ++counts_.api_records;
  without_api_records_ = false;
  const std::uint64_t activity = activity_key(record.library, record.correlation);
  // A driver call inside a runtime call has the same correlation.
  if (api_calls_.find(activity).is_known()) return;
  const std::optional<TickSpan> time =
      clocks_.convert_to_ticks(record.library, record.start, record.end, record.record.time);
  if (!time) return remember(activity, 0, Unjoined::kClockUnknown);
  const ApiSpan api{activity, {time->start, time->end}, record.thread_id, record.domain};
  if (match(api, false)) return;
  early_.push_back(api);
  if (early_.size() <= kMaxEarlyCalls) return;
  const ApiSpan oldest = early_.front();
  early_.pop_front();
  (void)match(oldest, true);
}

// Finds the intercepted calls that CUPTI's record `api` is about. Returns false if they may still
// come; with `is_last_chance` the record then counts as unjoined.
bool ActivityJoin::match(const ApiSpan& api, bool is_last_chance) {
  const std::vector<std::uint32_t>& threads = calls_.threads_of(api.thread_id);
  Match& found = match_;
  found.restart();
  for (auto thread = threads.rbegin(); thread != threads.rend(); ++thread) {
    found.is_inferred = false;
    if (match_in(calls_.thread(*thread), api, found)) break;
  }
  if (!found.calls.empty()) {
    take(api, found);
    return true;
  }
  if (found.is_early && !is_last_chance) return false;
  remember(api.activity, 0,
           api.time.start < cut_ticks_ ? Unjoined::kBeforeCheckpoint
           : found.is_other_library    ? Unjoined::kOtherLibrary
           : threads.empty()           ? Unjoined::kUnknownThread
           : found.is_forgotten        ? Unjoined::kCallForgotten
                                       : Unjoined::kNoCall);
  return true;
}

bool ActivityJoin::is_free(PendingCall& call, const ApiSpan& api, Match& match) {
  if (call.activity == 0) return true;
  if (library_of(call.activity) != library_of(api.activity)) match.is_other_library = true;
  return false;
}

// Adds to `match` the thread's calls whose middle lies in the runtime record's time, or that
// contain the middle of the driver record's time. If there are none, adds the call that misses by
// the least, within the tolerance of the clocks.
bool ActivityJoin::match_in(const PendingCalls::Thread& thread, const ApiSpan& api, Match& match) {
  const std::uint64_t tolerance = clocks_.tolerance_ticks();
  const auto begin = thread.first_ending_from(api.time.start - std::min(api.time.start, tolerance));
  const auto end = thread.calls.end();
  if (begin == end) match.is_early = true;
  const bool is_inside = api.domain == trace::ActivityDomain::kDriver;
  const auto violation_of = [&](const TickSpan& call) {
    return is_inside ? violation(call, api.time) : violation(api.time, call);
  };
  struct Nearest {
    std::uint64_t violation = 0;
    TickSpan time;
    std::size_t candidates = 0;
  } nearest;
  for (auto it = begin; it != end && it->time.start <= api.time.end + tolerance; ++it) {
    PendingCall* call = calls_.find(it->id);
    if (call == nullptr) {
      match.is_forgotten = true;
      continue;
    }
    const bool fits =
        is_inside ? contains(it->time, middle(api.time)) : contains(api.time, middle(it->time));
    const std::uint64_t by = violation_of(it->time);
    if (!fits && by > tolerance) continue;
    if (!is_free(*call, api, match)) {
      if (fits && match.is_other_library) return false;
      continue;
    }
    if (fits) {
      match.calls.push_back(it->id);
      match.violation = std::max(match.violation, by);
      continue;
    }
    // The parts of a batch share one time and count as one candidate.
    if (nearest.candidates != 0 && it->time.start == nearest.time.start) continue;
    ++nearest.candidates;
    if (nearest.candidates > 1 && by >= nearest.violation) continue;
    nearest.violation = by;
    nearest.time = it->time;
  }
  if (!match.calls.empty()) {
    match.is_inferred = match.violation > tolerance;
    return true;
  }
  if (nearest.candidates == 0) return false;
  for (auto it = begin; it != end && it->time.start <= nearest.time.start; ++it) {
    PendingCall* call = calls_.find(it->id);
    if (call == nullptr || it->time.start != nearest.time.start) continue;
    if (is_free(*call, api, match)) match.calls.push_back(it->id);
  }
  match.violation = nearest.violation;
  match.is_inferred = nearest.candidates > 1;
  return true;
}

void ActivityJoin::take(const ApiSpan& api, const Match& match) {
  for (std::size_t i = 0; i < match.calls.size(); ++i) {
    PendingCall& call = *calls_.find(match.calls[i]);
    call.activity = api.activity;
    call.is_inferred = match.is_inferred;
    call.next = i + 1 < match.calls.size() ? match.calls[i + 1] : 0;
  }
  if (!match.is_inferred) {
    counts_.largest_violation_ticks = std::max(counts_.largest_violation_ticks, match.violation);
  }
  // The reason only makes ApiCall::is_known() true. It is not counted, because a call was found.
  remember(api.activity, match.calls.front(), Unjoined::kNoCall);
}

void ActivityJoin::remember(std::uint64_t activity, CallId first, Unjoined reason) {
  const bool is_new = api_calls_.add(activity, first, reason);
  if (is_new && !waiting_.empty()) join_waiting(activity, {first, reason});
}

void ActivityJoin::join_waiting(std::uint64_t activity, const ApiCall& api) {
  const auto waiting = waiting_.find(activity);
  if (waiting == waiting_.end()) return;
  const std::vector<DeviceWork> works = std::move(waiting->second);
  waiting_.erase(waiting);
  for (const DeviceWork& work : works) join(work, api);
}

void ActivityJoin::apply(const DeviceWork& work) {
  const ApiCall api = api_calls_.find(work.activity);
  if (api.is_known()) return join(work, api);
  if (!without_api_records_) return wait(work);
  without_api_.push_back(work);
  if (without_api_.size() >= kMaxWaiting / 4) infer_all();
}

void ActivityJoin::join(const DeviceWork& work, const ApiCall& api) {
  if (api.first == 0) return count_unjoined(api.reason);
  PendingCall* const first = calls_.find(api.first);
  PendingCall* const call = first == nullptr ? nullptr : part_for(work, *first);
  if (call == nullptr) return count_unjoined(Unjoined::kCallForgotten);
  if (call->counted == PendingCall::kNothing) return count_unjoined(Unjoined::kNoCall);
  ++(call->is_inferred ? counts_.inferred : counts_.exact);
  if (first->next == 0 || !spread_over_batch(work, *first)) attach(work, *call);
}

std::uint64_t ActivityJoin::bytes_of_parts(const PendingCall& first) {
  std::uint64_t bytes = 0;
  for (const PendingCall* call = &first; call != nullptr; call = next_part(*call)) {
    if (call->work == CallWork::kCopy) bytes += call->bytes;
  }
  return bytes;
}

// Divides the work among the parts of the batch if CUPTI made one record for the whole batch. Each
// part gets a time in proportion to its bytes, one after the other. Returns false if the record is
// not about the whole batch.
bool ActivityJoin::spread_over_batch(const DeviceWork& work, PendingCall& first) {
  if (first.batch_bytes != work.bytes || work.is_set) return false;
  if (bytes_of_parts(first) != work.bytes) return false;  // the record is about other calls, too
  const auto share = [&](std::uint64_t bytes) {
    return work.time.start +
           static_cast<std::uint64_t>(static_cast<double>(work.time.ticks()) *
                                      static_cast<double>(bytes) / static_cast<double>(work.bytes));
  };
  std::uint64_t done_bytes = 0;
  for (PendingCall* call = &first; call != nullptr; call = next_part(*call)) {
    if (call->work != CallWork::kCopy || call->bytes == 0) continue;
    DeviceWork piece = work;
    piece.bytes = call->bytes;
    piece.time.start = share(done_bytes);
    done_bytes += call->bytes;
    piece.time.end = share(done_bytes);
    if (call->counted != PendingCall::kNothing) attach(piece, *call);
  }
  return true;
}

// One API record of CUPTI may be about several calls, beginning with `first`. Returns the first
// call that has as many bytes left as the work; else the first that has more left, or else the
// first of the work's kind.
PendingCall* ActivityJoin::part_for(const DeviceWork& work, PendingCall& first) {
  PendingCall* any = nullptr;
  PendingCall* with_room = nullptr;
  for (PendingCall* call = &first; call != nullptr; call = next_part(*call)) {
    if (call->work == CallWork::kLaunch) return call;
    if ((call->work == CallWork::kSet) != work.is_set) continue;
    if (first.next == 0) return call;
    if (any == nullptr) any = call;
    const std::uint64_t left = call->bytes - std::min(call->bytes, call->seen_bytes);
    if (left == work.bytes) return call;
    if (with_room == nullptr && left > work.bytes) with_room = call;
  }
  return with_room != nullptr ? with_room : any;
}

// Adds the work to the transfer row of its call. busy_ticks counts the time from the first work of
// a call to its last one, so work that lies within it adds nothing.
void ActivityJoin::attach(const DeviceWork& work, PendingCall& call) {
  const bool in_graph = call.work == CallWork::kLaunch;
  const std::uint32_t index = in_graph ? row_in_graph(work, call) : call.counted;
  TransferRow& row = transfers_.row(index);
  GpuTimes& gpu = row.gpu;
  const bool is_first = in_graph || call.on_gpu.end == 0;
  const std::uint64_t busy_before = is_first ? 0 : call.on_gpu.ticks();
  call.on_gpu.start = std::min(call.on_gpu.start, work.time.start);
  call.on_gpu.end = std::max(call.on_gpu.end, work.time.end);
  call.seen_bytes += work.bytes;
  gpu.calls += is_first ? 1 : 0;
  ++gpu.records;
  gpu.bytes += work.bytes;
  gpu.ticks += work.time.ticks();
  gpu.record_ticks.add(work.time.ticks());
  gpu.busy_ticks += in_graph ? work.time.ticks() : call.on_gpu.ticks() - busy_before;
  if (work.is_set) return;
  overlap_.add_copy(work.device, work.time, index);
  if (!in_graph) compare_kinds(work, row.key);
}

// Copies and sets of a graph have no call of their own: they count when the GPU carries them out,
// at the call site that launched the graph.
std::uint32_t ActivityJoin::row_in_graph(const DeviceWork& work, const PendingCall& launch) {
  TransferKey key;
  key.site = launch_sites_[launch.counted];
  key.device = work.device;
  key.destination = class_of_activity(work.destination_kind);
  key.asynchronous = true;
  key.is_set = work.is_set;
  key.in_graph = true;
  if (!work.is_set) {
    key.source = class_of_activity(work.source_kind);
    key.direction = direction_of_activity(work.copy_kind);
  }
  return transfers_.count(key, work.bytes, 0);
}

void ActivityJoin::compare_kinds(const DeviceWork& work, const TransferKey& key) {
  const auto differ = [](MemoryClass ours, std::uint8_t theirs) {
    const MemoryClass told = class_of_activity(theirs);
    return ours != MemoryClass::kUnknown && told != MemoryClass::kUnknown && ours != told;
  };
  if (differ(key.source, work.source_kind) || differ(key.destination, work.destination_kind)) {
    ++counts_.kind_disagreements;
  }
}

// Keeps the work until CUPTI's record of its call comes; if too many wait, gives up the oldest.
void ActivityJoin::wait(const DeviceWork& work) {
  waiting_[work.activity].push_back(work);
  waiting_order_.push_back(work.activity);
  if (counts_.api_records == 0 && waiting_order_.size() >= kEnoughWithoutApi) {
    return expect_no_api_records();
  }
  if (waiting_order_.size() <= kMaxWaiting) return;
  const auto oldest = waiting_.find(waiting_order_.front());
  waiting_order_.pop_front();
  if (oldest == waiting_.end()) return;
  counts_.unjoined[static_cast<std::size_t>(Unjoined::kNoApiRecord)] += oldest->second.size();
  waiting_.erase(oldest);
}

void ActivityJoin::expect_no_api_records() {
  if (without_api_records_ || counts_.api_records != 0) return;
  without_api_records_ = true;
  infer_waiting();
}

void ActivityJoin::index_by_size(CallId id, const PendingCall& call) {
  const bool can_have_record = call.work != CallWork::kLaunch && call.batch_bytes != 0 &&
                               call.counted != PendingCall::kNothing &&
                               transfers_.row(call.counted).key.direction != Direction::kHostToHost;
  if (!can_have_record || call.activity != 0) return;
  if (by_size_.size() >= kMaxSizes) by_size_.clear();
  std::deque<CallId>& ids = by_size_[size_key(call.batch_bytes, call.work == CallWork::kSet)];
  while (!ids.empty() && calls_.find(ids.front()) == nullptr) ids.pop_front();
  ids.push_back(id);
}

// Stops waiting for CUPTI's records of calls: copies and sets that wait for one will be joined to a
// call by size.
void ActivityJoin::infer_waiting() {
  by_size_.clear();
  calls_.for_each([&](CallId id, const PendingCall& call) { index_by_size(id, call); });
  for (const auto& [activity, works] : waiting_) {
    without_api_.insert(without_api_.end(), works.begin(), works.end());
  }
  waiting_.clear();
  waiting_order_.clear();
}

void ActivityJoin::infer_all() {
  std::ranges::sort(without_api_, {}, [](const DeviceWork& work) {
    return std::pair(work.activity, work.time.start);
  });
  for (const DeviceWork& work : without_api_) {
    const ApiCall api = api_calls_.find(work.activity);
    // The work of a graph has no call of its own, so it cannot be joined by size.
    if (api.is_known()) {
      join(work, api);
    } else if (work.graph_node != 0) {
      count_unjoined(Unjoined::kNoApiRecord);
    } else {
      infer(work);
    }
  }
  without_api_.clear();
}

void ActivityJoin::infer(const DeviceWork& work) {
  const auto calls = by_size_.find(size_key(work.bytes, work.is_set));
  if (calls == by_size_.end()) return count_unjoined(Unjoined::kNoApiRecord);
  std::deque<CallId>& ids = calls->second;
  const Direction direction = direction_of_activity(work.copy_kind);
  for (auto id = ids.begin(); id != ids.end();) {
    PendingCall* call = calls_.find(*id);
    // index_by_size() lists a batch again for each part that is added; entries under former sizes
    // are void.
    if (call == nullptr || call->activity != 0 || call->batch_bytes != work.bytes) {
      id = ids.erase(id);
      continue;
    }
    if (call->time.start > work.time.start + clocks_.tolerance_ticks()) break;
    const TransferKey& key = transfers_.row(call->counted).key;
    if (waits_for_start(key) && call->time.end + clocks_.tolerance_ticks() < work.time.start) {
      id = ids.erase(id);  // CUPTI's record of this call's copy is missing
      continue;
    }
    const bool fits = work.is_set || key.direction == Direction::kUnknown ||
                      direction == Direction::kUnknown || key.direction == direction;
    if (!fits) {
      ++id;
      continue;
    }
    const CallId first = *id;
    ids.erase(id);
    for (CallId part = first; part != 0;) {
      PendingCall* taken = calls_.find(part);
      if (taken == nullptr) break;
      taken->activity = work.activity;
      taken->is_inferred = true;
      part = taken->next;
    }
    remember(work.activity, first, Unjoined::kNoCall);
    return join(work, {first, Unjoined::kNoCall});
  }
  count_unjoined(Unjoined::kNoApiRecord);
}

void ActivityJoin::finish() {
  for (const ApiSpan& call : early_) (void)match(call, true);
  early_.clear();
  infer_waiting();
  infer_all();
}

}  // namespace gpumemtrace::analyzer
