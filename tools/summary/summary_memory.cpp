// SPDX-License-Identifier: Apache-2.0
// What each card held at its peak, and who held it.
#include <algorithm>
#include <set>

#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/report_row.hpp"
#include "tools/summary/summary_card.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;
using analyzer::Category;
using analyzer::Level;

constexpr std::size_t kMostSumLines = 3;

// "NVML 70.8 GiB, 40 ms before".
std::string sample_text(const rows::Composition& row, std::uint64_t sum) {
  const std::string_view source = row.source == "cumemgetinfo" ? "cuMemGetInfo" : "NVML";
  if (!row.driver_bytes || size_text(*row.driver_bytes) == size_text(sum)) {
    return format_text("by {}", source);
  }
  std::string text = format_text("{} {}", source, size_text(*row.driver_bytes));
  if (!row.sample_time_ns || !row.time_ns) return text + " at another moment";
  return *row.sample_time_ns <= *row.time_ns
             ? format_text("{}, {} before", text, duration_text(*row.time_ns - *row.sample_time_ns))
             : format_text("{}, {} after", text, duration_text(*row.sample_time_ns - *row.time_ns));
}

Lines card_lines(const Report& report, const CardPeak& card, std::size_t width) {
  std::string title = format_text("Card {}", card.device);
  if (const std::string process = name_in_job(report, card.process); !process.empty()) {
    title += format_text(", {},", process);
  }
  title += card.has_failed ? " when memory ran out: " : " at its peak: ";
  title += size_text(card.bytes);
  if (card.composition != nullptr) {
    const bool is_known = !card.composition->source.empty() && card.composition->source != "none";
    title += !is_known            ? " by the calls of the process alone"
             : card.is_whole_card ? format_text(" ({})", sample_text(*card.composition, card.bytes))
                                  : format_text(" by the process's calls ({})",
                                                sample_text(*card.composition, card.bytes));
  }
  Lines lines = wrapped("", title, width, 2);
  std::vector<std::string> parts;
  std::uint64_t rest = 0;
  for (const CardPart& part : card.parts) {
    if (part.bytes < card.bytes / (10 * kLeastShare)) {
      rest += part.bytes;
      continue;
    }
    parts.push_back(format_text("{} {}", size_text(part.bytes), part.name));
  }
  if (rest != 0) parts.push_back(size_text(rest) + " others");
  append(lines, wrapped_parts("    ", parts, " + ", width, kMostSumLines));
  return lines;
}

// The innermost layer with the one around it: "GPT2Block > GPT2MLP".
std::string short_layers(const std::string& path) {
  constexpr std::string_view kInside = " > ";
  const std::size_t last = path.rfind(kInside);
  if (last == std::string::npos || last == 0) return path;
  const std::size_t before = path.rfind(kInside, last - 1);
  return before == std::string::npos ? path : path.substr(before + kInside.size());
}

// Who holds the bytes of a category: layers, and lines where there is no layer. Of activations
// those are told as a whole.
std::vector<std::string> holders_of(const Report& report, const rows::Peak& peak,
                                    const std::string& category, std::uint64_t bytes,
                                    std::size_t width) {
  const bool is_activation = category == name_of(Category::kActivation);
  BytesByName sums;
  std::uint64_t in_layers = 0;
  for (const rows::Module& module : report.modules) {
    if (module.process != peak.process || module.device != peak.device) continue;
    if (!module.path && !is_activation) continue;
    for (const auto& [name, part] : module.categories) {
      if (name != category || part == 0) continue;
      sums[module.path ? short_layers(*module.path) : "no layer"] += part;
      in_layers += part;
    }
  }
  // Outside a model that is all.
  if (sums.size() == 1 && sums.contains("no layer")) sums.clear();
  const bool lines_are_told = !sums.empty() && (is_activation || in_layers == bytes);
  for (const rows::Holder& holder : peak.holders) {
    const std::string_view name = name_of(holder.category);
    if (holder.layers || !holder.origin.site || lines_are_told) continue;
    if ((name.empty() ? "unknown" : name) != category) continue;
    sums[name_line(holder.origin)] += holder.bytes;
  }
  std::vector<std::string> parts;
  for (const auto& [name, part] : largest_first(sums)) {
    if (part < bytes / kLeastShare) break;
    parts.push_back(named_amount(name, size_text(part), width));
  }
  return parts;
}

