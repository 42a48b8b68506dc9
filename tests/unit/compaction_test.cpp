// SPDX-License-Identifier: Apache-2.0
// A trace whose oldest parts were compacted again and again must give the report of the whole
// trace.

#include <cstdlib>
#include <random>

#include "analyzer/base/input_error.hpp"
#include "analyzer/findings/rule_table.hpp"
#include "tests/catch.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/packed_trace.hpp"
#include "tests/support/random_job.hpp"
#include "tests/support/report_query.hpp"
#include "tests/support/stack_records.hpp"
#include "tests/support/trace_builder.hpp"
#include "trace/reader.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::compaction_test {

using namespace gpumemtrace;
using namespace gpumemtrace::tests;

namespace {

// Removes from a report all that a checkpoint cannot keep, as decision 0005 lists
// it, and nothing else.
Json comparable(Json report) {
  for (Json& trace : report["traces"]) {
    trace.erase("file");
    trace.erase("bytes");
  }
  const auto keep = [](Json& rows, const auto& is_kept) {
    Json kept = Json::array();
    for (const Json& row : rows) {
      if (is_kept(row)) kept.push_back(row);
    }
    rows = kept;
  };
  keep(report["losses"],
       [](const Json& row) { return row["name"] != "detail_replaced_by_checkpoint"; });
  report["coverage"].erase("partial_rules");
  keep(report["fragmentation"],
       [](const Json& row) { return row["at"] == "end" || row["level"] != "framework"; });
  report.erase("oom");
  keep(report["composition"], [](const Json& row) { return row["at"] != "oom"; });
  report["leaks"].erase("growth");
  for (const char* const list : {"by_kind", "sites"}) {
    for (Json& copies : report["transfers"][list]) {
      for (const char* const key :
           {"min_bytes", "max_bytes", "min_host_ns", "mean_host_ns", "max_host_ns"}) {
        copies.erase(key);
      }
    }
  }
  // A checkpoint does not keep the bytes that each pool had at a peak which the checkpoint
  // replaced.
  for (Json& pool : report["pools"]) {
    pool.erase("reserved_bytes_at_peak");
    pool.erase("allocated_bytes_at_peak");
  }
  report.erase("timeline");  // compare_timelines() compares them instead
  for (const char* const key : {"segments", "sizes", "lifetimes", "temporary", "largest_blocks"}) {
    report.erase(key);
  }
  keep(report["findings"], [](const Json& row) {
    for (const analyzer::RuleInfo& rule : analyzer::kRules) {
      if (row["rule"] == rule.name) return rule.scope == analyzer::RuleScope::kWholeRun;
    }
    return true;
  });
  return report;
}

Json report_of(const PackedTrace& trace) {
  Json report = analyze_json({trace.path()}, {});
  keep_report(report);
  return report;
}

std::uint64_t number(const Json& object, const char* key) {
  return object.at(key).get<std::uint64_t>();
}

// A compacted timeline begins with one bucket up to the time of its checkpoint (the cut), which has
// the highest point of that time. The next bucket begins at the cut, and the later ones are those
// of the whole trace.
void compare_timeline(const Json& whole, const Json& compacted) {
  const Json& buckets = compacted.at("buckets");
  if (!buckets[0].at("min_bytes").is_null()) {  // nothing was live before the cut
    CHECK(whole.dump() == compacted.dump());
    return;
  }
  const std::uint64_t cut = number(buckets[0], "end_ns");
  std::uint64_t highest_before = 0;
  std::size_t first_behind = buckets.size();
  std::size_t compared = 0;
  for (const Json& bucket : whole.at("buckets")) {
    if (number(bucket, "end_ns") <= cut) {
      highest_before = std::max(highest_before, number(bucket, "max_bytes"));
    }
    for (std::size_t i = 2; i < buckets.size() && first_behind == buckets.size(); ++i) {
      if (buckets[i].at("start_ns") == bucket.at("start_ns")) first_behind = i;
    }
    if (first_behind == buckets.size()) continue;
    REQUIRE(first_behind + compared < buckets.size());
    CHECK(bucket.dump() == buckets[first_behind + compared].dump());
    ++compared;
  }
  CHECK(first_behind + compared == buckets.size());
  CHECK(number(buckets[0], "max_bytes") >= highest_before);
}

void compare_timelines(const Json& whole, const Json& compacted) {
  for (const Json& row : compacted) {
    const Json same = row_where(whole, {{"device", row.at("device")}, {"level", row.at("level")}});
    INFO(row.at("device") << ' ' << row.at("level"));
    REQUIRE(!same.is_null());
    if (row.at("level") != "imported") compare_timeline(same, row);
  }
  CHECK(compacted.size() == whole.size());
}

// Checks that the timeline's maximum equals the report's peak.
void check_highest(const Json& report) {
  for (const Json& peak : report.at("peak")) {
    const Json row = row_where(report.at("timeline"),
                               {{"device", peak.at("device")}, {"level", peak.at("level")}});
    std::uint64_t highest = 0;
    for (const Json& bucket : row.at("buckets")) {
      highest = std::max(highest, number(bucket, "max_bytes"));
      std::uint64_t sum = 0;
      for (const Json& part : bucket.at("parts")) sum += part.get<std::uint64_t>();
      CHECK(sum == number(bucket, "max_bytes"));
    }
    CHECK(highest == number(peak, "bytes"));
  }
}

void compare(const Json& whole, const Json& compacted) {
  for (const auto& [key, value] : whole.items()) {
    INFO(key);
    if (value == compacted.at(key)) continue;
    CHECK(value.dump(1) == compacted.at(key).dump(1));
  }
}

}  // namespace

