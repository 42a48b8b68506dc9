// SPDX-License-Identifier: Apache-2.0
// Requests for memory that failed: what was asked, what was free, who held the rest.
#include <algorithm>
#include <map>
#include <string>

#include "analyzer/rules/oom_ledger.hpp"
#include "analyzer/rules/pieces_advice.hpp"
#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kMaxHoldersNamed = 3;

std::uint64_t number_or_zero(const Json& value) {
  return value.is_number() ? value.get<std::uint64_t>() : 0;
}

// "77.50 GiB of program": who holds most outside the framework; empty where that is little.
std::string largest_other(const Json& row) {
  const Json& composition = row.at("composition");
  if (composition.is_null() || row.at("level") != "framework") return {};
  const Json* largest = nullptr;
  for (const Json& part : composition.at("other")) {
    const bool is_larger = largest == nullptr ||
                           number_or_zero(part.at("bytes")) > number_or_zero(largest->at("bytes"));
    if (is_larger) largest = &part;
  }
  if (largest == nullptr || number_or_zero(largest->at("bytes")) <=
                                number_or_zero(composition.at("framework_allocated"))) {
    return {};
  }
  const Json& owner = largest->at("owner");
  return size_text(largest->at("bytes")) + " of " +
         (owner.is_string() ? owner.get<std::string>() : "an owner that is not known");
}

std::string holders_text(const Json& row) {
  std::string text;
  std::size_t named = 0;
  for (const Json& holder : row.at("holders")) {
    if (holder.at("owner") == "other" || named == kMaxHoldersNamed) continue;
    const Json& site = holder.at("site");
    text += (named++ == 0 ? " Held by: " : "; ") + size_text(holder.at("bytes")) + ' ';
    text += site.is_object()               ? place_text(site)
            : holder.at("owner").is_null() ? "an owner that is not known"
                                           : holder.at("owner").get<std::string>();
  }
  if (!text.empty()) text += '.';
  const std::string other = largest_other(row);
  return other.empty() ? text : text + " Outside PyTorch most is held by " + other + '.';
}

// The largest place that held memory; nullptr where none is known.
const Json* largest_place(const Json& row) {
  for (const Json& holder : row.at("holders")) {
    if (holder.at("site").is_object()) return &holder;
  }
  return nullptr;
}

// "train.py:12 (step), 3.0 GiB in 4 allocations".
std::string holder_text(const Json& holder) {
  return place_text(holder.at("site")) + ", " + size_text(holder.at("bytes")) + " in " +
         count_text(holder.at("count"), "allocation", "allocations");
}

std::uint64_t bytes_held(const Json& row) {
  std::uint64_t bytes = 0;
  for (const Json& holder : row.at("holders")) bytes += number_or_zero(holder.at("bytes"));
  return bytes;
}

bool grew_throughout(const Json& report, const Json& row, const Json& site) {
  for (const Json& growth : report.at("leaks").at("growth")) {
    if (growth.at("process") == row.at("process") && growth.at("site") == site) return true;
  }
  return false;
}

Json device_free_bytes(const Json& row) {
  const auto known = row.find("device_free_bytes");
  return known == row.end() ? Json(nullptr) : *known;
}

// What the device had free. Where the driver said nothing near, at most: less than its size by what
// the process held.
std::uint64_t free_on_device(const Json& row, const Json& ledger) {
  if (const Json known = device_free_bytes(row); known.is_number()) return known;
  if (!ledger.is_object() || !ledger.at("total_capacity").is_number()) return 0;
  const auto total = ledger.at("total_capacity").get<std::uint64_t>();
  const std::uint64_t by_calls = number_or_zero(ledger.at("process_allocated_by_calls"));
  const std::uint64_t free = total - std::min(total, by_calls);
  const Json& told = ledger.at("free");
  return told.is_number() ? std::min(told.get<std::uint64_t>(), free) : free;
}

// One contiguous piece is needed: from the framework's segments or from the device.
std::uint64_t available_bytes(const Json& row, const Json& ledger) {
  const Json& pieces =
      row.at("largest_free_bytes").is_null() ? row.at("free_bytes") : row.at("largest_free_bytes");
  return std::max(number_or_zero(pieces), free_on_device(row, ledger));
}

std::uint64_t missing_bytes(const Json& row, const Json& ledger) {
  const std::uint64_t requested = number_or_zero(row.at("requested_bytes"));
  const std::uint64_t available = available_bytes(row, ledger);
  return requested > available ? requested - available : requested;
}

