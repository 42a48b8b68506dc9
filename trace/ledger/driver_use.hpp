// SPDX-License-Identifier: Apache-2.0
// The bytes that the driver took of a device for one process beyond the bytes that its calls asked
// for, and the calls between two samples that caused this.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "trace/ledger/call_site.hpp"
#include "trace/ledger/mapped_array.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::ledger {

// Calls for which the driver takes memory by itself, beyond any request.
enum class DriverCause : std::uint8_t { kContext, kModules, kGraphs };
inline constexpr std::size_t kDriverCauses = 3;

[[nodiscard]] constexpr bool loads_code(std::string_view function) {
  return function.find("ModuleLoad") != std::string_view::npos ||
         function.find("LibraryLoad") != std::string_view::npos;
}

// The bytes that the driver took by itself for calls of one cause. Growth between two samples is
// counted only if all calls of any DriverCause between them had the same cause.
struct DriverShare {
  std::uint64_t bytes = 0;
  std::uint64_t calls = 0;
  CallSite first_at;  // call site of the first of the calls
};

struct DriverShares {
  std::array<DriverShare, kDriverCauses> of_cause;
  std::uint64_t local_memory_bytes = 0;
  // the part of local_memory_bytes that came with new contexts
  std::uint64_t local_memory_of_new_contexts = 0;
  std::uint64_t heap_bytes = 0;  // the heap of malloc() in kernels
};

struct DriverUseOfDevice {
  std::int32_t device = -1;
  std::uint64_t samples = 0;
  std::uint64_t first_bytes = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t last_bytes = 0;
  bool last_is_peak = false;
  std::uint64_t local_memory_at_sample = 0;
  DriverShares at_peak;
  DriverShares now;
  // The calls since the last sample: for each cause their number and the first call.
  std::array<DriverShare, kDriverCauses> calls;
};

// - Estimates how the memory that the driver took by itself divides among its causes. Samples and
//   calls are added in the order of the records.
// - failed() if the system had no memory; the numbers are worthless then.
class DriverUse {
 public:
  void add_call(std::int32_t device, DriverCause cause, const CallSite& site);
  // `threads`: the number of threads that the device can run at once. The driver takes a stack for
  // each of them in each context.
  void set_limits(const trace::ContextLimits& limits, std::uint64_t threads);
  void end_context(trace::ContextId context);
  // Adds a sample: `bytes` is the driver's number for the process, less the bytes that its calls
  // have allocated.
  void sample(std::int32_t device, std::uint64_t bytes);
  // Subtracts `more_bytes` from the last sample: the driver's number had included these bytes, but
  // the sum of the process's calls includes them only from now on.
  void count_in_last_sample(std::int32_t device, std::uint64_t more_bytes);

  // Hands over the records of a checkpoint: calls put(record) for each.
  template <class Put>
  void store(Put&& put) const;
  // Restores the state from a checkpoint: DriverTaken replaces all that was known of its device,
  // the records DriverShare and ContextTaken of the device follow.
  void restore(const trace::DriverTaken& taken);
  void restore(const trace::DriverShare& share);
  void restore(const trace::ContextTaken& taken);
  [[nodiscard]] bool is_restored() const { return is_restored_; }

  [[nodiscard]] const DriverUseOfDevice* find(std::int32_t device) const {
    for (const DriverUseOfDevice& known : devices_) {
      if (known.device == device) return &known;
    }
    return nullptr;
  }
  [[nodiscard]] const MappedArray<DriverUseOfDevice>& devices() const { return devices_; }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  struct TakenByContext {
    trace::ContextId context = trace::ContextId::kNone;
    std::int32_t device = -1;
    std::uint64_t local_bytes = 0;
    std::uint64_t heap_limit_bytes = 0;
    std::uint64_t heap_bytes = 0;  // 0 = the driver was not seen to take the heap
  };

  [[nodiscard]] DriverUseOfDevice& state(std::int32_t device);
  [[nodiscard]] std::size_t index_of(trace::ContextId context) const;
  void add_growth(DriverUseOfDevice& device, std::uint64_t more_bytes);
  [[nodiscard]] bool is_heap(DriverUseOfDevice& device, std::uint64_t more_bytes);

  // there are few devices, so they are searched one by one
  MappedArray<DriverUseOfDevice> devices_;
  MappedArray<TakenByContext> contexts_;
  DriverUseOfDevice nowhere_;  // stands in for a device's state if there is no memory for it
  bool is_restored_ = false;
  bool failed_ = false;
};

inline constexpr std::uint64_t kDriverChunkBytes = std::uint64_t{2} << 20;

