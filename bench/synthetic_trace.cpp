// SPDX-License-Identifier: Apache-2.0
#include "bench/synthetic_trace.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "analyzer/replay/caching_allocator.hpp"
#include "trace/file_writer.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::bench {
namespace {

constexpr std::uint64_t kTicksPerSecond = 2'600'000'000;
constexpr std::uint64_t kFirstTick = kTicksPerSecond;
constexpr std::uint64_t kMeanEventTicks = 39'000;  // 15 us: 68,000 events a second
constexpr std::size_t kStepAllocations = 625;
constexpr std::size_t kTemplates = 4;
constexpr std::uint64_t kFirstAddress = 0x7f12'0000'0000;
constexpr const char* kTorchVersion = "2.11.0";
constexpr trace::ContextId kContext{1};
constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;

// The generator splitmix64 (Steele, Lea, Flood 2014), whose numbers do not depend on the standard
// library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t value = state_;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
  }
  std::uint64_t below(std::uint64_t limit) { return next() % limit; }

 private:
  std::uint64_t state_;
};

// One allocation or free of a step.
struct Operation {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  bool allocates = false;
};

// Makes a step as a caching allocator sees it: freed addresses are reused for the same size, most
// blocks are freed soon, some live to the end of the step.
std::vector<Operation> make_step(Random& random, std::uint64_t first_address) {
  constexpr std::array<std::uint64_t, 10> kSizes = {
      512, 1024, 4096, 65'536, 196'608, 393'216, kMebibyte, 3 * kMebibyte, 6 * kMebibyte, 2560};
  std::map<std::uint64_t, std::vector<std::uint64_t>> free_by_size;
  std::vector<Operation> live;
  std::vector<Operation> step;
  std::uint64_t end = first_address;
  const auto free_at = [&](std::size_t index) {
    Operation operation = live[index];
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(index));
    free_by_size[operation.bytes].push_back(operation.address);
    operation.allocates = false;
    step.push_back(operation);
  };
  for (std::size_t i = 0; i < kStepAllocations; ++i) {
    Operation operation;
    operation.bytes = kSizes[random.below(kSizes.size())];
    operation.allocates = true;
    std::vector<std::uint64_t>& reusable = free_by_size[operation.bytes];
    if (reusable.empty()) {
      operation.address = end;
      end += operation.bytes;
    } else {
      operation.address = reusable.back();
      reusable.pop_back();
    }
    live.push_back(operation);
    step.push_back(operation);
    while (live.size() > 8 && random.below(10) < 6) {
      free_at(live.size() - 1 - random.below(std::min<std::size_t>(live.size(), 6)));
    }
  }
  while (!live.empty()) free_at(live.size() - 1);
  return step;
}

// Plays the driver below an allocator: hands out ascending addresses.
class GrowingMemory final : public analyzer::replay::SegmentSource {
 public:
  struct Segment {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
  };
  std::optional<std::uint64_t> allocate(std::uint64_t bytes,
                                        analyzer::replay::ClassId /*of*/) override {
    const std::uint64_t address = end_;
    end_ += bytes;
    new_segments.push_back({address, bytes});
    return address;
  }
  void release(std::uint64_t /*address*/, std::uint64_t /*bytes*/) override {}
  Space reserve(std::uint64_t /*page_bytes*/, analyzer::replay::ClassId /*of*/) override {
    return {};
  }
  bool map(std::uint64_t /*address*/, std::uint64_t /*bytes*/) override { return false; }
  void unmap(std::uint64_t /*address*/, std::uint64_t /*bytes*/) override {}

  std::vector<Segment> new_segments;  // segments that have no record yet

 private:
  std::uint64_t end_ = kFirstAddress;
};

// Writes the events of one job. Times increase from event to event over all threads.
class Job {
 public:
  Job(trace::FileWriter& output, Pattern pattern) : pattern_(pattern), background_(output, 0) {
    const std::size_t threads = pattern == Pattern::kManyThreads ? 64 : 1;
    for (std::size_t i = 0; i < threads; ++i) {
      writers_.emplace_back(output, static_cast<std::uint32_t>(i + 1));
      trace::Thread thread;
      thread.record.time = now_;
      thread.thread_id = 1000 + i;
      writers_.back().add(thread);
    }
    // Most steps are equal; some have sequences of another length.
    for (std::size_t i = 0; i < kTemplates; ++i) {
      steps_.push_back(make_step(random_, kFirstAddress));
    }
    write_dictionary();
    if (pattern == Pattern::kTraining) write_segments();
    if (pattern == Pattern::kVaryingShapes) write_versions();
    if (pattern == Pattern::kCopies) write_activity_state();
  }

