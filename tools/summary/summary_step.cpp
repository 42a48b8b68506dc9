// SPDX-License-Identifier: Apache-2.0
#include "tools/summary/summary_step.hpp"

#include "analyzer/frameworks/frameworks.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/report_row.hpp"
#include "tools/summary/summary_card.hpp"
#include "tools/summary/summary_sections.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;
using analyzer::Level;

constexpr std::size_t kMostStepHolders = 8;

std::string level_words(Level level) {
  switch (level) {
    case Level::kFramework:
      return format_text("allocated by {}", analyzer::framework_with_blocks().name);
    case Level::kPool:
      return "of stream-ordered memory";
    case Level::kManaged:
      return "of managed memory";
    default:
      return "of the driver's memory";
  }
}

std::string category_of(const rows::BlockAt& block) {
  const std::string_view name = name_of(block.category);
  return name.empty() || name == "unknown" ? "unknown use" : analyzer::in_words(name);
}

std::string line_of(const rows::BlockAt& block) { return name_line(block.origin); }

// A number of this step beside that of another step: "412 (step 11: 410)".
std::string beside(const std::string& value, const std::string& other, std::uint64_t step) {
  return value == other ? format_text("{} (step {}: the same)", value, step)
                        : format_text("{} (step {}: {})", value, step, other);
}

Lines head_lines(const rows::Report& report, const StepMoment& now, std::size_t processes,
                 std::size_t width) {
  std::string text = format_text("Step {}", now.step.index);
  const bool is_ranked = !report.processes.empty() && report.processes.front().rank;
  if (is_ranked || report.processes.size() > 1) {
    text += ", " + process_name(report, now.step.process);
  }
  if (processes > 1) {
    text += format_text(" (it held most of {}; --rank tells of another)",
                        count_of(processes, "process", "processes"));
  }
  text += ": " + duration_text(*now.step.start_ns);
  text += now.step.end_ns ? format_text(" to {}, {} long", duration_text(*now.step.end_ns),
                                        duration_text(*now.step.end_ns - *now.step.start_ns))
                          : std::string(" to the end of the trace");
  if (now.step.is_inferred) text += " (inferred from a pattern of allocations)";
  return wrapped("", text, width);
}

Lines fact_lines(const StepMoment& now, const std::optional<StepMoment>& before,
                 std::size_t width) {
  const auto fact = [&](const char* label, const auto& text_of) {
    const std::string value = text_of(now);
    return wrapped(label, before ? beside(value, text_of(*before), before->step.index) : value,
                   width);
  };
  Lines lines =
      wrapped("  PEAK       ",
              format_text("{} {} on {}, at {}", size_text(now.bytes), level_words(now.level),
                          now.device.value_or("the host"), duration_text(now.time_ns)),
              width);
  if (before) {
    append(lines, wrapped("             ",
                          format_text("step {}: {}", before->step.index, size_text(before->bytes)),
                          width));
  }
  append(lines, fact("  MADE       ", [](const StepMoment& moment) {
           return count_of(moment.step.allocations, "allocation", "allocations");
         }));
  append(lines, fact("  COPIED     ", [](const StepMoment& moment) {
           return size_text(moment.step.transfers_bytes);
         }));
  append(lines, fact("  LEFT       ", [](const StepMoment& moment) {
           return size_text(moment.step.live_bytes_at_end) + " live at its end";
         }));
  return lines;
}

BytesByName bytes_by(const StepMoment& moment, std::string (*name)(const rows::BlockAt&)) {
  BytesByName bytes;
  for (const rows::BlockAt& block : moment.blocks) bytes[name(block)] += block.bytes;
  return bytes;
}

std::string category_and_line(const rows::BlockAt& block) {
  const std::string line = line_of(block);
  return block.level == Level::kFramework ? format_text("{}, {}", category_of(block), line) : line;
}

// Rows for the memory held at the step's peak: for the framework one for each category, with its
// lines; for other levels one for each line.
Lines holder_rows(const StepMoment& moment, std::size_t width) {
  const bool has_categories = moment.level == Level::kFramework;
  Lines lines = {"Held at the peak"};
  std::uint64_t rest = 0;
  std::size_t shown = 0;
  for (const auto& [name, bytes] :
       largest_first(bytes_by(moment, has_categories ? category_of : line_of))) {
    if (shown == kMostStepHolders || bytes < moment.bytes / kLeastShare) {
      rest += bytes;
      continue;
    }
    ++shown;
    const std::string head =
        format_text("  {:>10} {}  ", size_text(bytes), share_text(bytes, moment.bytes));
    if (!has_categories) {
      append(lines, wrapped(head, name, width));
      continue;
    }
    const std::string title = head + format_text("{:<15} ", name);
    BytesByName of_category;
    for (const rows::BlockAt& block : moment.blocks) {
      if (category_of(block) == name) of_category[line_of(block)] += block.bytes;
    }
    std::vector<std::string> parts;
    for (const auto& [line, part] : largest_first(of_category)) {
      if (part < bytes / kLeastShare) break;
      parts.push_back(named_amount(line, size_text(part), width - title.size()));
    }
    append(lines, wrapped_parts(title, parts, ", ", width, 2));
  }
  if (rest != 0) {
    lines.push_back(
        format_text("  {:>10} {}  others", size_text(rest), share_text(rest, moment.bytes)));
  }
  return lines;
}

// The categories and lines with more (+) and with less (-) bytes at the peak than at the peak of
// the step `before`.
Lines difference_rows(const StepMoment& now, const StepMoment& before, std::size_t width) {
  const BytesByName bytes = bytes_by(now, category_and_line);
  const BytesByName bytes_before = bytes_by(before, category_and_line);
  BytesByName more;
  BytesByName less;
  for (const auto& [name, size] : bytes) {
    const auto found = bytes_before.find(name);
    const std::uint64_t old = found == bytes_before.end() ? 0 : found->second;
    if (size > old) more[name] = size - old;
  }
  for (const auto& [name, old] : bytes_before) {
    const auto found = bytes.find(name);
    const std::uint64_t size = found == bytes.end() ? 0 : found->second;
    if (old > size) less[name] = old - size;
  }
  if (more.empty() && less.empty()) {
    return {format_text("Each line held at the peak what it held at that of step {}.",
                        before.step.index)};
  }
  Lines lines = {format_text("Against the peak of step {}", before.step.index)};
  for (const auto& [sign, list] : {std::pair{'+', &more}, std::pair{'-', &less}}) {
    std::size_t shown = 0;
    for (const auto& [name, size] : largest_first(*list)) {
      if (shown++ == kMostStepHolders / 2) {
        lines.push_back(format_text(
            "              and {}",
            count_of(list->size() - kMostStepHolders / 2, "other line", "other lines")));
        break;
      }
      append(lines, wrapped(format_text("  {:>10}  ", sign + size_text(size)), name, width));
    }
  }
  return lines;
}

}  // namespace

std::string step_text(const rows::Report& report, const StepMoment& now,
                      const std::optional<StepMoment>& before, std::size_t processes,
                      std::size_t width) {
  Lines lines = head_lines(report, now, processes, width);
  append(lines, fact_lines(now, before, width));
  append(lines, holder_rows(now, width));
  if (before) append(lines, difference_rows(now, *before, width));
  std::string text;
  for (const StyledText& line : lines) text += line.letters() + "\n";
  return text;
}

}  // namespace gpumemtrace::tools
