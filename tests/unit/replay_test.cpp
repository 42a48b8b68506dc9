// SPDX-License-Identifier: Apache-2.0
// PyTorch's caching allocator, replayed without memory: its settings, the places of its blocks, its
// calls of the driver; and how tightly blocks of known lives can lie.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/replay/allocator_settings.hpp"
#include "analyzer/replay/caching_allocator.hpp"
#include "analyzer/replay/packing.hpp"
#include "analyzer/replay/policy_replay.hpp"
#include "analyzer/replay/setting_replays.hpp"
#include "tests/catch.hpp"

namespace gpumemtrace::replay_test {

using namespace gpumemtrace::analyzer::replay;
namespace trace = gpumemtrace::trace;

namespace {

AllocatorSettings settings_of(const std::string& text, const TorchRules& rules = {}) {
  return parse_settings(text, rules);
}

std::string complaint_about(const std::string& text, const TorchRules& rules = {}) {
  try {
    (void)parse_settings(text, rules);
    return {};
  } catch (const SettingError& error) {
    return error.what();
  }
}

// A driver with `bytes` of memory, which it hands out at rising addresses.
class Driver final : public SegmentSource {
 public:
  explicit Driver(std::uint64_t bytes) : left_(bytes) {}
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t bytes, ClassId) override {
    calls.push_back("allocate " + std::to_string(bytes / kMib));
    if (bytes > left_) return std::nullopt;
    left_ -= bytes;
    next_ += bytes;
    return next_ - bytes;
  }
  void release(std::uint64_t, std::uint64_t bytes) override {
    calls.push_back("release " + std::to_string(bytes / kMib));
    left_ += bytes;
  }
  [[nodiscard]] Space reserve(std::uint64_t, ClassId) override {
    calls.emplace_back("reserve");
    next_ += kSpace;
    return {next_ - kSpace, kSpace};
  }
  [[nodiscard]] bool map(std::uint64_t, std::uint64_t bytes) override {
    calls.push_back("map " + std::to_string(bytes / kMib));
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }
  void unmap(std::uint64_t, std::uint64_t bytes) override {
    calls.push_back("unmap " + std::to_string(bytes / kMib));
    left_ += bytes;
  }

  std::vector<std::string> calls;

 private:
  static constexpr std::uint64_t kSpace = std::uint64_t{1} << 40;
  std::uint64_t left_;
  std::uint64_t next_ = kSpace;
};

constexpr std::uint64_t kPlenty = std::uint64_t{1} << 40;

struct Machine {
  explicit Machine(const std::string& text, std::uint64_t bytes = kPlenty)
      : driver(bytes), allocator(settings_of(text), {}, driver) {}
  BlockId take(std::uint64_t bytes, ClassId of = 0) { return allocator.malloc(bytes, of); }
  [[nodiscard]] std::uint64_t reserved() const { return allocator.counts().reserved_bytes; }
  Driver driver;
  CachingAllocator allocator;
};

Event request(std::uint32_t slot, std::uint64_t low, std::uint64_t high) {
  return {EventKind::kRequest, 0, slot, {}, low, high};
}

}  // namespace

TEST_CASE("settings that PyTorch takes are read", "[unit]") {
  CHECK(settings_of("") == AllocatorSettings());
  CHECK(settings_of("expandable_segments:True").expandable);
  CHECK(settings_of("max_split_size_mb:64, backend:native").max_split_bytes == 64 * kMib);
  CHECK(settings_of("garbage_collection_threshold:0.6").garbage_collection_threshold == 0.6);
  CHECK(settings_of("large_segment_size_mb:40").large_segment_bytes == 40 * kMib);
  CHECK(settings_of("backend:cudaMallocAsync").backend == Backend::kAsync);
  CHECK(settings_of("pinned_num_register_threads:8") == AllocatorSettings());
  CHECK(settings_of("roundup_power2_divisions:4").divisions[0] == 4);
}