  std::uint64_t run(std::uint64_t events) {
    while (events_ < events) {
      switch (pattern_) {
        case Pattern::kTraining:
          training_step();
          break;
        case Pattern::kVaryingShapes:
          varying_step();
          break;
        case Pattern::kAsyncBackend:
          async_step();
          break;
        case Pattern::kManyThreads:
          threads_step();
          break;
        case Pattern::kCopies:
          copies_step();
          break;
      }
    }
    finish();
    return events_;
  }

 private:
  static constexpr std::uint16_t kAllocateApi = 1;
  static constexpr std::uint16_t kFreeApi = 2;
  static constexpr std::uint16_t kAllocateAsyncApi = 3;
  static constexpr std::uint16_t kFreeAsyncApi = 4;
  static constexpr std::uint16_t kCopyApi = 5;

  void write_dictionary() {
    write_clock();
    trace::Context context;
    context.record.time = now_;
    context.id = kContext;
    context.handle = 0x5500'0000;
    context.device = 0;
    context.primary = 1;
    background_.add(context);
    trace::Device device;
    device.record.time = now_;
    device.ordinal = 0;
    device.total_bytes = std::uint64_t{80} << 30;
    background_.add(device, "Synthetic GPU");
    using namespace std::string_view_literals;
    const std::pair<std::uint16_t, std::string_view> names[] = {
        {kAllocateApi, "cuMemAlloc_v2\0cudaMalloc"sv},
        {kFreeApi, "cuMemFree_v2\0cudaFree"sv},
        {kAllocateAsyncApi, "cuMemAllocAsync\0cudaMallocAsync"sv},
        {kFreeAsyncApi, "cuMemFreeAsync\0cudaFreeAsync"sv},
        {kCopyApi, "cuMemcpyHtoDAsync_v2\0cudaMemcpyAsync"sv}};
    for (const auto& [id, name] : names) {
      trace::ApiName record;
      record.record.time = now_;
      record.id = id;
      background_.add(record, name);
    }
  }

  void write_clock() {
    trace::Clock clock;
    clock.record.time = now_;
    clock.monotonic_ns = now_ / 13 * 5;  // 2.6 ticks per nanosecond
    clock.realtime_ns = 1'700'000'000'000'000'000 + clock.monotonic_ns;
    background_.add(clock);
    next_clock_ = now_ + kTicksPerSecond;
    if (pattern_ != Pattern::kCopies) return;
    trace::ActivityClock pair;
    pair.record.time = now_;
    pair.timestamp = activity_time(now_);
    background_.add(pair);
  }

  // Advances the time by a uniform amount around the mean, and rarely by a long pause.
  void pass_time() {
    now_ += kMeanEventTicks / 4 + random_.below(kMeanEventTicks * 3 / 2);
    if (random_.below(1000) == 0) now_ += random_.below(2'600'000);
    if (now_ >= next_clock_) write_clock();
  }

  template <class Record>
  void add_call(trace::StreamWriter& writer, Record record, std::uint16_t api,
                std::uint16_t flags) {
    pass_time();
    record.call.record.time = now_;
    record.call.record.api = api;
    record.call.record.flags = flags;
    record.call.end = now_ + 800 + random_.below(400);
    record.call.caller = 0x7f33'0010'0000 + 64 * random_.below(12);
    record.call.context = kContext;
    writer.add(record);
    ++events_;
  }

  void add_allocation(trace::StreamWriter& writer, std::uint64_t address, std::uint64_t bytes,
                      bool stream_ordered) {
    trace::Allocation record;
    record.address = address;
    record.bytes = bytes;
    record.stream = stream_ordered ? 0x5600'1000 : 0;
    record.memory = stream_ordered ? trace::MemoryKind::kStreamOrdered : trace::MemoryKind::kDevice;
    add_call(writer, record, stream_ordered ? kAllocateAsyncApi : kAllocateApi,
             stream_ordered ? trace::kFlagAsynchronous : 0);
  }

  void add_free(trace::StreamWriter& writer, std::uint64_t address, bool stream_ordered) {
    trace::Free record;
    record.address = address;
    record.stream = stream_ordered ? 0x5600'1000 : 0;
    record.memory = stream_ordered ? trace::MemoryKind::kStreamOrdered : trace::MemoryKind::kDevice;
    add_call(writer, record, stream_ordered ? kFreeAsyncApi : kFreeApi,
             stream_ordered ? trace::kFlagAsynchronous : 0);
  }