inline DriverUseOfDevice& DriverUse::state(std::int32_t device) {
  for (DriverUseOfDevice& known : devices_) {
    if (known.device == device) return known;
  }
  DriverUseOfDevice added;
  added.device = device;
  if (devices_.push(added)) return devices_.back();
  failed_ = true;
  return nowhere_;
}

// The index of the context in contexts_; the number of contexts if it is not known.
inline std::size_t DriverUse::index_of(trace::ContextId context) const {
  std::size_t index = 0;
  while (index < contexts_.size() && contexts_[index].context != context) ++index;
  return index;
}

inline void DriverUse::add_call(std::int32_t device, DriverCause cause, const CallSite& site) {
  DriverShare& calls = state(device).calls[static_cast<std::size_t>(cause)];
  if (calls.calls++ == 0) calls.first_at = site;
}

// Takes over a context's limits. The first limits that are known of a context are those with which
// it was made.
inline void DriverUse::set_limits(const trace::ContextLimits& limits, std::uint64_t threads) {
  DriverUseOfDevice& device = state(limits.device);
  const std::uint64_t asked = limits.stack_bytes * threads;
  const std::uint64_t taken = asked + (0 - asked) % kDriverChunkBytes;
  const std::size_t index = index_of(limits.context);
  const bool is_new = index == contexts_.size();
  if (is_new && !contexts_.push({limits.context, limits.device, 0, 0, 0})) {
    failed_ = true;
    return;
  }
  TakenByContext& context = contexts_[index];
  device.now.local_memory_bytes += taken - context.local_bytes;
  context.local_bytes = taken;
  context.heap_limit_bytes = limits.heap_bytes;
  if (!is_new) return;
  device.now.local_memory_of_new_contexts += taken;
  device.local_memory_at_sample += taken;
}

inline void DriverUse::end_context(trace::ContextId context) {
  const std::size_t index = index_of(context);
  if (index == contexts_.size()) return;
  const TakenByContext& ended = contexts_[index];
  DriverShares& now = state(ended.device).now;
  now.local_memory_bytes -= ended.local_bytes;
  now.heap_bytes -= ended.heap_bytes;
  contexts_.erase(index, index + 1);
}

inline void DriverUse::sample(std::int32_t ordinal, std::uint64_t bytes) {
  DriverUseOfDevice& device = state(ordinal);
  if (device.samples++ == 0) device.first_bytes = bytes;
  const std::uint64_t local = device.now.local_memory_bytes;
  const std::uint64_t before = device.last_bytes + local - device.local_memory_at_sample;
  if (bytes > before) add_growth(device, bytes - before);
  device.calls = {};
  device.last_bytes = bytes;
  device.local_memory_at_sample = local;
  device.last_is_peak = bytes > device.peak_bytes;
  if (!device.last_is_peak) return;
  device.peak_bytes = bytes;
  device.at_peak = device.now;
}

inline void DriverUse::add_growth(DriverUseOfDevice& device, std::uint64_t more_bytes) {
  std::size_t cause = kDriverCauses;
  for (std::size_t i = 0; i < kDriverCauses; ++i) {
    if (device.calls[i].calls == 0) continue;
    // the growth came with calls of several causes: the share of each is unknown
    if (cause != kDriverCauses) return;
    cause = i;
  }
  if (cause == kDriverCauses) {
    if (is_heap(device, more_bytes)) device.now.heap_bytes += more_bytes;
    return;
  }
  DriverShare& share = device.now.of_cause[cause];
  if (share.bytes == 0) share.first_at = device.calls[cause].first_at;
  share.bytes += more_bytes;
  share.calls += device.calls[cause].calls;
}

// True if the growth is the heap of malloc() in kernels. At the first launch of a kernel that may
// call malloc(), the driver takes the heap limit and one chunk (measured on an H100, driver
// 580.159.04). Launches are not recorded, so the heap is recognized by growth of exactly this size,
// and only if the program raised the limit: growth by the default, 10 MiB in all, can have other
// causes.
inline bool DriverUse::is_heap(DriverUseOfDevice& device, std::uint64_t more_bytes) {
  constexpr std::uint64_t kDefaultLimit = std::uint64_t{8} << 20;
  for (TakenByContext& context : contexts_) {
    const std::uint64_t limit = context.heap_limit_bytes;
    if (context.device != device.device || context.heap_bytes != 0) continue;
    if (limit <= kDefaultLimit || more_bytes != limit + kDriverChunkBytes) continue;
    context.heap_bytes = more_bytes;
    return true;
  }
  return false;
}

