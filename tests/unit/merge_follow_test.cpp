// SPDX-License-Identifier: Apache-2.0
// A merge that goes on where an earlier merge ended, on a trace that has grown since, because its
// recorder packs records from the ring into the file.
#include <algorithm>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "analyzer/order/merge.hpp"
#include "tests/catch.hpp"
#include "tests/support/raw_trace.hpp"
#include "tests/support/temporary_folder.hpp"
#include "trace/order.hpp"

namespace gpumemtrace::merge_follow_test {

using namespace gpumemtrace;
using analyzer::Extent;
using analyzer::MergeLimit;
using analyzer::MergeProgress;
using analyzer::ProcessMerge;
using tests::RawTrace;
using tests::RecordImage;
using tests::TemporaryFolder;

namespace {

constexpr std::uint64_t kFirstTick = 1000;

// A call with an address that no other call has.
struct CallAt {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t address = 0;
  bool is_free = false;

  [[nodiscard]] std::uint64_t key() const { return is_free ? start << 1 : end << 1 | 1; }
};

void add(RecordImage& image, const CallAt& call, bool has_returned) {
  const std::uint64_t end = has_returned ? call.end : 0;
  if (call.is_free) {
    trace::Free record;
    record.call.record.time = call.start;
    record.call.end = end;
    record.address = call.address;
    image.add(record);
  } else {
    trace::Allocation record;
    record.call.record.time = call.start;
    record.call.end = end;
    record.address = call.address;
    image.add(record);
  }
}

std::size_t bytes_of(const CallAt& call) {
  return call.is_free ? sizeof(trace::Free) : sizeof(trace::Allocation);
}

// One thread of the program: its calls, and the spans of them that are packed into the file.
struct Thread {
  static constexpr std::size_t kCallsOfChunk = 12;

  std::vector<CallAt> calls;
  struct Span {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  std::vector<Span> packed;  // each span lies in one chunk

  [[nodiscard]] std::size_t packed_calls() const { return packed.empty() ? 0 : packed.back().end; }
  // Offset of a call in its chunk.
  [[nodiscard]] std::uint32_t offset(std::size_t call) const {
    std::size_t bytes = 0;
    for (std::size_t i = call / kCallsOfChunk * kCallsOfChunk; i < call; ++i) {
      bytes += bytes_of(calls[i]);
    }
    return static_cast<std::uint32_t>(bytes);
  }
};

// A program whose trace is looked at while it runs.
class RunningProgram {
 public:
  RunningProgram(std::uint64_t seed, std::size_t threads) : random_(seed), threads_(threads) {
    for (Thread& thread : threads_) {
      std::uint64_t now = kFirstTick + random_() % 100;
      for (std::size_t calls = random_() % 200; calls > 0; --calls) {
        CallAt call;
        call.start = now += 1 + random_() % 40;
        // Some calls take long, so that a look at the trace comes while they last.
        call.end = now += 1 + random_() % (random_() % 10 == 0 ? 2000 : 10);
        call.address = ++addresses_;
        call.is_free = random_() % 2 == 0;
        thread.calls.push_back(call);
      }
      end_ = std::max(end_, now);
    }
  }

  [[nodiscard]] std::uint64_t end() const { return end_; }

  // Writes the trace as it is at `now`: some of the calls that returned are packed, chunk by chunk,
  // and the other calls are in the ring.
  [[nodiscard]] std::filesystem::path write(std::uint64_t now) {
    RawTrace raw;
    raw.add_schema(tests::own_schema_bytes());
    raw.begin_ring();
    for (std::size_t i = 0; i < threads_.size(); ++i) add_thread(i, now, raw);
    return raw.write(folder_.path());
  }

  // The addresses of all calls whose order key is at most `last_key`, in order.
  [[nodiscard]] std::vector<std::uint64_t> in_order(std::uint64_t last_key) const {
    std::vector<std::tuple<std::uint64_t, std::size_t, std::uint64_t>> all;
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      for (const CallAt& call : threads_[i].calls) {
        if (call.key() <= last_key) all.emplace_back(call.key(), i, call.address);
      }
    }
    std::sort(all.begin(), all.end());
    std::vector<std::uint64_t> addresses;
    for (const auto& [key, thread, address] : all) addresses.push_back(address);
    return addresses;
  }

