// SPDX-License-Identifier: Apache-2.0
// A random job that keeps the driver's rules: the records of several threads, call by call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trace/order.hpp"
#include "trace/records.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::tests {

struct JobRecord {
  std::uint32_t writer = 0;
  std::uint64_t start = 0;  // in ticks; one tick is one nanosecond
  std::uint64_t end = 0;
  std::vector<std::uint64_t> words;
};

// - No two records begin or take effect at the same tick.
// - records() are in the order in which the calls began.
class RandomJob {
 public:
  static constexpr std::uint32_t kThreads = 4;
  static constexpr std::uint32_t kPrimaryContexts = 2;
  // The longest pause between two calls: longer than the analysis waits for a late free.
  static constexpr std::uint64_t kPauseTicks = 100'000;

  explicit RandomJob(std::uint64_t seed) : random_(seed) { begin(); }

  void run(std::size_t events) {
    for (std::size_t i = 0; i < events; ++i) step();
  }
  // Records that the process ended normally.
  void finish() {
    trace::Mark mark;
    mark.mark = trace::MarkKind::kExit;
    event(mark, 1);
    clock();
  }
  const std::vector<JobRecord>& records() const { return records_; }

 private:
  struct Live {
    std::uint64_t bytes = 0;
    trace::MemoryKind memory = trace::MemoryKind::kDevice;
    bool is_segment = false;
    trace::ContextId context{1};
  };
  struct Physical {
    std::uint64_t handle = 0;
    std::uint64_t bytes = 0;
    std::uint64_t mapped_at = 0;
    bool is_released = false;
  };

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  std::uint32_t thread() { return static_cast<std::uint32_t>(1 + below(kThreads)); }
  // Returns the first free tick from `wanted` on and reserves it for a record.
  std::uint64_t tick(std::uint64_t wanted) {
    while (!used_.insert(wanted).second) ++wanted;
    return wanted;
  }

  void store(const void* record, std::size_t bytes, JobRecord made, std::string_view tail) {
    made.words.resize(bytes / 8 + (tail.size() + 7) / 8, 0);
    std::memcpy(made.words.data(), record, bytes);
    if (!tail.empty()) std::memcpy(made.words.data() + bytes / 8, tail.data(), tail.size());
    auto* raw = reinterpret_cast<std::uint8_t*>(made.words.data());
    raw[1] = static_cast<std::uint8_t>(made.words.size());
    records_.push_back(std::move(made));
  }
  template <class Record>
  void event(Record record, std::uint32_t writer, std::string_view tail = {}) {
    now_ = tick(now_ + 1 + below(kPauseTicks));
    record.record.kind = trace::kind_of<Record>();
    record.record.time = now_;
    store(&record, sizeof record, {writer, now_, now_, {}}, tail);
  }
  // A call that takes a while, on the thread `writer`; 0 = on any thread.
  template <class Record>
  void call(Record record, std::uint32_t writer = 0) {
    if (writer == 0) writer = thread();
    const std::uint64_t start = tick(std::max(now_ + 1 + below(kPauseTicks), busy_until_[writer]));
    const std::uint64_t end = tick(start + 1 + below(2 * kPauseTicks));
    now_ = std::max(now_, start);
    if (record.call.record.result == 0 && !one_in(4)) now_ = std::max(now_, end);
    put(record, writer, start, end);
  }
  template <class Record>
  void put(Record record, std::uint32_t writer, std::uint64_t start, std::uint64_t end) {
    trace::CallHeader& header = record.call;
    header.record.kind = trace::kind_of<Record>();
    header.record.time = start;
    header.end = end;
    if (header.record.api == 0) header.record.api = static_cast<std::uint16_t>(1 + below(3));
    header.caller = 0x1000 + below(6) * 16;
    if (header.context == trace::ContextId::kNone) header.context = context_of_next();
    busy_until_[writer] = end + 1;
    store(&record, sizeof record, {writer, start, end, {}}, {});
  }
  trace::ContextId context_of_next() {
    return one_in(10) ? side_context_
                      : trace::ContextId{static_cast<std::uint32_t>(1 + below(kPrimaryContexts))};
  }

