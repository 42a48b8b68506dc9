// SPDX-License-Identifier: Apache-2.0
#include "analyzer/order/merge.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "trace/order.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::analyzer {
namespace {

PlacedRecord placed(trace::Image& piece, std::size_t index) {
  return {piece.keys[index], piece.record(index)};
}

}  // namespace

trace::ReadLosses operator+(trace::ReadLosses sum, const trace::ReadLosses& more) {
  sum.corrupt_blocks += more.corrupt_blocks;
  sum.truncated_tail += more.truncated_tail;
  sum.missing_chunks += more.missing_chunks;
  sum.malformed_records += more.malformed_records;
  sum.unknown_records += more.unknown_records;
  return sum;
}

bool is_free_of(const trace::RecordHeader& record, std::uint64_t address) {
  return record.kind == trace::RecordKind::kFree &&
         trace::as<trace::Free>(record).address == address && record.result == 0 &&
         trace::as<trace::Free>(record).call.end != 0 && (record.flags & trace::kFlagCaptured) == 0;
}

WriterRecords::WriterRecords(const trace::TraceFile& file, const trace::WriterStream& stream,
                             Extent extent, const WriterProgress& from, const TakenFrees& taken)
    : cursor_(from.has_begun ? trace::WriterCursor(file, stream, from.position)
                             : trace::WriterCursor(file, stream)),
      writer_(stream.writer),
      extent_(extent),
      last_key_(from.last_key),
      before_(from.losses),
      passed_(from),
      taken_(taken.empty() ? nullptr : &taken) {}

bool WriterRecords::refill() {
  if (next_ != present_.image.keys.size()) return true;
  passed_ = progress();
  if (!later_.empty()) {
    present_ = std::move(later_.front());
    later_.pop_front();
    next_ = 0;
    return true;
  }
  if (read(present_, next_)) return true;
  present_ = {};
  next_ = 0;
  return false;
}

// Reads the next piece; sets `first` to the index of its first record that was not passed before.
bool WriterRecords::read(Piece& piece, std::size_t& first) {
  if (has_ended_ || !cursor_.next_piece(piece.image)) return false;
  piece.begin = {cursor_.piece().sequence, cursor_.piece().begin_offset, 0};
  piece.losses = before_ + cursor_.losses_before_piece();
  first = cursor_.passed();
  if (extent_ == Extent::kReturned && cursor_.piece().in_ring) leave_out_open_calls(piece.image);
  if (first >= piece.image.keys.size()) return false;
  // Raises keys that are lower than the last key of the piece before, so that keys never decrease.
  for (std::uint64_t& key : piece.image.keys) {
    if (key >= last_key_) break;
    key = last_key_;
  }
  last_key_ = piece.image.keys.back();
  if (taken_ != nullptr) disable_taken_frees(piece.image);
  return true;
}

// Removes the last call, and the records after it, if the call may still return. A thread makes one
// call at a time: an unfinished call with a later call was left by a jump and never returns.
void WriterRecords::leave_out_open_calls(trace::Image& image) {
  std::size_t end = image.offsets.size();
  for (std::size_t i = end; i-- > 0;) {
    const trace::RecordHeader& record = *image.record(i);
    if (!trace::is_call(record.kind)) continue;
    const bool is_open = trace::as<trace::OtherCall>(record).call.end == 0;
    if (is_open && cursor_.is_last_piece()) end = i;
    break;
  }
  if (end == image.offsets.size()) return;
  has_ended_ = true;
  // An open call that allocates takes effect when it returns, so after all records that are there
  // now: other threads' records need not wait for it.
  if (!trace::takes_effect_at_end(*image.record(end))) hold_ = std::max(image.keys[end], last_key_);
  image.resize_records(end);
}

