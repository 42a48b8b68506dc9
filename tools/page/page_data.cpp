// SPDX-License-Identifier: Apache-2.0
#include "tools/page/page_data.hpp"

#include <algorithm>
#include <type_traits>

#include "analyzer/base/row_order.hpp"
#include "analyzer/json/row_values.hpp"
#include "tools/base/deflate.hpp"
#include "tools/page/page_blocks.hpp"
#include "tools/page/page_rows.hpp"
#include "tools/page/page_stacks.hpp"
#include "tools/page/page_timeline.hpp"
#include "tools/report_view/job_text.hpp"
#include "tools/report_view/step_count.hpp"

namespace gpumemtrace::tools {
namespace {

using analyzer::json_text;
using rows::Report;

// Budgets in bytes for the parts of the page; with the page's code they stay below 10 MB
// (docs/page.md).
constexpr std::size_t kHeadBytes = 256 * 1024;
constexpr std::size_t kReportBytes = 2'500'000;
constexpr std::size_t kCostBytes = 3'000'000;
constexpr std::size_t kTimelineBytes = 2'500'000;
constexpr std::size_t kBlockBytes = 1'000'000;

constexpr std::size_t kMostHeadRows = 512;
constexpr std::size_t kMostReportRows = 4096;
constexpr std::size_t kMostCosts = 15'000;
constexpr std::size_t kMostBlocks = 8192;
constexpr std::size_t kMostHeadBuckets = 512;

// Lists that the report has in a meaningful order, the worst first or by process: if rows are left
// out, the first ones stay.
constexpr auto kOrdered = std::to_array<std::string_view>({"findings", "traces", "processes"});
// Lists that the first view shows for all processes; it shows other lists for one process.
constexpr auto kOfAllProcesses =
    std::to_array<std::string_view>({"findings", "ranks", "devices", "losses", "coverage"});

template <class Value>
constexpr bool kIsListOfRows = false;
template <class Row>
constexpr bool kIsListOfRows<std::vector<Row>> = std::is_class_v<Row>;

template <class Value>
constexpr bool kIsText = std::is_convertible_v<Value, rows::OptionalText>;

// Calls see(key, list) for every list of rows in the report, with keys such as "usage" and
// "leaks.exit".
template <class See>
void for_each_list(Report& report, See&& see) {
  rows::for_each_section(report, [&](const std::string& key, auto& value) {
    using Value = std::remove_reference_t<decltype(value)>;
    if constexpr (kIsListOfRows<Value>) {
      see(key, value);
    } else if constexpr (std::is_class_v<Value> && !kIsText<Value>) {
      rows::for_each_section(value, [&](const std::string& name, auto& list) {
        if constexpr (kIsListOfRows<std::remove_reference_t<decltype(list)>>)
          see(key + '.' + name, list);
      });
    }
  });
}

// The importance of a row when rows must be left out: the first of these fields that the row has.
template <class Row>
std::uint64_t weight_of(const Row& row) {
  rows::OptionalNumber weight;
  const auto use = [&](const auto& number) {
    if (!weight) weight = number;
  };
  if constexpr (requires { row.bytes; }) use(row.bytes);
  if constexpr (requires { row.peak_bytes; }) use(row.peak_bytes);
  if constexpr (requires { row.bytes_at_peak; }) use(row.bytes_at_peak);
  if constexpr (requires { row.reserved_bytes; }) use(row.reserved_bytes);
  if constexpr (requires { row.live_bytes; }) use(row.live_bytes);
  if constexpr (requires { row.migrated_bytes; }) use(row.migrated_bytes);
  if constexpr (requires { row.count; }) use(row.count);
  return weight.value_or(0);
}

// The indexes of the `most` smallest numbers in rising order; of equal numbers the first ones.
std::vector<std::size_t> smallest(const std::vector<std::uint64_t>& numbers, std::size_t most) {
  std::vector<std::size_t> indexes = analyzer::order_of(numbers);
  indexes.resize(most);
  std::ranges::sort(indexes);
  return indexes;
}

// Shortens a list to the `most` rows with the largest weight, or to its first rows if kOrdered has
// the key. The order of the rows stays.
template <class Row>
void limit(const std::string& key, std::vector<Row>& list, std::size_t most) {
  if (list.size() <= most) return;
  const bool keeps_first = is_among(kOrdered, key);
  std::vector<std::uint64_t> numbers;
  for (const Row& row : list) numbers.push_back(keeps_first ? 0 : ~weight_of(row));
  std::vector<Row> limited;
  for (const std::size_t index : smallest(numbers, most)) limited.push_back(std::move(list[index]));
  list = std::move(limited);
}

// Shortens every list of the report; returns how many rows were left out of each.
std::vector<LeftOut> limit_all(Report& report, std::size_t most) {
  std::vector<LeftOut> left_out;
  for_each_list(report, [&](const std::string& key, auto& list) {
    if (list.size() > most) left_out.push_back({key, list.size() - most, list.size()});
    limit(key, list, most);
  });
  return left_out;
}

// A report that has only the sections that is_kept(key) selects; the others are empty.
template <class IsKept>
Report report_with_sections(Report report, IsKept&& is_kept) {
  rows::for_each_section(report, [&](const char* key, auto& value) {
    if (!is_kept(key)) value = {};
  });
  return report;
}

// Keeps the rows about `process`, and rows about no process in particular.
void keep_process(Report& report, const rows::OptionalText& process) {
  for_each_list(report, [&]<class Row>(const std::string& key, std::vector<Row>& list) {
    if (is_among(kOfAllProcesses, key.substr(0, key.find('.')))) return;
    std::erase_if(list, [&](const Row& row) {
      const rows::ProcessId* const of = rows::process_of(row);
      return of != nullptr && *of != process;
    });
  });
}

// Facts about all processes together.
PageJob job_of(const Report& report) {
  PageJob job;
  job.processes = report.processes.size();
  job.traces = report.traces.size();
  job.duration_ns = job_length_ns(report);
  for (const rows::Trace& trace : report.traces) {
    job.events += trace.events;
    job.dropped += trace.dropped;
    job.incomplete += trace.complete ? 0 : 1;
    const std::string end(name_of(trace.end));
    const auto known = std::ranges::find(job.ends, end, &rows::NamedNumbers::value_type::first);
    ++(known == job.ends.end() ? job.ends.emplace_back(end, 0) : *known).second;
  }
  const StepCount steps = count_steps(report.steps);
  job.steps = steps.count;
  job.steps_are_repetitions = steps.are_repetitions;
  return job;
}

// The process that ran out of memory, else the one that held most of a device.
PageFocus focus_of(const Report& report) {
  for (const rows::Oom& row : report.oom) {
    if (row.outcome == analyzer::OomOutcome::kRaised && row.device) {
      return {row.process, row.device};
    }
  }
  const rows::Peak* largest = nullptr;
  for (const rows::Peak& row : report.peak) {
    if (row.device && (largest == nullptr || row.bytes > largest->bytes)) largest = &row;
  }
  if (largest != nullptr) return {largest->process, largest->device};
  if (report.processes.empty()) return {};
  return {report.processes.front().id, {}};
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

// The first result of `make(most)` that fits into the budget; `most` is halved after each that does
// not. JSON's null if none fits.
template <class Make>
std::string fitting_chunk(std::size_t most, std::size_t budget_bytes, Make&& make) {
  for (;; most /= 2) {
    std::string text = encoded_chunk(json_text(make(most)));
    if (text.size() <= budget_bytes) return text;
    if (most <= 1) return encoded_chunk("null");
  }
}

}  // namespace

// Halves the limits of rows and buckets until the data fits into its budget.
std::string page_head(const Report& report) {
  const PageFacts page = {focus_of(report), job_of(report)};
  Report all =
      report_with_sections(report, [](const char* key) { return is_among(kHeadSections, key); });
  keep_process(all, page.process);
  std::size_t most_rows = kMostHeadRows;
  std::size_t most_buckets = kMostHeadBuckets;
  for (;; most_rows = std::max<std::size_t>(most_rows / 2, 1), most_buckets /= 2) {
    PageHead head = {all, page};
    thin(head.report.timeline, most_buckets);
    std::vector<rows::Timeline> timeline = std::move(head.report.timeline);
    (void)limit_all(head.report, most_rows);
    head.report.timeline = std::move(timeline);
    std::string text = json_text(head);
    if (text.size() <= kHeadBytes || (most_rows == 1 && most_buckets <= 1)) return text;
  }
}

std::vector<PageChunk> page_chunks(const Report& report) {
  const Report tables = report_with_sections(
      report, [](const char* key) { return !is_among(kSeparateSections, key); });
  std::vector<PageChunk> chunks;
  chunks.push_back({"report", fitting_chunk(kMostReportRows, kReportBytes, [&](std::size_t most) {
                      PageTables page = {tables, {}};
                      page.left_out = limit_all(page.report, most);
                      return page;
                    })});
  chunks.push_back({"costs", fitting_chunk(kMostCosts, kCostBytes, [&](std::size_t most) {
                      return costs_with_stacks(report, most);
                    })});
  chunks.push_back({"blocks", fitting_chunk(kMostBlocks, kBlockBytes, [&](std::size_t most) {
                      return blocks_for_page(report, most);
                    })});
  const rows::OptionalText process = focus_of(report).process;
  chunks.push_back({"timeline", fitting_chunk(most_buckets_of(report.timeline.size()),
                                              kTimelineBytes, [&](std::size_t buckets) {
                                                return thinned_timelines(report.timeline, process,
                                                                         buckets);
                                              })});
  return chunks;
}

}  // namespace gpumemtrace::tools
