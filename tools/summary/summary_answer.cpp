// SPDX-License-Identifier: Apache-2.0
// The first section of the summary: the answer to "is something wrong?", the program, and the three
// largest facts.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/rows/evidence.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/card_text.hpp"
#include "tools/report_view/job_text.hpp"
#include "tools/report_view/recorded_jobs.hpp"
#include "tools/report_view/report_input.hpp"
#include "tools/report_view/report_row.hpp"
#include "tools/report_view/step_count.hpp"
#include "tools/summary/summary_card.hpp"
#include "tools/summary/summary_findings.hpp"

namespace gpumemtrace::tools {

namespace {

namespace rows = analyzer::rows;
using analyzer::framework_with_blocks;
using analyzer::Level;
using analyzer::Rule;
using analyzer::Severity;

constexpr std::size_t kMostFacts = 3;
constexpr std::size_t kLabelWidth = 8;
// Reserved memory in pieces too small to be used is shown as a fact if it is at least one part in
// this many of the peak.
constexpr std::uint64_t kUnusableShare = 20;
// A leak below these bytes, and below one part in kLeakShare of the peak, is not shown as a fact.
constexpr std::uint64_t kSmallLeak = 1 << 20;
constexpr std::uint64_t kLeakShare = 1000;

struct Fact {
  std::string label;
  std::string amount;
  std::string text;
  Style style = Style::kPlain;  // colour of the label
};

// The ends of the job's processes as a clause: "the program exited", or with counts if they differ:
// "3 exited, 1 was killed".
std::string end_text(const Report& report) {
  std::vector<std::pair<rows::TraceEnd, std::size_t>> ends;
  for (const rows::Trace& trace : report.traces) {
    const auto known =
        std::ranges::find_if(ends, [&](const auto& row) { return row.first == trace.end; });
    if (known == ends.end()) {
      ends.emplace_back(trace.end, 1);
    } else {
      ++known->second;
    }
  }
  const auto words = [](rows::TraceEnd end) -> std::string_view {
    switch (end) {
      case rows::TraceEnd::kExit:
        return "exited";  // the trace does not have the exit code
      case rows::TraceEnd::kExec:
        return "was replaced by exec";
      case rows::TraceEnd::kSignal:
        return "was ended by a signal";
      case rows::TraceEnd::kKilled:
        return "was killed";
      case rows::TraceEnd::kRunning:
        return "is still running";
      case rows::TraceEnd::kUnknown:
        break;
    }
    return "ended in a way that is not known";
  };
  if (is_of_snapshots(report)) return "the program went on after this";
  if (ends.size() == 1) return format_text("the program {}", words(ends.front().first));
  std::string text;
  for (const auto& [end, count] : ends) append(text, format_text("{} {}", count, words(end)));
  return text;
}

// The steps of the process that made most, and their median length: ", 412 steps of 1.32 s".
std::string steps_text(const Report& report) {
  const StepCount steps = count_steps(report.steps);
  std::vector<std::uint64_t> lengths;
  for (const rows::Step& step : report.steps) {
    if (step.process != steps.process || !step.start_ns || !step.end_ns) continue;
    lengths.push_back(*step.end_ns - *step.start_ns);
  }
  if (steps.count == 0) return {};
  const std::string text =
      ", " + (steps.are_repetitions ? count_of(steps.count, "repetition", "repetitions")
                                    : count_of(steps.count, "step", "steps"));
  if (lengths.empty()) return text;
  const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
  std::nth_element(lengths.begin(), middle, lengths.end());
  return text + " of " + duration_text(*middle);
}

std::string job_text(const Report& report) {
  const bool has_ranks = !report.processes.empty() && report.processes.front().rank.has_value();
  const std::string processes =
      report.processes.size() < 2
          ? std::string()
          : ", " + (has_ranks ? count_of(report.processes.size(), "rank", "ranks")
                              : count_of(report.processes.size(), "process", "processes"));
  return format_text("{}: {}{}{}", job_command(report), duration_text(job_length_ns(report)),
                     processes, steps_text(report));
}

// True if the report has no event because events were lost. A trace that never had any is complete.
bool holds_no_event(const Report& report) {
  return !is_complete(report) && std::ranges::all_of(report.traces, [](const rows::Trace& trace) {
    return trace.events == 0u;
  });
}

std::string report_verdict(const Report& report) {
  const std::vector<Fault> faults = faults_of(report);
  const auto count = [&](Severity severity) {
    return static_cast<std::size_t>(std::ranges::count_if(
        faults, [&](const Fault& fault) { return fault.finding->severity == severity; }));
  };
  std::string text;
  if (faults.empty()) {
    const std::size_t hints = hints_of(report).size();
    text = holds_no_event(report) ? "nothing is known" : "nothing wrong was found";
    if (hints != 0) text += ", " + count_of(hints, "hint", "hints");
  } else {
    const std::size_t errors = count(Severity::kError);
    const std::size_t warnings = count(Severity::kWarning);
    if (errors != 0) text = count_of(errors, "error", "errors");
    if (warnings != 0) append(text, count_of(warnings, "warning", "warnings"));
  }
  return format_text("{}; {}{}", text, end_text(report),
                     is_complete(report) ? "." : "; the trace is INCOMPLETE.");
}

std::string at_step(const rows::OptionalNumber& step) {
  return step ? format_text(", step {}", *step) : std::string();
}

// A size and the total of its device: "1.2 GiB of 79.2 GiB".
std::string amount_of(const std::string& bytes, const rows::Device* device) {
  if (device == nullptr || !device->total_bytes) return bytes;
  return format_text("{} of {}", bytes, size_text(*device->total_bytes));
}

std::optional<Fact> peak_fact(const Report& report) {
  const DevicePeaks peaks = fullest_device(report);
  if (peaks.job != nullptr) {
    Fact fact{"PEAK", amount_of(peak_text(*peaks.job), peaks.device), {}};
    fact.text = "this job on " + peaks.device->id;
    if (peaks.device->name) fact.text += format_text(" ({})", *peaks.device->name);
    return fact;
  }
  const std::optional<CardState> card = fullest_card(report);
  if (!card) return std::nullopt;
  const rows::Device* device = find_device(report, card->device);
  Fact fact{"PEAK", amount_of(size_text(card->bytes), device), {}};
  fact.text = is_of_snapshots(report) ? format_text("reserved by {}", framework_with_blocks().name)
              : card->is_whole_card   ? "with other processes"
                                      : "by calls of the process alone";
  append(fact.text, name_in_job(report, card->process));
  append(fact.text, card->device);
  if (device != nullptr && device->name) append(fact.text, *device->name);
  fact.text += at_step(card->step);
  return fact;
}

std::optional<Fact> card_fact(const Report& report) {
  const DevicePeaks peaks = fullest_device(report);
  if (!peaks.shows_both()) return std::nullopt;
  const std::string besides = besides_job(*peaks.card);
  return Fact{"CARD", peak_text(*peaks.card),
              besides.empty() ? "everything on the card" : "with " + besides};
}

// The bytes of the peak in the summary's first lines: the job's peak on its fullest device; in a
// report without such a peak, the use of the fullest card.
std::uint64_t peak_bytes(const Report& report) {
  if (const rows::CardPeak* const job = fullest_device(report).job) return job->bytes;
  const std::optional<CardState> card = fullest_card(report);
  return card ? card->bytes : 0;
}

std::optional<Fact> oom_fact(const Report& report) {
  const rows::Oom* worst = nullptr;
  for (const rows::Oom& row : report.oom) {
    if (row.outcome == analyzer::OomOutcome::kRecovered) continue;
    if (worst == nullptr || row.requested_bytes > worst->requested_bytes) worst = &row;
  }
  if (worst == nullptr) return std::nullopt;
  Fact fact{"FAILED", size_text(worst->requested_bytes), name_in_job(report, worst->process),
            Style::kBad};
  append(fact.text, (worst->origin.site ? "asked at " + name_line(worst->origin) : "asked") +
                        at_step(worst->step));
  if (worst->verdict == rows::OomVerdict::kFragmented) {
    append(fact.text, "enough was free, in pieces");
  }
  return fact;
}

std::optional<Fact> growth_fact(const Report& report) {
  const rows::Finding* most = nullptr;
  for (const rows::Finding& finding : report.findings) {
    if (finding.rule != Rule::kGrowth || finding.severity == Severity::kInfo) continue;
    if (most == nullptr || finding.bytes.value_or(0) > most->bytes.value_or(0)) most = &finding;
  }
  if (most == nullptr) return std::nullopt;
  Fact fact{"GROWTH", size_text(most->bytes.value_or(0)),
            name_in_job(report, most->process.value_or("")), Style::kDoubtful};
  const auto evidence = rows::evidence_of<rows::GrowthEvidence>(*most);
  if (const auto& by_step = evidence.bytes_per_step) {
    fact.amount = size_text(static_cast<std::uint64_t>(*by_step)) +
                  (evidence.by_repetition.value_or(false) ? " a repetition" : " a step");
  }
  append(fact.text, name_line(most->origin));
  if (evidence.forecast_ns) {
    fact.text += format_text(": full {} after the start", duration_text(*evidence.forecast_ns));
  }
  return fact;
}

std::optional<Fact> unusable_fact(const Report& report) {
  const rows::Fragmentation* worst = nullptr;
  for (const rows::Fragmentation& row : report.fragmentation) {
    if (row.at == rows::SnapshotAt::kEnd || !row.unusable_bytes) continue;
    if (worst == nullptr || *row.unusable_bytes > *worst->unusable_bytes) worst = &row;
  }
  const std::uint64_t bytes = peak_bytes(report);
  if (worst == nullptr || bytes == 0 || *worst->unusable_bytes < bytes / kUnusableShare) {
    return std::nullopt;
  }
  Fact fact{"UNUSABLE", size_text(*worst->unusable_bytes), name_in_job(report, worst->process),
            Style::kDoubtful};
  append(fact.text, worst->level == Level::kFramework
                        ? format_text("reserved by {}, free in pieces beside live blocks",
                                      framework_with_blocks().name)
                        : "reserved by a pool, free in pieces");
  return fact;
}

std::optional<Fact> leak_fact(const Report& report) {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  const rows::ExitLeak* largest = nullptr;
  for (const rows::ExitLeak& row : report.leaks.exit) {
    if (row.leak_class != rows::LeakClass::kLost) continue;
    bytes += row.bytes;
    count += row.count;
    if (largest == nullptr || row.bytes > largest->bytes) largest = &row;
  }
  if (largest == nullptr) return std::nullopt;
  if (bytes < std::min(kSmallLeak, peak_bytes(report) / kLeakShare)) return std::nullopt;
  Fact fact{"LEAKED", size_text(bytes), name_in_job(report, largest->process), Style::kBad};
  append(fact.text,
         format_text("{} never freed, most at {}", count_of(count, "allocation", "allocations"),
                     name_line(largest->origin)));
  return fact;
}

// True if the fix of a hint frees the hint's bytes; false for hints about copied or growing bytes.
bool gives_back_memory(const rows::Finding& hint) {
  return hint.rule == Rule::kLeak || hint.rule == Rule::kFragmentation ||
         hint.rule == Rule::kGradientsInForward;
}

std::optional<Fact> saving_fact(const Report& report) {
  const rows::Finding* most = nullptr;
  for (const Fault& hint : hints_of(report)) {
    if (!gives_back_memory(*hint.finding) || hint.finding->bytes.value_or(0) == 0) continue;
    if (most == nullptr || *hint.finding->bytes > *most->bytes) most = hint.finding;
  }
  if (most == nullptr) return std::nullopt;
  Fact fact{"SAVING", size_text(*most->bytes), {}};
  if (most->process) fact.text = name_in_job(report, *most->process);
  append(fact.text, "see below: " + name_line(most->origin));
  return fact;
}

// The bytes of PyTorch's blocks at a peak, by category; blocks without a useful category by line.
BytesByName uses_of(const rows::Peak& peak) {
  BytesByName parts;
  if (peak.categories) {
    for (const auto& [category, sum] : *peak.categories) {
      if (category != "unknown" && category != "other") parts[analyzer::in_words(category)] = sum;
    }
  }
  for (const rows::Holder& holder : peak.holders) {
    const bool has_category = holder.category != analyzer::Category::kUnknown &&
                              holder.category != analyzer::Category::kOther;
    if (holder.origin.owner == "other" || has_category) continue;
    parts[name_line(holder.origin)] += holder.bytes;
  }
  return parts;
}

// The source lines that held the memory of `part`, with their bytes at the peak of the part's
// allocator level.
BytesByName bytes_by_line(const Report& report, const rows::CardPart& part,
                          const std::string& device) {
  const std::optional<Level> level = level_of_holders(part.what);
  BytesByName parts;
  for (const rows::Peak& peak : report.peak) {
    if (peak.process != part.process || peak.device != device || peak.level != level) continue;
    for (const rows::Holder& holder : peak.holders) {
      const bool is_of_owner = level != Level::kDriver || holder.origin.owner == part.owner;
      if (is_of_owner && holder.origin.site) parts[name_line(holder.origin)] += holder.bytes;
    }
  }
  return parts;
}

struct Largest {
  std::string name;
  std::uint64_t bytes = 0;
  std::string process;
};

// The largest of `parts`, with at most the bytes of `part`: `parts` are from the peak of an
// allocator level, which can be at another time than the peak of the card.
Largest largest_of(const rows::CardPart& part, const BytesByName& parts) {
  const auto sorted = largest_first(parts);
  if (sorted.empty()) return {};
  return {sorted.front().name, std::min(sorted.front().bytes, part.bytes),
          part.process.value_or("")};
}

// The largest holder within `part` of a card's peak: a category or a source line if one is known,
// else the whole part.
Largest largest_of(const Report& report, const rows::CardPart& part, const std::string& device) {
  BytesByName parts;
  if (part.what == rows::CardPartKind::kFrameworkAllocated) {
    for (const rows::Peak& peak : report.peak) {
      const bool is_of_part = peak.process == part.process && peak.device == device;
      if (is_of_part && peak.level == Level::kFramework) parts = uses_of(peak);
    }
  } else {
    parts = bytes_by_line(report, part, device);
  }
  const Largest largest = largest_of(part, parts);
  if (largest.bytes != 0) return largest;
  return {part_name(part), part.bytes, part.process.value_or("")};
}

// "; largest line model.py:41, 64.1 MiB", to be shown beside memory that no line asked for.
std::string largest_line_text(const Report& report, const DevicePeaks& peaks) {
  Largest line;
  for (const rows::CardPart& part : peaks.job->parts) {
    const Largest other = largest_of(part, bytes_by_line(report, part, peaks.device->id));
    if (other.bytes > line.bytes) line = other;
  }
  if (line.bytes == 0) return {};
  // Drops the function's name, which later sections of the summary show.
  std::string text = "; largest line " + line.name.substr(0, line.name.rfind(" ("));
  append(text, name_in_job(report, line.process));
  append(text, size_text(line.bytes));
  return text;
}

Fact largest_fact_of(const Report& report, std::uint64_t bytes, std::uint64_t whole,
                     const std::string& process, const std::string& name,
                     std::string_view what_whole) {
  Fact fact{"LARGEST", size_text(bytes), name_in_job(report, process)};
  const double share = 100.0 * static_cast<double>(bytes) / static_cast<double>(whole);
  append(fact.text, format_text("{}, {:.0f} % of {}", name, share, what_whole));
  return fact;
}

// The largest holder at the peak and its share. If that memory has no source line, such as a
// cache, the text adds the source line with the most bytes.
std::optional<Fact> largest_fact(const Report& report) {
  const DevicePeaks peaks = fullest_device(report);
  if (peaks.job != nullptr) {
    Largest most;
    bool has_line = false;
    for (const rows::CardPart& part : peaks.job->parts) {
      Largest other = largest_of(report, part, peaks.device->id);
      if (other.bytes <= most.bytes) continue;
      most = std::move(other);
      has_line = level_of_holders(part.what).has_value();
    }
    if (most.bytes == 0) return std::nullopt;
    Fact fact =
        largest_fact_of(report, most.bytes, peaks.job->bytes, most.process, most.name, "the peak");
    if (!has_line) fact.text += largest_line_text(report, peaks);
    return fact;
  }
  const rows::Peak* peak = main_peak(report);
  if (peak == nullptr) return std::nullopt;
  const auto sorted = largest_first(uses_of(*peak));
  if (sorted.empty() || sorted.front().bytes == 0 || peak->bytes == 0) return std::nullopt;
  return largest_fact_of(report, sorted.front().bytes, peak->bytes, peak->process,
                         sorted.front().name,
                         peak->level == Level::kFramework
                             ? format_text("what {} allocated", framework_with_blocks().name)
                             : "what the driver gave out");
}

std::optional<Fact> headroom_fact(const Report& report) {
  const DevicePeaks peaks = fullest_device(report);
  if (peaks.job != nullptr) {
    const rows::CardPeak& used = peaks.card == nullptr ? *peaks.job : *peaks.card;
    const std::uint64_t total = peaks.device->total_bytes.value_or(0);
    if (total < used.high_bytes) return std::nullopt;
    return Fact{"HEADROOM", range_text(total - used.high_bytes, total - used.low_bytes),
                "never used"};
  }
  const std::optional<CardState> card = fullest_card(report);
  if (!card) return std::nullopt;
  const rows::Device* device = find_device(report, card->device);
  if (device == nullptr || !device->total_bytes || *device->total_bytes < card->bytes) {
    return std::nullopt;
  }
  return Fact{"HEADROOM", size_text(*device->total_bytes - card->bytes),
              card->is_whole_card ? "never used" : "never used by the calls of this job"};
}

// The first kMostFacts facts that apply, in this order of importance.
Blocks fact_blocks(const Report& report, std::size_t width) {
  std::vector<Fact> facts;
  for (const auto fact_of : {peak_fact, oom_fact, growth_fact, leak_fact, unusable_fact,
                             largest_fact, headroom_fact, saving_fact}) {
    if (facts.size() == kMostFacts) break;
    std::optional<Fact> fact = fact_of(report);
    if (fact) facts.push_back(*std::move(fact));
  }
  // The card's peak is shown directly after the job's.
  if (std::optional<Fact> card = card_fact(report); card && !facts.empty()) {
    facts.insert(facts.begin() + 1, *std::move(card));
  }
  std::size_t amount_width = 0;
  for (const Fact& fact : facts) amount_width = std::max(amount_width, fact.amount.size());
  Blocks blocks;
  for (const Fact& fact : facts) {
    const std::string gap(kLabelWidth - fact.label.size(), ' ');
    const StyledText head = "  " + StyledText(fact.label, fact.style) + gap +
                            format_text("  {:<{}}  ", fact.amount, amount_width);
    blocks.push_back({wrapped(head, fact.text, width), rank::kFact});
  }
  if (blocks.empty()) {
    blocks.push_back(
        {{is_complete(report) ? "  No GPU memory was allocated."
                              : "  No allocation of GPU memory is in what was recorded."},
         rank::kFact});
  }
  return blocks;
}

}  // namespace

namespace {

// The name of a snapshot's file, with the rank if it was guessed from the name.
std::string file_text(const Report& report, const rows::Trace& trace) {
  const auto process = std::ranges::find(report.processes, trace.process, &rows::Process::id);
  if (process == report.processes.end() || !process->is_rank_guessed) return trace.file;
  return format_text("{} (rank {} by its name)", trace.file, process->rank.value_or(0));
}

// A sentence about the part of the run that a PyTorch snapshot covers.
std::string covered_part(const Report& report, const rows::Trace& trace) {
  const rows::TraceSource& source = *trace.source;
  const std::string file = file_text(report, trace);
  std::string text =
      source.events + source.events_left_out == 0
          ? format_text("{}'s part only: {} has no history, but what was live at its end.",
                        framework_with_blocks().name, file)
          : format_text("{}'s part only, {}: {} in {}.", framework_with_blocks().name, file,
                        count_of(source.events, "event", "events"),
                        duration_text(trace.duration_ns.value_or(0)));
  if (source.events_left_out != 0) {
    text += format_text(" {} before them do not fit and are left out ({}).",
                        count_of(source.events_left_out, "event", "events"),
                        source.left_out_because.value_or("unknown"));
  }
  if (std::ranges::find(trace.incomplete_because, "history_overflowed") !=
      trace.incomplete_because.end()) {
    text += format_text(" {}'s history was full: older events are not in the file.",
                        framework_with_blocks().name);
  }
  if (source.earlier_blocks != 0 && source.events != 0) {
    text += format_text(" {} in {} were allocated before the first event.",
                        size_text(source.earlier_bytes),
                        count_of(source.earlier_blocks, "block", "blocks"));
  }
  return text;
}

// The parts of the run that the first few snapshots cover, and the number of other snapshots.
Blocks covered_parts(const Report& report, const SummaryDetail& detail) {
  constexpr std::size_t kMostSnapshots = 4;
  Blocks blocks;
  std::size_t more = 0;
  std::uint64_t more_events = 0;
  for (const rows::Trace& trace : report.traces) {
    if (!trace.source) continue;
    if (blocks.size() == kMostSnapshots && !detail.is_full) {
      ++more;
      more_events += trace.source->events;
      continue;
    }
    blocks.push_back(
        {wrapped("  ", covered_part(report, trace), detail.width), rank::kMissingEvents});
  }
  if (more != 0) {
    const std::string text =
        format_text("{}: {}; --full shows each.", count_of(more, "more snapshot", "more snapshots"),
                    count_of(more_events, "event", "events"));
    blocks.push_back({wrapped("  ", text, detail.width), rank::kMissingEvents});
  }
  return blocks;
}

}  // namespace

Blocks answer_section(const Report& report, const SummaryDetail& detail) {
  Blocks blocks = {
      {wrapped(heading("Verdict: "), report_verdict(report), detail.width), rank::kAnswer},
      {wrapped("  ", job_text(report), detail.width), rank::kAnswer}};
  if (const std::string jobs = several_jobs_text(report); !jobs.empty()) {
    blocks.push_back({wrapped("  ", jobs, detail.width), rank::kAnswer});
  }
  if (const std::string clocks = host_clocks_text(report); !clocks.empty()) {
    blocks.push_back({wrapped("  ", clocks, detail.width), rank::kNote});
  }
  append(blocks, covered_parts(report, detail));
  if (is_of_snapshots(report)) {
    constexpr std::string_view kRest =
        "Memory of the driver and of other libraries, and copies, are shown by: "
        "gpumemtrace run -- COMMAND";
    blocks.push_back({wrapped("  ", kRest, detail.width), rank::kMissingEvents});
  }
  append(blocks, fact_blocks(report, detail.width));
  return blocks;
}

}  // namespace gpumemtrace::tools