Lines category_lines(const Report& report, const rows::Peak& peak, const SummaryDetail& detail) {
  BytesByName bytes(peak.categories->begin(), peak.categories->end());
  Lines lines;
  std::uint64_t rest = 0;
  std::size_t shown = 0;
  for (const auto& [name, part] : largest_first(bytes)) {
    if (part == 0) continue;
    if (part < peak.bytes / kLeastShare || shown == detail.rows + 2) {
      rest += part;
      continue;
    }
    ++shown;
    const std::string head =
        format_text("  {:>10} {}  {:<15} ", size_text(part), share_text(part, peak.bytes),
                    name == "unknown" ? "unknown use" : analyzer::in_words(name));
    const std::vector<std::string> holders =
        holders_of(report, peak, name, part, detail.width - head.size());
    append(lines, holders.empty()
                      ? Lines{head.substr(0, head.find_last_not_of(' ') + 1)}
                      : wrapped_parts(head, holders, ", ", detail.width, shown <= 2 ? 2 : 1));
  }
  if (rest != 0) {
    lines.push_back(format_text("  {:>10} {}  other categories", size_text(rest),
                                share_text(rest, peak.bytes)));
  }
  return lines;
}

// The framework's holders by line, across categories.
Lines line_lines(const rows::Peak& peak, std::size_t width) {
  constexpr std::size_t kMostLinesOfLines = 4;
  BytesByName sums;
  for (const rows::Holder& holder : peak.holders) {
    if (holder.origin.owner != "other" && holder.origin.site) {
      sums[name_line(holder.origin)] += holder.bytes;
    }
  }
  std::vector<std::string> parts;
  for (const auto& [name, bytes] : largest_first(sums)) {
    if (bytes < peak.bytes / 20) break;
    parts.push_back(format_text("{} {}", name, size_text(bytes)));
  }
  return wrapped_parts("  by line: ", parts, ", ", width, kMostLinesOfLines);
}

// The largest tensors that the program named, each with its gradient and its states.
Lines tensor_lines(const Report& report, const rows::Peak& peak, std::size_t width) {
  constexpr std::size_t kMostTensors = 3;
  BytesByName sums;
  for (const rows::Tensor& tensor : report.tensors) {
    if (tensor.process != peak.process || tensor.device != peak.device || !tensor.name) continue;
    sums[*tensor.name] += tensor.bytes;
  }
  std::vector<std::string> parts;
  for (const auto& [name, bytes] : largest_first(sums)) {
    if (parts.size() == kMostTensors || bytes < peak.bytes / kLeastShare) break;
    parts.push_back(format_text("{} {}", name, size_text(bytes)));
  }
  if (parts.empty()) return {};
  return wrapped_parts("  by name, with gradient and state: ", parts, ", ", width, 2);
}

Lines holder_lines(const rows::Peak& peak, const SummaryDetail& detail) {
  Lines lines;
  std::uint64_t rest = 0;
  std::size_t shown = 0;
  for (const rows::Holder& holder : peak.holders) {
    const bool is_rest = holder.origin.owner == "other" && !holder.origin.site;
    if (is_rest || shown == detail.rows + 2 || holder.bytes < peak.bytes / kLeastShare) {
      rest += holder.bytes;
      continue;
    }
    ++shown;
    const std::string head =
        format_text("  {:>10} {}  ", size_text(holder.bytes), share_text(holder.bytes, peak.bytes));
    append(lines, wrapped(head,
                          format_text("{}, {}", name_holder(holder.origin),
                                      count_of(holder.count, "allocation", "allocations")),
                          detail.width, 2));
  }
  if (rest >= peak.bytes / kLeastShare && rest != 0) {
    lines.push_back(
        format_text("  {:>10} {}  others", size_text(rest), share_text(rest, peak.bytes)));
  }
  return lines;
}

std::string_view title_of(Level level) {
  switch (level) {
    case Level::kFramework:
      return "PyTorch allocated";
    case Level::kPool:
      return "Stream-ordered memory";
    case Level::kManaged:
      return "Managed memory";
    case Level::kHost:
      return "Host memory (pinned, registered)";
    default:
      return "Driver";
  }
}