// Removes the effect of frees that take_free() took early when the file was read before.
void WriterRecords::disable_taken_frees(trace::Image& image) const {
  for (const auto& [key, address] : *taken_) {
    const auto found = std::lower_bound(image.keys.begin(), image.keys.end(), key);
    for (auto at = found; at != image.keys.end() && *at == key; ++at) {
      trace::RecordHeader& record =
          *image.record(static_cast<std::size_t>(at - image.keys.begin()));
      if (is_free_of(record, address)) record.kind = trace::RecordKind::kNone;
    }
  }
}

WriterProgress WriterRecords::progress(std::size_t returned) const {
  const std::size_t passed = next_ - returned;
  if (passed == 0) return passed_;
  WriterProgress progress;
  progress.has_begun = true;
  progress.position = present_.begin;
  progress.position.records = passed;
  progress.last_key = present_.image.keys[passed - 1];
  progress.losses = present_.losses;
  return progress;
}

PlacedRecord WriterRecords::look_ahead(std::size_t distance) {
  std::size_t index = next_ + distance;
  if (index < present_.image.keys.size()) return placed(present_.image, index);
  index -= present_.image.keys.size();
  for (std::size_t i = 0;; ++i) {
    std::size_t first = 0;
    if (i == later_.size() && !read(later_.emplace_back(), first)) {
      later_.pop_back();
      return {};
    }
    if (index < later_[i].image.keys.size()) return placed(later_[i].image, index);
    index -= later_[i].image.keys.size();
  }
}

PlacedRecord WriterRecords::first_from(std::uint64_t key) {
  const auto begin = present_.image.keys.begin();
  const auto next = begin + static_cast<std::ptrdiff_t>(next_);
  const auto found = std::lower_bound(begin, next, key);
  return found == next ? look_ahead(0)
                       : placed(present_.image, static_cast<std::size_t>(found - begin));
}

trace::ReadLosses WriterRecords::losses() const { return before_ + cursor_.losses(); }

namespace {

// The most records of one writer that take_free() reads behind the window.
constexpr std::size_t kMaxReadAhead = 64;

// The most records of one writer in a window, which bounds the window's memory; larger windows are
// no faster.
constexpr std::size_t kMaxOfOneSource = 512;

// If so many records of one writer come before those of any other writer, they become a window of
// their own.
constexpr std::size_t kRun = 32;

constexpr std::uint64_t kMaxKeyOffset = std::numeric_limits<std::uint32_t>::max();

}  // namespace

ProcessMerge::ProcessMerge(const trace::TraceFile& file, const MergeLimit& limit,
                           const MergeProgress& from)
    : last_key_(limit.last_key),
      passed_key_(from.last_key),
      passed_writer_(from.last_writer),
      taken_(from.taken),
      file_losses_(file.losses()),
      records_(from.records) {
  const WriterProgress from_begin;
  sources_.reserve(file.writers().size());
  for (const trace::WriterStream& stream : file.writers()) {
    const auto source = static_cast<Source>(sources_.size());
    const auto known = from.writers.find(stream.writer);
    const WriterProgress& begin = known == from.writers.end() ? from_begin : known->second;
    sources_.emplace_back(file, stream, limit.extent, begin, taken_);
    if (refill(source)) asleep_.push(next_place_of(source));
  }
  make_window();
}

bool ProcessMerge::refill(Source source) {
  const bool has_more = sources_[source].refill();
  // No call has the key 0, because all times of a recorder are larger.
  last_key_ = std::min(last_key_, std::max(sources_[source].hold(), std::uint64_t{1}) - 1);
  return has_more;
}

trace::ReadLosses ProcessMerge::losses() const {
  trace::ReadLosses sum = file_losses_;
  for (const WriterRecords& source : sources_) sum = sum + source.losses();
  return sum;
}

