// SPDX-License-Identifier: Apache-2.0
// The memory of each card at its peak, and its holders.
#include <algorithm>
#include <map>

#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/text/names.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/card_text.hpp"
#include "tools/report_view/job_text.hpp"
#include "tools/report_view/report_row.hpp"
#include "tools/summary/summary_card.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;
using analyzer::Category;
using analyzer::framework_with_blocks;
using analyzer::Level;

// If there is little room, a peak's rows after this many are among the first to be left out.
constexpr std::size_t kPeakRowsKeptLonger = 8;
// If there is little room, the rows of devices after this many are among the first to be left out.
constexpr std::size_t kDevicesKeptLonger = 4;

// True if the bytes that the rows of a list leave out are enough for a row of their own.
bool is_worth_a_row(std::uint64_t rest, std::uint64_t whole) {
  return rest != 0 && rest >= whole / kLeastShare;
}

// The driver's sample that a sum is compared with: "NVML 70.8 GiB, 40 ms before".
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

// A title wrapped into lines; the first line begins with `begin`, styled as a heading.
Lines titled(std::string_view begin, const std::string& title, std::size_t width) {
  Lines lines = wrapped("", title, width);
  lines.front().take_styles(heading(begin));
  return lines;
}

// The memory of a card: a title with the sum and its source, then the parts of the sum.
Lines card_lines(const Report& report, const CardState& card, std::size_t width) {
  std::string title = format_text("Card {}", card.device);
  if (!card.process.empty() && report.processes.size() > 1) {
    title += format_text(", {},", process_name(report, card.process));
  }
  title += card.has_failed ? " when memory ran out: " : " at its peak: ";
  title += card.row != nullptr ? peak_text(*card.row) : size_text(card.bytes);
  if (card.composition != nullptr) {
    const bool is_known = !card.composition->source.empty() && card.composition->source != "none";
    title += is_of_snapshots(report) ? format_text(" reserved by {}", framework_with_blocks().name)
             : !is_known             ? " by the calls of the process alone"
             : card.is_whole_card ? format_text(" ({})", sample_text(*card.composition, card.bytes))
                                  : format_text(" by the process's calls ({})",
                                                sample_text(*card.composition, card.bytes));
  }
  Lines lines = titled("Card", title, width);
  std::vector<std::string> parts;
  std::uint64_t rest = 0;
  for (const NamedPart& part : card.parts) {
    if (part.bytes < card.bytes / (10 * kLeastShare)) {
      rest += part.bytes;
      continue;
    }
    parts.push_back(format_text("{} {}", size_text(part.bytes), part.name));
  }
  if (is_worth_a_row(rest, card.bytes)) parts.push_back(size_text(rest) + " others");
  append(lines, wrapped_parts("    ", parts, " + ", width));
  return lines;
}

// The two innermost layers of a module's path: "GPT2Block > GPT2MLP".
std::string short_layers(const std::string& path) {
  constexpr std::string_view kInside = " > ";
  const std::size_t last = path.rfind(kInside);
  if (last == std::string::npos || last == 0) return path;
  const std::size_t before = path.rfind(kInside, last - 1);
  return before == std::string::npos ? path : path.substr(before + kInside.size());
}

