// SPDX-License-Identifier: Apache-2.0
// Samples of the driver's numbers for a device around the time of the process's peak.
#pragma once

#include <cstdint>

#include "trace/records.hpp"

namespace gpumemtrace::ledger {

// The parts of the process's physical bytes on a device at one time.
struct Parts {
  std::uint64_t time = 0;  // the model time to which the parts belong
  std::uint64_t framework_allocated = 0;
  std::uint64_t pool_used = 0;
  std::uint64_t pool_reserved = 0;
  std::uint64_t driver = 0;

  [[nodiscard]] std::uint64_t physical() const { return driver + pool_reserved; }
};

// The bytes in use on the device. Older traces do not have the driver's reserved bytes, which
// NVML's total - free includes; for them the bytes of all processes are summed.
template <class Sample>
[[nodiscard]] std::uint64_t in_use_of(const Sample& sample) {
  if (sample.source == trace::SampleSource::kNvmlProcess && sample.reserved_bytes == 0) {
    return sample.process_bytes + sample.other_bytes;
  }
  const std::uint64_t rest = sample.free_bytes + sample.reserved_bytes;
  return sample.total_bytes < rest ? 0 : sample.total_bytes - rest;
}

// One sample of the driver's numbers, and the bytes that the process held by its own calls just
// then.
struct DriverSample {
  std::uint64_t time = 0;  // model time; 0 = there is no sample
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t process_bytes = 0;
  std::uint64_t other_bytes = 0;
  trace::SampleSource source = trace::SampleSource::kNone;
  std::uint64_t physical_bytes = 0;  // Parts::physical() at the time of the sample
  std::uint64_t reserved_bytes = 0;  // the driver's own bytes, neither free nor in use

  // The bytes in use on the device: total - free - reserved, but never less than 0.
  [[nodiscard]] std::uint64_t in_use_bytes() const {
    const std::uint64_t rest = free_bytes + reserved_bytes;
    return total_bytes < rest ? 0 : total_bytes - rest;
  }
};

struct DeviceSamples {
  DriverSample before_peak;  // the last sample before the peak; after_peak: the first one after it
  DriverSample after_peak;
  DriverSample last_sample;

  // Takes over a sample; `peak_happened`: the process has had a peak.
  void add_sample(const trace::MemorySample& record, std::uint64_t now,
                  std::uint64_t physical_bytes, bool peak_happened) {
    if (record.source == trace::SampleSource::kNone) return;
    const DriverSample sample{now,
                              record.free_bytes,
                              record.total_bytes,
                              record.process_bytes,
                              record.other_bytes,
                              record.source,
                              physical_bytes,
                              record.reserved_bytes};
    // One round of sampling asks cuMemGetInfo first, then NVML. NVML's sample also has the bytes of
    // each process, so it replaces that of cuMemGetInfo as the one after the peak.
    const bool tells_more = record.source == trace::SampleSource::kNvmlProcess &&
                            after_peak.source == trace::SampleSource::kMemGetInfo &&
                            after_peak.time == last_sample.time;
    last_sample = sample;
    if (peak_happened && (after_peak.time == 0 || tells_more)) after_peak = sample;
  }
  // Notes that the process's bytes are higher now than ever before.
  void set_peak() {
    before_peak = last_sample;
    after_peak = {};
  }
  // Adds `more_bytes` of a pool (modulo 2^64, so they may be negative) to the process's bytes at
  // the last sample. Pools are asked after the device, and the device's number had counted these
  // bytes already.
  void count_in_last_sample(std::uint64_t more_bytes) {
    const std::uint64_t round = last_sample.time;
    if (round == 0) return;
    for (DriverSample* sample : {&last_sample, &before_peak, &after_peak}) {
      if (sample->time == round) sample->physical_bytes += more_bytes;
    }
  }
  // Restores the peak from a checkpoint, with one of the two samples around it: the nearer one.
  void restore_peak(const trace::Peak& peak) {
    DriverSample sample;
    if (peak.source != trace::SampleSource::kNone) {
      sample = {peak.sample_time,  peak.sample_free, peak.sample_total,    peak.sample_process,
                peak.sample_other, peak.source,      peak.sample_physical, peak.sample_reserved};
    }
    const bool is_after = peak.sample_time > peak.peak_time;
    before_peak = is_after ? DriverSample{} : sample;
    after_peak = is_after ? sample : DriverSample{};
  }
  void store_peak(trace::Peak& peak) const {
    const bool after_is_nearer =
        after_peak.time != 0 && (before_peak.time == 0 || after_peak.time - peak.peak_time <
                                                              peak.peak_time - before_peak.time);
    const DriverSample& sample = after_is_nearer ? after_peak : before_peak;
    peak.source = sample.source;
    peak.sample_time = sample.time;
    peak.sample_free = sample.free_bytes;
    peak.sample_total = sample.total_bytes;
    peak.sample_process = sample.process_bytes;
    peak.sample_other = sample.other_bytes;
    peak.sample_physical = sample.physical_bytes;
    peak.sample_reserved = sample.reserved_bytes;
  }
};

[[nodiscard]] inline Parts parts_of(const trace::Peak& peak) {
  return {peak.peak_time, peak.framework_allocated, peak.pool_used, peak.pool_reserved,
          peak.bytes - peak.pool_reserved};
}

}  // namespace gpumemtrace::ledger
