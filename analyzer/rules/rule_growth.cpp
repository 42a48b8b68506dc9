// SPDX-License-Identifier: Apache-2.0
// Places whose memory rises throughout the run.
#include <string>

#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

std::uint64_t number_in(const Json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? found->get<std::uint64_t>() : 0;
}

// "28 blocks of 256.0 KiB": what came to stay.
std::string blocks_text(const Json& row) {
  const std::uint64_t blocks = number_in(row, "blocks");
  const auto bytes = row.at("bytes").get<std::uint64_t>();
  if (blocks == 0) return size_text(bytes);
  return count_text(blocks, "block", "blocks") + " of " + size_text(bytes / blocks) +
         (bytes % blocks == 0 ? "" : " on average");
}

// "16.0 KiB a step over 138 steps" or, without steps, "535.2 MiB a second".
std::string rate_text(const Json& row) {
  const auto bytes = row.at("bytes").get<double>();
  if (row.at("bytes_per_step").is_number()) {
    return size_text(static_cast<std::uint64_t>(row.at("bytes_per_step").get<double>())) +
           " a step over " + count_text(row.at("steps"), "step", "steps");
  }
  const double seconds = (row.at("end_ns").get<double>() - row.at("begin_ns").get<double>()) / 1e9;
  return seconds <= 0 ? std::string()
                      : size_text(static_cast<std::uint64_t>(bytes / seconds)) + " a second";
}

// Where what grew was freed in the end: known where none of it had been freed before.
std::string place_of_later_frees(const Json& row) {
  const bool known = number_in(row, "frees_before") + number_in(row, "frees") == 0 &&
                     number_in(row, "frees_after") != 0;
  return known ? second_place_text(row, "freed_at") : std::string();
}

// "In that time 29 blocks were made there and none was freed; 39 were freed later, at server.py:29
// (empty_cache). "
std::string fate_text(const Json& row) {
  const std::uint64_t made = number_in(row, "allocations");
  const std::uint64_t frees = number_in(row, "frees");
  const std::uint64_t later = number_in(row, "frees_after");
  std::string text = "In that time " + count_text(made, "block was", "blocks were") +
                     " made there and " + (frees == 0 ? "none was" : std::to_string(frees)) +
                     " freed";
  if (later != 0) {
    const std::string at = place_of_later_frees(row);
    text += "; " + count_text(later, "was", "were") + " freed later" +
            (at.empty() ? at : (row.at("freed_elsewhere") == true ? ", some at " : ", at ") + at);
  }
  return text + ". ";
}

// What keeps blocks of PyTorch, by whether those of other places stay with them.
std::string fix_for_tensors(const Json& row) {
  const std::uint64_t others = number_in(row, "other_places");
  const std::uint64_t growing = number_in(row, "other_places_growing");
  if (others == 0) {
    return "Find what keeps the tensors: a list that is appended to, a loss kept without .item(), "
           "or retain_graph.";
  }
  if (growing != 0) {
    return "The memory of " + count_text(growing, "other place", "other places") +
           " grows with it, as where a whole graph of autograd stays: find the tensor that its "
           "callers append or add up, and keep .detach() or .item() of it; or drop "
           "retain_graph=True.";
  }
  // What a model's own layers allocate counts as the line that calls it.
  const bool is_one_a_step =
      row.at("steps").is_number() && number_in(row, "blocks") <= number_in(row, "steps");
  return "The memory of " + count_text(others, "other place", "other places") +
         " that allocated meanwhile did not grow, so these tensors themselves are kept and no "
         "graph of autograd" +
         (is_one_a_step ? "" : " (unless this line runs the whole model)") +
         ". Where this line or its callers store them (append, a dict, an attribute), store .cpu() "
         "of them, or .item() of one value, or drop old ones.";
}

std::string fix_for_memory(const Json& row) {
  if (number_in(row, "frees_after") == 0) {
    return "Free them where they are no longer needed, or bound the cache or list that keeps them.";
  }
  const std::string later = place_of_later_frees(row);
  return (later.empty() ? "Free them sooner" : "Do sooner what frees them at " + later) +
         ", or bound the cache or list that this line or its callers put them in: something held "
         "them until then.";
}

}  // namespace

void find_growth(const RuleInput& input, Findings& findings) {
  for (const Json& row : input.report.at("leaks").at("growth")) {
    Finding finding = finding_at(Rule::kGrowth, row);
    finding.confidence = row.at("confidence") == "inferred" ? FindingConfidence::kInferred
                                                            : FindingConfidence::kHeuristic;
    finding.bytes = row.at("bytes");
    finding.time_ns = row.at("end_ns");
    for (const char* key : {"bytes_per_step", "steps", "rises", "allocations", "live_bytes",
                            "begin_ns", "end_ns", "forecast_ns", "frees", "frees_after", "freed_at",
                            "other_places", "other_places_growing"}) {
      if (row.contains(key)) finding.evidence[key] = row.at(key);
    }
    const std::string place = place_text(row.at("site"));
    const std::string bytes = size_text(row.at("bytes"));
    const std::string rate = rate_text(row);
    const std::string when =
        "from " + duration_text(row.at("begin_ns")) + " to " + duration_text(row.at("end_ns"));
    finding.title = "Memory from " + place + " grew by " + bytes + ' ' + when +
                    (rate.empty() ? rate : ", " + rate);
    finding.detail = "After the warm-up the memory that " + place +
                     " holds rose throughout the run, by " + bytes + " (" + blocks_text(row) +
                     ") in " + count_text(row.at("rises"), "stretch", "stretches") +
                     ", and did not come back while the program went on allocating there.";
    if (row.at("forecast_ns").is_number()) {
      finding.detail += " At this rate the device is full " + duration_text(row.at("forecast_ns")) +
                        " after the start.";
    }
    const bool tensors = row.at("level") == "framework";
    finding.fix = fate_text(row) + (tensors ? fix_for_tensors(row) : fix_for_memory(row)) +
                  " Growth would stop (inferred).";
    findings.push_back(std::move(finding));
  }
}

}  // namespace gpumemtrace::analyzer
