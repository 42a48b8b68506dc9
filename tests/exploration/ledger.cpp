// SPDX-License-Identifier: Apache-2.0
#include "tests/exploration/ledger.hpp"

#include <span>
#include <stdexcept>

#include "tests/exploration/explorer.hpp"
#include "tests/support/raw_trace.hpp"
#include "trace/reader.hpp"
#include "trace/ring_layout.hpp"

namespace gpumemtrace::exploration {
namespace {

constexpr std::uint32_t kNumbersOfThread = 100;
constexpr std::uint32_t kNoNumber = ~std::uint32_t{0};

std::uint32_t number_of(const trace::RecordHeader& record) {
  if (record.kind == trace::RecordKind::kText) return trace::as<trace::Text>(record).part;
  if (record.kind == trace::RecordKind::kFree) {
    return static_cast<std::uint32_t>(trace::as<trace::Free>(record).call.caller);
  }
  return kNoNumber;
}

// Lists the numbers of the records; a "!" follows the number of a call that has ended.
std::string describe(std::span<const std::byte> records) {
  std::string text;
  for (std::size_t offset = 0; offset < records.size();) {
    const auto& record = *reinterpret_cast<const trace::RecordHeader*>(records.data() + offset);
    if (record.words == 0) break;
    text += " " + std::to_string(number_of(record));
    if (trace::is_call(record.kind) && trace::as<trace::Free>(record).call.end != 0) text += "!";
    offset += record.words * trace::kWordBytes;
  }
  return text;
}

}  // namespace

void Ledger::reset() {
  const Unseen unseen;
  made_.clear();
  unnumbered_drops_ = 0;
  appended_.clear();
}

void Ledger::begins(std::uint32_t number) {
  const Unseen unseen;
  made_[number] = State::kBegun;
}

void Ledger::ends(std::uint32_t number, bool is_kept) {
  const Unseen unseen;
  made_[number] = is_kept ? State::kKept : State::kDropped;
}

void Ledger::drops_unnumbered() {
  const Unseen unseen;
  ++unnumbered_drops_;
}

void Ledger::append(const preload::Span& span) {
  const Unseen unseen;
  appended_.push_back(
      {span.writer, span.sequence, span.begin, {span.records.begin(), span.records.end()}});
}

std::uint32_t Ledger::dropped() const {
  const Unseen unseen;
  std::uint32_t count = unnumbered_drops_;
  for (const auto& [number, state] : made_) count += state == State::kDropped ? 1 : 0;
  return count;
}

void Ledger::check_left(const preload::Ring& ring) {
  const Unseen unseen;
  const std::string left = describe_left(ring);
  if (checked_.count(left) != 0) return;
  std::string problem;
  try {
    write_trace();
    problem = read_back();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (!problem.empty()) violate(problem + "\n  left:" + left);
  checked_.insert(left);
}

// Describes all that check_left() depends on: which records the reader can find and should find.
std::string Ledger::describe_left(const preload::Ring& ring) const {
  std::string text;
  for (const Appended& span : appended_) {
    text += " span " + std::to_string(span.writer) + "/" + std::to_string(span.sequence) + "+" +
            std::to_string(span.begin) + describe(span.records);
  }
  ring.for_each_chunk([&](const trace::ChunkHeader& chunk) {
    if (chunk.state.load() == trace::ChunkState::kFree) return;
    text += chunk.state.load() == trace::ChunkState::kActive ? " active " : " sealed ";
    text += std::to_string(chunk.writer) + "/" + std::to_string(chunk.sequence) +
            describe({preload::content_of(chunk), chunk.committed.load()});
  });
  for (const auto& [number, state] : made_) {
    text += (state == State::kKept      ? " kept "
             : state == State::kDropped ? " dropped "
                                        : " begun ") +
            std::to_string(number);
  }
  return text;
}

void Ledger::write_trace() const {
  tests::RawTrace trace;
  trace.add_schema(tests::own_schema_bytes());
  for (const Appended& span : appended_) {
    trace.add_records(span.writer, span.sequence, span.begin, span.records);
  }
  trace.write(folder_.path());
}

std::string Ledger::read_back() const {
  const trace::TraceFile file(trace_path());
  std::map<std::uint32_t, int> seen;
  trace::ReadLosses losses = file.losses();
  for (const trace::WriterStream& stream : file.writers()) {
    trace::WriterCursor cursor(file, stream);
    std::map<std::uint32_t, std::uint32_t> last_of_thread;
    while (const trace::RecordHeader* record = cursor.next()) {
      const std::string problem = look_at(*record, seen, last_of_thread);
      if (!problem.empty()) return problem;
    }
    losses.malformed_records += cursor.losses().malformed_records;
    losses.corrupt_blocks += cursor.losses().corrupt_blocks;
  }
  if (losses.corrupt_blocks + losses.malformed_records + losses.missing_chunks +
          losses.truncated_tail !=
      0) {
    return "the reader finds damage";
  }
  for (const auto& [number, state] : made_) {
    if (state == State::kKept && seen.count(number) == 0) {
      return "record " + std::to_string(number) + " is lost";
    }
  }
  return {};
}

std::string Ledger::look_at(const trace::RecordHeader& record, std::map<std::uint32_t, int>& seen,
                            std::map<std::uint32_t, std::uint32_t>& last_of_thread) const {
  const std::uint32_t number = number_of(record);
  if (number == kNoNumber) return {};
  const std::string name = "record " + std::to_string(number);
  const auto made = made_.find(number);
  if (made == made_.end()) return name + " is there, and nobody made it";
  if (made->second == State::kDropped) return name + " is there, and was counted as dropped";
  if (++seen[number] > 1) return name + " is there twice";
  if (trace::is_call(record.kind) && made->second == State::kKept &&
      (trace::as<trace::Free>(record).call.end == 0 || record.result != kCallResult)) {
    return name + " has returned, and its result is not there";
  }
  std::uint32_t& last = last_of_thread[number / kNumbersOfThread];
  if (last > number) return name + " comes after a later one of its thread";
  last = number;
  return {};
}

}  // namespace gpumemtrace::exploration
