// SPDX-License-Identifier: Apache-2.0
// How the recorded allocations and CUPTI's own record of them agree.
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

// Why memory that no recorded call allocates is no hole in the recording; null where it may be.
Json explanation_of(const DisagreementKey& key) {
  if (key.what != Disagreement::kMissingInTrace) return nullptr;
  const std::string_view kind = name_of_cupti_kind(key.cupti_kind);
  if (kind == "device_static" || kind == "managed_static") return "module_global";
  if (key.is_at_0) return "graph_pool";
  return key.during != 0 ? Json("made_by_another_call") : Json(nullptr);
}

Json disagreement_row(const ReportProcess& process, const DisagreementKey& key,
                      const DisagreementSums& sums) {
  const Dictionary& dictionary = process.model().dictionary();
  const bool ours = key.what != Disagreement::kMissingInTrace;
  const bool theirs = key.what != Disagreement::kMissingInCupti;
  CallSite during;
  during.api = key.during;
  return {{"process", process.id},
          {"what", name_of(key.what)},
          {"operation", key.is_release ? "release" : "allocation"},
          {"function", ours ? Json(dictionary.function_of(key.site)) : Json(nullptr)},
          {"during", key.during != 0 ? Json(dictionary.function_of(during)) : Json(nullptr)},
          {"kind", key.kind ? Json(name_of(*key.kind)) : Json(nullptr)},
          {"cupti_kind", theirs ? Json(name_of_cupti_kind(key.cupti_kind)) : Json(nullptr)},
          {"explained_by", explanation_of(key)},
          {"count", sums.count},
          {"bytes", ours ? Json(sums.bytes) : Json(nullptr)},
          {"cupti_bytes", theirs ? Json(sums.cupti_bytes) : Json(nullptr)}};
}

bool is_mipmapped_array(const Json& row) {
  return row.at("what") == "missing_in_cupti" &&
         row.at("function").get<std::string>().find("MipmappedArray") != std::string::npos;
}

bool is_unknown_array(const Json& row) {
  return row.at("what") == "missing_in_trace" && row.at("cupti_kind") == "array";
}

// CUPTI reports the levels of a mipmapped array as arrays of their own, with handles that the
// program never sees. They are told by their bytes.
void explain_mipmap_levels(std::map<std::string, Json>& rows, std::string_view operation) {
  std::uint64_t of_calls = 0;
  std::uint64_t of_levels = 0;
  std::vector<Json*> concerned;
  for (auto& [name, row] : rows) {
    if (row.at("operation") != operation) continue;
    if (is_mipmapped_array(row)) {
      of_calls += row.at("bytes").get<std::uint64_t>();
    } else if (is_unknown_array(row)) {
      of_levels += row.at("cupti_bytes").get<std::uint64_t>();
    } else {
      continue;
    }
    concerned.push_back(&row);
  }
  if (of_calls != of_levels) return;
  for (Json* row : concerned) (*row)["explained_by"] = "mipmap_levels";
}

bool was_checked(const ReportProcess& process) {
  return process.model().activity().status().widest_mode == trace::ActivityMode::kFull;
}

}  // namespace

Json report_memory2(const ReportContext& context) {
  Json rows = Json::array();
  for (const ReportProcess& process : context.processes()) {
    if (!was_checked(process)) continue;
    const MemoryCheck& check = process.model().activity().memory_check();
    rows.push_back({{"process", process.id},
                    {"records", check.records()},
                    {"agreed", check.agreed()},
                    {"not_judged", check.not_judged()}});
  }
  return rows;
}

Json report_memory2_disagreements(const ReportContext& context) {
  std::vector<Json> rows;
  for (const ReportProcess& process : context.processes()) {
    // Callers that read the same to the user are one row.
    std::map<std::string, Json> merged;
    for (const auto& [key, sums] : process.model().activity().memory_check().disagreements()) {
      Json row = disagreement_row(process, key, sums);
      Json name = row;
      for (const char* sum : {"count", "bytes", "cupti_bytes"}) name.erase(sum);
      const auto [known, is_new] = merged.try_emplace(name.dump(), row);
      if (is_new) continue;
      for (const char* sum : {"count", "bytes", "cupti_bytes"}) {
        if (row.at(sum).is_null()) continue;
        known->second[sum] =
            known->second[sum].get<std::uint64_t>() + row[sum].get<std::uint64_t>();
      }
    }
    explain_mipmap_levels(merged, "allocation");
    explain_mipmap_levels(merged, "release");
    for (auto& [name, row] : merged) rows.push_back(std::move(row));
  }
  return sorted_rows(std::move(rows), "count");
}

Json report_pool_activity(const ReportContext& context) {
  Json rows = Json::array();
  for (const ReportProcess& process : context.processes()) {
    const ledger::MappedArray<PoolState>& known = process.model().pools().pools();
    for (const auto& [handle, pool] : process.model().activity().pools()) {
      const auto same =
          std::find_if(known.begin(), known.end(),
                       [&, wanted = handle](const auto& p) { return p.handle == wanted; });
      rows.push_back({{"process", process.id},
                      {"device", context.device_id(process, pool.device)},
                      {"records", pool.records},
                      {"reserved_peak_bytes", pool.reserved_peak_bytes},
                      {"used_peak_bytes", pool.used_peak_bytes},
                      {"sampled_reserved_peak_bytes",
                       same == known.end() ? Json(nullptr) : Json(same->reserved_peak_bytes)}});
    }
  }
  return rows;
}

}  // namespace gpumemtrace::analyzer
