// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/step_moment.hpp"

#include <algorithm>
#include <functional>

#include "tools/base/failure.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/card_text.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;
using analyzer::Level;

// The error for a step that the report does not have: "the run has steps 0 to 39, not 40".
std::string step_error(const rows::Report& report, std::uint64_t index) {
  if (report.steps.empty()) {
    return "no step of the run is known, so there is none to tell of; the program can name its "
           "steps with gpumemtrace_step()";
  }
  const auto by_index = [](const rows::Step& a, const rows::Step& b) { return a.index < b.index; };
  const auto [first, last] =
      std::minmax_element(report.steps.begin(), report.steps.end(), by_index);
  if (index < first->index || index > last->index) {
    return format_text("the run has the steps {} to {}, not {}", first->index, last->index, index);
  }
  return format_text(
      "the report of the run does not have step {}: of {} to {} it keeps the first and the last "
      "500 "
      "of a process, and the 50 highest between",
      index, first->index, last->index);
}

struct Highest {
  const rows::Timeline* timeline = nullptr;
  const rows::TimelineBucket* bucket = nullptr;
};

// The fullest bucket of the timeline among those that end at `from_ns` or later.
Highest highest_of(const rows::Timeline& timeline, std::uint64_t from_ns) {
  Highest highest{&timeline, nullptr};
  for (const rows::TimelineBucket& bucket : timeline.buckets) {
    if (bucket.end_ns < from_ns) continue;
    if (highest.bucket == nullptr || bucket.max_bytes > highest.bucket->max_bytes) {
      highest.bucket = &bucket;
    }
  }
  return highest;
}

// True if the peak `a` is shown rather than the peak `b`: blocks of the framework (PyTorch) come
// before those of lower levels, then the larger peak wins.
bool is_better(const Highest& a, const Highest& b) {
  if (b.bucket == nullptr) return true;
  const bool is_framework = a.timeline->level == Level::kFramework;
  const bool other_is = b.timeline->level == Level::kFramework;
  return is_framework != other_is ? is_framework : a.bucket->max_bytes > b.bucket->max_bytes;
}

constexpr std::string_view kPeakWord = "peak";
constexpr std::string_view kStepWord = "step:";

// The number in "step:12"; empty if the text is no such name of a step.
std::optional<std::uint64_t> step_named(std::string_view text) {
  if (!text.starts_with(kStepWord)) return std::nullopt;
  return parse_number(text.substr(kStepWord.size()));
}

// Finds when a step held the most memory; the result lacks the blocks that were live then. nullopt
// if nothing was allocated before the step ended.
std::optional<StepMoment> find_highest_moment(const std::vector<std::filesystem::path>& traces,
                                              LoadOptions options, const rows::Step& step) {
  options.naming.from_ns = step.start_ns;
  // The next step begins at the end of this one, so that the end is excluded.
  if (step.end_ns)
    options.naming.to_ns = std::max<std::uint64_t>(*step.end_ns, *step.start_ns + 1) - 1;
  const rows::Report window = load_printable_report(traces, options);
  Highest highest;
  for (const rows::Timeline& timeline : window.timeline) {
    if (timeline.process != step.process || !timeline.device) continue;
    const Highest other = highest_of(timeline, *step.start_ns);
    if (other.bucket != nullptr && is_better(other, highest)) highest = other;
  }
  if (highest.bucket == nullptr) return std::nullopt;
  return StepMoment{step,
                    highest.timeline->device,
                    highest.timeline->level,
                    highest.bucket->max_time_ns,
                    highest.bucket->max_bytes,
                    {}};
}

[[noreturn]] void throw_without_moment(const rows::Step& step) {
  throw Failure(format_text("nothing was allocated up to the end of step {}", step.index));
}

