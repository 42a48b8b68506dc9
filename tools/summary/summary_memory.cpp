// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/stack_text.hpp"
#include "tools/summary/summary_sections.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr std::size_t kMostSumLetters = 96;
constexpr std::size_t kMostHolderFrames = 4;
constexpr std::size_t kHolderStackIndent = 25;  // below the holder's name

// What stands in front of a level's peak, in the order in which levels are shown.
struct LevelTitle {
  std::string_view level;
  std::string_view title;
};
constexpr auto kLevelTitles = std::to_array<LevelTitle>({
    {"driver", "driver peak"},
    {"pool", "pool peak"},
    {"managed", "managed peak"},
    {"framework", "framework peak"},
    {"host", "host peak"},
    {"imported", "imported peak"},
});

struct CompositionPart {
  const char* key;
  std::string_view name;
};
constexpr auto kCompositionParts = std::to_array<CompositionPart>({
    {"framework_allocated", "in the framework's blocks"},
    {"framework_cached", "free in the framework's cache"},
    {"pool_used", "in use of pools"},
    {"pool_cached", "free in pools"},
    {"context_and_modules", "contexts and modules"},
    {"other_processes", "other processes"},
});

std::size_t order_of_level(const std::string& level) {
  const auto* const row =
      std::find_if(kLevelTitles.begin(), kLevelTitles.end(),
                   [&](const LevelTitle& title) { return title.level == level; });
  return static_cast<std::size_t>(row - kLevelTitles.begin());
}

Lines holder_lines(const Json& report, const Json& peak, std::size_t most) {
  Lines lines;
  std::size_t holders = 0;
  std::uint64_t rest_bytes = 0;
  for (const Json& holder : peak.at("holders")) {
    const std::uint64_t bytes = number_or_zero(holder, "bytes");
    if (bytes == 0) continue;
    if (holders == most || text_or(holder, "owner", "") == "other") {
      rest_bytes += bytes;
      continue;
    }
    const std::string category = text_or(holder, "category", "");
    lines.push_back(
        format_text("    {:>5.1f} %  {:>10}  {}{}{}, {}", holder.value("share", 0.0) * 100,
                    size_text(bytes), name_holder(holder), category.empty() ? "" : ", ", category,
                    count_of(number_or_zero(holder, "count"), "allocation", "allocations")));
    const std::string stack = short_stack(report, holder, kMostHolderFrames);
    if (holders++ == 0 && !stack.empty())
      lines.push_back(std::string(kHolderStackIndent, ' ') + stack);
  }
  const std::uint64_t peak_bytes = number_or_zero(peak, "bytes");
  if (rest_bytes > 0 && most > 0 && peak_bytes > 0) {
    const double share = static_cast<double>(rest_bytes) / static_cast<double>(peak_bytes);
    lines.push_back(
        format_text("    {:>5.1f} %  {:>10}  all others", share * 100, size_text(rest_bytes)));
  }
  return lines;
}

// The parts joined by plus signs, broken into lines.
Lines wrap_parts(const std::vector<std::string>& parts) {
  Lines lines;
  for (const std::string& part : parts) {
    if (lines.empty() || lines.back().size() + part.size() > kMostSumLetters) {
      lines.push_back((lines.empty() ? "      " : "    + ") + part);
    } else {
      lines.back() += " + " + part;
    }
  }
  return lines;
}

// What the blocks of the framework were for, largest first; nothing where none is known.
Lines category_lines(const Json& peak) {
  std::vector<std::pair<std::uint64_t, std::string>> parts;
  const auto categories = peak.find("categories");
  if (categories == peak.end()) return {};
  for (const auto& [name, value] : categories->items()) {
    const std::uint64_t bytes = number_or_zero(*categories, name.c_str());
    if (name != "unknown" && bytes != 0) parts.emplace_back(bytes, name);
  }
  if (parts.empty()) return {};
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  if (const std::uint64_t rest = number_or_zero(*categories, "unknown"); rest != 0) {
    parts.emplace_back(rest, "of unknown use");
  }
  std::vector<std::string> texts;
  for (const auto& [bytes, name] : parts) {
    texts.push_back(format_text("{} {}", size_text(bytes), name));
  }
  return wrap_parts(texts);
}

Lines peak_lines(const Json& report, const Json& peak, std::size_t most_holders) {
  const std::size_t level = order_of_level(peak.at("level"));
  const std::uint64_t bytes = number_or_zero(peak, "bytes");
  const bool one_process = report.at("processes").size() == 1;
  Lines lines = {
      format_text("  {}{} {} ({} bytes) at {}{}{}", is_exact(peak) ? "" : "inexact ",
                  level < kLevelTitles.size() ? kLevelTitles[level].title : "peak",
                  size_text(bytes), format_count(bytes), time_or_unknown(peak, "time_ns"),
                  one_process ? "" : ", " + name_process(report, peak.at("process")),
                  peak.at("level") == "framework" ? ", of blocks within that memory" : "")};
  for (std::string& line : category_lines(peak)) lines.push_back(std::move(line));
  const Lines holders = holder_lines(report, peak, most_holders);
  lines.insert(lines.end(), holders.begin(), holders.end());
  return lines;
}

