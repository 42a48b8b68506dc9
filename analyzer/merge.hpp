// The records of all writers of one process in the order in which they took effect
// (trace/order.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "analyzer/tournament.hpp"
#include "trace/order.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::analyzer {

// Lets the model look for a free that another thread recorded and that is still to come.
class LookAhead {
 public:
  virtual ~LookAhead() = default;
  // Searches a short stretch of the other writers' records. Where a successful free of the address
  // is found, it is taken out of the order and true is returned: the caller applies it now.
  [[nodiscard]] virtual bool take_free(std::uint64_t address) = 0;
  // When the writer's next record after the present one takes effect, in ticks; the largest number
  // where it has none.
  [[nodiscard]] virtual std::uint64_t next_ticks_of(std::uint32_t writer) const = 0;
};

// - A writer's records stay in their own order, whatever their times say.
// - As long as one writer is ahead of all others, its records pass without a comparison among
//   them all.
class ProcessMerge final : public LookAhead {
 public:
  explicit ProcessMerge(const trace::TraceFile& file);

  static constexpr std::uint64_t kNoMore = Tournament::kLast;
  // Order key of the next record, or kNoMore.
  [[nodiscard]] std::uint64_t next_key() const { return heads_.winner().key; }
  // Passes the records up to and including the key, which is not kNoMore, but at most
  // `max_records`, to sink.apply(record, writer, ticks), where `ticks` is when the record took
  // effect.
  template <class Sink>
  void run_until(std::uint64_t last_key, std::uint64_t max_records, Sink& sink);

  [[nodiscard]] bool take_free(std::uint64_t address) override;
  [[nodiscard]] std::uint64_t next_ticks_of(std::uint32_t writer) const override;
  [[nodiscard]] const trace::ReadLosses& losses() const { return losses_; }
  [[nodiscard]] std::uint64_t records() const { return records_; }

 private:
  struct Source {
    Source(const trace::TraceFile& file, const trace::WriterStream& stream)
        : cursor(file, stream), writer(stream.writer) {}

    trace::WriterCursor cursor;
    std::uint32_t writer = 0;
    std::uint64_t last_key = 0;
    const trace::RecordHeader* head = nullptr;
    // Records that take_free() has read ahead; the head is the first of them where there are any.
    std::deque<std::vector<std::uint64_t>> read_ahead;
  };

  // The key of the source's new head, or kNoMore at its end.
  std::uint64_t advance(Source& source);
  void finish(std::size_t source);
  [[nodiscard]] bool take_free_from(Source& source, std::uint64_t address, std::uint64_t limit);

  std::vector<std::unique_ptr<Source>> sources_;  // nullptr once a writer is through
  Tournament heads_;                              // by index of the source
  std::uint64_t present_key_ = 0;
  std::uint64_t present_source_ = 0;
  trace::ReadLosses losses_;
  std::uint64_t records_ = 0;
};

template <class Sink>
void ProcessMerge::run_until(std::uint64_t last_key, std::uint64_t max_records, Sink& sink) {
  const std::uint64_t stop_at = records_ + max_records;
  // Up to where the present writer is ahead of all others; found out once it has won twice in turn.
  std::uint64_t limit = 0;
  while (next_key() <= last_key && records_ < stop_at) {
    Tournament::Entry current = heads_.winner();
    Source& source = *sources_[current.player];
    present_source_ = current.player;
    do {
      present_key_ = current.key;
      ++records_;
      sink.apply(*source.head, source.writer, trace::ticks_of_key(current.key));
      current.key = advance(source);
    } while (current.key < limit && records_ < stop_at);
    if (current.key == kNoMore) finish(current.player);
    heads_.replace_winner(current.key);
    const bool won_again = heads_.winner().player == current.player;
    limit = won_again ? std::min(heads_.runner_up_key(), last_key + 1) : 0;
  }
}

}  // namespace gpumemtrace::analyzer
