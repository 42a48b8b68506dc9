// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/step_moment.hpp"

#include <algorithm>
#include <functional>

#include "tools/base/failure.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;
using analyzer::Level;

// "the run has steps 0 to 39, not 40".
std::string complaint_about_step(const rows::Report& report, std::uint64_t index) {
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

// Blocks of the framework come before what lies below them.
bool is_better(const Highest& a, const Highest& b) {
  if (b.bucket == nullptr) return true;
  const bool is_framework = a.timeline->level == Level::kFramework;
  const bool other_is = b.timeline->level == Level::kFramework;
  return is_framework != other_is ? is_framework : a.bucket->max_bytes > b.bucket->max_bytes;
}

}  // namespace

std::vector<rows::Step> find_step(const rows::Report& report, std::uint64_t index) {
  std::vector<rows::Step> found;
  std::copy_if(report.steps.begin(), report.steps.end(), std::back_inserter(found),
               [&](const rows::Step& step) { return step.index == index && step.start_ns; });
  if (found.empty()) throw Failure(complaint_about_step(report, index), ExitCode::kUsage);
  std::ranges::stable_sort(found, std::ranges::greater(), &rows::Step::peak_bytes);
  return found;
}

StepMoment step_moment(const std::vector<std::filesystem::path>& traces, LoadOptions options,
                       const rows::Step& step, const std::string& device) {
  options.naming.from_ns = step.start_ns;
  // At its end the next one begins.
  if (step.end_ns) options.naming.to_ns = std::max(*step.end_ns, *step.start_ns + 1) - 1;
  const rows::Report window = load_rows(traces, options);
  Highest highest;
  for (const rows::Timeline& timeline : window.timeline) {
    if (timeline.process != step.process || !timeline.device) continue;
    if (!device.empty() && timeline.device != device) continue;
    const Highest other = highest_of(timeline, *step.start_ns);
    if (other.bucket != nullptr && is_better(other, highest)) highest = other;
  }
  if (highest.bucket == nullptr) {
    throw Failure(format_text("nothing was allocated up to the end of step {}", step.index));
  }
  StepMoment moment{step,
                    highest.timeline->device,
                    highest.timeline->level,
                    highest.bucket->max_time_ns,
                    highest.bucket->max_bytes,
                    {}};
  options.naming.from_ns.reset();
  options.naming.to_ns.reset();
  options.naming.at_ns = moment.time_ns;
  rows::Report at_peak = load_rows(traces, options);
  for (rows::BlockAt& block : at_peak.blocks.value()) {
    const bool is_of_it = block.process == step.process && block.device == moment.device &&
                          block.level == moment.level;
    if (is_of_it) moment.blocks.push_back(std::move(block));
  }
  return moment;
}

}  // namespace gpumemtrace::tools