// Every part that is known and not zero, largest first.
std::vector<std::pair<std::uint64_t, std::string>> composition_parts(const Json& row) {
  std::vector<std::pair<std::uint64_t, std::string>> parts;
  for (const CompositionPart& part : kCompositionParts) {
    parts.emplace_back(number_or_zero(row, part.key), part.name);
  }
  for (const Json& other : row.at("other")) {
    parts.emplace_back(number_or_zero(other, "bytes"), text_or(other, "owner", "owner not known"));
  }
  parts.erase(
      std::remove_if(parts.begin(), parts.end(), [](const auto& part) { return part.first == 0; }),
      parts.end());
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  return parts;
}

// What no call of the process shows, where the driver does not tell contexts and other processes
// apart; empty where that is not known.
std::optional<std::uint64_t> outside_calls(const Json& row) {
  if (text_or(row, "source", "none") == "nvml_process") return 0;  // shown in parts of its own
  // Reports from before the key: right where nothing changed between the sample and the moment.
  return row.contains("outside_calls") ? number_in(row, "outside_calls")
                                       : number_in(row, "unattributed");
}

// "cuMemGetInfo said 256.0 MiB 4.1 ms before".
std::string sample_text(const Json& row) {
  std::string text = format_text(
      "{} said {}", text_or(row, "source", "") == "nvml_process" ? "NVML" : "cuMemGetInfo",
      size_or_unknown(row, "driver_bytes"));
  const auto sampled_ns = number_in(row, "sample_time_ns");
  const auto moment_ns = number_in(row, "time_ns");
  if (!sampled_ns || !moment_ns) return text + " at another moment";
  return *sampled_ns <= *moment_ns
             ? format_text("{} {} before", text, duration_text(*moment_ns - *sampled_ns))
             : format_text("{} {} after", text, duration_text(*sampled_ns - *moment_ns));
}

