// SPDX-License-Identifier: Apache-2.0
// Compares the recorded allocations with CUPTI's own record of them.
#include <algorithm>
#include <array>
#include <string>

#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

// CUpti_ActivityMemoryKind.
std::string_view name_of_cupti_kind(std::uint32_t kind) {
  constexpr std::array<std::string_view, 8> kNames = {"unknown",       "pageable",      "pinned",
                                                      "device",        "array",         "managed",
                                                      "device_static", "managed_static"};
  return kind < kNames.size() ? kNames[kind] : kNames[0];
}

// The reason why memory without a recorded call is no hole in the recording; no value if it may be.
rows::OptionalText explanation_of(const DisagreementKey& key) {
  if (key.what != Disagreement::kMissingInTrace) return std::nullopt;
  const std::string_view kind = name_of_cupti_kind(key.cupti_kind);
  if (kind == "device_static" || kind == "managed_static") return "module_global";
  if (key.is_at_0) return "graph_pool";
  return key.during != 0 ? rows::OptionalText("made_by_another_call") : std::nullopt;
}

rows::Disagreement disagreement_row(const ReportProcess& process, const DisagreementKey& key,
                                    const DisagreementSums& sums) {
  const Dictionary& dictionary = process.model().program().dictionary();
  const bool ours = key.what != Disagreement::kMissingInTrace;
  const bool theirs = key.what != Disagreement::kMissingInCupti;
  CallSite during;
  during.api = key.during;
  rows::Disagreement row;
  row.process = process.id;
  row.what = name_of(key.what);
  row.operation = key.is_release ? "release" : "allocation";
  if (ours) row.function = dictionary.function_of(key.site);
  if (key.during != 0) row.during = dictionary.function_of(during);
  row.kind = key.kind;
  if (theirs) row.cupti_kind = name_of_cupti_kind(key.cupti_kind);
  row.explained_by = explanation_of(key);
  row.count = sums.count;
  if (ours) row.bytes = sums.bytes;
  if (theirs) row.cupti_bytes = sums.cupti_bytes;
  return row;
}

// The words that rows share which read the same to the user, in the order of the report's words: a
// word before none.
std::string words_of(const rows::Disagreement& row) {
  std::string words;
  const auto add = [&](const rows::OptionalText& word) {
    words += word ? '"' + *word + '"' : "null";
    words += ',';
  };
  add(row.what);
  add(row.operation);
  add(row.function);
  add(row.during);
  add(row.kind ? rows::OptionalText(name_of(*row.kind)) : std::nullopt);
  add(row.cupti_kind);
  add(row.explained_by);
  return words;
}

void add(rows::OptionalNumber& sum, const rows::OptionalNumber& more) {
  if (more) sum = sum.value_or(0) + *more;
}

bool is_mipmapped_array(const rows::Disagreement& row) {
  return row.what == name_of(Disagreement::kMissingInCupti) &&
         row.function->find("MipmappedArray") != std::string::npos;
}

bool is_unknown_array(const rows::Disagreement& row) {
  return row.what == name_of(Disagreement::kMissingInTrace) && row.cupti_kind == "array";
}

using DisagreementsByWords = std::map<std::string, rows::Disagreement>;

// CUPTI reports the levels of a mipmapped array as arrays of their own, with handles that the
// program never sees. They are recognized by their bytes.
void explain_mipmap_levels(DisagreementsByWords& disagreements, std::string_view operation) {
  std::uint64_t of_calls = 0;
  std::uint64_t of_levels = 0;
  std::vector<rows::Disagreement*> concerned;
  for (auto& [words, row] : disagreements) {
    if (row.operation != operation) continue;
    if (is_mipmapped_array(row)) {
      of_calls += row.bytes.value_or(0);
    } else if (is_unknown_array(row)) {
      of_levels += row.cupti_bytes.value_or(0);
    } else {
      continue;
    }
    concerned.push_back(&row);
  }
  if (of_calls != of_levels) return;
  for (rows::Disagreement* row : concerned) row->explained_by = "mipmap_levels";
}

bool was_checked(const ReportProcess& process) {
  return process.model().activity().status().widest_mode == trace::ActivityMode::kFull;
}

}  // namespace

std::vector<rows::MemoryAgreement> report_memory2(const ReportContext& context) {
  std::vector<rows::MemoryAgreement> list;
  for (const ReportProcess& process : context.processes()) {
    if (!was_checked(process)) continue;
    const MemoryCheck& check = process.model().activity().memory_check();
    list.push_back({process.id, check.records(), check.agreed(), check.not_judged()});
  }
  return list;
}

std::vector<rows::Disagreement> report_memory2_disagreements(const ReportContext& context) {
  std::vector<rows::Disagreement> list;
  for (const ReportProcess& process : context.processes()) {
    DisagreementsByWords merged;
    for (const auto& [key, sums] : process.model().activity().memory_check().disagreements()) {
      const rows::Disagreement row = disagreement_row(process, key, sums);
      const auto [known, is_new] = merged.try_emplace(words_of(row), row);
      if (is_new) continue;
      known->second.count += row.count;
      add(known->second.bytes, row.bytes);
      add(known->second.cupti_bytes, row.cupti_bytes);
    }
    explain_mipmap_levels(merged, "allocation");
    explain_mipmap_levels(merged, "release");
    for (auto& [words, row] : merged) list.push_back(std::move(row));
  }
  sort_rows(list, &rows::Disagreement::count);
  return list;
}

std::vector<rows::PoolActivity> report_pool_activity(const ReportContext& context) {
  std::vector<rows::PoolActivity> list;
  for (const ReportProcess& process : context.processes()) {
    const ledger::MappedArray<PoolState>& known = process.model().memory().pools.pools();
    for (const auto& [handle, pool] : process.model().activity().pools()) {
      const auto same = std::ranges::find(known, handle, &PoolState::handle);
      auto row = context.row_on<rows::PoolActivity>(process, pool.device);
      row.records = pool.records;
      row.reserved_peak_bytes = pool.reserved_peak_bytes;
      row.used_peak_bytes = pool.used_peak_bytes;
      if (same != known.end()) row.sampled_reserved_peak_bytes = same->reserved_peak_bytes;
      list.push_back(std::move(row));
    }
  }
  return list;
}

}  // namespace gpumemtrace::analyzer