bool ProcessMerge::continues(const MergeProgress& from) const {
  std::size_t known = 0;
  for (const WriterRecords& source : sources_) {
    if (!source.found()) return false;
    known += from.writers.count(source.writer());
  }
  if (known != from.writers.size()) return false;
  const bool is_late = next_ != end_ && std::pair(key_of(*next_), next_->writer) <
                                            std::pair(from.last_key, from.last_writer);
  return !is_late;
}

MergeProgress ProcessMerge::progress() const {
  MergeProgress progress;
  progress.records = records_;
  const bool has_passed = next_ != nullptr && next_ != window_.data();
  progress.last_key = has_passed ? key_of(next_[-1]) : passed_key_;
  progress.last_writer = has_passed ? next_[-1].writer : passed_writer_;
  // number of records that are left in the window, by writer
  std::map<std::uint32_t, std::size_t> waiting;
  for (const WindowRecord* record = next_; record != end_; ++record) ++waiting[record->writer];
  for (const WriterRecords& source : sources_) {
    const auto found = waiting.find(source.writer());
    progress.writers[source.writer()] = source.progress(found == waiting.end() ? 0 : found->second);
  }
  progress.taken = {taken_.lower_bound(progress.last_key), taken_.end()};
  return progress;
}

// Fills the window with the next records of all sources up to find_end(), sorted by key.
void ProcessMerge::make_window() {
  if (end_ != nullptr && end_ != window_.data()) {
    passed_key_ = key_of(end_[-1]);
    passed_writer_ = end_[-1].writer;
  }
  next_ = end_ = nullptr;
  std::erase_if(awake_, [&](Source source) { return !refill(source); });
  const Place end = find_end();
  std::size_t most = kFetchAhead;
  for (const Source source : awake_) most += records_in_reach(source);
  if (window_.size() < most) window_.resize(most);
  WindowRecord* out = window_.data();
  std::size_t still_awake = 0;
  for (const Source source : awake_) {
    WindowRecord* const begin = out;
    out = add_records_of(source, end, begin);
    if (out == begin) {
      asleep_.push(next_place_of(source));
    } else {
      awake_[still_awake++] = source;
    }
  }
  awake_.resize(still_awake);
  const auto count = static_cast<std::size_t>(out - window_.data());
  if (still_awake > 1) {
    sorter_.sort(window_, count, static_cast<std::uint32_t>(end.first - first_key_));
  }
  next_ = window_.data();
  end_ = next_ + count;
  for (std::size_t i = 0; i < std::min(kFetchAhead, count); ++i) fetch(window_[i]);
}

// The window ends at the first position behind which a source may have records out of reach.
ProcessMerge::Place ProcessMerge::find_end() {
  Place first = kNowhere;
  Place second = kNowhere;
  Place end = kNowhere;
  const auto take_in = [&](Source source) {
    const Place place = next_place_of(source);
    second = std::min(second, std::max(first, place));
    first = std::min(first, place);
    end = std::min(end, last_place_in_reach(source));
  };
  for (const Source source : awake_) take_in(source);
  first_key_ = asleep_.empty() ? first.first : std::min(first.first, asleep_.top().first);
  end = std::min(end, Place{first_key_ + std::min(kMaxKeyOffset, kNoMore - first_key_), 0});
  const std::size_t were_awake = awake_.size();
  while (!asleep_.empty() && asleep_.top() <= end) {
    awake_.push_back(asleep_.top().second);
    asleep_.pop();
    take_in(awake_.back());
  }
  if (awake_.size() != were_awake) std::sort(awake_.begin(), awake_.end());
  return has_run(first, second) ? std::min(end, place_before(second)) : end;
}

bool ProcessMerge::has_run(Place first, Place second) const {
  if (first == kNowhere) return false;
  const std::span<const std::uint64_t> keys = sources_[first.second].keys();
  return keys.size() >= kRun && Place{keys[kRun - 1], first.second} < second;
}

ProcessMerge::Place ProcessMerge::place_before(Place place) {
  if (place.second > 0) return {place.first, place.second - 1};
  return {place.first - 1, std::numeric_limits<Source>::max()};
}

