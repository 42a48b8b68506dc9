// SPDX-License-Identifier: Apache-2.0
#include "tools/page/page_blocks.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace gpumemtrace::tools {
namespace {

Json largest_rows(const Json& rows, std::size_t most) {
  std::vector<const Json*> sorted;
  for (const Json& row : rows) sorted.push_back(&row);
  if (sorted.size() > most) {
    std::stable_sort(sorted.begin(), sorted.end(), [](const Json* a, const Json* b) {
      return number_or_zero(*a, "bytes") > number_or_zero(*b, "bytes");
    });
    sorted.resize(most);
  }
  Json kept = Json::array();
  for (const Json* row : sorted) kept.push_back(*row);
  return kept;
}

struct Sum {
  const Json* first = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;

  void add(const Json& row, std::uint64_t more_bytes, std::uint64_t more_count) {
    if (first == nullptr) first = &row;
    bytes += more_bytes;
    count += more_count;
  }
};

constexpr auto kPlace = std::to_array<const char*>({"process", "device", "level", "time_ns"});
constexpr auto kOrigin = std::to_array<const char*>({"owner", "site", "stack", "category"});

std::string key_of(const Json& row, bool has_origin) {
  std::string key;
  for (const char* const name : kPlace) key += row.at(name).dump() + '\n';
  if (!has_origin) return key;
  for (const char* const name : kOrigin) key += row.at(name).dump() + '\n';
  return key;
}

Json held_row(const Sum& sum, bool has_origin) {
  Json row = Json::object();
  for (const char* const name : kPlace) row[name] = sum.first->at(name);
  for (const char* const name : kOrigin) row[name] = has_origin ? sum.first->at(name) : Json();
  if (!has_origin) row["owner"] = "other";
  row["bytes"] = sum.bytes;
  row["count"] = sum.count;
  return row;
}

Json held_rows(const Json& blocks, std::size_t most) {
  std::map<std::string, Sum> sums;
  for (const Json& row : blocks) {
    if (row.at("at") == "time") sums[key_of(row, true)].add(row, number_or_zero(row, "bytes"), 1);
  }
  std::vector<const Sum*> sorted;
  for (const auto& [key, sum] : sums) sorted.push_back(&sum);
  std::ranges::stable_sort(sorted, std::ranges::greater(), &Sum::bytes);
  Json rows = Json::array();
  std::map<std::string, Sum> rest;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const Sum& sum = *sorted[i];
    if (i < most) {
      rows.push_back(held_row(sum, true));
    } else {
      rest[key_of(*sum.first, false)].add(*sum.first, sum.bytes, sum.count);
    }
  }
  for (const auto& [key, sum] : rest) rows.push_back(held_row(sum, false));
  return rows;
}

}  // namespace

Json blocks_for_page(const Json& report, std::size_t most) {
  const Json none = Json::array();
  const auto list = [&](const char* key) -> const Json& {
    return report.contains(key) ? report.at(key) : none;
  };
  return {{"largest_blocks", largest_rows(list("largest_blocks"), most)},
          {"held", held_rows(list("blocks"), most)},
          {"segments", list("segments")}};
}

}  // namespace gpumemtrace::tools