TEST_CASE("what is wrong with settings names the option", "[unit]") {
  CHECK(complaint_about("max_split_size_mb:3") ==
        "max_split_size_mb: 3 is too small; PyTorch takes 20 and more");
  CHECK(complaint_about("max_split_size:64") == "max_split_size: PyTorch has no such option");
  CHECK(complaint_about("max_split_size_mb") == "max_split_size_mb: ':' is missing at the end");
  CHECK(complaint_about("max_split_size_mb:") == "max_split_size_mb: a value is missing");
  CHECK(complaint_about("max_split_size_mb:64 expandable_segments:True") ==
        "max_split_size_mb: '64expandable_segments' is no whole number");
  CHECK(complaint_about("max_split_size_mb:-1") == "max_split_size_mb: '-1' is no whole number");
  CHECK(complaint_about("max_split_size_mb:99999999999") ==
        "max_split_size_mb: 99999999999 is larger than any device");
  CHECK(complaint_about("expandable_segments:true") ==
        "expandable_segments: 'true' is neither True nor False");
  CHECK(complaint_about("garbage_collection_threshold:1.0") ==
        "garbage_collection_threshold: '1.0' is not between 0 and 1");
  CHECK(complaint_about("garbage_collection_threshold:nan") ==
        "garbage_collection_threshold: 'nan' is not between 0 and 1");
  CHECK(complaint_about("backend:cuda") ==
        "backend: 'cuda' is none; there are native and cudaMallocAsync");
  CHECK(complaint_about("roundup_power2_divisions:3") ==
        "roundup_power2_divisions: 3 divisions are no power of two");
  CHECK(complaint_about("roundup_power2_divisions:36028797018963968") ==
        "roundup_power2_divisions: 36028797018963968 divisions are more than any device has units");
  CHECK(complaint_about("roundup_power2_divisions:[256:1") ==
        "roundup_power2_divisions: a value is missing");
  CHECK(complaint_about("max_split_size_mb:32,large_segment_size_mb:64") ==
        "max_split_size_mb: it is smaller than large_segment_size_mb");
  CHECK(complaint_about("large_segment_size_mb:40", {4}) ==
        "large_segment_size_mb: PyTorch 2.4 has no such option");
  CHECK(complaint_about("throw_on_cudamalloc_oom:True") ==
        "throw_on_cudamalloc_oom: this option cannot be replayed");
}

TEST_CASE("settings that are known to go wrong together carry a warning", "[unit]") {
  CHECK(settings_of("expandable_segments:True,max_split_size_mb:64").warning() != "");
  CHECK(settings_of("garbage_collection_threshold:0.8").warning() != "");
  CHECK(settings_of("backend:cudaMallocAsync,max_split_size_mb:64").warning() != "");
  CHECK(settings_of("expandable_segments:True").warning() == "");
}

TEST_CASE("requests are rounded to 512 bytes or to parts of a power of two", "[unit]") {
  const AllocatorSettings plain = settings_of("");
  CHECK(plain.round_request(1) == 512);
  CHECK(plain.round_request(513) == 1024);
  const AllocatorSettings parts = settings_of("roundup_power2_divisions:4");
  CHECK(parts.round_request(1200) == 1536);  // up to 512 * 4: rounded to a multiple of 512
  CHECK(parts.round_request(5 * kMib + 1) == 6 * kMib);
  CHECK(parts.round_request(4 * kMib) == 4 * kMib);
  const AllocatorSettings list = settings_of("roundup_power2_divisions:[256:1,512:2,>:8]");
  CHECK(list.round_request(300 * kMib) == 300 * kMib);
  CHECK(list.round_request(600 * kMib) == 768 * kMib);
  CHECK(list.round_request(1100 * kMib) == 1152 * kMib);
  // Until PyTorch 2.9, the value of ">" also replaced that of the last named interval.
  CHECK(settings_of("roundup_power2_divisions:[256:1,512:2,>:8]", {4}).divisions[9] == 8);
}

TEST_CASE("a limit that is scaled beyond all numbers is none", "[unit]") {
  CHECK(scaled_limit(8 * kMib, 0.5) == 4 * kMib);
  CHECK(scaled_limit(std::uint64_t{1} << 40, 0x1p30) == AllocatorSettings::kNoLimit);
}

TEST_CASE("what the driver is asked for follows from the request's size", "[unit]") {
  Machine machine("");
  (void)machine.take(512);
  (void)machine.take(25 * kMib);
  (void)machine.take(10 * kMib);
  (void)machine.take(kMib + 1);
  CHECK(machine.driver.calls ==
        std::vector<std::string>{"allocate 2", "allocate 26", "allocate 10", "allocate 20"});
}

