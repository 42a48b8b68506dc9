// SPDX-License-Identifier: Apache-2.0
// The order of many writers' records, checked against a plain sort of all of them.
#include "analyzer/order/merge.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "analyzer/base/radix_sort.hpp"
#include "tests/catch.hpp"
#include "tests/support/raw_trace.hpp"
#include "tests/support/temporary_folder.hpp"
#include "trace/order.hpp"

namespace gpumemtrace::merge_test {

using namespace gpumemtrace;
using analyzer::ProcessMerge;
using tests::RawTrace;
using tests::RecordImage;
using tests::TemporaryFolder;

namespace {

struct Passed {
  std::uint64_t ticks = 0;
  std::uint32_t writer = 0;
  std::uint64_t address = 0;  // no other record has this address

  friend bool operator==(const Passed&, const Passed&) = default;
};

// A trace of many writers, put together piece by piece, and the order in which a merge must return
// its records.
class ManyWriters {
 public:
  ManyWriters() { trace_.add_schema(tests::own_schema_bytes()); }

  // Adds a free and returns its address, which no other record has.
  std::uint64_t free(std::uint64_t time) {
    free_again(time, ++last_address_);
    return last_address_;
  }
  void free_again(std::uint64_t time, std::uint64_t address) {
    trace::Free call;
    call.call.record.time = time;
    call.call.end = time + 1;
    call.address = address;
    add(call, time << 1, address);
  }
  std::uint64_t allocate(std::uint64_t time) {
    trace::Allocation call;
    call.call.record.time = time - 1;
    call.call.end = time;
    call.address = ++last_address_;
    add(call, (time << 1) | 1, call.address);
    return call.address;
  }
  // Ends a piece of the writer: the records added since the last piece. A damaged piece yields
  // none.
  void end_piece(std::uint32_t writer, bool is_damaged = false) {
    if (sequences_.size() <= writer) sequences_.resize(writer + 1);
    if (last_keys_.size() <= writer) last_keys_.resize(writer + 1);
    trace_.add_records(writer, sequences_[writer]++, 0, piece_.bytes());
    if (is_damaged) trace_.file.back() ^= std::byte{1};
    for (Placed placed : placed_in_piece_) {
      if (is_damaged) break;
      last_keys_[writer] = std::max(last_keys_[writer], placed.key);
      placed.key = last_keys_[writer];
      placed.writer = writer;
      placed_.push_back(placed);
    }
    piece_ = {};
    placed_in_piece_.clear();
  }

  [[nodiscard]] trace::TraceFile file() const {
    return trace::TraceFile(trace_.write(folder_.path()));
  }
  [[nodiscard]] std::vector<Passed> in_order() const {
    std::vector<Placed> sorted = placed_;
    std::stable_sort(sorted.begin(), sorted.end(), [](const Placed& a, const Placed& b) {
      return a.key != b.key ? a.key < b.key : a.writer < b.writer;
    });
    std::vector<Passed> passed;
    for (const Placed& placed : sorted) {
      passed.push_back({trace::ticks_of_key(placed.key), placed.writer, placed.address});
    }
    return passed;
  }

 private:
  struct Placed {
    std::uint64_t key = 0;
    std::uint32_t writer = 0;
    std::uint64_t address = 0;
  };

  template <class Record>
  void add(const Record& record, std::uint64_t key, std::uint64_t address) {
    piece_.add(record);
    placed_in_piece_.push_back({key, 0, address});
  }

  TemporaryFolder folder_;
  RawTrace trace_;
  RecordImage piece_;
  std::vector<Placed> placed_in_piece_;
  std::vector<Placed> placed_;
  std::vector<std::uint32_t> sequences_;  // indexed by writer
  std::vector<std::uint64_t> last_keys_;  // indexed by writer
  std::uint64_t last_address_ = 0;
};

std::uint64_t address_of(const trace::RecordHeader& record) {
  return record.kind == trace::RecordKind::kFree ? trace::as<trace::Free>(record).address
                                                 : trace::as<trace::Allocation>(record).address;
}

struct Collected {
  std::vector<Passed> passed;