// The time when the job used most memory on its fullest device; in a report without such a peak,
// the time of the largest peak of one allocator layer.
std::uint64_t time_of_peak(const rows::Report& report) {
  const rows::CardPeak* const job = fullest_device(report).job;
  if (job != nullptr && job->time_ns) return *job->time_ns;
  const rows::Peak* largest = nullptr;
  for (const rows::Peak& peak : report.peak) {
    if (!peak.device || !peak.time_ns) continue;
    if (largest == nullptr || peak.bytes > largest->bytes) largest = &peak;
  }
  if (largest == nullptr) throw Failure("the job used no memory of a device, so it has no peak");
  return *largest->time_ns;
}

}  // namespace

std::vector<rows::Step> find_step(const rows::Report& report, std::uint64_t index) {
  std::vector<rows::Step> found;
  std::copy_if(report.steps.begin(), report.steps.end(), std::back_inserter(found),
               [&](const rows::Step& step) { return step.index == index && step.start_ns; });
  if (found.empty()) throw Failure(step_error(report, index), ExitCode::kUsage);
  std::ranges::stable_sort(found, std::ranges::greater(), &rows::Step::peak_bytes);
  return found;
}

std::optional<rows::Step> find_step_before(const rows::Report& report, const rows::Step& step) {
  const auto found = std::ranges::find_if(report.steps, [&](const rows::Step& row) {
    return row.process == step.process && row.index + 1 == step.index && row.start_ns;
  });
  return found == report.steps.end() ? std::nullopt : std::optional(*found);
}

std::optional<StepMoment> find_step_moment(const std::vector<std::filesystem::path>& traces,
                                           LoadOptions options, const rows::Step& step) {
  // The left-out traces were already named on stderr when the caller loaded the report to find the
  // step.
  options.tell_left_out = false;
  std::optional<StepMoment> found = find_highest_moment(traces, options, step);
  if (!found) return std::nullopt;
  StepMoment& moment = *found;
  options.naming.at_ns = moment.time_ns;
  rows::Report at_peak = load_printable_report(traces, options);
  for (rows::BlockAt& block : at_peak.blocks.value()) {
    const bool is_of_it = block.process == step.process && block.device == moment.device &&
                          block.level == moment.level;
    if (is_of_it) moment.blocks.push_back(std::move(block));
  }
  return found;
}

StepMoment step_moment(const std::vector<std::filesystem::path>& traces, const LoadOptions& options,
                       const rows::Step& step) {
  std::optional<StepMoment> moment = find_step_moment(traces, options, step);
  if (!moment) throw_without_moment(step);
  return *std::move(moment);
}

void NamedTimes::resolve(const std::vector<std::filesystem::path>& traces,
                         const LoadOptions& options) {
  if (!step.empty()) {
    if (has_part()) {
      throw Failure("--step is a part of the run, as --from and --until name one; give either",
                    ExitCode::kUsage);
    }
    const rows::Report report = load_printable_report(traces, options);
    std::uint64_t begin_ns = UINT64_MAX;
    std::uint64_t end_ns = 0;
    for (const rows::Step& row : find_step(report, parse_number(step).value_or(0))) {
      begin_ns = std::min<std::uint64_t>(begin_ns, *row.start_ns);
      end_ns = std::max<std::uint64_t>(end_ns, row.end_ns.value_or(UINT64_MAX));
    }
    from = std::to_string(begin_ns);
    if (end_ns != UINT64_MAX) until = std::to_string(std::max(end_ns, begin_ns + 1));
  } else if (parse_time(from).value_or(0) >= parse_time(until).value_or(UINT64_MAX)) {
    throw Failure("--until must be later than --from", ExitCode::kUsage);
  }
  if (at == kPeakWord) {
    at = std::to_string(time_of_peak(load_printable_report(traces, options)));
  } else if (const std::optional<std::uint64_t> index = step_named(at)) {
    const rows::Step row = find_step(load_printable_report(traces, options), *index).front();
    const std::optional<StepMoment> moment = find_highest_moment(traces, options, row);
    if (!moment) throw_without_moment(row);
    at = std::to_string(moment->time_ns);
  }
}

std::string moment_error(const std::string& text) {
  if (text == kPeakWord || step_named(text) || parse_time(text)) return {};
  return "'" + text + "' is no moment; write a time (12.4s, 350ms), peak or step:12";
}

}  // namespace gpumemtrace::tools
