// Requests for memory that failed: what was asked, what was free, who held the rest.
#include <algorithm>
#include <map>
#include <string>

#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kMaxHoldersNamed = 3;

Json sum_of(std::initializer_list<Json> parts) {
  std::uint64_t sum = 0;
  for (const Json& part : parts) {
    if (!part.is_number()) return nullptr;
    sum += part.get<std::uint64_t>();
  }
  return sum;
}

std::uint64_t number_or_zero(const Json& value) {
  return value.is_number() ? value.get<std::uint64_t>() : 0;
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

// The numbers of PyTorch's message, by the names of its parts. Unknown ones are null: free memory
// and other processes are the driver's last word, which may be a second old.
Json ledger_of(const Json& report, const Json& row) {
  const Json& composition = row.at("composition");
  if (composition.is_null()) return nullptr;
  std::uint64_t others = 0;
  for (const Json& part : composition.at("other")) others += part.at("bytes").get<std::uint64_t>();
  const Json used = composition.contains("driver_bytes") ? composition.at("driver_bytes") : nullptr;
  const Json reserved =
      sum_of({composition.at("framework_allocated"), composition.at("framework_cached")});
  const Json process = difference(used, composition.at("other_processes"));
  Json by_calls = sum_of({reserved, composition.at("pool_used"), composition.at("pool_cached")});
  if (by_calls.is_number()) by_calls = by_calls.get<std::uint64_t>() + others;
  const Json total = capacity_of(report, row.at("device"));
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
    text += (text.empty() ? " Then: " : ", ") + size_text(value) + ' ' + part.name;
  }
  return text.empty() ? text : text + '.';
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

// "train.py:12 (step), 3.00 GiB": the largest place that held memory; empty where none is known.
std::string largest_holder(const Json& row) {
  for (const Json& holder : row.at("holders")) {
    if (!holder.at("site").is_object()) continue;
    return place_text(holder.at("site")) + ", " + size_text(holder.at("bytes"));
  }
  return {};
}

// What the device had free, at most: the driver's last word may be older than the latest calls, or
// there is none.
std::uint64_t free_on_device(const Json& ledger) {
  if (!ledger.is_object() || !ledger.at("total_capacity").is_number()) return 0;
  const auto total = ledger.at("total_capacity").get<std::uint64_t>();
  const std::uint64_t by_calls = number_or_zero(ledger.at("process_allocated_by_calls"));
  const std::uint64_t free = total - std::min(total, by_calls);
  const Json& told = ledger.at("free");
  return told.is_number() ? std::min(told.get<std::uint64_t>(), free) : free;
}

// One contiguous piece is needed: from the framework's segments or from the device.
std::uint64_t missing_bytes(const Json& row, const Json& ledger) {
  const std::uint64_t requested = number_or_zero(row.at("requested_bytes"));
  const Json& pieces =
      row.at("largest_free_bytes").is_null() ? row.at("free_bytes") : row.at("largest_free_bytes");
  const std::uint64_t available = std::max(number_or_zero(pieces), free_on_device(ledger));
  return requested > available ? requested - available : requested;
}

std::string fix_for_recovered(const Json& row, bool framework) {
  const std::string holder = largest_holder(row);
  return size_text(row.at("flushed_bytes")) +
         " had to be given back first: do so before this request, or hold less" +
         (holder.empty() ? std::string() : " (" + holder + ")") +
         (framework ? ", with a smaller batch or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True. "
                    : ". ") +
         "It would save the " + duration_text(row.at("lost_ns")) +
         " of the failed attempts (exact).";
}

// What would have made it fit, by the numbers of the moment.
std::string fix_for(const Json& row, const Json& ledger) {
  const std::uint64_t requested = number_or_zero(row.at("requested_bytes"));
  const std::uint64_t free = number_or_zero(row.at("free_bytes"));
  const bool framework =
      row.at("level") == "framework" ||
      (ledger.is_object() && number_or_zero(ledger.at("allocated_by_pytorch")) != 0);
  if (row.at("verdict") == "fragmented") {
    // What the device has free and what PyTorch keeps cannot be joined without it, either.
    const bool on_device = row.at("level") == "driver" && ledger.is_object();
    const std::uint64_t cached =
        on_device ? number_or_zero(ledger.at("reserved_by_pytorch_but_unallocated")) : 0;
    return std::string(framework ? "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
                                 : "Allocate long-lived blocks first") +
           ", so that the " + size_text(free + cached) +
           " that are free in pieces can be one: the request needs " + size_text(requested) +
           " (arithmetic).";
  }
  if (row.at("outcome") == "recovered") return fix_for_recovered(row, framework);
  if (requested == 0) return {};
  std::string fix = "Free or avoid at least " + size_text(missing_bytes(row, ledger)) +
                    " before this request (arithmetic), beginning with the largest holder";
  if (const std::string other = largest_other(row); !other.empty()) {
    return fix + ", the " + other + " outside PyTorch.";
  }
  if (const std::string holder = largest_holder(row); !holder.empty()) fix += " (" + holder + ")";
  fix += framework ? ": a smaller batch, activation checkpointing, or letting go of tensors that "
                     "are no longer needed."
                   : ".";
  return fix;
}

void add_text(Finding& finding, const Json& row) {
  const std::string asked = size_text(number_or_zero(row.at("requested_bytes")));
  const std::string times = count_text(row.at("count"), "time", "times");
  const std::string place = place_text(finding.site);
  const std::string at_place = finding.site.is_object() ? " at " + place : std::string();
  finding.detail = "Tried to allocate " + asked + " at " + place;
  if (row.at("free_bytes").is_number()) {
    finding.detail += " with " + size_text(row.at("free_bytes")) + " free";
  }
  if (row.at("largest_free_bytes").is_number()) {
    finding.detail += " (largest piece " + size_text(row.at("largest_free_bytes")) + ")";
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
  finding.fix = fix_for(row, ledger);
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