  void begin() {
    clock();
    for (std::uint32_t id = 1; id <= kPrimaryContexts; ++id) {
      context(trace::ContextId{id}, static_cast<std::int32_t>(id) - 1, true);
    }
    for (std::int32_t ordinal = 0; ordinal < 2; ++ordinal) {
      trace::Device device;
      device.ordinal = ordinal;
      device.uuid_low = 77 + static_cast<std::uint64_t>(ordinal);
      device.total_bytes = 1ull << 40;
      device.multiprocessors = 4;
      device.threads_per_multiprocessor = 2048;
      event(device, 0, "Test GPU");
    }
    trace::Module module;
    module.base = module.begin = 0x1000;
    module.end = 0x2000;
    event(module, 0, "/usr/lib/libsome.so");
    for (std::uint32_t id = 1; id <= 3; ++id) {
      trace::ApiName name;
      name.id = id;
      event(name, 0, id == 3 ? "cuModuleLoadData" : "cuFunction" + std::to_string(id));
    }
    trace::Pool pool;
    pool.device = 0;
    pool.pool = 0x500;
    call(pool, 1);
    side_context();
  }
  void clock() {
    trace::Clock record;
    record.monotonic_ns = now_ + 1;
    now_ = tick(now_ + 1);
    record.monotonic_ns = now_;
    record.realtime_ns = 1'700'000'000'000'000'000 + now_;
    record.record.kind = trace::RecordKind::kClock;
    record.record.time = now_;
    store(&record, sizeof record, {0, now_, now_, {}}, {});
  }
  void context(trace::ContextId id, std::int32_t device, bool primary) {
    trace::Context record;
    record.id = id;
    record.device = device;
    record.primary = primary ? 1 : 0;
    event(record, 1);
  }
  // A context beside the primary ones; at times its record comes after memory is allocated in it.
  void side_context() {
    side_context_ = trace::ContextId{++last_context_};
    if (one_in(2)) {
      unannounced_ = side_context_;
    } else {
      context(side_context_, 0, false);
    }
  }
  void announce_late() {
    if (unannounced_ == trace::ContextId::kNone) return;
    context(unannounced_, 0, false);
    unannounced_ = trace::ContextId::kNone;
  }

  void step() {
    switch (below(24)) {
      case 0:
        return copy();
      case 1:
        return set();
      case 2:
        return physical();
      case 3:
        return unmap();
      case 4:
        return sample();
      case 5:
        return pool_call();
      case 6:
        return rare();
      case 7:
      case 8:
      case 9:
      case 10:
        return block();
      case 11:
        return one_in(2) ? free_again() : late_owner();
      default:
        return live_.size() < 10 + below(60) ? allocate() : free();
    }
  }

