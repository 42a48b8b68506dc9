// SPDX-License-Identifier: Apache-2.0
#include "tools/live/openmetrics_text.hpp"

#include <array>
#include <set>
#include <string_view>

#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

// Units are a suffix of the metric's name, as OpenMetrics demands.
struct Metric {
  std::string_view name;
  std::string_view unit;  // empty: the metric has no unit
  std::string_view help;
};

// A metric with at most one sample for each row of the state: none if value() returns "".
struct RowMetric {
  Metric metric;
  std::string (*value)(const LiveRow& row);
};

std::string number_or_empty(const std::optional<std::uint64_t>& number) {
  return number ? std::to_string(*number) : std::string();
}

std::optional<std::uint64_t> headroom_bytes(const LiveRow& row) {
  if (!row.capacity_bytes || !row.card_peak_bytes) return std::nullopt;
  if (*row.capacity_bytes < *row.card_peak_bytes) return std::nullopt;
  return *row.capacity_bytes - *row.card_peak_bytes;
}

constexpr auto kRowMetrics = std::to_array<RowMetric>({
    {{"in_use_bytes", "bytes",
      "Memory in use: the framework's allocated bytes; without a framework, what calls of the "
      "driver gave out."},
     [](const LiveRow& row) { return std::to_string(row.live_bytes); }},
    {{"in_use_is_exact", "", "1 if gpumemtrace_in_use_bytes is exact, else 0."},
     [](const LiveRow& row) { return std::string(row.is_exact ? "1" : "0"); }},
    {{"reserved_bytes", "bytes",
      "Memory that the framework's allocator has taken from the driver."},
     [](const LiveRow& row) { return number_or_empty(row.reserved_bytes); }},
    {{"device_bytes", "bytes", "Memory of the device."},
     [](const LiveRow& row) { return number_or_empty(row.capacity_bytes); }},
    {{"job_peak_bytes", "bytes", "The most that the job had in use on the device so far, at most."},
     [](const LiveRow& row) { return number_or_empty(row.job_peak_bytes); }},
    {{"card_peak_bytes", "bytes",
      "The most that everything on the device had in use so far, at most."},
     [](const LiveRow& row) { return number_or_empty(row.card_peak_bytes); }},
    {{"headroom_bytes", "bytes", "Memory of the device that nothing has used so far, at least."},
     [](const LiveRow& row) { return number_or_empty(headroom_bytes(row)); }},
    {{"growth_per_step_bytes", "bytes", "What grows from step to step."},
     [](const LiveRow& row) {
       return row.growth_bytes_per_step ? format_text("{}", *row.growth_bytes_per_step)
                                        : std::string();
     }},
    {{"full_in_seconds", "seconds", "Time until the device is full if growth goes on."},
     [](const LiveRow& row) {
       constexpr double kSecond = 1e9;
       if (!row.full_in_ns) return std::string();
       return format_text("{}", static_cast<double>(*row.full_in_ns) / kSecond);
     }},
    {{"step", "", "The last step that began."},
     [](const LiveRow& row) { return number_or_empty(row.step); }},
});
constexpr Metric kCategoryMetric = {"category_bytes", "bytes",
                                    "What the framework's memory in use is for."};
constexpr Metric kLossMetric = {
    "losses", "", "How often something was lost or guessed since the recording began."};

void add_label(std::string_view name, std::string_view value, std::string& labels) {
  if (!labels.empty()) labels += ',';
  labels += format_text("{}=\"", name);
  for (const char letter : value) {
    if (letter == '\\' || letter == '"') labels += '\\';
    letter == '\n' ? labels += "\\n" : labels += letter;
  }
  labels += '"';
}

// Labels that identify a process. Different programs can have had the same PID, but not the same
// trace. The report's own ids would not do: they change when a process joins, which would end a
// series.
std::string process_labels(const LiveRow& row) {
  std::string labels;
  add_label("trace", row.trace, labels);
  if (row.host) add_label("host", *row.host, labels);
  if (row.pid) add_label("pid", std::to_string(*row.pid), labels);
  if (row.rank) add_label("rank", std::to_string(*row.rank), labels);
  return labels;
}

std::string device_labels(const LiveRow& row) {
  std::string labels = process_labels(row);
  if (row.uuid) add_label("uuid", *row.uuid, labels);
  if (row.ordinal) add_label("ordinal", std::to_string(*row.ordinal), labels);
  return labels;
}

std::string sample_line(const Metric& metric, std::string_view labels, std::string_view value) {
  return format_text("gpumemtrace_{}{{{}}} {}\n", metric.name, labels, value);
}

// Adds a metric. Its head is written even without samples: every file must begin with a head, by
// which it is known as ours.
void add_metric(const Metric& metric, const std::string& samples, std::string& text) {
  text += format_text("# HELP gpumemtrace_{} {}\n# TYPE gpumemtrace_{} gauge\n", metric.name,
                      metric.help, metric.name);
  if (!metric.unit.empty()) {
    text += format_text("# UNIT gpumemtrace_{} {}\n", metric.name, metric.unit);
  }
  text += samples;
}

std::string category_samples(const LiveState& state) {
  std::string samples;
  for (const LiveRow& row : state.rows) {
    for (const auto& [category, bytes] : row.categories) {
      std::string labels = device_labels(row);
      add_label("category", category, labels);
      samples += sample_line(kCategoryMetric, labels, std::to_string(bytes));
    }
  }
  return samples;
}

// The samples of losses: once for each process, although it has a row for each of its devices.
std::string loss_samples(const LiveState& state) {
  std::string samples;
  std::set<std::string> processes;
  for (const LiveRow& row : state.rows) {
    if (!processes.insert(row.process).second) continue;
    for (const auto& [loss, count] : row.losses) {
      std::string labels = process_labels(row);
      add_label("loss", loss, labels);
      samples += sample_line(kLossMetric, labels, std::to_string(count));
    }
  }
  return samples;
}

}  // namespace

std::string openmetrics_text(const LiveState& state) {
  std::string text;
  for (const RowMetric& of_row : kRowMetrics) {
    std::string samples;
    for (const LiveRow& row : state.rows) {
      const std::string value = of_row.value(row);
      if (!value.empty()) samples += sample_line(of_row.metric, device_labels(row), value);
    }
    add_metric(of_row.metric, samples, text);
  }
  add_metric(kCategoryMetric, category_samples(state), text);
  add_metric(kLossMetric, loss_samples(state), text);
  return text + "# EOF\n";
}

}  // namespace gpumemtrace::tools