namespace {

// GPUMEMTRACE_RANDOM_JOBS asks for more random jobs than the suite has time for.
std::uint64_t random_jobs() {
  const char* wanted = std::getenv("GPUMEMTRACE_RANDOM_JOBS");
  return wanted == nullptr ? 3 : std::strtoull(wanted, nullptr, 10);
}

// Packs the records now and then, and compacts the trace every few times. Returns how often the
// trace was compacted.
std::size_t pack_and_compact(const std::vector<JobRecord>& records, PackedTrace& trace,
                             std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::size_t times = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    trace.add(records[i]);
    // Compacting after each third of the records makes sure of two checkpoints at least.
    const bool is_third = i == records.size() / 3 || i == records.size() / 3 * 2;
    if (random() % 150 != 0 && !is_third) continue;
    trace.pack();
    if ((random() % 4 != 0 && !is_third) || i + 1 == records.size()) continue;
    const std::uint64_t keep_bytes = is_third ? 0 : random() % 20'000;
    const auto result = trace.compact(keep_bytes, records[i + 1].start);
    if (result == preload::CheckpointResult::kDone) ++times;
  }
  trace.pack();
  return times;
}

// Sets some fields of the records to values that no recorder would write there.
std::vector<JobRecord> damaged(std::vector<JobRecord> records, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (JobRecord& record : records) {
    if (random() % 3 != 0) continue;
    auto* raw = reinterpret_cast<std::byte*>(record.words.data());
    const trace::KindInfo& info = *trace::find_kind(static_cast<trace::RecordKind>(raw[0]));
    const trace::Field& field = info.fields[random() % info.fields.size()];
    const std::uint64_t value = random() % 4 == 0 ? random() : random() % 20;
    trace::store_field(raw, field.offset, field.bytes, value);
  }
  return records;
}

}  // namespace

TEST_CASE("compacting a trace again and again does not change its report", "[unit]") {
  for (std::uint64_t seed = 1; seed <= random_jobs(); ++seed) {
    INFO("seed " << seed);
    RandomJob job(seed);
    job.run(4000);
    job.finish();
    const TemporaryFolder folder;
    PackedTrace whole(folder.path() / "whole.gmt");
    PackedTrace compacted(folder.path() / "compacted.gmt");
    for (const JobRecord& record : job.records()) {
      whole.add(record);
      if (record.start % 100 == 0) whole.pack();
    }
    whole.pack();
    CHECK(pack_and_compact(job.records(), compacted, seed) > 1);
    const Json of_whole = report_of(whole);
    const Json of_compacted = report_of(compacted);
    compare(comparable(of_whole), comparable(of_compacted));
    compare_timelines(of_whole.at("timeline"), of_compacted.at("timeline"));
    check_highest(of_compacted);
  }
}

TEST_CASE(
    "of the time before the cut no single block is told, and of a part of the run what is left",
    "[unit]") {
  RandomJob job(3);
  job.run(4000);
  job.finish();
  const TemporaryFolder folder;
  PackedTrace compacted(folder.path() / "compacted.gmt");
  REQUIRE(pack_and_compact(job.records(), compacted, 3) > 1);
  analyzer::Options options;
  options.blocks_at_ns = 1;
  const std::string refused =
      error_of<analyzer::InputError>([&] { (void)analyze_json({compacted.path()}, options); });
  CHECK(contains(refused, "What was live at 1 ns is not known"));
  CHECK(contains(refused, "has sums alone"));

  const Json whole = report_of(compacted);
  options.blocks_at_ns.reset();
  options.window = {0, std::nullopt};
  const Json part = analyze_json({compacted.path()}, options);
  for (const Json& row : part.at("timeline")) {
    const Json same =
        row_where(whole.at("timeline"), {{"device", row.at("device")}, {"level", row.at("level")}});
    REQUIRE(!same.is_null());
    const Json& buckets = row.at("buckets");
    CHECK(!buckets[0].at("min_bytes").is_null());
    CHECK(number(buckets[buckets.size() - 1], "last_bytes") ==
          number(same.at("buckets")[same.at("buckets").size() - 1], "last_bytes"));
  }
}

TEST_CASE("records in no sensible order are compacted into a trace that can be read", "[unit]") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    INFO("seed " << seed);
    RandomJob job(seed);
    job.run(3000);
    job.finish();
    const TemporaryFolder folder;
    PackedTrace compacted(folder.path() / "compacted.gmt");
    pack_and_compact(damaged(job.records(), seed), compacted, seed);
    const Json report = analyze_json({compacted.path()}, {});
    for (const Json& peak : report.at("peak")) {
      std::uint64_t sum = 0;
      for (const Json& holder : peak.at("holders")) sum += holder.at("bytes").get<std::uint64_t>();
      CHECK(sum == peak.at("bytes").get<std::uint64_t>());
    }
  }
}

