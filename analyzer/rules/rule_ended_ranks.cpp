// SPDX-License-Identifier: Apache-2.0
// Finds ranks that ended long before the others.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/rows/median.hpp"
#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"
#include "analyzer/rules/sentences.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kLeastRanks = 3;  // with two ranks it is not known which one is usual

// The end of one rank's trace, in Unix time.
struct RankEnd {
  const rows::Process* process = nullptr;
  const rows::Trace* trace = nullptr;
  std::uint64_t unix_ns = 0;
  std::uint64_t clock_error_ns = 0;
  rows::OptionalNumber steps;
};

// The ends of all ranks, by the first process of each: later processes of a rank are its children,
// or another attempt.
std::vector<RankEnd> ends_of(const rows::Report& report) {
  std::map<std::string, rows::OptionalNumber> steps;
  for (const rows::Step& step : report.steps) {
    rows::OptionalNumber& number = steps[step.process];
    number = std::max(number.value_or(0), step.index + 1);
  }
  std::map<std::uint64_t, RankEnd> ends;
  for (const rows::Process& process : report.processes) {
    const auto trace = std::ranges::find(report.traces, process.id, &rows::Trace::process);
    if (!process.rank || !process.start_unix_ns || trace == report.traces.end()) continue;
    if (!trace->duration_ns || ends.contains(*process.rank)) continue;
    ends[*process.rank] = {&process, &*trace, *process.start_unix_ns + *trace->duration_ns,
                           process.clock_error_ns.value_or(0), steps[process.id]};
  }
  std::vector<RankEnd> list;
  for (const auto& [rank, end] : ends) list.push_back(end);
  return list;
}

// The words for the way in which the program ended. No value if it goes on, or if the trace lacks
// events, so that its end is not known.
std::optional<std::string_view> words_of(const rows::Trace& trace) {
  switch (trace.end) {
    case rows::TraceEnd::kExit:
      return sentences::kLeftByExit;
    case rows::TraceEnd::kSignal:
      return sentences::kEndedBySignal;
    case rows::TraceEnd::kKilled:
      return sentences::kWasKilled;
    case rows::TraceEnd::kUnknown:
      if (!trace.complete) return std::nullopt;
      return sentences::kEndedWithoutExit;
    case rows::TraceEnd::kExec:
    case rows::TraceEnd::kRunning:
      return std::nullopt;
  }
  return std::nullopt;
}

// The median number of steps and the median end of the job's ranks.
struct Usual {
  std::uint64_t begin_ns = 0;  // the begin of the job
  std::uint64_t end_ns = 0;
  rows::OptionalNumber steps;  // the median number of steps; no value if a rank has none
  std::size_t ranks = 0;
};

Usual usual_of(const std::vector<RankEnd>& ends) {
  Usual usual;
  std::vector<std::uint64_t> times;
  std::vector<std::uint64_t> steps;
  usual.begin_ns = *ends.front().process->start_unix_ns;
  for (const RankEnd& end : ends) {
    usual.begin_ns = std::min(usual.begin_ns, *end.process->start_unix_ns);
    times.push_back(end.unix_ns);
    if (end.steps) steps.push_back(*end.steps);
  }
  usual.end_ns = rows::lower_median(std::move(times));
  if (steps.size() == ends.size()) usual.steps = rows::lower_median(std::move(steps));
  usual.ranks = ends.size();
  return usual;
}

// True if the rank ended early. A rank that exits after as many steps as the others only has less
// to tidy up; a rank without steps may have had less to do.
bool is_early(const RuleInput& input, const RankEnd& end, const Usual& usual) {
  const std::uint64_t length = usual.end_ns - std::min(usual.begin_ns, usual.end_ns);
  const auto least = static_cast<std::uint64_t>(input.thresholds[Threshold::kRankEndedShare] *
                                                static_cast<double>(length));
  if (length == 0 || end.unix_ns + end.clock_error_ns + least > usual.end_ns) return false;
  if (end.trace->end != rows::TraceEnd::kExit) return true;
  return end.steps && usual.steps && *end.steps < *usual.steps;
}

rows::Finding finding_of(const RankEnd& end, const Usual& usual, std::string_view words) {
  rows::Finding finding = finding_of_rule(Rule::kRankEndedEarly);
  finding.process = end.process->id;
  const std::uint64_t end_ns = end.unix_ns - std::min(usual.begin_ns, end.unix_ns);
  const std::uint64_t usual_end = usual.end_ns - usual.begin_ns;
  const bool has_fewer_steps = end.steps && usual.steps && *end.steps < *usual.steps;
  finding.evidence.add("rank", end.process->rank);
  finding.evidence.add("end", end.trace->end);
  finding.evidence.add("end_ns", end_ns);
  finding.evidence.add("median_end_ns", usual_end);
  finding.evidence.add("steps", end.steps);
  finding.evidence.add("median_steps", usual.steps);
  Sentence sentence = sentence_on(finding);
  sentence.set("rank", end.process->rank)
      .set("early_ns", usual_end - end_ns)
      .set("end_ns", end_ns)
      .set("usual_end_ns", usual_end)
      .set("others", usual.ranks - 1)
      .set("end", words)
      .set("steps", has_fewer_steps ? end.steps : rows::OptionalNumber())
      .set("usual_steps", has_fewer_steps ? usual.steps : rows::OptionalNumber());
  fill_texts(sentences::kEndedEarly, sentence, finding);
  return finding;
}

// Marks the finding as a consequence of the rank's out-of-memory failure, if there was one.
void join_failure(rows::Finding& early, const Findings& findings) {
  const auto failure = std::ranges::find_if(findings, [&](const rows::Finding& finding) {
    return finding.rule == Rule::kOutOfMemory && finding.process == early.process;
  });
  if (failure != findings.end()) early.same_cause = fingerprint_of(*failure);
}

}  // namespace

void find_ended_ranks(const RuleInput& input, Findings& findings) {
  const std::vector<RankEnd> ends = ends_of(input.report);
  if (ends.size() < kLeastRanks) return;
  const Usual usual = usual_of(ends);
  for (const RankEnd& end : ends) {
    const auto words = words_of(*end.trace);
    if (!words || !is_early(input, end, usual)) continue;
    rows::Finding finding = finding_of(end, usual, *words);
    join_failure(finding, findings);
    findings.push_back(std::move(finding));
  }
}

}  // namespace gpumemtrace::analyzer