// The holders of a category's bytes: layers, or lines for bytes without a layer. Activations are
// shown by layer only, including those in no layer, unless no layer is known.
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
  // If all bytes are outside of layers, layers say nothing.
  if (sums.size() == 1 && sums.contains("no layer")) sums.clear();
  const bool layers_say_enough = !sums.empty() && (is_activation || in_layers == bytes);
  for (const rows::Holder& holder : peak.holders) {
    const std::string_view name = name_of(holder.category);
    if (holder.layers || !holder.origin.site || layers_say_enough) continue;
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

// The rank of the row at `index` of a list. Rows further down have a higher rank, so they are left
// out earlier.
int rank_of_row(std::size_t index) {
  return index < kPeakRowsKeptLonger ? rank::kOfPeak + static_cast<int>(index + 1) * rank::kNextRow
                                     : kGoesFirst;
}

Blocks category_blocks(const Report& report, const rows::Peak& peak, const SummaryDetail& detail) {
  BytesByName bytes(peak.categories->begin(), peak.categories->end());
  Blocks blocks;
  std::uint64_t rest = 0;
  for (const auto& [name, part] : largest_first(bytes)) {
    if (part == 0) continue;
    if (part < peak.bytes / kLeastShare) {
      rest += part;
      continue;
    }
    const std::string head =
        format_text("  {:>10} {}  {:<15} ", size_text(part), share_text(part, peak.bytes),
                    name == "unknown" ? "unknown use" : analyzer::in_words(name));
    const std::vector<std::string> holders =
        holders_of(report, peak, name, part, detail.width - head.size());
    const std::size_t most_lines = detail.is_full ? kAllLines : blocks.size() < 2 ? 2 : 1;
    blocks.push_back({holders.empty()
                          ? Lines{head.substr(0, head.find_last_not_of(' ') + 1)}
                          : wrapped_parts(head, holders, ", ", detail.width, most_lines),
                      rank_of_row(blocks.size())});
  }
  if (is_worth_a_row(rest, peak.bytes)) {
    blocks.push_back({{format_text("  {:>10} {}  other categories", size_text(rest),
                                   share_text(rest, peak.bytes))},
                      rank_of_row(blocks.size())});
  }
  return blocks;
}

// The source lines that hold most of the framework's memory at the peak, across categories.
Lines line_lines(const rows::Peak& peak, std::size_t width) {
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
  return wrapped_parts("  by line: ", parts, ", ", width);
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
  return wrapped_parts("  by name, with gradient and state: ", parts, ", ", width);
}

Blocks holder_blocks(const rows::Peak& peak, std::size_t width) {
  Blocks blocks;
  std::uint64_t rest = 0;
  for (const rows::Holder& holder : peak.holders) {
    const bool is_rest = holder.origin.owner == "other" && !holder.origin.site;
    if (is_rest || holder.bytes < peak.bytes / kLeastShare) {
      rest += holder.bytes;
      continue;
    }
    const std::string head =
        format_text("  {:>10} {}  ", size_text(holder.bytes), share_text(holder.bytes, peak.bytes));
    blocks.push_back({wrapped(head,
                              format_text("{}, {}", analyzer::name_holder(holder.origin),
                                          count_of(holder.count, "allocation", "allocations")),
                              width),
                      rank_of_row(blocks.size()), "holder"});
  }
  if (is_worth_a_row(rest, peak.bytes)) {
    blocks.push_back(
        {{format_text("  {:>10} {}  others", size_text(rest), share_text(rest, peak.bytes))},
         rank_of_row(blocks.size())});
  }
  return blocks;
}

std::string level_title(Level level) {
  switch (level) {
    case Level::kFramework:
      return format_text("{} allocated", framework_with_blocks().name);
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

Blocks peak_blocks(const Report& report, const rows::Peak& peak, const SummaryDetail& detail) {
  std::string title = format_text("{}: {}{} at its peak", level_title(peak.level),
                                  peak.is_exact ? "" : "about ", size_text(peak.bytes));
  if (peak.time_ns) title += ", " + duration_text(*peak.time_ns);
  append(title, name_in_job(report, peak.process));
  Blocks blocks = {{titled(level_title(peak.level), title, detail.width), rank::kOfPeak}};
  if (peak.level == Level::kFramework && peak.categories) {
    append(blocks, category_blocks(report, peak, detail));
    blocks.push_back({line_lines(peak, detail.width), rank::kByLine});
    blocks.push_back({tensor_lines(report, peak, detail.width), rank::kByName});
  } else {
    append(blocks, holder_blocks(peak, detail.width));
  }
  return blocks;
}

// A line about the device's largest pool whose inside the trace does not show.
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
                 width);
}

// The peaks to show for a device: the main one, and those of other allocator levels with at least a
// twentieth of its bytes, unless the main peak explains their memory.
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
    // Blocks of the framework lie in memory of the driver or of a pool, and explain most of it.
    const bool main_explains_it = main->level == Level::kFramework && level != Level::kManaged;
    if (largest != nullptr && !main_explains_it && largest->bytes >= main->bytes / 20) {
      peaks.push_back(largest);
    }
  }
  return peaks;
}