TEST_CASE("the smallest free block that fits is taken, at the lowest address", "[unit]") {
  Machine machine("");
  const BlockId large = machine.take(40 * kMib);
  const BlockId small = machine.take(30 * kMib);
  const std::uint64_t large_at = machine.allocator.address_of(large);
  const std::uint64_t small_at = machine.allocator.address_of(small);
  machine.allocator.free(large);
  machine.allocator.free(small);
  const BlockId first = machine.take(30 * kMib);
  CHECK(machine.allocator.address_of(first) == small_at);
  const BlockId second = machine.take(20 * kMib);
  CHECK(machine.allocator.address_of(second) == large_at);
  CHECK(machine.allocator.bytes_of(second) == 20 * kMib);
  // A rest of 1 MiB or less is not split off a block.
  const BlockId third = machine.take(19 * kMib);
  CHECK(machine.allocator.bytes_of(third) == 20 * kMib);
  CHECK(machine.reserved() == 70 * kMib);
}

TEST_CASE("streams do not share what is free", "[unit]") {
  Machine machine("");
  machine.allocator.free(machine.take(12 * kMib, 0));
  (void)machine.take(12 * kMib, 1);
  CHECK(machine.reserved() == 24 * kMib);
}

TEST_CASE("without memory the cache is given back and the driver asked again", "[unit]") {
  Machine machine("", 64 * kMib);
  machine.allocator.free(machine.take(40 * kMib));
  CHECK(machine.take(50 * kMib) != 0);
  CHECK(machine.driver.calls ==
        std::vector<std::string>{"allocate 40", "allocate 50", "release 40", "allocate 50"});
  CHECK(machine.allocator.counts().retries == 1);
  CHECK(machine.take(50 * kMib) == 0);
  CHECK(machine.allocator.counts().retries == 2);
}

TEST_CASE("with max_split_size_mb a large block that fits badly goes back first", "[unit]") {
  Machine machine("max_split_size_mb:20", 60 * kMib);
  machine.allocator.free(machine.take(1 * kMib));
  machine.allocator.free(machine.take(50 * kMib));
  CHECK(machine.take(25 * kMib) != 0);
  CHECK(machine.driver.calls == std::vector<std::string>{"allocate 2", "allocate 50", "allocate 26",
                                                         "release 50", "allocate 26"});
  CHECK(machine.allocator.counts().retries == 0);
}

TEST_CASE("garbage is collected once more than the threshold is reserved", "[unit]") {
  Machine machine("garbage_collection_threshold:0.5");
  machine.allocator.set_allowed_bytes(100 * kMib);
  machine.allocator.free(machine.take(60 * kMib));
  CHECK(machine.take(80 * kMib) != 0);
  CHECK(machine.driver.calls ==
        std::vector<std::string>{"allocate 60", "release 60", "allocate 80"});
  CHECK(machine.allocator.counts().retries == 0);
}

TEST_CASE("an expandable segment grows by pages and shrinks by whole ones", "[unit]") {
  Machine machine("expandable_segments:True");
  const BlockId first = machine.take(30 * kMib);
  const BlockId second = machine.take(30 * kMib);
  CHECK(machine.driver.calls == std::vector<std::string>{"reserve", "map 40", "map 20"});
  CHECK(machine.allocator.address_of(second) == machine.allocator.address_of(first) + 30 * kMib);
  machine.allocator.free(second);
  machine.allocator.empty_cache();
  // The page in which the first block ends stays mapped.
  CHECK(machine.driver.calls.back() == "unmap 20");
  CHECK(machine.reserved() == 40 * kMib);
  machine.allocator.free(first);
  machine.allocator.empty_cache();
  CHECK(machine.reserved() == 0);
}

TEST_CASE("a replay ends with the first request that finds no memory", "[unit]") {
  PolicyReplay replay(settings_of(""), {}, {}, Placing());
  replay.set_capacity(40 * kMib);
  replay.apply({request(0, 30 * kMib, 30 * kMib),
                request(1, 30 * kMib, 30 * kMib),
                {EventKind::kFree, 0, 0, {}, 0, 0},
                request(0, 12 * kMib, 12 * kMib)});
  CHECK(replay.counts().refused == 1);
  CHECK(replay.counts().allocator.reserved_peak_bytes == 30 * kMib);
}

