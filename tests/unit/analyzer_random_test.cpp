// SPDX-License-Identifier: Apache-2.0
// Records that no recorder would write: the analyzer must stay sane, and its numbers consistent.
#include <random>

#include "tests/catch.hpp"
#include "tests/support/report_query.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer_random_test {

using namespace gpumemtrace::tests;
using namespace gpumemtrace::trace;

namespace {

// Makes mostly small numbers, so that addresses, handles and ids coincide; sometimes extreme ones.
class RandomRecords {
 public:
  explicit RandomRecords(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  std::uint64_t address() {
    if (below(500) == 0) return random_();
    return (1 + below(40)) << 20;
  }
  std::uint64_t bytes() {
    if (below(500) == 0) return random_();
    return below(64) << 18;
  }

  // Returns a record with every field filled, nearly always with small numbers.
  template <class Record>
  Record record() {
    Record made;
    const KindInfo& info = *find_kind(kind_of<Record>());
    auto* raw = reinterpret_cast<std::byte*>(&made);
    for (const Field& field : info.fields) {
      std::uint64_t value = below(6);
      if (field.name == "result") value = below(8) == 0 ? 2 : 0;
      if (field.name == "flags") value = below(32);
      if (field.name == "address" || field.name == "source" || field.name == "destination") {
        value = address();
      }
      if (field.name == "bytes" || field.name == "requested") value = bytes();
      if (field.name == "time") value = now_ += below(50);
      if (field.name == "end") value = below(20) == 0 ? 0 : now_ + below(80);
      if (field.name == "device_type") value = 1;
      store_field(raw, field.offset, field.bytes, value);
    }
    return made;
  }

 private:
  std::mt19937_64 random_;
  std::uint64_t now_ = TraceBuilder::kFirstTick;
};

void add_random_activity(TraceBuilder& trace, RandomRecords& random) {
  const auto writer = static_cast<std::uint32_t>(1 + random.below(4));
  switch (random.below(10)) {
    case 0:
      return trace.add(random.record<ActivityCall>(), writer);
    case 1:
      return trace.add(random.record<ActivityCopy>(), writer);
    case 2:
      return trace.add(random.record<ActivitySet>(), writer);
    case 3:
      return trace.add(random.record<ActivityMemory>(), writer);
    case 4:
      return trace.add(random.record<ActivityPool>(), writer);
    case 5:
      return trace.add(random.record<ActivityManaged>(), writer);
    case 6:
      return trace.add(random.record<ActivityKernel>(), writer);
    case 7:
      return trace.add(random.record<ActivityClock>(), writer);
    case 8:
      return trace.add(random.record<Thread>(), writer, "name");
    default:
      return random.below(10) == 0 ? trace.add(random.record<ActivityState>(), writer, "why")
                                   : trace.add(random.record<ActivityDropped>(), writer);
  }
}

void add_random(TraceBuilder& trace, RandomRecords& random) {
  const auto writer = static_cast<std::uint32_t>(1 + random.below(4));
  if (random.below(3) == 0) return add_random_activity(trace, random);
  switch (random.below(18)) {
    case 0:
      return trace.add(random.record<Mapping>(), writer);
    case 1:
      return trace.add(random.record<Pool>(), writer);
    case 2:
      return trace.add(random.record<Graph>(), writer);
    case 3:
      return trace.add(random.record<Import>(), writer);
    case 4:
      return trace.add(random.record<Copy>(), writer);
    case 5:
      return trace.add(random.record<Set>(), writer);
    case 6:
      return trace.add(random.record<FrameworkOom>(), writer);
    case 7:
      return trace.add(random.record<MemorySample>(), writer);
    case 8:
      return trace.add(random.record<PoolSample>(), writer);
    case 9:
      return random.below(20) == 0 ? trace.add(random.record<ContextCall>(), writer)
                                   : trace.add(random.record<Context>(), writer);
    case 10:
      return trace.add(random.record<Device>(), writer, "name");
    case 11:
    case 12:
      return trace.add(random.record<Free>(), writer);
    case 13:
    case 14: {
      auto block = random.record<Block>();
      if (random.below(2) == 0) block.bytes = -block.bytes;
      return trace.add(block, writer);
    }
    default:
      return trace.add(random.record<Allocation>(), writer);
  }
}

// Checks that the holders of each memory level sum to its peak, that the parts of each timeline
// bucket sum to its maximum, and that no usage is above its peak at the end.
void check_consistency(const Json& report) {
  for (const Json& peak : report.at("peak")) {
    std::uint64_t sum = 0;
    for (const Json& holder : peak.at("holders")) sum += holder.at("bytes").get<std::uint64_t>();
    CHECK(sum == peak.at("bytes").get<std::uint64_t>());
  }
  for (const Json& row : report.at("timeline")) {
    for (const Json& bucket : row.at("buckets")) {
      std::uint64_t sum = 0;
      for (const Json& part : bucket.at("parts")) sum += part.get<std::uint64_t>();
      CHECK(sum == bucket.at("max_bytes").get<std::uint64_t>());
    }
  }
  for (const Json& row : report.at("usage")) {
    CHECK(row.at("live_bytes_at_end").get<std::uint64_t>() <=
          row.at("peak_bytes").get<std::uint64_t>());
  }
}

}  // namespace

TEST_CASE("records in no sensible order leave a consistent report", "[unit]") {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    INFO("seed " << seed);
    RandomRecords random(seed);
    TraceBuilder trace;
    trace.text(TextKey::kBootId, "a machine");
    for (int i = 0; i < 2000; ++i) add_random(trace, random);
    check_consistency(report_of(trace, seed % 2 == 0 ? Ending::kExit : Ending::kKilled));
  }
}

}  // namespace gpumemtrace::analyzer_random_test