// The framework's blocks at the time of a failed request, in the form of a peak; empty if they are
// not known.
std::optional<rows::Peak> held_at_failure(const Report& report, const CardState& card) {
  for (const rows::Oom& row : report.oom) {
    const bool is_of_card = row.process == card.process && row.device == card.device &&
                            row.outcome != analyzer::OomOutcome::kRecovered;
    if (!card.has_failed || !is_of_card || row.holders.empty() || !row.composition) continue;
    rows::Peak held;
    held.device = row.device;
    held.level = Level::kFramework;
    held.bytes = row.composition->framework_allocated;
    held.holders = row.holders;
    BytesByName uses;
    for (const rows::Holder& holder : row.holders) {
      const std::string_view name = name_of(holder.category);
      uses[std::string(name.empty() ? "unknown" : name)] += holder.bytes;
    }
    held.categories.emplace(uses.begin(), uses.end());
    if (held.bytes != 0) return held;
  }
  return std::nullopt;
}

// The card's memory and its holders. After a failed request the holders are those at the failure,
// if they are known, instead of those at the peaks.
Blocks device_blocks(const Report& report, const rows::Device& device,
                     const SummaryDetail& detail) {
  Blocks blocks;
  if (const std::optional<CardState> card = card_state(report, device.id)) {
    blocks.push_back({card_lines(report, *card, detail.width), rank::kCard});
    if (const std::optional<rows::Peak> held = held_at_failure(report, *card)) {
      const std::string what = level_title(Level::kFramework);
      const std::string title =
          format_text("{} when memory ran out: {}", what, size_text(held->bytes));
      blocks.push_back({titled(what, title, detail.width), rank::kOfPeak});
      append(blocks, category_blocks(report, *held, detail));
      blocks.push_back({line_lines(*held, detail.width), rank::kByLine});
      return blocks;
    }
  }
  for (const rows::Peak* peak : peaks_worth_telling(report, device.id)) {
    append(blocks, peak_blocks(report, *peak, detail));
  }
  blocks.push_back({opaque_pool_lines(report, device.id, detail.width), rank::kCard});
  return blocks;
}

// The text about a device without its titles, so that equal devices compare equal.
std::string content_of(const Blocks& blocks) {
  std::string text;
  for (const Block& block : blocks) {
    for (const StyledText& line : block.lines) {
      if (line.letters().starts_with(' ')) text += line.letters() + '\n';
    }
  }
  return text;
}

}  // namespace

Blocks memory_section(const Report& report, const SummaryDetail& detail) {
  // The fullest card first: it decides whether the job fits.
  const std::optional<CardState> fullest = fullest_card(report);
  std::vector<const rows::Device*> devices;
  for (const rows::Device& device : report.devices) devices.push_back(&device);
  std::stable_partition(devices.begin(), devices.end(), [&](const rows::Device* device) {
    return fullest && device->id == fullest->device;
  });
  Blocks blocks;
  // Text about a device, and the first device that it was shown for.
  std::map<std::string, std::string> shown;
  for (const rows::Device* device : devices) {
    Blocks more = device_blocks(report, *device, detail);
    if (std::ranges::all_of(more, [](const Block& block) { return block.lines.empty(); })) continue;
    const auto [first, is_new] = shown.try_emplace(content_of(more), device->id);
    if (!is_new && !detail.is_full) {
      more = {{{heading("Card") + format_text(" {} at its peak: as {}", device->id, first->second)},
               rank::kCard}};
    }
    const std::size_t number = shown.size() - 1;
    for (Block& block : more) {
      // The summary tells the number of left-out rows for the first device only.
      if (number != 0) block.what = {};
      if (block.rank == kGoesFirst) continue;
      block.rank = number < kDevicesKeptLonger
                       ? block.rank + static_cast<int>(number) * rank::kNextDevice
                       : kGoesFirst;
    }
    append(blocks, more);
  }
  const rows::Peak* host = nullptr;
  for (const rows::Peak& peak : report.peak) {
    if (peak.level == Level::kHost && (host == nullptr || peak.bytes > host->bytes)) host = &peak;
  }
  const std::uint64_t card_bytes = fullest ? fullest->bytes : 0;
  if (host != nullptr && host->bytes > 0 && host->bytes >= card_bytes / 20) {
    append(blocks, peak_blocks(report, *host, detail));
  }
  return blocks;
}

}  // namespace gpumemtrace::tools