  // The last order key that a merge may take at `now`: none after the begin of a free that has not
  // returned, since that free may yet fail.
  [[nodiscard]] std::uint64_t last_key_at(std::uint64_t now) const {
    std::uint64_t last_key = trace::last_key_of_ticks(now);
    for (const Thread& thread : threads_) {
      for (const CallAt& call : thread.calls) {
        if (call.is_free && call.start <= now && call.end > now) {
          last_key = std::min(last_key, call.key() - 1);
        }
      }
    }
    return last_key;
  }

 private:
  void add_thread(std::size_t index, std::uint64_t now, RawTrace& raw) {
    Thread& thread = threads_[index];
    std::size_t begun = 0;
    std::size_t returned = 0;
    for (const CallAt& call : thread.calls) {
      begun += call.start <= now ? 1 : 0;
      returned += call.end <= now ? 1 : 0;
    }
    while (random_() % 3 != 0 && thread.packed_calls() < returned) pack(thread, returned);
    const auto writer = static_cast<std::uint32_t>(index + 1);
    for (const Thread::Span& span : thread.packed) {
      RecordImage image;
      for (std::size_t i = span.begin; i < span.end; ++i) add(image, thread.calls[i], true);
      raw.add_records(writer, chunk_of(span.begin), thread.offset(span.begin), image.bytes());
    }
    // A chunk leaves the ring when all of its calls are packed.
    for (std::size_t first = thread.packed_calls() / Thread::kCallsOfChunk * Thread::kCallsOfChunk;
         first < begun; first += Thread::kCallsOfChunk) {
      RecordImage image;
      const std::size_t end = std::min(first + Thread::kCallsOfChunk, begun);
      for (std::size_t i = first; i < end; ++i) add(image, thread.calls[i], i < returned);
      raw.add_chunk(writer, chunk_of(first), image.bytes());
    }
  }
  static std::uint32_t chunk_of(std::size_t call) {
    return static_cast<std::uint32_t>(call / Thread::kCallsOfChunk);
  }
  void pack(Thread& thread, std::size_t returned) {
    const std::size_t begin = thread.packed_calls();
    const std::size_t chunk_end = (begin / Thread::kCallsOfChunk + 1) * Thread::kCallsOfChunk;
    thread.packed.push_back(
        {begin, std::min({chunk_end, returned, begin + 1 + random_() % Thread::kCallsOfChunk})});
  }

  TemporaryFolder folder_;
  std::mt19937_64 random_;
  std::vector<Thread> threads_;
  std::uint64_t addresses_ = 0;
  std::uint64_t end_ = 0;
};

struct Collected {
  std::vector<std::uint64_t> addresses;

  void apply(const trace::RecordHeader& record, std::uint32_t, std::uint64_t) {
    if (record.kind == trace::RecordKind::kNone) return;
    addresses.push_back(record.kind == trace::RecordKind::kFree
                            ? trace::as<trace::Free>(record).address
                            : trace::as<trace::Allocation>(record).address);
  }
};

template <class Sink>
MergeProgress take(ProcessMerge& merge, Sink& sink) {
  merge.run_until(trace::kLastOrderKey, std::numeric_limits<std::uint64_t>::max(), sink);
  return merge.progress();
}

MergeLimit limit_at(std::uint64_t now) {
  return {Extent::kReturned, trace::last_key_of_ticks(now)};
}

}  // namespace

TEST_CASE("looks at a running program take all that has taken effect, once and in order",
          "[unit]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    RunningProgram program(seed, 1 + seed % 7);
    std::mt19937_64 random(seed);
    MergeProgress progress;
    Collected collected;
    for (std::uint64_t now = kFirstTick; now < program.end(); now += 1 + random() % 700) {
      const trace::TraceFile file(program.write(now));
      ProcessMerge merge(file, limit_at(now), progress);
      CHECK(merge.continues(progress));
      progress = take(merge, collected);
      CHECK((collected.addresses == program.in_order(program.last_key_at(now))));
      CHECK(progress.records == collected.addresses.size());
    }
    // The program has ended: nothing is held back any more.
    const trace::TraceFile file(program.write(program.end()));
    ProcessMerge merge(file, {}, progress);
    CHECK(merge.continues(progress));
    progress = take(merge, collected);
    CHECK((collected.addresses == program.in_order(trace::kLastOrderKey)));
  }
}