std::string fix_for_recovered(const Json& row, bool framework) {
  const Json* const largest = largest_place(row);
  const std::string holder = largest == nullptr ? std::string() : holder_text(*largest);
  return size_text(row.at("flushed_bytes")) + " had to be given back first" +
         (row.at("count") == 1 ? "" : ", over all times") +
         ": do so before this request, or hold less" +
         (holder.empty() ? std::string() : " (" + holder + ")") +
         (framework ? ", with a smaller batch or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True. "
                    : ". ") +
         "It would save the " + duration_text(row.at("lost_ns")) +
         " of the failed attempts (exact).";
}

// Whose blocks lay between the free pieces just then; nothing where most pieces lay on their own.
std::string pinning_text(const Json& report, const Json& row) {
  if (row.at("composition").is_null()) return {};
  for (const Json& moment : report.at("fragmentation")) {
    const bool is_then = moment.at("at") == "oom" && moment.at("process") == row.at("process") &&
                         moment.at("device") == row.at("device") &&
                         moment.at("time_ns") == row.at("composition").at("time_ns");
    if (!is_then || moment.at("pinned_by").empty()) continue;
    const std::uint64_t stranded = number_or_zero(moment.at("stranded_bytes"));
    if (stranded * 2 < number_or_zero(moment.at("free_bytes"))) return {};
    return advice_on_pieces(moment.at("pinned_by").front().at("site"));
  }
  return {};
}

// Where the request itself is what is too large: more than the device has, or than all that was
// live.
std::string fix_by_asking_less(const Json& row, const Json& ledger) {
  const std::uint64_t requested = number_or_zero(row.at("requested_bytes"));
  const std::uint64_t available = available_bytes(row, ledger);
  const std::uint64_t total = ledger.is_object() ? number_or_zero(ledger.at("total_capacity")) : 0;
  const std::uint64_t held = bytes_held(row);
  const bool can_never_fit = total != 0 && requested > total;
  if (!can_never_fit && requested < held) return {};
  std::string fix = "Ask for less";
  if (row.at("site").is_object()) fix += " at " + place_text(row.at("site"));
  if (available != 0) fix += ", at most " + size_text(available) + " (arithmetic)";
  if (can_never_fit) {
    return fix + ": the device has " + size_text(total) +
           " in all, so nothing that is freed makes room for this request.";
  }
  fix += ": it is larger than all " +
         std::string(row.at("level") == "framework" ? "live blocks of PyTorch together"
                                                    : "live memory of the process together") +
         ", " + size_text(held) + '.';
  fix += " If it has to be that large, free " + size_text(missing_bytes(row, ledger)) +
         " before it (arithmetic)";
  const Json* const holder = largest_place(row);
  return fix + (holder == nullptr ? "." : ": most is held by " + holder_text(*holder) + '.');
}

// How blocks of PyTorch become fewer, by what they are for.
std::string advice_on_category(const Json* holder) {
  const Json category = holder == nullptr ? Json(nullptr) : holder->at("category");
  if (category == "parameter" || category == "gradient" || category == "optimizer_state") {
    return ": blocks of category " + category.get<std::string>() +
           ", which a smaller batch does not change; shard or offload them.";
  }
  if (category == "activation") return ": a smaller batch, or activation checkpointing.";
  return ": a smaller batch, activation checkpointing, or letting go of tensors that are no longer "
         "needed.";
}

// What would have made it fit, by the numbers of the moment.
std::string fix_for(const Json& report, const Json& row, const Json& ledger) {
  const std::uint64_t requested = number_or_zero(row.at("requested_bytes"));
  const std::uint64_t free = number_or_zero(row.at("free_bytes"));
  const bool framework =
      row.at("level") == "framework" ||
      (ledger.is_object() &&
       number_or_zero(ledger.at("allocated_by_pytorch")) +
               number_or_zero(ledger.at("reserved_by_pytorch_but_unallocated")) !=
           0);
  if (row.at("verdict") == "fragmented") {
    return "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which needs no change of the "
           "program, so that the " +
           size_text(free) + " that PyTorch keeps free in pieces can be one: the request needs " +
           size_text(requested) + " (arithmetic)." + pinning_text(report, row);
  }
  if (row.at("outcome") == "recovered") return fix_for_recovered(row, framework);
  if (requested == 0) return {};
  const std::string ask_less = fix_by_asking_less(row, ledger);
  if (!ask_less.empty() && largest_other(row).empty()) return ask_less;
  std::string fix = "Free or avoid at least " + size_text(missing_bytes(row, ledger)) +
                    " before this request (arithmetic), beginning with the largest holder";
  if (const std::string other = largest_other(row); !other.empty()) {
    return fix + ", the " + other + " outside PyTorch.";
  }
  const Json* const holder = largest_place(row);
  if (holder != nullptr) fix += " (" + holder_text(*holder) + ")";
  if (holder != nullptr && grew_throughout(report, row, holder->at("site"))) {
    return fix + ", whose memory grew throughout the run: stop that first.";
  }
  return fix + (framework ? advice_on_category(holder) : ".");
}