  void add_copies() {
    for (std::uint64_t i = 0; i < 2; ++i) {
      trace::Copy copy;
      copy.destination = kFirstAddress + 4096 * i;
      copy.source = 0x5577'0000'0000 + 65'536 * i;
      copy.bytes = 32'768;
      copy.destination_type = trace::EndType::kDevice;
      copy.source_type = trace::EndType::kHost;
      add_call(writers_.front(), copy, kCopyApi, trace::kFlagAsynchronous);
    }
  }

  // Records the segments, got from the driver, in which the blocks of a step lie.
  void write_segments() {
    std::uint64_t end = kFirstAddress;
    for (const std::vector<Operation>& step : steps_) {
      for (const Operation& operation : step) {
        end = std::max(end, operation.address + operation.bytes);
      }
    }
    constexpr std::uint64_t kSegmentBytes = 20 * kMebibyte;
    for (std::uint64_t address = kFirstAddress; address < end; address += kSegmentBytes) {
      add_allocation(writers_.front(), address, kSegmentBytes, false);
      reserved_bytes_ += kSegmentBytes;
    }
  }

  const std::vector<Operation>& choose_step() {
    return steps_[random_.below(10) == 0 ? 1 + random_.below(kTemplates - 1) : 0];
  }

  void add_block(trace::Block block) {
    pass_time();
    framework_bytes_ += static_cast<std::uint64_t>(block.bytes);
    block.record.time = now_;
    block.allocated = framework_bytes_;
    block.reserved_bytes = reserved_bytes_;
    block.device_type = 1;
    block.device = 0;
    block.framework = static_cast<std::uint16_t>(trace::Framework::kPytorch);
    writers_.front().add(block);
    ++events_;
  }

  void training_step() {
    for (const Operation& operation : choose_step()) {
      trace::Block block;
      block.address = operation.address;
      block.bytes = static_cast<std::int64_t>(operation.bytes) * (operation.allocates ? 1 : -1);
      add_block(block);
    }
    add_copies();
  }

  void write_versions() {
    for (const auto& [key, text] : {std::pair{trace::TextKey::kTorchVersion, kTorchVersion},
                                    std::pair{trace::TextKey::kTorchAllocator, "native"},
                                    std::pair{trace::TextKey::kTorchAllocatorOptions, ""}}) {
      trace::Text record;
      record.record.time = now_;
      record.key = key;
      background_.add(record, text);
    }
  }

  analyzer::replay::BlockId take_block(std::uint64_t bytes) {
    const analyzer::replay::BlockId id = allocator_.malloc(bytes, 0);
    for (const GrowingMemory::Segment& segment : memory_.new_segments) {
      add_allocation(writers_.front(), segment.address, segment.bytes, false);
      reserved_bytes_ += segment.bytes;
    }
    memory_.new_segments.clear();
    trace::Block block;
    block.record.flags = trace::kFlagStream;
    block.address = allocator_.address_of(id);
    block.bytes = static_cast<std::int64_t>(allocator_.bytes_of(id));
    block.requested = bytes;
    add_block(block);
    return id;
  }

  void give_back(analyzer::replay::BlockId id) {
    trace::Block block;
    block.record.flags = trace::kFlagStream;
    block.address = allocator_.address_of(id);
    block.bytes = -static_cast<std::int64_t>(allocator_.bytes_of(id));
    allocator_.free(id);
    add_block(block);
  }