std::size_t ProcessMerge::records_in_reach(Source source) const {
  return std::min(sources_[source].keys().size(), kMaxOfOneSource);
}

ProcessMerge::Place ProcessMerge::last_place_in_reach(Source source) const {
  return {sources_[source].keys()[records_in_reach(source) - 1], source};
}

ProcessMerge::WindowRecord* ProcessMerge::add_records_of(Source source, Place end,
                                                         WindowRecord* out) {
  WriterRecords& records = sources_[source];
  const std::span<const std::uint64_t> keys = records.keys();
  const std::uint32_t writer = records.writer();
  const std::uint64_t first_key = first_key_;
  // Records with the same key as the window's end belong to the window only if their source is not
  // behind the end's source.
  const std::uint64_t behind = end.first + (source <= end.second ? 1 : 0);
  const std::size_t most = records_in_reach(source);
  std::size_t i = 0;
  for (; i < most && keys[i] < behind; ++i) {
    out[i] = {static_cast<std::uint32_t>(keys[i] - first_key), writer, records.record(i)};
  }
  records.pass(i);
  return out + i;
}

const ProcessMerge::WindowRecord* ProcessMerge::end_of_run(std::uint64_t last_key,
                                                           std::uint64_t max_records) const {
  const auto count = static_cast<std::uint64_t>(end_ - next_);
  const WindowRecord* const end = next_ + std::min(count, max_records);
  if (key_of(end[-1]) <= last_key) return end;
  return std::partition_point(
      next_, end, [&](const WindowRecord& element) { return key_of(element) <= last_key; });
}

// Searches the records up to kReorderWindowTicks after the present one: in the rest of the window,
// then behind it.
bool ProcessMerge::take_free(std::uint64_t address) {
  const WindowRecord& present = next_[-1];
  const std::uint64_t limit =
      trace::last_key_of_ticks(trace::ticks_of_key(key_of(present)) + trace::kReorderWindowTicks);
  PlacedRecord found;
  std::uint32_t found_by = 0;
  const auto is_it = [&](const PlacedRecord& record, std::uint32_t writer) {
    if (writer == present.writer || (found.record != nullptr && writer >= found_by)) return false;
    if (!is_free_of(*record.record, address)) return false;
    found = record;
    found_by = writer;
    return true;
  };
  const auto count = static_cast<std::size_t>(end_ - next_);
  const WindowRecord* const stop = next_ + std::min(count, kMaxReadAhead * sources_.size());
  const WindowRecord* next = next_;
  for (; next != stop && key_of(*next) <= limit; ++next) {
    (void)is_it({key_of(*next), next->record}, next->writer);
  }
  if (next == end_) {
    for (WriterRecords& source : sources_) {
      for (std::size_t distance = 0; distance < kMaxReadAhead; ++distance) {
        const PlacedRecord ahead = source.look_ahead(distance);
        if (ahead.record == nullptr || ahead.key > limit) break;
        if (is_it(ahead, source.writer())) break;
      }
    }
  }
  if (found.record == nullptr) return false;
  // The record of the free stays in its position, but has no effect there.
  found.record->kind = trace::RecordKind::kNone;
  taken_.erase(taken_.begin(), taken_.lower_bound(key_of(present)));
  taken_.emplace(found.key, address);
  return true;
}

std::uint64_t ProcessMerge::next_ticks_of(std::uint32_t writer) {
  const WindowRecord& present = next_[-1];
  for (WriterRecords& source : sources_) {
    if (source.writer() != writer) continue;
    const std::uint64_t key = key_of(present) + (writer < present.writer ? 1 : 0);
    const PlacedRecord next = source.first_from(key);
    if (next.record != nullptr) return trace::ticks_of_key(next.key);
  }
  return std::numeric_limits<std::uint64_t>::max();
}

}  // namespace gpumemtrace::analyzer