TEST_CASE("sizes that are not known are tried between their ends", "[unit]") {
  const Event unknown = request(0, 11 * kMib, 12 * kMib);
  CHECK(SizeChoice{SizeChoice::By::kLow, 0}.size_of(unknown, 7) == 11 * kMib);
  CHECK(SizeChoice{SizeChoice::By::kHigh, 0}.size_of(unknown, 7) == 12 * kMib);
  for (std::uint32_t sample = 0; sample < 50; ++sample) {
    const SizeChoice choice{SizeChoice::By::kRequest, sample};
    const std::uint64_t bytes = choice.size_of(unknown, 7);
    CHECK(bytes >= 11 * kMib);
    CHECK(bytes <= 12 * kMib);
    CHECK(bytes % kUnitBytes == 0);
    CHECK(choice.size_of(unknown, 7) == bytes);
  }
}

TEST_CASE("of a refused request the largest one is measured that would have been met", "[unit]") {
  for (const char* text : {"", "expandable_segments:True"}) {
    PolicyReplay replay(settings_of(text), {}, {}, Placing());
    replay.set_capacity(101 * kMib);
    replay.measure_refusals();
    replay.apply({request(0, 40 * kMib, 40 * kMib),
                  request(1, 20 * kMib, 20 * kMib),
                  {EventKind::kFree, 0, 0, {}, 0, 0},
                  {EventKind::kRefused, 0, 0, {}, 200 * kMib, 200 * kMib},
                  {EventKind::kRefused, 0, 0, {}, 30 * kMib, 30 * kMib}});
    CHECK_FALSE(replay.ended());
    REQUIRE(replay.refused_before().size() == 2);
    CHECK_FALSE(replay.refused_before()[0].is_met);
    // The largest request that could have been met takes pages of 20 MiB behind the second block,
    // or a segment beside it.
    CHECK(replay.refused_before()[0].largest_met_bytes == 80 * kMib);
    CHECK(replay.refused_before()[1].is_met);
  }
}

TEST_CASE("a setting is one replay until a size is not known, then several", "[unit]") {
  SettingReplays known(settings_of(""), {}, {}, {2, 0});
  known.apply({request(0, 12 * kMib, 12 * kMib)});
  CHECK_FALSE(known.samples_sizes());
  SettingReplays unknown(settings_of(""), {}, {}, {2, 0});
  unknown.apply({request(0, 12 * kMib, 12 * kMib), request(1, 31 * kMib, 32 * kMib),
                 request(2, 31 * kMib, 32 * kMib)});
  CHECK(unknown.samples_sizes());
  CHECK(unknown.high_peak() == 76 * kMib);
  CHECK(unknown.low_peak() >= 12 * kMib + 2 * 32 * kMib);  // segments are rounded to 2 MiB
  SettingReplays pages(settings_of("roundup_power2_divisions:8"), {}, {}, {2, 0});
  pages.apply({request(0, 31 * kMib, 36 * kMib), request(1, 31 * kMib, 36 * kMib)});
  CHECK(pages.low_peak() == 2 * 32 * kMib);
  CHECK(pages.high_peak() == 2 * 36 * kMib);
}

namespace {

// Makes three segments, each with a free block of 6 MiB at its begin, and requests 6 MiB: the order
// of the segments' addresses decides which block is taken. Then the second block of `segment` is
// freed, and a request comes that is larger than each of these blocks.
std::vector<Event> tied_requests(std::uint32_t segment) {
  std::vector<Event> events;
  for (std::uint32_t slot = 0; slot < 9; ++slot) {
    const std::uint64_t bytes = (slot % 3 == 2 ? 8 : 6) * kMib;
    events.push_back(request(slot, bytes, bytes));
  }
  for (std::uint32_t slot = 0; slot < 9; slot += 3) {
    events.push_back({EventKind::kFree, 0, slot, {}, 0, 0});
  }
  events.push_back(request(9, 6 * kMib, 6 * kMib));
  events.push_back({EventKind::kFree, 0, 3 * segment + 1, {}, 0, 0});
  events.push_back(request(10, 9 * kMib, 9 * kMib));
  return events;
}

Event random_event(std::uint32_t& random, std::vector<bool>& live) {
  random = random * 1664525 + 1013904223;
  const std::uint32_t slot = (random >> 8) % static_cast<std::uint32_t>(live.size());
  if (random % 200 == 0) return {EventKind::kEmptyCache, 0, 0, {}, 0, 0};
  live[slot] = !live[slot];
  if (!live[slot]) return {EventKind::kFree, 0, slot, {}, 0, 0};
  const std::uint64_t bytes = ((random >> 20) % 12 + 1) * kMib;
  return request(slot, bytes, bytes);
}

}  // namespace

