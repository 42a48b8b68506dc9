// SPDX-License-Identifier: Apache-2.0
#include "analyzer/rules/oom_ledger.hpp"

#include <cstdio>

namespace gpumemtrace::analyzer {
namespace {

std::string in_unit(const char* unit, double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f %s", value, unit);
  return text;
}

Json sum_of(std::initializer_list<Json> parts) {
  std::uint64_t sum = 0;
  for (const Json& part : parts) {
    if (!part.is_number()) return nullptr;
    sum += part.get<std::uint64_t>();
  }
  return sum;
}

Json difference(const Json& whole, const Json& part) {
  if (!whole.is_number() || !part.is_number()) return nullptr;
  const auto from = whole.get<std::uint64_t>();
  const auto less = part.get<std::uint64_t>();
  return less > from ? Json(nullptr) : Json(from - less);
}

Json capacity_of(const Json& report, const Json& device) {
  for (const Json& row : report.at("devices")) {
    if (row.at("id") == device) return row.at("total_bytes");
  }
  return nullptr;
}

}  // namespace

Json ledger_of(const Json& report, const Json& row) {
  const Json& composition = row.at("composition");
  if (composition.is_null()) return nullptr;
  std::uint64_t others = 0;
  for (const Json& part : composition.at("other")) others += part.at("bytes").get<std::uint64_t>();
  const Json total = capacity_of(report, row.at("device"));
  const Json free = row.contains("device_free_bytes") ? row.at("device_free_bytes") : nullptr;
  const Json sampled =
      composition.contains("driver_bytes") ? composition.at("driver_bytes") : nullptr;
  const Json used = free.is_null() ? sampled : difference(total, free);
  const Json reserved =
      sum_of({composition.at("framework_allocated"), composition.at("framework_cached")});
  const Json process = difference(used, composition.at("other_processes"));
  Json by_calls = sum_of({reserved, composition.at("pool_used"), composition.at("pool_cached")});
  if (by_calls.is_number()) by_calls = by_calls.get<std::uint64_t>() + others;
  return {{"tried_to_allocate", row.at("requested_bytes")},
          {"total_capacity", total},
          {"free", difference(total, used)},
          {"process_in_use", process},
          {"process_allocated_by_calls", by_calls},
          {"allocated_by_pytorch", composition.at("framework_allocated")},
          {"reserved_by_pytorch_but_unallocated", composition.at("framework_cached")},
          {"non_pytorch", difference(process.is_null() ? by_calls : process, reserved)},
          {"other_processes", composition.at("other_processes")},
          {"source", composition.at("source")}};
}

std::string ledger_text(const Json& ledger) {
  if (ledger.is_null()) return {};
  struct Part {
    const char* key;
    const char* name;
  };
  std::string text;
  for (const Part& part :
       {Part{"total_capacity", "total capacity"}, Part{"free", "free"},
        Part{"process_in_use", "in use by this process"},
        Part{"allocated_by_pytorch", "allocated by PyTorch"},
        Part{"reserved_by_pytorch_but_unallocated", "reserved by PyTorch but unallocated"},
        Part{"non_pytorch", "non-PyTorch memory of this process"},
        Part{"other_processes", "other processes"}}) {
    const Json& value = ledger.at(part.key);
    if (!value.is_number() || value == 0) continue;
    text += (text.empty() ? " Then: " : ", ") + pytorch_size_text(value) + ' ' + part.name;
  }
  return text.empty() ? text : text + '.';
}

std::string free_memory_text(const Json& row, std::string (*size)(std::uint64_t)) {
  const Json& free = row.at("free_bytes");
  const auto on_device = row.find("device_free_bytes");
  const bool device_is_known = on_device != row.end() && on_device->is_number();
  // Pieces are known of the framework's segments alone.
  if (free.is_number() && row.at("largest_free_bytes").is_number()) {
    std::string cached = size(free) + " free in PyTorch's cache";
    if (free != 0) cached += " (largest piece " + size(row.at("largest_free_bytes")) + ')';
    return device_is_known ? cached + ", " + size(*on_device) + " free on the device" : cached;
  }
  if (device_is_known) return size(*on_device) + " free on the device";
  return free.is_number() ? size(free) + " free" : std::string();
}

std::string pytorch_size_text(std::uint64_t bytes) {
  constexpr std::uint64_t kKibi = 1024;
  const auto value = static_cast<double>(bytes);
  if (bytes <= kKibi) return std::to_string(bytes) + " bytes";
  if (bytes <= kKibi * kKibi) return in_unit("KiB", value / 1024);
  if (bytes <= kKibi * kKibi * kKibi) return in_unit("MiB", value / 1048576);
  return in_unit("GiB", value / 1073741824);
}

}  // namespace gpumemtrace::analyzer