  void apply(const trace::RecordHeader& record, std::uint32_t writer, std::uint64_t ticks) {
    passed.push_back({ticks, writer, address_of(record)});
  }
};

std::vector<Passed> all_of(ProcessMerge& merge) {
  Collected collected;
  merge.run_until(trace::kLastOrderKey, std::numeric_limits<std::uint64_t>::max(), collected);
  return collected.passed;
}

// Adds pieces of random length; the times of their records differ by less than `step` from one to
// the next, or jump.
void add_at_random(ManyWriters& trace, std::uint64_t seed, std::uint32_t writers,
                   std::uint64_t step) {
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> now(writers, 1000);
  for (std::size_t pieces = 2 + random() % 200; pieces > 0; --pieces) {
    const auto writer = static_cast<std::uint32_t>(random() % writers);
    for (std::uint64_t records = 1 + random() % (random() % 8 == 0 ? 900 : 20); records > 0;
         --records) {
      now[writer] += random() % step;
      if (random() % 100 == 0) now[writer] -= std::min(now[writer] - 1, random() % (100 * step));
      if (random() % 1000 == 0) now[writer] += std::uint64_t{1} << (random() % 40);
      if (random() % 2 == 0) {
        trace.allocate(now[writer]);
      } else {
        trace.free(now[writer]);
      }
    }
    trace.end_piece(writer, random() % 10 == 0);
  }
}

}  // namespace

TEST_CASE("the records of any number of writers come in the order in which they took effect",
          "[unit]") {
  std::uint64_t seed = 0;
  for (const std::uint32_t writers : {1u, 2u, 3u, 64u, 150u}) {
    // With these steps, from nearly all to hardly any records have equal times.
    for (const std::uint64_t step : {1u, 2u, 50u, 40'000u}) {
      ManyWriters trace;
      add_at_random(trace, ++seed, writers, step);
      const trace::TraceFile file = trace.file();
      ProcessMerge merge(file);
      const std::vector<Passed> expected = trace.in_order();
      CHECK(merge.next_key() != ProcessMerge::kNoMore);
      CHECK(all_of(merge) == expected);
      CHECK(merge.records() == expected.size());
      CHECK(merge.next_key() == ProcessMerge::kNoMore);
    }
  }
}

TEST_CASE("a merge that stops at times and after numbers of records loses none", "[unit]") {
  ManyWriters trace;
  add_at_random(trace, 77, 20, 50);
  const trace::TraceFile file = trace.file();
  ProcessMerge merge(file);
  Collected collected;
  std::mt19937_64 random(5);
  while (merge.next_key() != ProcessMerge::kNoMore) {
    const std::uint64_t last_key = merge.next_key() + random() % 200;
    const std::uint64_t most = 1 + random() % 50;
    const std::size_t before = collected.passed.size();
    merge.run_until(last_key, most, collected);
    const std::size_t count = collected.passed.size() - before;
    CHECK(count >= 1);
    CHECK(count <= most);
    CHECK(collected.passed.back().ticks <= trace::ticks_of_key(last_key));
    CHECK((count == most || merge.next_key() > last_key));
  }
  CHECK(collected.passed == trace.in_order());
}

TEST_CASE("what was lost of each writer is lost to the merge", "[unit]") {
  constexpr auto kUnknownKind = static_cast<std::byte>(200);
  std::vector<std::byte> schema = tests::own_schema_bytes();
  schema[0] = static_cast<std::byte>(std::to_integer<unsigned>(schema[0]) + 1);
  // The unknown kind's description: kind, no tail, 16 bytes, named "x", no fields.
  for (const std::byte byte : {kUnknownKind, std::byte{0}, std::byte{16}, std::byte{0},
                               std::byte{1}, std::byte{'x'}, std::byte{0}}) {
    schema.push_back(byte);
  }
  RawTrace raw;
  raw.add_schema(schema);
  raw.begin_ring();
  for (const std::uint32_t writer : {1, 2, 3}) {
    RecordImage image;
    std::vector<std::byte> unknown(16);
    unknown[0] = kUnknownKind;
    unknown[1] = std::byte{2};
    image.add_raw(unknown);
    if (writer > 1) image.add_raw(std::vector<std::byte>(16, std::byte{0xee}));
    raw.add_chunk(writer, 0, image.bytes());
  }
  const TemporaryFolder folder;
  const trace::TraceFile file(raw.write(folder.path()));
  ProcessMerge merge(file);
  CHECK(all_of(merge).empty());
  CHECK(merge.losses().unknown_records == 3);
  CHECK(merge.losses().malformed_records == 2);
  CHECK(merge.losses().corrupt_blocks == 0);
}

TEST_CASE("a trace without records is through at once", "[unit]") {
  ManyWriters trace;
  trace.free(1);
  trace.end_piece(0, true);
  const trace::TraceFile file = trace.file();
  ProcessMerge merge(file);
  CHECK(merge.next_key() == ProcessMerge::kNoMore);
  CHECK(merge.losses().corrupt_blocks == 1);
}

namespace {

// Asks the merge a question when it comes to the record with the address.
template <class Question>
struct Asking {
  std::uint64_t address = 0;
  Question question;
  std::vector<Passed> passed;

  void apply(const trace::RecordHeader& record, std::uint32_t writer, std::uint64_t ticks) {
    if (record.kind == trace::RecordKind::kNone) return;
    passed.push_back({ticks, writer, address_of(record)});
    if (passed.back().address == address) question();
  }
};

template <class Question>
std::vector<Passed> ask_at(std::uint64_t address, ProcessMerge& merge, Question&& question) {
  Asking<Question> asking{address, question, {}};
  merge.run_until(trace::kLastOrderKey, std::numeric_limits<std::uint64_t>::max(), asking);
  return asking.passed;
}

}  // namespace

TEST_CASE("a free that another writer recorded a little later is found and comes only once",
          "[unit]") {
  constexpr std::uint64_t kTime = 1'000'000;
  // With these numbers of records before it, the free is among the records that the merge looks at
  // first, behind these, or in another piece.
  for (const std::size_t between : {0u, 1u, 20u, 62u}) {
    for (const bool in_other_piece : {false, true}) {
      ManyWriters trace;
      for (int i = 0; i < 40; ++i) trace.free(10 + static_cast<std::uint64_t>(i));
      const std::uint64_t asked_at = trace.allocate(kTime);
      trace.free(kTime + trace::kReorderWindowTicks);
      trace.end_piece(1);
      trace.free(20);
      for (std::size_t i = 0; i < between; ++i) trace.allocate(kTime + 10 + i);
      if (in_other_piece) trace.end_piece(2);
      const std::uint64_t wanted = trace.free(kTime + 100);
      const std::uint64_t too_late = trace.free(kTime + trace::kReorderWindowTicks + 1);
      trace.end_piece(2);
      const trace::TraceFile file = trace.file();
      ProcessMerge merge(file);
      const std::vector<Passed> passed = ask_at(asked_at, merge, [&] {
        CHECK(merge.take_free(wanted));
        CHECK_FALSE(merge.take_free(wanted));
        CHECK_FALSE(merge.take_free(too_late));
        CHECK_FALSE(merge.take_free(asked_at + 1));  // a free of the asking writer
      });
      std::vector<Passed> expected = trace.in_order();
      std::erase_if(expected, [&](const Passed& record) { return record.address == wanted; });
      CHECK(passed == expected);
    }
  }
}

TEST_CASE("of two frees of an address the one of the first writer is taken", "[unit]") {
  // The frees are in pieces that the merge has in memory, or in pieces that it has yet to read.
  for (const bool is_at_hand : {true, false}) {
    ManyWriters trace;
    const std::uint64_t asked_at = trace.allocate(1000);
    if (is_at_hand) trace.allocate(2000);
    trace.end_piece(1);
    trace.free_again(1020, asked_at);
    trace.allocate(2000);
    trace.end_piece(2);
    trace.free_again(1010, asked_at);
    trace.allocate(2000);
    trace.end_piece(3);
    const trace::TraceFile file = trace.file();
    ProcessMerge merge(file);
    const std::vector<Passed> passed =
        ask_at(asked_at, merge, [&] { (void)merge.take_free(asked_at); });
    std::vector<Passed> expected = trace.in_order();
    std::erase(expected, Passed{1020, 2, asked_at});
    // take_free() is called at each record of the address; the second time it finds no other free.
    CHECK(passed == expected);
  }
}

TEST_CASE("a search for a free looks at a short stretch of a writer's records", "[unit]") {
  ManyWriters trace;
  const std::uint64_t asked_at = trace.allocate(1000);
  trace.end_piece(1);
  // The free is near in time but a thousand records away, as if the clock stood still.
  for (int i = 0; i < 1000; ++i) trace.allocate(1001);
  const std::uint64_t wanted = trace.free(1002);
  trace.end_piece(2);
  const trace::TraceFile file = trace.file();
  ProcessMerge merge(file);
  (void)ask_at(asked_at, merge, [&] { CHECK_FALSE(merge.take_free(wanted)); });
}

TEST_CASE("the merge says when another writer goes on", "[unit]") {
  ManyWriters trace;
  add_at_random(trace, 9, 12, 30);
  const trace::TraceFile file = trace.file();
  const std::vector<Passed> order = trace.in_order();
  ProcessMerge merge(file);
  struct Checking {
    ProcessMerge& merge;
    const std::vector<Passed>& order;
    std::size_t position = 0;

    void apply(const trace::RecordHeader&, std::uint32_t writer, std::uint64_t) {
      ++position;
      for (std::uint32_t other = 0; other < 12; ++other) {
        if (other == writer || position % 7 != 0) continue;
        const auto next =
            std::find_if(order.begin() + static_cast<std::ptrdiff_t>(position), order.end(),
                         [&](const Passed& record) { return record.writer == other; });
        const std::uint64_t expected =
            next == order.end() ? std::numeric_limits<std::uint64_t>::max() : next->ticks;
        CHECK(merge.next_ticks_of(other) == expected);
      }
    }
  } checking{merge, order};
  merge.run_until(trace::kLastOrderKey, std::numeric_limits<std::uint64_t>::max(), checking);
  CHECK(checking.position == order.size());
}

namespace {

struct Numbered {
  std::uint32_t key = 0;
  std::uint32_t number = 0;

  friend bool operator==(const Numbered&, const Numbered&) = default;
};

}  // namespace

TEST_CASE("a radix sort leaves equal keys in their order", "[unit]") {
  std::mt19937_64 random(3);
  analyzer::RadixSorter<Numbered, &Numbered::key> sorter;
  for (const std::uint32_t largest : {0u, 1u, 15u, 1000u, 70'000u, ~std::uint32_t{0}}) {
    for (const std::uint32_t count : {0u, 1u, 2u, 17u, 4000u}) {
      std::vector<Numbered> elements;
      for (std::uint32_t i = 0; i < count; ++i) {
        elements.push_back(
            {static_cast<std::uint32_t>(random() % (std::uint64_t{largest} + 1)), i});
      }
      std::vector<Numbered> expected = elements;
      std::stable_sort(expected.begin(), expected.end(),
                       [](const Numbered& a, const Numbered& b) { return a.key < b.key; });
      elements.push_back({0, 99'999});
      sorter.sort(elements, count, largest);
      elements.resize(count);
      CHECK(elements == expected);
    }
  }
}

}  // namespace gpumemtrace::merge_test