TEST_CASE("where the driver can have placed segments makes a range", "[unit]") {
  // The segment with more free memory is the first, the middle or the last one.
  for (std::uint32_t segment = 0; segment < 3; ++segment) {
    SettingReplays replays(settings_of(""), {}, {}, {0, 16});
    replays.apply(tied_requests(segment));
    CHECK_FALSE(replays.samples_sizes());
    CHECK(replays.samples_places());
    CHECK(replays.low_peak() == 60 * kMib);
    CHECK(replays.high_peak() == 80 * kMib);
  }
  // Expandable segments of a pool are one range of addresses, so the driver chooses no places for
  // them.
  SettingReplays one(settings_of("expandable_segments:True"), {}, {}, {0, 16});
  one.apply(tied_requests(1));
  CHECK_FALSE(one.samples_places());
  CHECK(one.low_peak() == one.high_peak());
}

TEST_CASE("a replay that stops at a request of several answers goes on with it", "[unit]") {
  std::vector<Event> events;
  std::vector<bool> live(40);
  for (std::uint32_t random = 7; events.size() < 3000;)
    events.push_back(random_event(random, live));
  for (const char* text : {"", "max_split_size_mb:20", "roundup_power2_divisions:4"}) {
    SettingReplays parts(settings_of(text), {}, {}, {0, 0});
    for (std::size_t i = 0; i < events.size(); i += 100) {
      const auto begin = events.begin() + static_cast<std::ptrdiff_t>(i);
      parts.apply(std::vector<Event>(begin, begin + 100));
    }
    CHECK(parts.samples_places());
    PolicyReplay whole(settings_of(text), {}, {}, {});
    whole.apply(events);
    CHECK(parts.first().allocator.reserved_peak_bytes ==
          whole.counts().allocator.reserved_peak_bytes);
    CHECK(parts.first().allocator.segment_calls == whole.counts().allocator.segment_calls);
    CHECK(parts.first().allocator.allocated_bytes == whole.counts().allocator.allocated_bytes);
  }
}

TEST_CASE("places matter only from the first request of several answers on", "[unit]") {
  const std::vector<Event> events = tied_requests(1);
  const std::vector<Event> before(events.begin(), events.end() - 3);
  const std::vector<Event> rest(events.end() - 3, events.end());
  // A replay that moves its segments by place_again() gives the same result as one that had them
  // at the new addresses from the beginning.
  for (std::uint32_t sample = 0; sample < 20; ++sample) {
    PolicyReplay moved(settings_of(""), {}, {}, {});
    moved.apply(before);
    CHECK_FALSE(moved.counts().allocator.has_ties);
    moved.place_again({sample});
    moved.apply(rest);
    PolicyReplay whole(settings_of(""), {}, {}, {sample});
    whole.apply(events);
    CHECK(moved.counts().allocator.reserved_peak_bytes ==
          whole.counts().allocator.reserved_peak_bytes);
  }
}

TEST_CASE("a limit of splitting that no block reaches is none", "[unit]") {
  const AllocatorSettings limited = settings_of("max_split_size_mb:64");
  CHECK(limited.for_requests_up_to(60 * kMib) == settings_of(""));
  CHECK(limited.for_requests_up_to(64 * kMib) == limited);
  // A request of a little less than 64 MiB takes a segment of 64 MiB.
  CHECK(limited.for_requests_up_to(64 * kMib - kUnitBytes) == limited);
  const AllocatorSettings divided = settings_of("roundup_power2_divisions:[256:1,512:2,>:8]");
  CHECK(divided.for_requests_up_to(512 * kMib - 1) == settings_of(""));
  CHECK(divided.for_requests_up_to(512 * kMib) != settings_of(""));
  CHECK(divided.for_requests_up_to(600 * kMib).round_request(600 * kMib) == 768 * kMib);
  const AllocatorSettings both = settings_of("expandable_segments:True,max_split_size_mb:64");
  CHECK(both.for_requests_up_to(kMib) == both);  // an expandable segment grows to any size
}