  trace::MemoryKind some_memory() {
    using trace::MemoryKind;
    constexpr MemoryKind kKinds[] = {
        MemoryKind::kDevice,        MemoryKind::kDevice,  MemoryKind::kDevice,
        MemoryKind::kPitched,       MemoryKind::kManaged, MemoryKind::kStreamOrdered,
        MemoryKind::kStreamOrdered, MemoryKind::kPinned,  MemoryKind::kRegistered};
    return kKinds[below(std::size(kKinds))];
  }
  trace::Allocation allocation(std::uint64_t address, std::uint64_t bytes,
                               trace::MemoryKind memory) {
    trace::Allocation record;
    record.address = address;
    record.bytes = bytes;
    record.memory = memory;
    if (memory == trace::MemoryKind::kStreamOrdered) record.pool = one_in(2) ? 0 : 0x500;
    if (memory == trace::MemoryKind::kDevice && one_in(9)) record.location = 1;
    return record;
  }
  std::uint64_t free_address() {
    std::uint64_t address = (1 + below(100)) << 24;
    while (live_.count(address) != 0) address += 1 << 24;
    return address;
  }
  void allocate() {
    const trace::MemoryKind memory = some_memory();
    trace::Allocation record = allocation(free_address(), 1 + below(1 << 22), memory);
    if (one_in(15)) {
      record.call.record.result = 2;
      record.address = 0;
      return call(record);
    }
    record.call.context = context_of_next();
    Live& live = live_[record.address];
    live = {record.bytes, memory, false, record.call.context};
    call(record);
    now_ = std::max(now_, records_.back().end);
    const bool stays = number_of(record.call.context) <= kPrimaryContexts;
    if (memory == trace::MemoryKind::kDevice && stays && one_in(4)) {
      live.is_segment = true;
      add_block(record.address);
    }
  }
  void free() {
    if (live_.empty()) return;
    auto chosen = live_.lower_bound(below(120) << 24);
    if (chosen == live_.end()) chosen = live_.begin();
    if (chosen->second.is_segment && !blocks_.empty()) return;
    trace::Free record;
    record.address = chosen->first;
    if (one_in(10) && chosen->second.memory != trace::MemoryKind::kDevice) {
      record.call.record.result = 1;
      return call(record);
    }
    if (one_in(12)) record.call.record.result = 700;
    if (one_in(6) && chosen->second.memory == trace::MemoryKind::kDevice) {
      return free_late(record, chosen->second);
    }
    live_.erase(chosen);
    call(record);
    if (record.call.record.result == 0) freed_.push_back(record.address);
  }
  // Frees an address that was freed before, whether or not the driver handed it out since; now and
  // then an address inside a live allocation, or an unknown one.
  void free_again() {
    trace::Free record;
    record.call.record.result = 1;
    if (one_in(4)) {
      record.address = some_address();
    } else if (!freed_.empty()) {
      record.address = freed_[freed_.size() - 1 - below(std::min<std::size_t>(freed_.size(), 40))];
    }
    if (record.address != 0) call(record);
  }
  // The framework hands out its first block from driver memory that was allocated long before.
  void late_owner() {
    auto chosen = live_.lower_bound(below(120) << 24);
    if (chosen == live_.end()) return;
    Live& live = chosen->second;
    if (live.memory != trace::MemoryKind::kDevice || number_of(live.context) > kPrimaryContexts)
      return;
    live.is_segment = true;
    add_block(chosen->first);
  }
  // Frees an address late: another thread got it again before the free is recorded.
  void free_late(trace::Free record, Live& live) {
    const std::uint32_t writer = thread();
    const std::uint32_t other = writer % kThreads + 1;
    const std::uint64_t from = std::max({now_ + 1, busy_until_[writer], busy_until_[other]});
    const std::uint64_t start = tick(from);
    const std::uint64_t end = tick(start + 1);
    const std::uint64_t free_start = tick(end + 1 + below(100));
    const std::uint64_t free_end = tick(free_start + 1);
    now_ = free_end + trace::kReorderWindowTicks;
    record.call.record.result = 0;
    live.bytes = 1 + below(1 << 22);
    live.is_segment = false;
    live.context = trace::ContextId{1};
    auto newer = allocation(record.address, live.bytes, trace::MemoryKind::kDevice);
    newer.call.context = trace::ContextId{1};
    put(newer, other, start, end);
    put(record, writer, free_start, free_end);
  }