void add_text(Finding& finding, const Json& row) {
  const std::uint64_t requested = number_or_zero(row.at("requested_bytes"));
  const std::string asked = size_text(requested);
  const std::string times = count_text(row.at("count"), "time", "times");
  const std::string place = place_text(finding.site);
  const std::string at_place = finding.site.is_object() ? " at " + place : std::string();
  finding.detail = "Tried to allocate " + pytorch_size_text(requested) + " at " + place;
  if (const std::string free = free_memory_text(row, pytorch_size_text); !free.empty()) {
    finding.detail += " with " + free;
  }
  finding.detail += row.at("verdict") == "unknown"
                        ? "."
                        : ": the memory was " + row.at("verdict").get<std::string>() + ".";
  if (row.at("outcome") == "recovered") {
    finding.title =
        "A request for " + asked + at_place + " ran out of memory and recovered (" + times + ")";
    finding.detail += " It was met after " + size_text(row.at("flushed_bytes")) +
                      " had been given back, which took " + duration_text(row.at("lost_ns")) + ".";
    return;
  }
  finding.title = "Out of memory: a request for " + asked + at_place + " failed (" + times + ")";
  if (row.at("outcome") == "unknown") {
    finding.detail += " What the program made of the failure the trace does not show.";
  }
}

Finding finding_of(const Json& report, const Json& row) {
  const bool recovered = row.at("outcome") == "recovered";
  Finding finding = finding_at(recovered ? Rule::kOutOfMemoryRecovered : Rule::kOutOfMemory, row);
  // A program may ask for more than there is on purpose and go on.
  if (row.at("outcome") == "unknown") finding.severity = Severity::kWarning;
  const Json ledger = ledger_of(report, row);
  finding.bytes = row.at("requested_bytes");
  finding.time_ns = row.at("time_ns");
  add_text(finding, row);
  finding.detail += ledger_text(ledger) + holders_text(row);
  finding.fix = fix_for(report, row, ledger);
  for (const char* key : {"outcome", "verdict", "count", "attempts", "lost_ns", "flushed_bytes",
                          "free_bytes", "largest_free_bytes", "step"}) {
    finding.evidence[key] = row.at(key);
  }
  finding.evidence["ledger"] = ledger;
  return finding;
}

// In a job of several ranks, which one failed and which one was the first: others often fail
// because of it.
void name_ranks(const Json& report, Findings& failures) {
  std::map<std::string, std::uint64_t> rank_of;
  for (const Json& process : report.at("processes")) {
    if (process.at("rank").is_number()) rank_of[process.at("id")] = process.at("rank");
  }
  if (rank_of.size() < 2) return;
  const Finding* first = nullptr;
  for (Finding& finding : failures) {
    const auto rank = rank_of.find(finding.process);
    if (rank == rank_of.end()) continue;
    finding.evidence["rank"] = rank->second;
    finding.detail += " This was on rank " + std::to_string(rank->second) + '.';
    const bool raised = finding.evidence.at("outcome") == "raised" && finding.time_ns.is_number();
    if (raised && (first == nullptr || finding.time_ns < first->time_ns)) first = &finding;
  }
  if (first == nullptr) return;
  const Json rank = first->evidence.at("rank");
  for (Finding& finding : failures) {
    if (!finding.evidence.contains("rank")) continue;
    finding.evidence["first_rank_to_fail"] = rank;
    finding.detail += &finding == first ? " It was the first rank to fail."
                                        : " The first rank to fail was " + rank.dump() + '.';
  }
}

}  // namespace

void find_out_of_memory(const RuleInput& input, Findings& findings) {
  Findings failures;
  for (const Json& row : input.report.at("oom")) {
    failures.push_back(finding_of(input.report, row));
  }
  name_ranks(input.report, failures);
  findings.insert(findings.end(), failures.begin(), failures.end());
}

}  // namespace gpumemtrace::analyzer