  // One training step: the forward pass keeps activations and frees two temporaries after each,
  // then comes the loss; the backward pass frees the activations in reverse order, each beside two
  // temporary gradients.
  void varying_step() {
    constexpr std::array<std::uint64_t, 6> kBytesOfToken = {3072, 12'288, 1024, 48, 3072, 4};
    constexpr std::uint64_t kLogitBytesOfToken = 200'000;
    const std::uint64_t tokens = 8 * (64 + random_.below(192));
    const auto bytes_of = [&](std::size_t i) { return tokens * kBytesOfToken[i % 6]; };
    std::vector<analyzer::replay::BlockId> kept;
    const auto take_two = [&](std::size_t i) {
      const analyzer::replay::BlockId one = take_block(bytes_of(i + 1));
      const analyzer::replay::BlockId other = take_block(bytes_of(i + 2));
      give_back(one);
      give_back(other);
    };
    constexpr std::size_t kKept = kStepAllocations / 5;
    for (std::size_t i = 0; i < kKept; ++i) {
      kept.push_back(take_block(bytes_of(i)));
      take_two(i);
    }
    kept.push_back(take_block(tokens * kLogitBytesOfToken));
    while (!kept.empty()) {
      take_two(kept.size());
      give_back(kept.back());
      kept.pop_back();
    }
    add_copies();
  }

  void async_step() {
    for (const Operation& operation : choose_step()) {
      if (operation.allocates) {
        add_allocation(writers_.front(), operation.address, operation.bytes, true);
      } else {
        add_free(writers_.front(), operation.address, true);
      }
    }
    add_copies();
  }

  // All threads allocate and free; a random thread makes the next event.
  void threads_step() {
    for (std::size_t turn = 0; turn < 2 * kStepAllocations; ++turn) {
      const std::size_t thread = random_.below(writers_.size());
      std::uint64_t& held = held_[thread];
      const std::uint64_t address = kFirstAddress + (std::uint64_t{thread} << 32);
      if (held == 0) {
        held = 512 * (1 + random_.below(16));
        add_allocation(writers_[thread], address, held, false);
      } else {
        add_free(writers_[thread], address, false);
        held = 0;
      }
    }
  }

  // The time of CUPTI's clock, which shows the time of day.
  static std::uint64_t activity_time(std::uint64_t ticks) {
    return 1'700'000'000'000'000'000 + ticks / 13 * 5;
  }

  void write_activity_state() {
    trace::ActivityState state;
    state.record.time = now_;
    state.mode = trace::ActivityMode::kCopies;
    background_.add(state);
  }

  // Makes many copies, whose CUPTI records come all at once.
  void copies_step() {
    std::vector<trace::ActivityCall> calls;
    for (std::size_t i = 0; i < kStepAllocations; ++i) {
      trace::Copy copy;
      copy.destination = kFirstAddress;
      copy.source = 0x5577'0000'0000;
      copy.bytes = 4096 * (1 + random_.below(4));
      copy.destination_type = trace::EndType::kDevice;
      copy.source_type = trace::EndType::kHost;
      add_call(writers_.front(), copy, kCopyApi, trace::kFlagAsynchronous);
      trace::ActivityCall call;
      call.start = activity_time(now_ + 200);
      call.end = activity_time(now_ + 700);
      call.correlation = ++correlation_;
      call.thread_id = 1000;
      calls.push_back(call);
    }
    for (trace::ActivityCall& call : calls) {
      call.record.time = now_ += 20;
      background_.add(call);
      trace::ActivityCopy copy;
      copy.record.time = now_ += 20;
      copy.start = call.start + 1000;
      copy.end = copy.start + 800;
      copy.bytes = 4096;
      copy.correlation = call.correlation;
      background_.add(copy);
      events_ += 2;
    }
  }

  void finish() {
    now_ += kMeanEventTicks;
    trace::Mark mark;
    mark.record.time = now_;
    mark.mark = trace::MarkKind::kExit;
    writers_.front().add(mark);
    write_clock();
    for (trace::StreamWriter& writer : writers_) writer.finish();
    background_.finish();
  }

  Pattern pattern_;
  Random random_{20};
  std::uint64_t now_ = kFirstTick;
  std::uint64_t next_clock_ = 0;
  std::uint64_t events_ = 0;
  std::uint32_t correlation_ = 0;
  std::uint64_t framework_bytes_ = 0;
  std::uint64_t reserved_bytes_ = 0;
  std::vector<std::vector<Operation>> steps_;
  std::array<std::uint64_t, 64> held_ = {};
  GrowingMemory memory_;
  analyzer::replay::CachingAllocator allocator_{
      {}, analyzer::replay::rules_of_version(kTorchVersion), memory_};
  trace::StreamWriter background_;
  std::vector<trace::StreamWriter> writers_;
};

trace::OwnDescriptor create_file(const std::filesystem::path& path) {
  trace::OwnDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.is_open()) {
    throw std::runtime_error("cannot write " + path.string() +
                             ": choose another place with --folder.");
  }
  return file;
}

}  // namespace

SyntheticTrace write_synthetic_trace(const std::filesystem::path& path, Pattern pattern,
                                     std::uint64_t events) {
  SyntheticTrace result;
  result.path = path;
  {
    trace::FileHeader header;
    header.id = {1, static_cast<std::uint64_t>(std::hash<std::string>{}(path.string()))};
    header.start_realtime_ns = 1'700'000'000'000'000'000;
    header.ticks_per_second = kTicksPerSecond;
    header.process_id = 1;
    trace::FileWriter output(create_file(path), header, trace::Codec::kZstd);
    result.events = Job(output, pattern).run(events);
  }
  result.file_bytes = std::filesystem::file_size(path);
  return result;
}

}  // namespace gpumemtrace::bench