TEST_CASE("many sinks get the same events, each in their order", "[unit]") {
  class Slots final : public EventSink {
   public:
    void apply(const std::vector<Event>& events) override {
      for (const Event& event : events) is_in_order = is_in_order && event.slot == next++;
    }
    std::uint32_t next = 0;
    bool is_in_order = true;
  };
  std::vector<Slots> sinks(20);
  std::vector<EventSink*> pointers;
  for (Slots& sink : sinks) pointers.push_back(&sink);
  EventBuffer buffer(pointers);
  constexpr std::uint32_t kEvents = 50'000;
  for (std::uint32_t i = 0; i < kEvents; ++i) buffer.add(request(i, 512, 512));
  buffer.flush();
  for (const Slots& sink : sinks) {
    CHECK(sink.is_in_order);
    CHECK(sink.next == kEvents);
  }
}

TEST_CASE("a log gives back the events of a run, or says that it has not all", "[unit]") {
  class Kept final : public EventSink {
   public:
    void apply(const std::vector<Event>& batch) override {
      for (const Event& event : batch) {
        events.emplace_back(static_cast<int>(event.kind), event.block_class, event.slot,
                            event.stack, event.low_bytes, event.high_bytes);
      }
    }
    std::vector<
        std::tuple<int, ClassId, std::uint32_t, trace::StackId, std::uint64_t, std::uint64_t>>
        events;
  };
  EventLog log;
  EventLog small_log(20'000);
  Kept told;
  EventBuffer buffer({&log, &small_log, &told});
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    const std::uint32_t slot = i < 300 ? i : i * 100'003;
    buffer.add({EventKind::kRequest, i % 3, slot, trace::StackId{i % 7}, kMib + i % 5 * kUnitBytes,
                2 * kMib});
    buffer.add({EventKind::kFree, 0, slot, {}, 0, 0});
  }
  buffer.add({EventKind::kLimit, 0, 0, {}, ~std::uint64_t{0}, ~std::uint64_t{0}});
  buffer.flush();
  REQUIRE(log.is_complete());
  Kept given;
  log.replay({&given});
  REQUIRE(given.events.size() == 40'001);
  REQUIRE(given.events == told.events);
  REQUIRE(!small_log.is_complete());
}

TEST_CASE("segments larger than a place that is tried at random have one of their own", "[unit]") {
  AddressSpace space({.sample = 3});
  std::map<std::uint64_t, std::uint64_t> taken;
  constexpr std::uint64_t kBytes = std::uint64_t{1} << 47;
  for (int i = 0; i < 64; ++i) taken[space.take(kBytes)] = kBytes;
  REQUIRE(taken.size() == 64);
  for (auto next = std::next(taken.begin()); next != taken.end(); ++next) {
    CHECK(next->first - std::prev(next)->first >= kBytes);
  }
  CHECK(space.place_again({.sample = 4}).size() == 64);
}

TEST_CASE("a block that waits for other streams is not in use after its free", "[unit]") {
  UsedBytes used;
  for (int i = 0; i < 3; ++i) {
    used.apply({request(0, 1000, 1000), {EventKind::kFreeLater, 0, 0, {}, 0, 0}});
    used.apply({request(1, 2048, 2048), {EventKind::kWaitIsOver, 0, 0, {}, 0, 0}});
    used.apply({{EventKind::kFree, 0, 1, {}, 0, 0}});
  }
  CHECK(used.peak_bytes() == 2048);
}

TEST_CASE("blocks are packed no higher than their lives demand", "[unit]") {
  // The two small blocks live beside the large one, one after the other.
  CHECK(packed_height({{10, 0, 10}, {4, 0, 5}, {4, 5, 10}}) == 14);
  CHECK(packed_height({{6, 0, 4}, {6, 4, 8}}) == 6);
  CHECK(packed_height({}) == 0);
}

}  // namespace gpumemtrace::replay_test
