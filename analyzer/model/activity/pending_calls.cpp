// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/activity/pending_calls.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer {
namespace {

// More writers than any process has: a damaged record must not make the table huge.
constexpr std::uint32_t kMaxCallWriters = 1 << 20;

// Threads that run one after the other often have the same pthread_self(): the most threads kept
// for one id.
constexpr std::size_t kMaxNamesakes = 8;

constexpr std::size_t kTrimEvery = 1024;

}  // namespace

// CUPTI names a thread by the low 32 bits of either of its ids, so the thread is listed under both.
// The thread that was announced last is the likeliest.
void PendingCalls::add_thread(std::uint32_t writer, const trace::Thread& record) {
  if (writer >= kMaxCallWriters) return;
  latest_threads_ = nullptr;
  const auto next = static_cast<std::uint32_t>(threads_.size());
  const auto [known, is_new] = by_thread_id_.try_emplace(record.thread_id, next);
  if (is_new) threads_.emplace_back();
  if (writer >= by_writer_.size()) by_writer_.resize(writer + 1);
  by_writer_[writer] = known->second + 1;
  for (const std::uint64_t id : {record.thread_id, record.pthread_self}) {
    std::vector<std::uint32_t>& named = by_short_id_[static_cast<std::uint32_t>(id)];
    if (id == 0) continue;
    std::erase(named, known->second);
    if (named.size() == kMaxNamesakes) named.erase(named.begin());
    named.push_back(known->second);
  }
}

std::uint32_t PendingCalls::thread_of_writer(std::uint32_t writer) {
  if (writer < by_writer_.size() && by_writer_[writer] != 0) return by_writer_[writer] - 1;
  // The writer's thread record is missing: its calls are counted, but CUPTI's records cannot find
  // them.
  trace::Thread unknown;
  unknown.thread_id = (std::uint64_t{1} << 32) + writer;
  if (writer >= kMaxCallWriters) return 0;
  add_thread(writer, unknown);
  return by_writer_[writer] - 1;
}

PendingCall& PendingCalls::add(std::uint32_t writer, std::uint64_t start, std::uint64_t end) {
  PendingCall& call = calls_.add();
  call = PendingCall{};
  call.time.start = start;
  call.time.end = end;
  const CallId id = calls_.last();
  if (id % kMaxCalls == 0) {
    for (Thread& thread : threads_) trim(thread);
  }
  const std::uint32_t index = thread_of_writer(writer);
  if (index >= threads_.size()) return call;
  Thread& thread = threads_[index];
  thread.calls.push_back({{start, end}, id});
  if (thread.calls.size() % kTrimEvery == 0) trim(thread);
  return call;
}

// Frees the memory of the thread's forgotten calls.
void PendingCalls::trim(Thread& thread) const {
  std::vector<InThread>& calls = thread.calls;
  const auto kept = std::ranges::lower_bound(calls, calls_.first(), {}, &InThread::id);
  const auto forgotten = static_cast<std::size_t>(kept - calls.begin());
  if (forgotten * 2 < calls.size()) return;
  calls.erase(calls.begin(), kept);
  thread.latest -= std::min(thread.latest, forgotten);
  if (calls.empty()) std::vector<InThread>().swap(calls);
}

std::vector<PendingCalls::InThread>::const_iterator PendingCalls::Thread::search(
    std::uint64_t ticks) const {
  const auto ends_before = [&](const InThread& call) { return call.time.end < ticks; };
  auto low = calls.begin();
  auto high = low + static_cast<std::ptrdiff_t>(latest);
  if (latest == 0 || ends_before(*(high - 1))) {
    low = high;
    std::ptrdiff_t step = 1;
    for (; step < calls.end() - low && ends_before(low[step - 1]); step *= 2) low += step;
    high = low + std::min(step, calls.end() - low);
  }
  return std::partition_point(low, high, ends_before);
}

void PendingCalls::look_up_threads(std::uint32_t thread_id) const {
  static const std::vector<std::uint32_t> kNone;
  const auto found = by_short_id_.find(thread_id);
  latest_short_id_ = thread_id;
  latest_threads_ = found == by_short_id_.end() ? &kNone : &found->second;
}

void ApiCalls::look_up(std::uint64_t key) {
  const Place* place = places_.find(key);
  latest_.key = key;
  latest_.page = place == nullptr ? 0 : place->page;
}

ApiCalls::Page& ApiCalls::add_page(std::uint64_t activity) {
  if (pages_.is_full()) {
    Place forgotten;
    (void)places_.erase(pages_.find(pages_.first())->key, forgotten);
    // Prefetches the page that will be forgotten next: it has long left the CPU's caches.
    __builtin_prefetch(pages_.find(pages_.first() + 1), 1);
  }
  Page& page = pages_.add();
  page.key = key_of(activity);
  page.reason.fill(Unjoined::kCount);
  latest_.key = page.key;
  latest_.page = pages_.last();
  places_.add(page.key)->page = latest_.page;
  return page;
}

}  // namespace gpumemtrace::analyzer