inline void DriverUse::count_in_last_sample(std::int32_t ordinal, std::uint64_t more_bytes) {
  DriverUseOfDevice& device = state(ordinal);
  if (device.samples == 0) return;
  const auto less = static_cast<std::int64_t>(device.last_bytes - more_bytes);
  device.last_bytes = less < 0 ? 0 : static_cast<std::uint64_t>(less);
  if (device.samples == 1) device.first_bytes = device.last_bytes;
  if (device.last_is_peak) device.peak_bytes = device.last_bytes;
}

template <class Put>
void DriverUse::store(Put&& put) const {
  for (const DriverUseOfDevice& device : devices_) {
    trace::DriverTaken taken;
    taken.samples = device.samples;
    taken.first_bytes = device.first_bytes;
    taken.peak_bytes = device.peak_bytes;
    taken.last_bytes = device.last_bytes;
    taken.local_bytes_at_sample = device.local_memory_at_sample;
    taken.device = device.device;
    taken.last_is_peak = device.last_is_peak;
    put(taken);
    const auto put_share = [&](trace::DriverMoment moment, std::size_t part,
                               const DriverShare& share) {
      if (share.bytes == 0 && share.calls == 0) return;
      trace::DriverShare record;
      set_site(record, share.first_at);
      record.bytes = share.bytes;
      record.calls = share.calls;
      record.device = device.device;
      record.part = static_cast<trace::DriverPart>(part);
      record.moment = moment;
      put(record);
    };
    const auto put_shares = [&](trace::DriverMoment moment, const DriverShares& shares) {
      for (std::size_t i = 0; i < kDriverCauses; ++i) put_share(moment, i, shares.of_cause[i]);
      const std::uint64_t others[] = {shares.local_memory_bytes,
                                      shares.local_memory_of_new_contexts, shares.heap_bytes};
      std::size_t part = kDriverCauses;
      for (const std::uint64_t bytes : others) put_share(moment, part++, {bytes, 0, {}});
    };
    put_shares(trace::DriverMoment::kNow, device.now);
    put_shares(trace::DriverMoment::kPeak, device.at_peak);
    for (std::size_t i = 0; i < kDriverCauses; ++i) {
      put_share(trace::DriverMoment::kSinceSample, i, device.calls[i]);
    }
  }
  for (const TakenByContext& context : contexts_) {
    trace::ContextTaken taken;
    taken.local_bytes = context.local_bytes;
    taken.heap_limit_bytes = context.heap_limit_bytes;
    taken.heap_bytes = context.heap_bytes;
    taken.context = context.context;
    taken.device = context.device;
    put(taken);
  }
}

inline void DriverUse::restore(const trace::DriverTaken& taken) {
  is_restored_ = true;
  DriverUseOfDevice& device = state(taken.device);
  device = {};
  device.device = taken.device;
  device.samples = taken.samples;
  device.first_bytes = taken.first_bytes;
  device.peak_bytes = taken.peak_bytes;
  device.last_bytes = taken.last_bytes;
  device.local_memory_at_sample = taken.local_bytes_at_sample;
  device.last_is_peak = taken.last_is_peak != 0;
  for (std::size_t i = contexts_.size(); i != 0; --i) {
    if (contexts_[i - 1].device == taken.device) contexts_.erase(i - 1, i);
  }
}

inline void DriverUse::restore(const trace::DriverShare& record) {
  DriverUseOfDevice& device = state(record.device);
  const auto part = static_cast<std::size_t>(record.part);
  const bool since_sample = record.moment == trace::DriverMoment::kSinceSample;
  DriverShares& shares = record.moment == trace::DriverMoment::kPeak ? device.at_peak : device.now;
  if (part < kDriverCauses) {
    const DriverShare share{record.bytes, record.calls, site_of(record)};
    (since_sample ? device.calls[part] : shares.of_cause[part]) = share;
    return;
  }
  switch (record.part) {
    case trace::DriverPart::kLocalMemory:
      shares.local_memory_bytes = record.bytes;
      return;
    case trace::DriverPart::kLocalMemoryOfNewContexts:
      shares.local_memory_of_new_contexts = record.bytes;
      return;
    case trace::DriverPart::kHeap:
      shares.heap_bytes = record.bytes;
      return;
    default:
      return;
  }
}

inline void DriverUse::restore(const trace::ContextTaken& taken) {
  const TakenByContext context{taken.context, taken.device, taken.local_bytes,
                               taken.heap_limit_bytes, taken.heap_bytes};
  if (!contexts_.push(context)) failed_ = true;
}

}  // namespace gpumemtrace::ledger