TEST_CASE("a record that comes late, or lies where nothing is any more, ends the following",
          "[unit]") {
  RunningProgram program(3, 4);
  const std::uint64_t now = program.end() / 2;
  Collected collected;
  MergeProgress progress;
  {
    const trace::TraceFile file(program.write(now));
    ProcessMerge merge(file, limit_at(now));
    progress = take(merge, collected);
  }
  SECTION("of a new thread, from before what was taken") {
    const CallAt early{kFirstTick, kFirstTick + 1, 1'000'000, true};
    const TemporaryFolder folder;
    RawTrace raw;
    raw.add_schema(tests::own_schema_bytes());
    RecordImage image;
    add(image, early, true);
    raw.add_records(9, 0, 0, image.bytes());
    const trace::TraceFile file(raw.write(folder.path()));
    MergeProgress of_nobody = progress;
    of_nobody.writers.clear();
    const ProcessMerge merge(file, limit_at(now), of_nobody);
    CHECK_FALSE(merge.continues(of_nobody));
  }
  SECTION("a thread's stream is gone") {
    const TemporaryFolder folder;
    RawTrace raw;
    raw.add_schema(tests::own_schema_bytes());
    const trace::TraceFile file(raw.write(folder.path()));
    const ProcessMerge merge(file, limit_at(now), progress);
    CHECK_FALSE(merge.continues(progress));
  }
  SECTION("a thread's stream has no such piece") {
    MergeProgress elsewhere = progress;
    elsewhere.writers.begin()->second.position.begin_offset += 8;
    const trace::TraceFile file(program.write(now));
    const ProcessMerge merge(file, limit_at(now), elsewhere);
    CHECK_FALSE(merge.continues(elsewhere));
  }
}

TEST_CASE("a free that was taken ahead of a look's end does not come at the next look", "[unit]") {
  const TemporaryFolder folder;
  RawTrace raw;
  raw.add_schema(tests::own_schema_bytes());
  RecordImage one;
  add(one, {1000, 1010, 7, false}, true);
  raw.add_records(1, 0, 0, one.bytes());
  RecordImage other;
  add(other, {900, 901, 6, true}, true);
  add(other, {1020, 1021, 7, true}, true);
  add(other, {1030, 1031, 8, true}, true);
  raw.add_records(2, 0, 0, other.bytes());
  const trace::TraceFile file(raw.write(folder.path()));

  struct Asking {
    ProcessMerge& merge;
    Collected collected;
    void apply(const trace::RecordHeader& record, std::uint32_t writer, std::uint64_t ticks) {
      collected.apply(record, writer, ticks);
      if (writer == 1) CHECK(merge.take_free(7));
    }
  };
  ProcessMerge merge(file, limit_at(1015));
  Asking asking{merge, {}};
  const MergeProgress progress = take(merge, asking);
  CHECK(asking.collected.addresses == std::vector<std::uint64_t>{6, 7});
  CHECK(progress.taken.size() == 1);
  ProcessMerge next(file, {}, progress);
  CHECK(next.continues(progress));
  Collected collected;
  CHECK(take(next, collected).taken.empty());
  CHECK(collected.addresses == std::vector<std::uint64_t>{8});
}

TEST_CASE("a call that a jump left holds nothing back, since its thread made another", "[unit]") {
  const TemporaryFolder folder;
  RawTrace raw;
  raw.add_schema(tests::own_schema_bytes());
  raw.begin_ring();
  RecordImage image;
  add(image, {1000, 0, 1, true}, false);
  add(image, {1010, 1020, 2, false}, true);
  add(image, {1030, 0, 3, true}, false);
  raw.add_chunk(1, 0, image.bytes());
  RecordImage other;
  add(other, {1025, 1026, 4, true}, true);
  add(other, {1035, 1036, 5, true}, true);
  raw.add_chunk(2, 0, other.bytes());
  const trace::TraceFile file(raw.write(folder.path()));
  ProcessMerge merge(file, limit_at(2000));
  Collected collected;
  const MergeProgress progress = take(merge, collected);
  CHECK(collected.addresses == std::vector<std::uint64_t>{1, 2, 4});
  // At the end of the recording the merge knows that no unfinished call will return.
  ProcessMerge last(file, {}, progress);
  CHECK(take(last, collected).records == 5);
  CHECK(collected.addresses == std::vector<std::uint64_t>{1, 2, 4, 3, 5});
}

}  // namespace gpumemtrace::merge_follow_test