  std::uint64_t some_address() {
    if (live_.empty() || one_in(4)) return 0x7f00'0000'0000 + below(1000);
    auto chosen = live_.lower_bound(below(120) << 24);
    if (chosen == live_.end()) chosen = live_.begin();
    return chosen->first + below(chosen->second.bytes);
  }
  void copy() {
    trace::Copy record;
    record.source = some_address();
    record.destination = some_address();
    record.bytes = below(10'000);
    record.source_type = static_cast<trace::EndType>(below(5));
    record.destination_type = static_cast<trace::EndType>(below(5));
    if (one_in(3)) record.call.record.flags = trace::kFlagAsynchronous;
    if (one_in(20)) record.call.record.result = 1;
    call(record);
  }
  void set() {
    trace::Set record;
    record.destination = some_address();
    record.bytes = below(10'000);
    call(record);
  }

  void physical() {
    trace::Mapping map;
    if (reservation_ == 0 || one_in(30)) {
      reservation_ = (0x4000 + ++reservations_) << 32;
      map.operation = trace::MappingOperation::kReserve;
      map.address = reservation_;
      map.bytes = 1ull << 32;
      call(map, 1);
      next_mapping_ = reservation_;
    }
    Physical made{0xa000 + below(50), 1 + below(1 << 20), next_mapping_, false};
    for (const Physical& other : physical_) {
      if (other.handle == made.handle && !other.is_released) return;
    }
    trace::Allocation create = allocation(made.handle, made.bytes, trace::MemoryKind::kPhysical);
    create.location = 0;
    call(create, 1);
    if (one_in(5)) {
      trace::Free release;
      release.address = made.handle;
      release.memory = trace::MemoryKind::kPhysical;
      return call(release, 1);
    }
    map.operation = trace::MappingOperation::kMap;
    map.address = next_mapping_;
    map.bytes = made.bytes;
    map.handle = made.handle;
    next_mapping_ += 1 << 21;
    call(map, 1);
    made.is_released = one_in(2);
    if (one_in(10)) {
      trace::Mapping retain;
      retain.operation = trace::MappingOperation::kRetainHandle;
      retain.handle = made.handle;
      retain.address = made.mapped_at;
      call(retain, 1);
      release(made.handle);
    }
    if (made.is_released) release(made.handle);
    physical_.push_back(made);
  }
  void release(std::uint64_t handle) {
    trace::Free record;
    record.address = handle;
    record.memory = trace::MemoryKind::kPhysical;
    call(record, 1);
  }
  void unmap() {
    if (physical_.empty()) return;
    const std::size_t i = below(physical_.size());
    for (const auto& [address, bytes] : blocks_) {
      if (address - physical_[i].mapped_at < physical_[i].bytes) return;
    }
    trace::Mapping record;
    record.operation = trace::MappingOperation::kUnmap;
    record.address = physical_[i].mapped_at;
    record.bytes = physical_[i].bytes;
    call(record, 1);
    if (!physical_[i].is_released) release(physical_[i].handle);
    physical_.erase(physical_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  void sample() {
    if (one_in(3)) {
      trace::PoolSample record;
      record.pool = 0x500;
      record.device = 0;
      record.reserved_current = below(1 << 24);
      record.reserved_high = reserved_high_ = std::max(reserved_high_, record.reserved_current);
      return event(record, 0);
    }
    if (one_in(2)) return one_in(3) ? limits() : clock();
    ask_about_card(static_cast<std::int32_t>(below(2)));
  }
  // Samples a card by CUDA, by NVML and by NVML's process list. Some drivers do not answer all of
  // them.
  void ask_about_card(std::int32_t device) {
    trace::MemorySample record;
    record.device = device;
    record.total_bytes = 1ull << 40;
    record.free_bytes = record.total_bytes - (1 << 28) - below(1 << 28);
    if (!one_in(4)) {
      record.source = trace::SampleSource::kMemGetInfo;
      event(record, 0);
    }
    record.reserved_bytes = 1 << 20;
    record.source = trace::SampleSource::kNvmlDevice;
    if (one_in(5)) return event(record, 0);
    record.source = trace::SampleSource::kNvmlProcess;
    record.process_bytes = (1 << 26) + below(1 << 28);
    record.other_bytes = below(1 << 20);
    event(record, 0);
    trace::ProcessSample listed;
    listed.device = device;
    for (std::uint32_t i = 0; i < below(4); ++i) {
      listed.process_id = 500 + i;
      listed.bytes = one_in(8) ? trace::kBytesNotTold : below(1 << 19);
      listed.relation = i == 0       ? trace::ProcessRelation::kThis
                        : i % 2 == 0 ? trace::ProcessRelation::kDescendant
                                     : trace::ProcessRelation::kOther;
      event(listed, 0);
    }
  }
  void limits() {
    trace::ContextLimits record;
    record.context = trace::ContextId{static_cast<std::uint32_t>(1 + below(kPrimaryContexts))};
    if (one_in(3)) record.context = side_context_;
    record.device = record.context == trace::ContextId{2} ? 1 : 0;
    record.stack_bytes = 1024 << below(3);
    record.heap_bytes = (8ull << below(3)) << 20;
    event(record, 0);
  }
  void pool_call() {
    trace::Pool record;
    record.device = 0;
    record.pool = 0x500;
    record.operation = trace::PoolOperation::kTrim;
    call(record, 1);
  }
  void rare() {
    if (one_in(8)) return announce_late();
    if (one_in(40)) {
      announce_late();
      trace::ContextCall record;
      record.operation = trace::ContextOperation::kDestroy;
      record.handle_context = side_context_;
      record.call.context = trace::ContextId{1};
      call(record, 1);
      std::erase_if(live_, [&](const auto& entry) {
        return entry.second.context == side_context_ &&
               entry.second.memory != trace::MemoryKind::kStreamOrdered;
      });
      return side_context();
    }
    if (one_in(30)) {
      trace::Free unknown;
      unknown.address = 0x7e00'0000'0000;
      return call(unknown);
    }
    trace::OtherCall record;
    if (one_in(10)) record.call.record.result = 1;
    call(record);
  }

  // Allocates or frees a block of the framework on device 0, in one of a few driver allocations or
  // in mapped memory.
  void block() {
    if (!blocks_.empty() && one_in(2)) {
      auto chosen = blocks_.lower_bound(below(120) << 24);
      if (chosen == blocks_.end()) chosen = blocks_.begin();
      put_block(chosen->first, -static_cast<std::int64_t>(chosen->second));
      blocks_.erase(chosen);
      return;
    }
    std::uint64_t address = 0;
    if (!physical_.empty() && one_in(3)) {
      address = physical_[below(physical_.size())].mapped_at;
    } else {
      for (auto& [begin, live] : live_) {
        if (!live.is_segment || !one_in(3)) continue;
        address = begin;
        break;
      }
    }
    if (address != 0) add_block(address);
  }
  void add_block(std::uint64_t address) {
    if (blocks_.count(address) != 0) return;
    const auto bytes = static_cast<std::int64_t>(1 + below(4096));
    blocks_[address] = static_cast<std::uint64_t>(bytes);
    put_block(address, bytes);
  }
  // The bytes of the device that the framework's segments take.
  std::uint64_t reserved_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& [address, live] : live_) bytes += live.is_segment ? live.bytes : 0;
    for (const Physical& mapped : physical_) bytes += mapped.bytes;
    return bytes;
  }
  void put_block(std::uint64_t address, std::int64_t bytes) {
    framework_bytes_ += static_cast<std::uint64_t>(bytes);
    trace::Block record;
    record.address = address;
    record.bytes = bytes;
    record.allocated = framework_bytes_;
    record.reserved_bytes = reserved_bytes();
    record.device_type = 1;
    record.device = 0;
    record.stack = trace::StackId{static_cast<std::uint32_t>(below(5))};
    now_ = std::max(now_, busy_until_[1]);
    event(record, 1);
  }

  std::mt19937_64 random_;
  std::uint64_t now_ = 1'000'000;
  std::set<std::uint64_t> used_;
  std::map<std::uint32_t, std::uint64_t> busy_until_;
  std::map<std::uint64_t, Live> live_;
  std::map<std::uint64_t, std::uint64_t> blocks_;
  std::vector<Physical> physical_;
  std::uint64_t reservation_ = 0;
  std::uint64_t reservations_ = 0;
  std::uint64_t next_mapping_ = 0;
  std::uint64_t framework_bytes_ = 0;
  std::uint64_t reserved_high_ = 0;
  trace::ContextId side_context_ = trace::ContextId::kNone;
  std::uint32_t last_context_ = kPrimaryContexts;
  trace::ContextId unannounced_ = trace::ContextId::kNone;
  std::vector<std::uint64_t> freed_;
  std::vector<JobRecord> records_;
};

}  // namespace gpumemtrace::tests