Lines peak_lines(const Report& report, const rows::Peak& peak, const SummaryDetail& detail) {
  std::string title =
      format_text("{}: {}{} ({} bytes)", title_of(peak.level), peak.is_exact ? "" : "about ",
                  size_text(peak.bytes), format_count(peak.bytes));
  title += peak.time_ns ? format_text(" at its peak, {}", duration_text(*peak.time_ns))
                        : std::string(" at its peak");
  append(title, name_in_job(report, peak.process));
  Lines lines = wrapped("", title, detail.width, 2);
  if (peak.level == Level::kFramework && peak.categories) {
    append(lines, category_lines(report, peak, detail));
    if (detail.rows > 1) {
      append(lines, line_lines(peak, detail.width));
      append(lines, tensor_lines(report, peak, detail.width));
    }
  } else {
    append(lines, holder_lines(peak, detail));
  }
  return lines;
}

// The largest pool on the device that the trace cannot see into.
Lines opaque_pool_lines(const Report& report, const std::string& device, std::size_t width) {
  const rows::Usage* largest = nullptr;
  for (const rows::Usage& row : report.usage) {
    if (row.device != device || !row.opaque_pool) continue;
    if (largest == nullptr || row.peak_bytes > largest->peak_bytes) largest = &row;
  }
  if (largest == nullptr) return {};
  return wrapped("  ",
                 format_text("{} holds {} whose use is not visible; see `Next`",
                             largest->opaque_pool->name, size_text(largest->peak_bytes)),
                 width, 2);
}

// Of the levels on a device those that hold much and are not told by another one.
std::vector<const rows::Peak*> peaks_worth_telling(const Report& report,
                                                   const std::string& device) {
  const rows::Peak* main = main_peak(report, device);
  std::vector<const rows::Peak*> peaks;
  if (main == nullptr) return peaks;
  peaks.push_back(main);
  for (const Level level : {Level::kFramework, Level::kDriver, Level::kPool, Level::kManaged}) {
    const rows::Peak* largest = nullptr;
    for (const rows::Peak& peak : report.peak) {
      if (peak.device != device || peak.level != level || &peak == main) continue;
      if (largest == nullptr || peak.bytes > largest->bytes) largest = &peak;
    }
    // PyTorch's blocks lie in the driver's or the pool's memory, of which most is told then.
    const bool is_told = main->level == Level::kFramework && level != Level::kManaged;
    if (largest != nullptr && !is_told && largest->bytes >= main->bytes / 20) {
      peaks.push_back(largest);
    }
  }
  return peaks;
}

Lines device_lines(const Report& report, const rows::Device& device, const SummaryDetail& detail) {
  Lines lines;
  if (const std::optional<CardPeak> card = card_peak(report, device.id)) {
    append(lines, card_lines(report, *card, detail.width));
  }
  for (const rows::Peak* peak : peaks_worth_telling(report, device.id)) {
    append(lines, peak_lines(report, *peak, detail));
  }
  append(lines, opaque_pool_lines(report, device.id, detail.width));
  return lines;
}

}  // namespace

Lines memory_section(const Report& report, const SummaryDetail& detail) {
  // The fullest card first: it decides.
  const std::optional<CardPeak> fullest = fullest_card(report);
  std::vector<const rows::Device*> devices;
  for (const rows::Device& device : report.devices) devices.push_back(&device);
  std::stable_partition(devices.begin(), devices.end(), [&](const rows::Device* device) {
    return fullest && device->id == fullest->device;
  });
  Lines lines;
  std::size_t shown = 0;
  for (const rows::Device* device : devices) {
    if (shown == detail.devices) break;
    const Lines more = device_lines(report, *device, detail);
    if (more.empty()) continue;
    ++shown;
    append(lines, more);
  }
  const rows::Peak* host = nullptr;
  for (const rows::Peak& peak : report.peak) {
    if (peak.level == Level::kHost && (host == nullptr || peak.bytes > host->bytes)) host = &peak;
  }
  const std::uint64_t card_bytes = fullest ? fullest->bytes : 0;
  if (host != nullptr && host->bytes > 0 && host->bytes >= card_bytes / 20) {
    append(lines, peak_lines(report, *host, detail));
  }
  return lines;
}

}  // namespace gpumemtrace::tools
