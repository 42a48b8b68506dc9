// SPDX-License-Identifier: Apache-2.0
// Formats an explanation as text: the first message in full, and all messages as a table.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "analyzer/owners/owners.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/explain/explanation.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr std::size_t kMostTableRows = 32;

// The words for a verdict; indexed by FailureVerdict.
struct VerdictWords {
  std::string_view words;
  Style style;
};
constexpr auto kVerdictWords = std::to_array<VerdictWords>({
    {"exhausted", Style::kBad},
    {"fragmented", Style::kBad},
    {"limited by the program", Style::kBad},
    {"taken by other processes", Style::kBad},
    {"not explained", Style::kDoubtful},
    {"too close to say", Style::kDoubtful},
    {"not said", Style::kDoubtful},
});
static_assert(kVerdictWords.size() == static_cast<std::size_t>(FailureVerdict::kNotSaid) + 1);

const VerdictWords& verdict_words(FailureVerdict verdict) {
  return kVerdictWords[static_cast<std::size_t>(verdict)];
}

// Sorted numbers as text, with ranges: "0-2, 5".
std::string numbers_text(const std::vector<std::uint64_t>& numbers) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    parts.push_back(end - i == 1 ? format_text("{}", numbers[i])
                                 : format_text("{}-{}", numbers[i], numbers[end - 1]));
    i = end;
  }
  return joined(parts);
}

// The ranks that a group's messages come from: "rank 3", "local ranks 0-2", "GPU 1", "no rank".
std::string who_text(const FailureGroup& group) {
  const auto named = [](const char* name, const std::vector<std::uint64_t>& numbers) {
    return format_text("{}{} {}", name, numbers.size() == 1 ? "" : "s", numbers_text(numbers));
  };
  if (!group.ranks.empty()) return named("rank", group.ranks);
  if (!group.local_ranks.empty()) return named("local rank", group.local_ranks);
  if (!group.gpus.empty()) return named("GPU", group.gpus);
  return "no rank";
}

std::string size_or_none(const std::optional<TextSize>& size) { return size ? size->text : "-"; }

std::string table_text(const std::vector<ExplainedFailure>& messages) {
  std::string text =
      format_text("  {:>10} {:>10} {:>10}  {}\n", "requested", "free", "in cache", "who, and why");
  std::size_t shown = 0;
  for (const auto& [group, says, helps] : messages) {
    if (shown++ == kMostTableRows) {
      text += format_text("  and {} more; --json has all\n", messages.size() - kMostTableRows);
      break;
    }
    const std::string times = group.count > std::max<std::size_t>(1, group.ranks.size())
                                  ? format_text(", {} messages", group.count)
                                  : std::string();
    text += format_text("  {:>10} {:>10} {:>10}  {}: {}{}\n", size_or_none(group.message.requested),
                        size_or_none(group.message.free), size_or_none(group.message.unallocated),
                        who_text(group), verdict_words(group.cause.verdict).words, times);
  }
  return text;
}

// The ranks that had the least and the most of a size: "  free: least 1.00 GiB (rank 3), most 2.00
// GiB (rank 0)"; empty if no sizes differ.
std::string extremes_text(const std::vector<ExplainedFailure>& messages,
                          std::optional<TextSize> FailureMessage::*member, const char* had) {
  const FailureGroup* least = nullptr;
  const FailureGroup* most = nullptr;
  for (const ExplainedFailure& message : messages) {
    const FailureGroup& group = message.failure;
    if (group.ranks.empty() && group.local_ranks.empty()) continue;
    const std::optional<TextSize>& size = group.message.*member;
    if (!size) continue;
    if (least == nullptr || size->high_bytes < (least->message.*member)->low_bytes) least = &group;
    if (most == nullptr || size->low_bytes > (most->message.*member)->high_bytes) most = &group;
  }
  if (least == most) return {};
  return format_text("  {}: least {} ({}), most {} ({})\n", had, (least->message.*member)->text,
                     who_text(*least), (most->message.*member)->text, who_text(*most));
}

std::string sizes_text(const FailureGroup& group) {
  const FailureMessage& message = group.message;
  std::string text;
  const auto add = [&](const std::optional<TextSize>& size, const std::string& words) {
    if (size) text += format_text("  {:>12}  {}\n", size->text, words);
  };
  add(message.requested, "requested");
  add(message.free, "free on the GPU");
  add(message.unallocated, "unused in PyTorch's cache");
  add(message.reserved, "reserved by PyTorch: allocated, or unused in its cache");
  add(message.allocated, "allocated by PyTorch");
  add(message.private_pools, "of it unused in private pools (CUDA graphs, MemPool)");
  add(message.this_process, "used by this process, with what is not PyTorch's");
  for (const TextSize& process : message.processes) {
    add(process, message.this_process ? "used by another process"
                                      : "used by a process, which may be this one");
  }
  add(message.allowed, "allowed by the program's own limit");
  add(message.capacity, "the whole GPU");
  return text;
}

StyledText failure_text(const ExplainedFailure& explained) {
  const FailureGroup& group = explained.failure;
  const VerdictWords& verdict = verdict_words(group.cause.verdict);
  std::string where = format_text("  {}, line {} of the log", who_text(group), group.line);
  if (group.failed_at) {
    where += format_text("; at {}:{} ({})", analyzer::base_name(group.failed_at->file),
                         group.failed_at->line, group.failed_at->function);
  }
  std::string first(verdict.words);
  first.front() = static_cast<char>(first.front() - 'a' + 'A');
  StyledText text = StyledText(first, verdict.style) + ": " + explained.says + "\n" + where + "\n" +
                    sizes_text(group);
  if (!explained.helps.empty()) text += heading("What to do") + "\n";
  for (const std::string& help : explained.helps) text += "  - " + help + "\n";
  return text;
}

std::string counts_text(const Explanation& explanation) {
  std::uint64_t messages = 0;
  std::map<FailureVerdict, std::uint64_t> counts;
  for (const ExplainedFailure& message : explanation.messages) {
    messages += message.failure.count;
    counts[message.failure.cause.verdict] += message.failure.count;
  }
  std::vector<std::string> parts;
  for (const auto& [verdict, count] : counts) {
    parts.push_back(format_text("{} {}", count, verdict_words(verdict).words));
  }
  std::string text =
      format_text("{}: {}\n", count_of(messages, "message", "messages"), joined(parts));
  if (explanation.left_out != 0) {
    text += format_text("  {} more left out: the log has too many different ones\n",
                        explanation.left_out);
  }
  return text;
}

}  // namespace

StyledText explanation_text(const Explanation& explanation) {
  const std::vector<ExplainedFailure>& messages = explanation.messages;
  StyledText text;
  if (messages.size() > 1) {
    text += heading("Out of memory") + ", " + counts_text(explanation) + table_text(messages) +
            extremes_text(messages, &FailureMessage::free, "Free") +
            extremes_text(messages, &FailureMessage::allocated, "Allocated");
  }
  // Only the first message of each verdict is explained in full.
  std::set<FailureVerdict> shown;
  for (const ExplainedFailure& message : messages) {
    if (shown.insert(message.failure.cause.verdict).second) text += failure_text(message);
  }
  text += heading("Next") + "\n";
  for (const std::string& command : explanation.next) text += "  " + command + "\n";
  const bool has_script = std::ranges::any_of(
      messages, [](const ExplainedFailure& one) { return !one.failure.script.empty(); });
  text += has_script ? "  The log does not show launcher and arguments: add them.\n"
                     : "  train.py stands for your program, which the log does not show.\n";
  return text;
}

}  // namespace gpumemtrace::tools