namespace {

// One thread allocates, fails to free, and frees late, when another thread has the address already.
std::vector<JobRecord> refused_and_late_free() {
  RandomJob job(1);
  std::vector<JobRecord> records = job.records();
  const auto add = [&](auto record, std::uint32_t writer, std::uint64_t start, std::uint64_t end) {
    record.call.record.kind = trace::kind_of<decltype(record)>();
    record.call.record.words = sizeof record / trace::kWordBytes;
    record.call.record.time = start;
    record.call.end = end;
    record.call.context = trace::ContextId{1};
    JobRecord made{writer, start, end, std::vector<std::uint64_t>(sizeof record / 8)};
    std::memcpy(made.words.data(), &record, sizeof record);
    records.push_back(made);
  };
  trace::Allocation allocation;
  allocation.address = 0x100000;
  allocation.memory = trace::MemoryKind::kDevice;
  allocation.bytes = 100;
  trace::Free refused;
  refused.address = allocation.address;
  refused.call.record.result = 1;
  trace::Free late = refused;
  late.call.record.result = 0;
  const std::uint64_t begin = records.back().end + 1'000'000;
  add(allocation, 1, begin, begin + 10);
  add(refused, 1, begin + 20, begin + 30);
  allocation.bytes = 7;
  add(allocation, 2, begin + 40, begin + 50);
  add(late, 1, begin + 60, begin + 70);
  // Allocations much later, so that all records before them can be compacted.
  for (std::uint64_t i = 1; i <= 40; ++i) {
    allocation.address += 1 << 20;
    add(allocation, 1, begin + i * 1'000'000, begin + i * 1'000'000 + 10);
  }
  return records;
}

}  // namespace

TEST_CASE("a late free keeps its order in a checkpoint when its allocation must stay", "[unit]") {
  const TemporaryFolder folder;
  PackedTrace compacted(folder.path() / "compacted.gmt");
  std::uint64_t end = 0;
  for (const JobRecord& record : refused_and_late_free()) {
    compacted.add(record);
    if (record.end % 3 != 0) compacted.pack();
    end = record.end;
  }
  compacted.pack();
  const auto expected = analyze_json({compacted.path()}, {});
  for (int time = 0; time < 3; ++time) {
    REQUIRE(compacted.compact(1000 - 400u * static_cast<unsigned>(time), end + 1) ==
            preload::CheckpointResult::kDone);
    const auto report = analyze_json({compacted.path()}, {});
    CHECK(report.at("usage") == expected.at("usage"));
    CHECK(report.at("leaks").at("total_bytes") == expected.at("leaks").at("total_bytes"));
    CHECK(report.at("leaks").at("invalid_frees") == expected.at("leaks").at("invalid_frees"));
  }
}

namespace {

// One thread frees its memory twice, and then works for long.
std::vector<JobRecord> freed_twice() {
  RandomJob job(1);
  std::vector<JobRecord> records = job.records();
  std::uint64_t at = records.back().end;
  const auto add = [&](auto record, std::uint64_t caller) {
    at += 1'000'000;
    record.call.record.kind = trace::kind_of<decltype(record)>();
    record.call.record.words = sizeof record / trace::kWordBytes;
    record.call.record.time = at;
    record.call.end = at + 10;
    record.call.context = trace::ContextId{1};
    record.call.caller = caller;
    JobRecord made{1, at, at + 10, std::vector<std::uint64_t>(sizeof record / 8)};
    std::memcpy(made.words.data(), &record, sizeof record);
    records.push_back(made);
  };
  trace::Allocation allocation;
  allocation.memory = trace::MemoryKind::kDevice;
  allocation.bytes = 100;
  trace::Free release;
  allocation.address = release.address = 0x100000;
  add(allocation, 0x1010);
  add(release, 0x1020);
  for (int i = 0; i < 40; ++i) {
    if (i % 20 == 0) {
      release.address = 0x100000;
      release.call.record.result = 1;
      add(release, 0x1030);
      release.call.record.result = 0;
    }
    allocation.address = release.address = 0x200000;
    add(allocation, 0x1040);
    add(release, 0x1050);
  }
  return records;
}

}  // namespace

TEST_CASE("what was freed before is known although a checkpoint replaced its allocation",
          "[unit]") {
  const TemporaryFolder folder;
  PackedTrace compacted(folder.path() / "compacted.gmt");
  std::uint64_t end = 0;
  for (const JobRecord& record : freed_twice()) {
    compacted.add(record);
    compacted.pack();
    end = record.end;
  }
  const auto invalid_frees = [&] {
    return analyze_json({compacted.path()}, {}).at("leaks").at("invalid_frees");
  };
  const Json expected = invalid_frees();
  REQUIRE(expected.size() == 1);
  CHECK(expected[0].at("what") == "freed_before");
  CHECK(expected[0].at("count") == 2);
  CHECK(expected[0].at("allocated_at").is_object());
  CHECK(expected[0].at("freed_before_at").is_object());
  // The first checkpoint replaces the first of the two invalid frees, but not the second.
  for (const std::uint64_t keep_bytes : {2000, 500, 0}) {
    REQUIRE(compacted.compact(keep_bytes, end + 1) == preload::CheckpointResult::kDone);
    CHECK(invalid_frees() == expected);
  }
}

