// SPDX-License-Identifier: Apache-2.0
// Finds private pools of CUDA graphs that could be one shared pool.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"
#include "analyzer/rules/sentences.hpp"

namespace gpumemtrace::analyzer {
namespace {

using PoolsOfDevice = std::vector<const rows::PoolRow*>;

struct Sums {
  std::uint64_t reserved = 0;
  std::uint64_t used = 0;     // bytes in use between replays of the graphs
  std::uint64_t largest = 0;  // the least that one pool for all graphs needs

  [[nodiscard]] std::uint64_t beyond_largest() const { return reserved - largest; }
};

Sums sums_of(const PoolsOfDevice& pools) {
  Sums sums;
  for (const rows::PoolRow* pool : pools) {
    sums.reserved += pool->reserved_peak_bytes;
    sums.used += pool->allocated_bytes_after_capture.value_or(pool->allocated_peak_bytes);
    sums.largest = std::max(sums.largest, pool->reserved_peak_bytes);
  }
  return sums;
}

bool is_significant(const PoolsOfDevice& pools, const Sums& sums, const Thresholds& thresholds) {
  return pools.size() >= thresholds.count(Threshold::kPoolsCount) &&
         sums.beyond_largest() >= thresholds.bytes(Threshold::kPoolsBytes) &&
         static_cast<double>(sums.used) <=
             thresholds[Threshold::kPoolsUsedShare] * static_cast<double>(sums.reserved);
}

rows::Finding finding_of(const PoolsOfDevice& pools, const Sums& sums) {
  const rows::PoolRow& largest = **std::ranges::max_element(
      pools, {}, [](const rows::PoolRow* pool) { return pool->reserved_peak_bytes; });
  rows::Finding finding = finding_at(Rule::kManyPools, largest);
  finding.level = Level::kFramework;
  finding.origin = {std::string(framework_with_blocks().owner), largest.made_at, largest.stack};
  finding.bytes = sums.reserved;
  finding.time_ns = largest.time_ns;
  finding.saves = {sums.beyond_largest(), std::nullopt, rows::SavesBasis::kArithmetic};
  finding.evidence.add("pools", pools.size());
  finding.evidence.add("reserved_bytes", sums.reserved);
  finding.evidence.add("used_bytes", sums.used);
  finding.evidence.add("largest_bytes", sums.largest);
  fill_texts(sentences::kManyPools,
             sentence_on(finding)
                 .set("pools", pools.size())
                 .set("used_bytes", sums.used)
                 .set("largest_bytes", sums.largest),
             finding);
  return finding;
}

}  // namespace

void find_many_pools(const RuleInput& input, Findings& findings) {
  std::map<std::pair<std::string, rows::OptionalText>, PoolsOfDevice> by_device;
  for (const rows::PoolRow& pool : input.report.pools) {
    if (pool.kind == rows::PoolKind::kGraph)
      by_device[{pool.process, pool.device}].push_back(&pool);
  }
  for (const auto& [device, pools] : by_device) {
    const Sums sums = sums_of(pools);
    if (is_significant(pools, sums, input.thresholds)) findings.push_back(finding_of(pools, sums));
  }
}

}  // namespace gpumemtrace::analyzer
