// SPDX-License-Identifier: Apache-2.0
#include "analyzer/rules/oom_breakdown.hpp"

#include <cstdio>

#include "analyzer/frameworks/frameworks.hpp"

namespace gpumemtrace::analyzer {
namespace {

std::string in_unit(const char* unit, double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f %s", value, unit);
  return text;
}

rows::OptionalNumber difference(const rows::OptionalNumber& whole,
                                const rows::OptionalNumber& part) {
  if (!whole || !part || *part > *whole) return std::nullopt;
  return *whole - *part;
}

}  // namespace

std::optional<rows::OomBreakdown> breakdown_of(const std::vector<rows::Device>& devices,
                                               const rows::Oom& failure) {
  if (!failure.composition) return std::nullopt;
  const rows::Composition& composition = *failure.composition;
  const std::uint64_t reserved = composition.framework_allocated + composition.framework_cached;
  std::uint64_t by_calls = reserved + composition.pool_used + composition.pool_cached;
  for (const rows::OwnersBytes& part : composition.other) by_calls += part.bytes;
  rows::OomBreakdown parts;
  parts.tried_to_allocate = failure.requested_bytes;
  const rows::Device* const device = rows::find_device(devices, failure.device);
  if (device != nullptr) parts.total_capacity = device->total_bytes;
  // The bytes that all processes use on the device.
  const rows::OptionalNumber used =
      failure.device_free_bytes ? difference(parts.total_capacity, failure.device_free_bytes)
                                : composition.driver_bytes;
  parts.free = difference(parts.total_capacity, used);
  parts.process_in_use = difference(used, composition.other_processes);
  parts.process_allocated_by_calls = by_calls;
  parts.allocated_by_pytorch = composition.framework_allocated;
  parts.reserved_by_pytorch_but_unallocated = composition.framework_cached;
  parts.non_pytorch = difference(parts.process_in_use.value_or(by_calls), reserved);
  parts.other_processes = composition.other_processes;
  parts.source = composition.source;
  return parts;
}

std::string breakdown_text(const std::optional<rows::OomBreakdown>& breakdown) {
  if (!breakdown) return {};
  using Bytes = rows::OomBreakdown;
  struct Part {
    rows::OptionalNumber Bytes::*bytes;
    std::string name;
  };
  const std::string framework(framework_with_blocks().name);
  std::string text;
  for (const Part& part :
       {Part{&Bytes::total_capacity, "total capacity"}, Part{&Bytes::free, "free"},
        Part{&Bytes::process_in_use, "in use by this process"},
        Part{&Bytes::allocated_by_pytorch, "allocated by " + framework},
        Part{&Bytes::reserved_by_pytorch_but_unallocated,
             "reserved by " + framework + " but unallocated"},
        Part{&Bytes::non_pytorch, "non-" + framework + " memory of this process"},
        Part{&Bytes::other_processes, "other processes"}}) {
    const std::uint64_t bytes = ((*breakdown).*part.bytes).value_or(0);
    if (bytes == 0) continue;
    text += (text.empty() ? " Then: " : ", ") + message_size_text(bytes) + ' ' + part.name;
  }
  return text.empty() ? text : text + '.';
}

bool reached_own_limit(const rows::Oom& failure) {
  return failure.level == Level::kFramework && failure.outcome == OomOutcome::kRaised &&
         failure.is_exact && failure.attempts == 0 &&
         failure.device_free_bytes.value_or(0) >=
             failure.requested_bytes + framework_with_blocks().segment_bytes;
}

std::string free_memory_text(const rows::Oom& failure, std::string (*size)(std::uint64_t)) {
  const std::string framework(framework_with_blocks().name);
  const rows::OptionalNumber& free = failure.free_bytes;
  const rows::OptionalNumber& on_device = failure.device_free_bytes;
  const std::string device =
      !on_device
          ? std::string()
          : size(*on_device) + " free on the device" +
                (reached_own_limit(failure) ? ", but not within " + framework + "'s own limit"
                                            : "");
  // The layout of free memory is known for the framework's segments only.
  if (free && failure.largest_free_bytes) {
    std::string cached = size(*free) + " free in " + framework + "'s cache";
    if (*free != 0) cached += " (largest piece " + size(*failure.largest_free_bytes) + ')';
    return on_device ? cached + ", " + device : cached;
  }
  if (on_device) return device;
  return free ? size(*free) + " free" : std::string();
}

std::string message_size_text(std::uint64_t bytes) {
  constexpr std::uint64_t kKibi = 1024;
  const auto value = static_cast<double>(bytes);
  if (bytes <= kKibi) return std::to_string(bytes) + " bytes";
  if (bytes <= kKibi * kKibi) return in_unit("KiB", value / 1024);
  if (bytes <= kKibi * kKibi * kKibi) return in_unit("MiB", value / 1048576);
  return in_unit("GiB", value / 1073741824);
}

}  // namespace gpumemtrace::analyzer
