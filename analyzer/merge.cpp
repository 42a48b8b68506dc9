#include "analyzer/merge.hpp"

#include <algorithm>
#include <cstring>

namespace gpumemtrace::analyzer {
namespace {

// Most records of one writer that one search looks at.
constexpr std::size_t kMaxReadAhead = 64;

bool is_free_of(const trace::RecordHeader& record, std::uint64_t address) {
  return record.kind == trace::RecordKind::kFree &&
         trace::as<trace::Free>(record).address == address && record.result == 0 &&
         trace::as<trace::Free>(record).call.end != 0 && (record.flags & trace::kFlagCaptured) == 0;
}

std::vector<std::uint64_t> copy_of(const trace::RecordHeader& record) {
  std::vector<std::uint64_t> words(record.words);
  std::memcpy(words.data(), &record, words.size() * trace::kWordBytes);
  return words;
}

trace::RecordHeader* header_of(std::vector<std::uint64_t>& words) {
  return reinterpret_cast<trace::RecordHeader*>(words.data());
}

void add(trace::ReadLosses& sum, const trace::ReadLosses& more) {
  sum.corrupt_blocks += more.corrupt_blocks;
  sum.truncated_tail += more.truncated_tail;
  sum.missing_chunks += more.missing_chunks;
  sum.malformed_records += more.malformed_records;
  sum.unknown_records += more.unknown_records;
}

}  // namespace

ProcessMerge::ProcessMerge(const trace::TraceFile& file) : losses_(file.losses()) {
  std::vector<std::uint64_t> keys;
  for (const trace::WriterStream& stream : file.writers()) {
    sources_.push_back(std::make_unique<Source>(file, stream));
    keys.push_back(advance(*sources_.back()));
    if (keys.back() == kNoMore) finish(sources_.size() - 1);
  }
  heads_ = Tournament(keys);
}

std::uint64_t ProcessMerge::advance(Source& source) {
  if (source.read_ahead.empty()) [[likely]] {
    source.head = source.cursor.next();
  } else {
    source.read_ahead.pop_front();
    source.head =
        source.read_ahead.empty() ? source.cursor.next() : header_of(source.read_ahead.front());
  }
  if (source.head == nullptr) return kNoMore;
  source.last_key = std::max(source.last_key, trace::order_key(*source.head));
  return source.last_key;
}

void ProcessMerge::finish(std::size_t source) {
  add(losses_, sources_[source]->cursor.losses());
  sources_[source].reset();
}

bool ProcessMerge::take_free(std::uint64_t address) {
  const std::uint64_t limit =
      trace::last_key_of_ticks(trace::ticks_of_key(present_key_) + trace::kReorderWindowTicks);
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (i == present_source_ || sources_[i] == nullptr) continue;
    if (take_free_from(*sources_[i], address, limit)) return true;
  }
  return false;
}

std::uint64_t ProcessMerge::next_ticks_of(std::uint32_t writer) const {
  for (const std::unique_ptr<Source>& source : sources_) {
    if (source != nullptr && source->writer == writer && source->head != nullptr) {
      return trace::ticks_of_key(source->last_key);
    }
  }
  return std::numeric_limits<std::uint64_t>::max();
}

bool ProcessMerge::take_free_from(Source& source, std::uint64_t address, std::uint64_t limit) {
  for (std::size_t i = 0; i < kMaxReadAhead; ++i) {
    if (i >= source.read_ahead.size()) {
      // The head lives in the cursor's buffer until it is copied; so does every later record.
      if (i == 0 && source.head != nullptr) {
        source.read_ahead.push_back(copy_of(*source.head));
      } else {
        const trace::RecordHeader* next = source.cursor.next();
        if (next == nullptr) break;
        source.read_ahead.push_back(copy_of(*next));
      }
      source.head = header_of(source.read_ahead.front());
    }
    trace::RecordHeader* record = header_of(source.read_ahead[i]);
    if (trace::order_key(*record) > limit) break;
    if (is_free_of(*record, address)) {
      // Taken: it stays in its place as a record that does nothing.
      record->kind = trace::RecordKind::kNone;
      return true;
    }
  }
  return false;
}

}  // namespace gpumemtrace::analyzer
