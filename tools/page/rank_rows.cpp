// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "tools/page/page_data.hpp"

namespace gpumemtrace::tools {
namespace {

using Place = std::pair<std::string, std::string>;  // process and device

struct RankMemory {
  std::uint64_t framework_bytes = 0;
  std::uint64_t driver_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t leaked_bytes = 0;
  double growth_bytes_per_step = 0;

  std::uint64_t peak_bytes() const { return framework_bytes ? framework_bytes : driver_bytes; }
};
using Memory = std::map<Place, RankMemory>;

// Nothing where the row is not about memory of a device.
RankMemory* memory_at(Memory& memory, const Json& row) {
  const auto device = text_in(row, "device");
  return device ? &memory[{text_or(row, "process", ""), *device}] : nullptr;
}

Memory memory_of(const Json& report) {
  Memory memory;
  for (const Json& row : report.at("peak")) {
    RankMemory* const found = memory_at(memory, row);
    if (found == nullptr) continue;
    const bool is_framework = row.at("level") == "framework";
    (is_framework ? found->framework_bytes : found->driver_bytes) += number_or_zero(row, "bytes");
  }
  for (const Json& row : report.at("usage")) {
    RankMemory* const found = memory_at(memory, row);
    if (found != nullptr) found->reserved_bytes += number_or_zero(row, "reserved_peak_bytes");
  }
  for (const Json& row : report.at("leaks").at("exit")) {
    RankMemory* const found = memory_at(memory, row);
    const bool is_lost = row.at("class") == "lost" && row.at("level") != "framework";
    if (found != nullptr && is_lost) found->leaked_bytes += number_or_zero(row, "bytes");
  }
  for (const Json& row : report.at("leaks").at("growth")) {
    RankMemory* const found = memory_at(memory, row);
    if (found != nullptr) {
      found->growth_bytes_per_step += double_in(row, "bytes_per_step").value_or(0);
    }
  }
  std::erase_if(memory, [](const auto& row) { return row.second.peak_bytes() == 0; });
  return memory;
}

// Of an even number the lower one of the two in the middle.
std::uint64_t median_peak(const Memory& memory) {
  std::vector<std::uint64_t> values;
  for (const auto& [place, row] : memory) values.push_back(row.peak_bytes());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Json rank_rows(const Json& report) {
  if (report.contains("ranks")) return report.at("ranks");
  const Memory memory = memory_of(report);
  std::map<std::string, const Json*> processes;
  for (const Json& process : report.at("processes")) processes[process.at("id")] = &process;
  const double median = memory.empty() ? 0 : static_cast<double>(median_peak(memory));
  std::vector<Json> rows;
  for (const auto& [place, row] : memory) {
    const auto found = processes.find(place.first);
    const bool is_known = found != processes.end();
    const auto reserved = row.framework_bytes ? Json(row.reserved_bytes) : Json();
    const auto growth = row.growth_bytes_per_step > 0 ? Json(row.growth_bytes_per_step) : Json();
    const double deviation = static_cast<double>(row.peak_bytes()) - median;
    rows.push_back({{"rank", is_known ? found->second->at("rank") : Json()},
                    {"host", is_known ? found->second->at("host") : Json()},
                    {"process", place.first},
                    {"device", place.second},
                    {"peak_bytes", row.peak_bytes()},
                    {"reserved_peak_bytes", reserved},
                    {"leaked_bytes", row.leaked_bytes},
                    {"growth_bytes_per_step", growth},
                    {"deviation", memory.size() > 1 ? Json(deviation) : Json()}});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Json& a, const Json& b) {
    return number_or_zero(a, "peak_bytes") > number_or_zero(b, "peak_bytes");
  });
  return rows;
}

}  // namespace gpumemtrace::tools