namespace {

template <class Record>
JobRecord whole_record(Record record, std::uint32_t writer, std::uint64_t time) {
  trace::RecordHeader& header = reinterpret_cast<trace::RecordHeader&>(record);
  header.kind = trace::kind_of<Record>();
  header.words = sizeof record / trace::kWordBytes;
  header.time = time;
  JobRecord made{writer, time, time, std::vector<std::uint64_t>(sizeof record / 8)};
  std::memcpy(made.words.data(), &record, sizeof record);
  return made;
}

// Copies of one thread, a millisecond apart, each with its two records of CUPTI.
std::vector<JobRecord> copies_with_activity(std::uint32_t count) {
  std::vector<JobRecord> records = RandomJob(1).records();
  const std::uint64_t begin = records.back().end + 1'000'000;
  trace::Thread thread;
  thread.thread_id = 99;
  records.push_back(whole_record(thread, 7, begin - 500'000));
  trace::ActivityState state;
  state.mode = trace::ActivityMode::kCopies;
  records.push_back(whole_record(state, 0, begin - 400'000));
  trace::ActivityDropped dropped;
  dropped.by_cupti = 1;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t at = begin + i * 1'000'000;
    trace::ActivityClock clock;
    clock.timestamp = at;
    records.push_back(whole_record(clock, 0, at));
    trace::Copy copy;
    copy.bytes = 100;
    copy.call.end = at + 20'000;
    copy.call.context = trace::ContextId{1};
    records.push_back(whole_record(copy, 7, at + 10'000));
    records.back().end = copy.call.end;
    trace::ActivityCall call;
    call.start = at + 11'000;
    call.end = at + 19'000;
    call.correlation = i + 1;
    call.thread_id = 99;
    records.push_back(whole_record(call, 8, at + 500'000));
    trace::ActivityCopy activity;
    activity.start = at + 12'000;
    activity.end = at + 12'300;
    activity.bytes = 100;
    activity.correlation = i + 1;
    records.push_back(whole_record(activity, 8, at + 500'001));
    records.push_back(whole_record(dropped, 8, at + 500'002));
  }
  return records;
}

}  // namespace

TEST_CASE("a checkpoint counts CUPTI's records that it replaced, and the rest is joined",
          "[unit]") {
  constexpr std::uint64_t kCopies = 200;
  const TemporaryFolder folder;
  PackedTrace compacted(folder.path() / "compacted.gmt");
  const std::vector<JobRecord> records = copies_with_activity(kCopies);
  for (std::size_t i = 0; i < records.size(); ++i) {
    compacted.add(records[i]);
    if (i % 7 == 0 || i + 1 == records.size()) compacted.pack();
    if (i != records.size() / 3 && i != records.size() / 2) continue;
    compacted.pack();
    REQUIRE(compacted.compact(0, records[i + 1].start) == preload::CheckpointResult::kDone);
  }
  const Json report = analyze_json({compacted.path()}, {});
  const std::uint64_t gone = loss_of(report, "activity_before_checkpoint");
  CHECK(gone > 0);
  CHECK(loss_of(report, "cupti_dropped_records") == kCopies);
  const Json cupti = report.at("processes")[0].at("cupti");
  CHECK(cupti.at("state") == "copies");
  const Json join = cupti.at("join");
  const std::uint64_t joined = join.at("joined_exact").get<std::uint64_t>();
  CHECK(joined > 0);
  // CUPTI has two records for each copy. The checkpoints replaced a few copies, but not the CUPTI
  // records of these copies.
  const std::uint64_t unjoined = join.at("unjoined").get<std::uint64_t>();
  CHECK(joined + unjoined + gone / 2 == kCopies);
  CHECK(unjoined <= 2);
  std::uint64_t count = 0;
  std::uint64_t gpu_time_ns = 0;
  for (const Json& row : report.at("transfers").at("by_kind")) {
    count += row.at("count").get<std::uint64_t>();
    if (row.at("gpu_time_ns").is_number())
      gpu_time_ns += row.at("gpu_time_ns").get<std::uint64_t>();
  }
  CHECK(count == kCopies);
  CHECK(gpu_time_ns == joined * 300);
}

namespace {

// One allocation, the mark from which leaks count, many allocations that are freed at once, and one
// allocation more.
std::vector<JobRecord> kept_before_and_after_the_mark() {
  std::vector<JobRecord> records = RandomJob(2).records();
  std::uint64_t at = records.back().end + 1'000'000;
  const auto allocate = [&](std::uint64_t address, std::uint64_t bytes) {
    trace::Allocation allocation;
    allocation.address = address;
    allocation.bytes = bytes;
    allocation.memory = trace::MemoryKind::kDevice;
    allocation.call.context = trace::ContextId{1};
    allocation.call.caller = 0x777;
    allocation.call.end = (at += 1'000'000) + 100;
    records.push_back(whole_record(allocation, 7, at));
    records.back().end = allocation.call.end;
  };
  allocate(0x7700'0000'0000, 4096);
  struct {
    trace::Name name;
    char text[32] = {};
  } named;
  static_assert(trace::kLeaksFromHere.size() <= sizeof named.text);
  trace::kLeaksFromHere.copy(named.text, sizeof named.text);
  named.name.id = 5;
  named.name.record.kind = trace::RecordKind::kName;
  named.name.record.words = sizeof named / trace::kWordBytes;
  named.name.record.time = at += 1'000'000;
  JobRecord name{7, at, at, std::vector<std::uint64_t>(sizeof named / 8)};
  std::memcpy(name.words.data(), &named, sizeof named);
  records.push_back(name);
  trace::Annotation mark;
  mark.operation = trace::AnnotationOperation::kMark;
  mark.name = 5;
  records.push_back(whole_record(mark, 7, at += 1'000'000));
  for (int round = 0; round < 500; ++round) {
    allocate(0x7710'0000'0000, 1024);
    trace::Free release;
    release.address = 0x7710'0000'0000;
    release.memory = trace::MemoryKind::kDevice;
    release.call.context = trace::ContextId{1};
    release.call.end = (at += 1'000'000) + 100;
    records.push_back(whole_record(release, 7, at));
    records.back().end = release.call.end;
  }
  allocate(0x7720'0000'0000, 8192);
  return records;
}

}  // namespace

TEST_CASE("leaks count from the mark on although a checkpoint replaced what lay around it",
          "[unit]") {
  const TemporaryFolder folder;
  PackedTrace compacted(folder.path() / "compacted.gmt");
  std::uint64_t end = 0;
  for (const JobRecord& record : kept_before_and_after_the_mark()) {
    compacted.add(record);
    compacted.pack();
    end = record.end;
  }
  const auto exit_rows = [&] {
    return analyze_json({compacted.path()}, {}).at("leaks").at("exit");
  };
  const Json expected = exit_rows();
  for (int time = 0; time < 3; ++time) {
    REQUIRE(compacted.compact(1000 - 400u * static_cast<unsigned>(time), end + 1) ==
            preload::CheckpointResult::kDone);
    CHECK(exit_rows() == expected);
  }
}

namespace {

// A job that names one block in eight and frees each block but the last; its last record makes the
// peak.
std::vector<JobRecord> named_blocks_of_a_job() {
  std::vector<JobRecord> records;
  std::uint64_t at = 1'000'000'000;
  std::uint64_t live = 0;
  const auto add = [&](auto record) {
    records.push_back(whole_record(record, 7, at += 1'000'000));
  };
  const auto block = [&](std::uint64_t address, std::int64_t bytes) {
    live += static_cast<std::uint64_t>(bytes);
    trace::Block record;
    record.address = address;
    record.bytes = bytes;
    record.allocated = live;
    record.reserved_bytes = 1 << 30;
    record.device_type = 1;
    record.device = 0;
    add(record);
  };
  const auto name = [&](std::uint64_t address, trace::TensorRole role, std::uint32_t text) {
    trace::Tensor record;
    record.address = address;
    record.bytes = 1000;
    record.role = role;
    record.name = text;
    add(record);
  };
  block(0x7100'0000'0000, 4096);
  name(0x7100'0000'0000, trace::TensorRole::kParameter, 1);
  name(0x7100'0000'0000, trace::TensorRole::kParameter, 2);
  for (int step = 0; step < 300; ++step) {
    block(0x7200'0000'0000, 1024);
    if (step % 8 == 0) name(0x7200'0000'0000, trace::TensorRole::kGradient, 1);
    name(0x7100'0000'0000, trace::TensorRole::kParameter, 1);
    block(0x7200'0000'0000, -1024);
  }
  name(0x7200'0000'0000, trace::TensorRole::kBuffer, 3);  // no block lives at this address
  block(0x7200'0000'0000, 1024);
  block(0x7300'0000'0000, 1 << 20);
  return records;
}

}  // namespace

TEST_CASE("what lives at a checkpoint's cut keeps the names of its tensors", "[unit]") {
  const TemporaryFolder folder;
  PackedTrace compacted(folder.path() / "compacted.gmt");
  const std::vector<JobRecord> records = named_blocks_of_a_job();
  for (const JobRecord& record : records) {
    compacted.add(record);
    compacted.pack();
  }
  const auto tensors = [&] { return analyze_json({compacted.path()}, {}).at("tensors"); };
  const Json expected = tensors();
  REQUIRE(expected.size() == 2);
  CHECK(row_where(expected, {{"role", "parameter"}}).at("names") == 2);
  CHECK(row_where(expected, {{"role", nullptr}}).at("bytes") == 1024 + (1 << 20));
  // No checkpoint replaces the last record, which makes the peak.
  for (const std::uint64_t kept_bytes : {3000u, 1500u, 800u}) {
    REQUIRE(compacted.compact(kept_bytes, records.back().end + 1) ==
            preload::CheckpointResult::kDone);
    CHECK(tensors() == expected);
  }
}

// A Python thread that computes as writer 1 and waits in backward() for writer 2.
namespace {

constexpr std::uint64_t kPythonThread = 100;
constexpr trace::StackId kLoss{1};
constexpr trace::StackId kBackward{2};       // called at line 30
constexpr trace::StackId kOtherBackward{3};  // called at line 40
constexpr trace::StackId kNode{4};
constexpr trace::StackId kLaterNode{5};

void begin_training(TraceBuilder& trace) {
  add_thread(trace, 1, kPythonThread, "python3");
  add_thread(trace, 2, 200, "pt_autograd_0");
  add_code(trace, 1, "loss", "/home/me/train.py", 20);
  add_code(trace, 2, "train", "/home/me/train.py", 30);
  add_code(trace, 3, "train", "/home/me/train.py", 40);
  add_stack(trace, number_of(kLoss), {{1}, {}});
  add_stack(trace, number_of(kBackward), {{2}, {}});
  add_stack(trace, number_of(kOtherBackward), {{3}, {}});
  add_stack(trace, number_of(kNode), {{}, {0x1000}}, 2);
  add_stack(trace, number_of(kLaterNode), {{}, {0x2000}}, 2);
}

void add_block(TraceBuilder& trace, std::uint64_t bytes, trace::StackId stack,
               std::uint32_t writer) {
  trace::Block block;
  block.address = 0x10000000 + trace.now() * 4096;
  block.bytes = static_cast<std::int64_t>(bytes);
  block.device_type = 1;
  block.stack = stack;
  trace.add(block, writer);
}

void add_wait(TraceBuilder& trace, trace::StackId stack) {
  trace::WaitingStack wait;
  wait.thread_id = kPythonThread;
  wait.stack = stack;
  trace.add(wait);
}

// Compacts all of `trace` into a checkpoint; then writer 2 allocates one block more. Returns the
// bytes that the report has for `line`.
std::uint64_t bytes_of_line(TraceBuilder& trace, int line) {
  const TemporaryFolder folder;
  PackedTrace compacted(folder.path() / "compacted.gmt");
  compacted.add(trace);
  compacted.pack();
  REQUIRE(compacted.compact(0, trace.now() + 1) == preload::CheckpointResult::kDone);
  add_block(trace, 7 * kMiB, kLaterNode, 2);
  compacted.add(trace);
  compacted.pack();
  const Json report = report_of(compacted);
  const Json peak = row_where(report.at("peak"), {{"level", "framework"}});
  std::uint64_t bytes = 0;
  for (const Json& holder : peak.at("holders")) {
    const Json& site = holder.at("site");
    if (!site.is_null() && site.at("line") == line) bytes += number(holder, "bytes");
  }
  return bytes;
}

}  // namespace

TEST_CASE("who waits for a backward pass at a cut is known behind it", "[unit]") {
  TraceBuilder trace;
  begin_training(trace);
  for (const trace::StackId backward : {kBackward, kOtherBackward}) {
    add_block(trace, kMiB, kLoss, 1);
    add_wait(trace, backward);
    add_block(trace, kMiB, kNode, 2);
  }
  CHECK(bytes_of_line(trace, 40) == 7 * kMiB);
}

TEST_CASE("who went on before a cut does not wait behind it", "[unit]") {
  TraceBuilder trace;
  begin_training(trace);
  add_block(trace, kMiB, kLoss, 1);
  add_wait(trace, kBackward);
  add_block(trace, kMiB, kLoss, 1);
  add_block(trace, kMiB, kNode, 2);
  CHECK(bytes_of_line(trace, 30) == 0);
}

TEST_CASE("a stack in a checkpoint has a thread only if it can be no other's", "[unit]") {
  const TemporaryFolder folder;
  TraceBuilder trace;
  add_code(trace, 1, "loss", "/home/me/train.py", 20);
  add_code(trace, 2, "train", "/home/me/train.py", 30);
  add_thread(trace, 1, kPythonThread, "python3");
  add_stack(trace, number_of(kLoss), {{1}, {}});
  add_thread(trace, 2, 200, "loader");
  add_stack(trace, number_of(kBackward), {{2}, {}});
  add_block(trace, kMiB, kLoss, 1);
  add_block(trace, kMiB, kBackward, 1);
  add_block(trace, kMiB, kLoss, 2);  // else the checkpoint would end before thread 1's blocks
  PackedTrace compacted(folder.path() / "compacted.gmt");
  compacted.add(trace);
  compacted.pack();
  REQUIRE(compacted.compact(0, trace.now() + 1) == preload::CheckpointResult::kDone);
  add_block(trace, kMiB, kLoss, 1);
  compacted.add(trace);
  compacted.pack();
  const Json report = report_of(compacted);
  const Json peak = row_where(report.at("peak"), {{"level", "framework"}});
  const auto thread_of_line = [&](int line) {
    for (const Json& holder : peak.at("holders")) {
      if (holder.at("site").is_null() || holder.at("site").at("line") != line) continue;
      return row_where(report.at("stacks"), {{"id", holder.at("stack")}}).at("thread");
    }
    return Json("no holder");
  };
  CHECK(thread_of_line(20) == "python3");
  CHECK(thread_of_line(30) == nullptr);
}

TEST_CASE("a checkpoint keeps the name of a thread whose first record had none", "[unit]") {
  const TemporaryFolder folder;
  TraceBuilder trace;
  add_code(trace, 1, "loss", "/home/me/train.py", 20);
  add_thread(trace, 1, kPythonThread, "");
  add_thread(trace, 1, kPythonThread, "python3");
  add_thread(trace, 1, kPythonThread, "");
  add_stack(trace, number_of(kLoss), {{1}, {}});
  add_block(trace, kMiB, kLoss, 1);
  PackedTrace compacted(folder.path() / "compacted.gmt");
  compacted.add(trace);
  compacted.pack();
  REQUIRE(compacted.compact(0, trace.now() + 1) == preload::CheckpointResult::kDone);
  const Json report = report_of(compacted);
  const Json stack = report.at("stacks").at(0);
  CHECK(stack.at("thread") == "python3");
}

TEST_CASE("a checkpoint keeps one wait of a thread, however many there were", "[unit]") {
  const TemporaryFolder folder;
  TraceBuilder trace;
  begin_training(trace);
  for (int i = 0; i < 100; ++i) add_wait(trace, kBackward);
  add_block(trace, kMiB, kNode, 2);
  PackedTrace compacted(folder.path() / "compacted.gmt");
  compacted.add(trace);
  compacted.pack();
  REQUIRE(compacted.compact(0, trace.now() + 1) == preload::CheckpointResult::kDone);
  const trace::TraceFile file(compacted.path());
  int waits = 0;
  for (const trace::WriterStream& stream : file.writers()) {
    trace::WriterCursor cursor(file, stream);
    while (const trace::RecordHeader* record = cursor.next()) {
      if (record->kind == trace::RecordKind::kWaitingStack) ++waits;
    }
  }
  CHECK(waits == 1);
}

namespace {

void instantiate(TraceBuilder& trace, std::uint64_t executable) {
  trace::Graph record;
  record.operation = trace::GraphOperation::kInstantiate;
  record.graph = 0x10;
  record.executable = executable;
  trace.add_call(record, {.caller = 0x7f0000000040});
}

}  // namespace

TEST_CASE("how many graphs there were and are alive is known behind a cut", "[unit]") {
  const TemporaryFolder folder;
  TraceBuilder trace;
  trace.device(0, 0x1234, 1024 * kMiB);
  PackedTrace compacted(folder.path() / "compacted.gmt");
  const auto graphs = [&] {
    compacted.add(trace);
    compacted.pack();
    return report_of(compacted).at("driver_memory")[0].at("graphs");
  };
  // At most four executable graphs live at once, and one lives at the end.
  for (std::uint64_t executable = 1; executable <= 4; ++executable) instantiate(trace, executable);
  for (std::uint64_t executable = 2; executable <= 4; ++executable) {
    trace.graph(trace::GraphOperation::kDestroyExecutable, executable);
  }
  const Json before = graphs();
  CHECK(before.at("live_peak") == 4);
  for (int time = 0; time < 2; ++time) {
    REQUIRE(compacted.compact(0, trace.now() + 1) == preload::CheckpointResult::kDone);
    trace.allocate(0x10000000, kMiB);  // a change after the checkpoint
    trace.free(0x10000000);
    CHECK(graphs() == before);
  }
  instantiate(trace, 5);
  trace.graph(trace::GraphOperation::kDestroyExecutable, 1);
  CHECK(graphs() == Json{{"instantiated", 5}, {"destroyed", 4}, {"live_peak", 4}});
}

namespace {

void capture(TraceBuilder& trace, trace::GraphOperation operation, std::uint64_t stream,
             std::uint64_t graph = 0, std::uint16_t result = 0) {
  trace::Graph record;
  record.operation = operation;
  record.graph = graph;
  record.stream = stream;
  trace.add_call(record, {.result = result});
}

void allocate_in_capture(TraceBuilder& trace, std::uint64_t address, std::uint64_t bytes,
                         std::uint64_t stream) {
  trace::Allocation record;
  record.address = address;
  record.bytes = bytes;
  record.memory = trace::MemoryKind::kStreamOrdered;
  record.stream = stream;
  trace.add_call(record, {.flags = trace::kFlagCaptured});
}

}  // namespace

TEST_CASE("captures that are open at a cut keep their memory apart behind it", "[unit]") {
  using trace::GraphOperation;
  const TemporaryFolder folder;
  TraceBuilder trace;
  trace.device(0, 0x1234, 1024 * kMiB);
  capture(trace, GraphOperation::kBeginCapture, 9, 0, /*result=*/1);
  for (const std::uint64_t stream : {5, 6, 7}) {
    capture(trace, GraphOperation::kBeginCapture, stream);
  }
  capture(trace, GraphOperation::kEndCapture, 7, 0x70);
  PackedTrace compacted(folder.path() / "compacted.gmt");
  compacted.add(trace);
  compacted.pack();
  REQUIRE(compacted.compact(0, trace.now() + 1) == preload::CheckpointResult::kDone);
  allocate_in_capture(trace, 0x10000000, kMiB, 5);
  allocate_in_capture(trace, 0x20000000, 2 * kMiB, 6);
  capture(trace, GraphOperation::kEndCapture, 6, 0x60);
  capture(trace, GraphOperation::kEndCapture, 5, 0x50);
  trace.graph(GraphOperation::kInstantiate, 0x60, 0x61);
  trace.graph(GraphOperation::kLaunch, 0x61);
  compacted.add(trace);
  compacted.pack();
  CHECK(usage_of(report_of(compacted), "graph").at("live_bytes_at_end") == 2 * kMiB);
}

TEST_CASE("a checkpoint keeps no reference to physical memory that was dropped again", "[unit]") {
  const TemporaryFolder folder;
  TraceBuilder trace;
  trace.device(0, 0x1234, 1024 * kMiB);
  trace.map(trace::MappingOperation::kReserve, 0x500000000, 4 * kMiB);
  trace.allocate(0x71, 4 * kMiB, trace::MemoryKind::kPhysical);
  trace.map(trace::MappingOperation::kMap, 0x500000000, 4 * kMiB, 0x71);
  PackedTrace compacted(folder.path() / "compacted.gmt");
  const auto usage = [&] {
    compacted.add(trace);
    compacted.pack();
    return usage_of(report_of(compacted), "vmm");
  };
  const auto retain = [&] {
    trace.map(trace::MappingOperation::kRetainHandle, 0x500000000, 0, 0x71);
  };
  for (int i = 0; i < 100; ++i) {
    retain();
    trace.free(0x71, trace::MemoryKind::kPhysical);
  }
  retain();
  CHECK(usage().at("live_bytes_at_end") == 4 * kMiB);
  REQUIRE(compacted.compact(0, trace.now() + 1) == preload::CheckpointResult::kDone);
  const trace::TraceFile file(compacted.path());
  int references = 0;
  for (const trace::WriterStream& stream : file.writers()) {
    trace::WriterCursor cursor(file, stream);
    while (const trace::RecordHeader* record = cursor.next()) {
      if (record->kind == trace::RecordKind::kFree) ++references;
      if (record->kind != trace::RecordKind::kMapping) continue;
      const auto& call = trace::as<trace::Mapping>(*record);
      if (call.operation == trace::MappingOperation::kRetainHandle) ++references;
    }
  }
  CHECK(references == 1);
  trace.free(0x71, trace::MemoryKind::kPhysical);
  trace.map(trace::MappingOperation::kUnmap, 0x500000000, 4 * kMiB);
  CHECK(usage().at("live_bytes_at_end") == 4 * kMiB);
  trace.free(0x71, trace::MemoryKind::kPhysical);
  CHECK(usage().at("live_bytes_at_end") == 0);
}

namespace {

// Adds a sample of the card at `ticks`; `in_use` and `own` in MiB.
void ask_at(TraceBuilder& trace, std::uint64_t ticks, std::uint64_t in_use, std::uint64_t own) {
  constexpr std::uint64_t kOthers = 4;
  trace.wait_until(TraceBuilder::kFirstTick + ticks);
  trace::MemorySample sample;
  sample.device = 0;
  sample.source = trace::SampleSource::kNvmlProcess;
  sample.total_bytes = 1024 * kMiB;
  sample.reserved_bytes = kMiB;
  sample.free_bytes = sample.total_bytes - kMiB - in_use * kMiB;
  sample.process_bytes = own * kMiB;
  sample.other_bytes = (in_use - own - kOthers) * kMiB;
  trace.add(sample);
}

void use_for_a_while(TraceBuilder& trace, std::uint64_t ticks, std::uint64_t mib) {
  trace.wait_until(TraceBuilder::kFirstTick + ticks);
  trace.allocate(0x10000000, mib * kMiB);
  trace.wait_until(TraceBuilder::kFirstTick + ticks + 1000);
  trace.free(0x10000000);
}

}  // namespace

TEST_CASE("the peaks of a card with two processes are in the range behind a cut", "[unit]") {
  const TemporaryFolder folder;
  TraceBuilder other(11);
  other.device(0, 0x1234, 1024 * kMiB);
  other.allocate(0x20000000, 40 * kMiB);
  use_for_a_while(other, 2500, 16);
  ask_at(other, 5000, 108, 54);
  use_for_a_while(other, 9000, 2);
  other.write(folder.path());

  TraceBuilder trace;
  trace.device(0, 0x1234, 1024 * kMiB);
  ask_at(trace, 1000, 104, 50);
  use_for_a_while(trace, 2000, 100);
  ask_at(trace, 4000, 110, 52);
  use_for_a_while(trace, 6000, 10);
  PackedTrace compacted(folder.path() / "compacted.gmt");
  compacted.add(trace);
  compacted.pack();
  const auto peak_of = [&](const char* of) {
    return row_where(analyze_json({folder.path()}).at("card_peaks"), {{"of", of}});
  };
  const Json card = peak_of("card");
  const Json job = peak_of("job");
  REQUIRE(compacted.compact(0, TraceBuilder::kFirstTick + 5500) ==
          preload::CheckpointResult::kDone);
  for (const Json& exact : {card, job}) {
    const Json range = peak_of(exact.at("of").get<std::string>().c_str());
    INFO(exact.dump(1) << '\n' << range.dump(1));
    CHECK(number(range, "low_bytes") <= number(exact, "low_bytes"));
    CHECK(number(range, "high_bytes") >= number(exact, "high_bytes"));
    CHECK(range.at("exact") == false);
    // The peak's range is wider than the whole trace's by at most twice the 56 MiB that the other
    // process's calls held.
    CHECK(number(range, "high_bytes") - number(range, "low_bytes") <=
          number(exact, "high_bytes") - number(exact, "low_bytes") + 2 * 56 * kMiB);
    std::uint64_t sum = 0;
    for (const Json& part : range.at("parts")) sum += number(part, "bytes");
    CHECK(sum == number(range, "bytes"));
  }
}

}  // namespace gpumemtrace::compaction_test
