// SPDX-License-Identifier: Apache-2.0
#include "tools/page/page_data.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <string_view>

#include "tools/base/deflate.hpp"
#include "tools/page/page_blocks.hpp"
#include "tools/page/page_stacks.hpp"
#include "tools/page/page_timeline.hpp"
#include "tools/report_view/job_text.hpp"
#include "tools/report_view/step_count.hpp"

namespace gpumemtrace::tools {
namespace {

// Shares of the file; together with the code they stay below 10 MB (docs/page.md).
constexpr std::size_t kHeadBytes = 256 * 1024;
constexpr std::size_t kReportBytes = 2'500'000;
constexpr std::size_t kCostBytes = 3'000'000;
constexpr std::size_t kTimelineBytes = 2'500'000;
constexpr std::size_t kBlockBytes = 1'000'000;

constexpr std::size_t kMostHeadRows = 512;
constexpr std::size_t kMostRows = 4096;
constexpr std::size_t kMostCosts = 15'000;
constexpr std::size_t kMostBlocks = 8192;
constexpr std::size_t kMostHeadBuckets = 512;

// The measure of a row when rows have to be left out: the first of these that it has.
constexpr auto kWeights =
    std::to_array<const char*>({"bytes", "peak_bytes", "bytes_at_peak", "reserved_bytes",
                                "live_bytes", "migrated_bytes", "count"});
// Their order is that of the report: worst first, or that of the processes.
constexpr auto kOrdered = std::to_array<std::string_view>({"findings", "traces", "processes"});
// These are in chunks of their own.
constexpr auto kSeparate = std::to_array<std::string_view>(
    {"stacks", "frames", "costs", "timeline", "largest_blocks", "blocks", "segments"});
// The keys that the first view needs.
constexpr auto kHeadKeys = std::to_array<std::string_view>(
    {"format", "version", "tool", "redacted", "traces", "processes", "devices", "usage", "peak",
     "composition", "card_peaks", "leaks", "fragmentation", "oom", "findings", "ranks", "losses",
     "coverage", "window"});

template <class List>
bool is_among(const List& list, std::string_view key) {
  return std::ranges::find(list, key) != list.end();
}

std::uint64_t weight_of(const Json& row) {
  for (const char* const key : kWeights) {
    if (const auto number = number_in(row, key)) return *number;
  }
  return 0;
}

// The `most` rows with the largest weight, or the first ones, in their order. Counts the others.
Json limited_rows(const std::string& key, const Json& rows, std::size_t most, Json& left_out) {
  if (rows.size() <= most) return rows;
  std::vector<std::size_t> kept(rows.size());
  std::iota(kept.begin(), kept.end(), 0);
  if (!is_among(kOrdered, key)) {
    std::ranges::stable_sort(kept, std::ranges::greater(),
                             [&](std::size_t i) { return weight_of(rows[i]); });
  }
  kept.resize(most);
  std::sort(kept.begin(), kept.end());
  Json limited = Json::array();
  for (const std::size_t index : kept) limited.push_back(rows[index]);
  left_out.push_back({{"key", key}, {"rows", rows.size() - most}, {"of", rows.size()}});
  return limited;
}

Json limited_value(const std::string& key, const Json& value, std::size_t most, Json& left_out) {
  if (value.is_array()) return limited_rows(key, value, most, left_out);
  if (!value.is_object()) return value;
  Json limited = Json::object();
  for (const auto& [name, part] : value.items()) {
    limited[name] = part.is_array() ? limited_rows(key + '.' + name, part, most, left_out) : part;
  }
  return limited;
}

// The rows about `process`, and those about none.
Json rows_of(const Json& rows, const Json& process, const char* key) {
  Json found = Json::array();
  for (const Json& row : rows) {
    const auto value = row.find(key);
    if (value == row.end() || value->is_null() || *value == process) found.push_back(row);
  }
  return found;
}

// The part of a report's value that concerns `process`.
Json value_of(const std::string& key, const Json& value, const Json& process) {
  if (key == "findings" || key == "ranks" || key == "devices" || key == "losses") return value;
  if (value.is_array()) return rows_of(value, process, key == "processes" ? "id" : "process");
  if (key != "leaks") return value;
  Json found = Json::object();
  for (const auto& [name, part] : value.items()) {
    found[name] = part.is_array() ? rows_of(part, process, "process") : part;
  }
  return found;
}

// Facts about all processes together.
Json job_of(const Json& report, const analyzer::rows::Report& rows) {
  std::uint64_t events = 0;
  std::uint64_t dropped = 0;
  std::size_t incomplete = 0;
  Json ends = Json::object();
  for (const Json& trace : report.at("traces")) {
    events += number_or_zero(trace, "events");
    dropped += number_or_zero(trace, "dropped");
    incomplete += trace.at("complete").get<bool>() ? 0 : 1;
    const std::string end = text_or(trace, "end", "unknown");
    ends[end] = number_or_zero(ends, end.c_str()) + 1;
  }
  const StepCount steps = count_steps(rows.steps);
  return {{"processes", report.at("processes").size()},
          {"traces", report.at("traces").size()},
          {"incomplete", incomplete},
          {"events", events},
          {"dropped", dropped},
          {"duration_ns", job_length_ns(rows)},
          {"steps", steps.count},
          {"steps_are_repetitions", steps.are_repetitions},
          {"ends", std::move(ends)}};
}

const Json* row_that_ran_out(const Json& report) {
  for (const Json& row : report.at("oom")) {
    if (row.at("outcome") == "raised" && text_in(row, "device")) return &row;
  }
  return nullptr;
}

const Json* row_with_largest_peak(const Json& report) {
  const Json* largest = nullptr;
  for (const Json& row : report.at("peak")) {
    if (!text_in(row, "device")) continue;
    if (largest == nullptr || number_or_zero(row, "bytes") > number_or_zero(*largest, "bytes")) {
      largest = &row;
    }
  }
  return largest;
}

Json head_with(const Json& report, const analyzer::rows::Report& all_rows, std::size_t most_rows,
               std::size_t most_buckets) {
  const PageFocus focus = page_focus(report);
  Json left_out = Json::array();
  Json head = Json::object();
  for (const std::string_view name : kHeadKeys) {
    const std::string key(name);
    const auto found = report.find(key);
    if (found == report.end()) continue;
    head[key] = limited_value(key, value_of(key, *found, focus.process), most_rows, left_out);
  }
  if (report.contains("timeline")) {
    const Json rows = rows_of(report.at("timeline"), focus.process, "process");
    head["timeline"] = thinned_timeline(rows, most_buckets);
  }
  head["page"] = {
      {"process", focus.process}, {"device", focus.device}, {"job", job_of(report, all_rows)}};
  return head;
}

Json rows_with(const Json& report, std::size_t most_rows) {
  Json left_out = Json::array();
  Json rows = Json::object();
  for (const auto& [key, value] : report.items()) {
    if (!is_among(kSeparate, key)) rows[key] = limited_value(key, value, most_rows, left_out);
  }
  rows["left_out"] = std::move(left_out);
  return rows;
}

std::string base64(std::string_view data) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((data.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < data.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, data.size() - i);
    unsigned bits = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      bits = bits << 8 | (j < count ? static_cast<unsigned char>(data[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      text += j <= count ? kLetters[bits >> (18 - 6 * j) & 63] : '=';
    }
  }
  return text;
}

// Data as text without letters that need an escape in a page: deflated (RFC 1951, as
// DecompressionStream("deflate-raw") reads it) and then in base64. The same bytes for the same
// data.
std::string encoded_chunk(std::string_view data) { return base64(deflated(data)); }

// The first result of `make(most)` that fits, `most` halved each time; null if none does.
template <class Make>
std::string fitting_chunk(std::size_t most, std::size_t budget_bytes, Make&& make) {
  for (;; most /= 2) {
    std::string text = encoded_chunk(make(most).dump());
    if (text.size() <= budget_bytes) return text;
    if (most <= 1) return encoded_chunk("null");
  }
}

}  // namespace

PageFocus page_focus(const Json& report) {
  const Json* row = row_that_ran_out(report);
  if (row == nullptr) row = row_with_largest_peak(report);
  if (row != nullptr) return {row->at("process"), row->at("device")};
  const Json& processes = report.at("processes");
  return {processes.empty() ? Json() : processes.front().at("id"), Json()};
}

Json page_head(const Json& report, const analyzer::rows::Report& all_rows) {
  std::size_t rows = kMostHeadRows;
  std::size_t buckets = kMostHeadBuckets;
  for (;; rows = std::max<std::size_t>(rows / 2, 1), buckets /= 2) {
    Json head = head_with(report, all_rows, rows, std::max<std::size_t>(buckets, 1));
    if (head.dump().size() <= kHeadBytes || (rows == 1 && buckets <= 1)) return head;
  }
}

std::vector<PageChunk> page_chunks(const Json& report) {
  std::vector<PageChunk> chunks;
  chunks.push_back({"report", fitting_chunk(kMostRows, kReportBytes, [&](std::size_t most) {
                      return rows_with(report, most);
                    })});
  chunks.push_back({"costs", fitting_chunk(kMostCosts, kCostBytes, [&](std::size_t most) {
                      return costs_with_stacks(report, most);
                    })});
  chunks.push_back({"blocks", fitting_chunk(kMostBlocks, kBlockBytes, [&](std::size_t most) {
                      return blocks_for_page(report, most);
                    })});
  if (report.contains("timeline")) {
    const std::size_t most = most_buckets_of(report.at("timeline"));
    const Json focus = page_focus(report).process;
    chunks.push_back({"timeline", fitting_chunk(most, kTimelineBytes, [&](std::size_t buckets) {
                        return thinned_timelines(report.at("timeline"), focus, buckets);
                      })});
  }
  return chunks;
}

}  // namespace gpumemtrace::tools