// `moment` says when and, in a job of several, of which process.
Lines composition_lines(const Json& row, const std::string& moment) {
  auto known = composition_parts(row);
  const bool is_sampled = text_or(row, "source", "none") != "none";
  const std::optional<std::uint64_t> outside = outside_calls(row);
  if (is_sampled && outside.value_or(0) != 0) {
    known.emplace_back(*outside, "contexts, modules and other processes");
    std::stable_sort(known.begin(), known.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
  }
  std::uint64_t total = 0;
  std::vector<std::string> parts;
  for (const auto& [bytes, name] : known) {
    total += bytes;
    parts.push_back(format_text("{} {}", size_text(bytes), name));
  }
  if (parts.empty()) return {};
  Lines lines;
  if (!is_sampled) {
    lines.push_back(
        format_text("  of this process {} (the driver's own number is not known):", moment));
  } else if (!outside) {
    lines.push_back(format_text("  of this process {} {} by its calls ({}):", moment,
                                size_text(total), sample_text(row)));
  } else if (size_text(number_in(row, "driver_bytes").value_or(total)) == size_text(total)) {
    // What differs by less than is printed was rounded by the driver.
    lines.push_back(
        format_text("  in use on the device {} {} by {}:", moment, size_text(total),
                    text_or(row, "source", "") == "nvml_process" ? "NVML" : "cuMemGetInfo"));
  } else {
    lines.push_back(format_text("  in use on the device {} {} ({}):", moment, size_text(total),
                                sample_text(row)));
  }
  const Lines sum = wrap_parts(parts);
  lines.insert(lines.end(), sum.begin(), sum.end());
  return lines;
}

bool ran_out(const Json& report, const Json& process, const Json& device) {
  return std::any_of(report.at("oom").begin(), report.at("oom").end(), [&](const Json& row) {
    return row.at("process") == process && row.at("device") == device &&
           row.at("outcome") != "recovered" && row.at("composition").is_object();
  });
}

// What the device held when the process that took most of it ran out of memory, else at its peak.
Lines composition_at_peak(const Json& report, const Json& device_id) {
  const std::vector<const Json*> peaks =
      rows_where(report.at("peak"), "bytes", [&](const Json& row) {
        return row.at("device") == device_id && row.at("level") != "framework";
      });
  if (peaks.empty()) return {};
  const Json& process = peaks.front()->at("process");
  const bool failed = ran_out(report, process, device_id);
  for (const Json& row : report.at("composition")) {
    const bool fits = row.at("device") == device_id && row.at("process") == process &&
                      row.at("at") == (failed ? "oom" : "driver_peak");
    if (!fits) continue;
    const std::string moment = failed ? "when memory ran out" : "at the driver's peak";
    return composition_lines(row, report.at("processes").size() == 1
                                      ? moment
                                      : moment + " of " + name_process(report, process));
  }
  return {};
}

// The largest pool on the device that the trace cannot see into.
Lines opaque_pool_lines(const Json& report, const Json& device_id) {
  const std::vector<const Json*> rows =
      rows_where(report.at("usage"), "peak_bytes", [&](const Json& row) {
        return row.at("device") == device_id && row.at("opaque_pool").is_object();
      });
  if (rows.empty()) return {};
  return {format_text("  {} holds {} whose use is not visible; see `Next`",
                      text_or(rows.front()->at("opaque_pool"), "name", "a pool"),
                      size_or_unknown(*rows.front(), "peak_bytes"))};
}

Lines peaks_of_device(const Json& report, const Json& device_id, const SummaryDetail& detail) {
  std::vector<const Json*> peaks = rows_where(report.at("peak"), "bytes", [&](const Json& row) {
    return row.at("device") == device_id && number_or_zero(row, "bytes") > 0;
  });
  std::stable_sort(peaks.begin(), peaks.end(), [](const Json* a, const Json* b) {
    return order_of_level(a->at("level")) < order_of_level(b->at("level"));
  });
  Lines lines;
  const std::size_t shown = std::min(peaks.size(), detail.peaks_per_device);
  for (std::size_t i = 0; i < shown; ++i) {
    const Lines more = peak_lines(report, *peaks[i], detail.holders_per_peak);
    lines.insert(lines.end(), more.begin(), more.end());
  }
  if (shown < peaks.size()) {
    lines.push_back(format_text("  and {} in the report",
                                count_of(peaks.size() - shown, "more peak", "more peaks")));
  }
  return lines;
}

Lines device_lines(const Json& report, const Json& device, const SummaryDetail& detail) {
  Lines lines = {format_text("{} ({}), {}", text_or(device, "name", "GPU of unknown name"),
                             device.at("id").get<std::string>(),
                             size_or_unknown(device, "total_bytes"))};
  const Json& physical = device.at("physical_peak");
  if (physical.is_object() && report.at("processes").size() > 1) {
    lines.push_back(format_text("  peak of {} traced processes together {} at {}",
                                report.at("processes").size(), size_or_unknown(physical, "bytes"),
                                time_or_unknown(physical, "time_ns")));
  }
  Lines more = peaks_of_device(report, device.at("id"), detail);
  lines.insert(lines.end(), more.begin(), more.end());

  more = detail.rows_per_list == 0 ? Lines() : composition_at_peak(report, device.at("id"));
  lines.insert(lines.end(), more.begin(), more.end());
  more = opaque_pool_lines(report, device.at("id"));
  lines.insert(lines.end(), more.begin(), more.end());
  if (lines.size() == 1) lines.front() += ": nothing allocated";
  return lines;
}

// "pinned, registered": what the host's peaks consist of.
std::string kinds_of_host_memory(const Json& report) {
  std::set<std::string> kinds;
  for (const Json& row : report.at("usage")) {
    if (row.at("level") == "host" && number_or_zero(row, "peak_bytes") != 0) {
      kinds.insert(text_or(row, "kind", "of unknown kind"));
    }
  }
  std::string text;
  for (const std::string& kind : kinds) text += (text.empty() ? "" : ", ") + kind;
  return text.empty() ? "pinned or registered" : text;
}

}  // namespace

bool is_holder_line(const std::string& line) {
  return line.starts_with("    ") && line.find(" %  ") == 9;
}

Lines memory_section(const Json& report, const SummaryDetail& detail) {
  Lines lines;
  std::size_t shown = 0;
  for (const Json& device : report.at("devices")) {
    if (shown++ >= detail.devices) continue;
    const Lines more = device_lines(report, device, detail);
    lines.insert(lines.end(), more.begin(), more.end());
  }
  if (shown > detail.devices) {
    lines.push_back(format_text("and {} in the report",
                                count_of(shown - detail.devices, "more device", "more devices")));
  }
  const Lines host = peaks_of_device(report, nullptr, detail);
  if (!host.empty()) {
    lines.push_back(format_text("Host memory ({})", kinds_of_host_memory(report)));
    lines.insert(lines.end(), host.begin(), host.end());
  }
  if (lines.empty()) lines.emplace_back("No GPU memory was allocated.");
  return lines;
}

}  // namespace gpumemtrace::tools
