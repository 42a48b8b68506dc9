// SPDX-License-Identifier: Apache-2.0
// The changes from one job to another, or from one step to another of one job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/rows/report.hpp"
#include "tools/base/lines.hpp"
#include "tools/check/policy.hpp"
#include "tools/report_view/report_row.hpp"

namespace gpumemtrace::tools {

// A number in the base job and in the new one.
struct DifferenceRow {
  std::string name;
  std::uint64_t base_bytes = 0;
  std::uint64_t new_bytes = 0;
  std::string title{};  // for people, with the line number; empty: `name` is shown
  std::string group{};  // heading of the row's listing within a section; may be empty

  [[nodiscard]] bool changed() const { return base_bytes != new_bytes; }

  static void fields(auto& self, auto& v) {
    v("name", self.name);
    v("title", self.title.empty() ? self.name : self.title);
    GPUMEMTRACE_KEYS(v, base_bytes, new_bytes);
  }
};

// Rows of a section are sorted by how much they changed, growth first.
struct DifferenceSection {
  std::string name;  // the section's name in JSON
  std::string title;
  std::vector<DifferenceRow> rows;

  GPUMEMTRACE_FIELDS(name, rows)
};

// Compares the peaks of the job and of each card, if both reports have them; the peaks by level;
// the memory at each level's peak by category, owner and call site; leaks by call site; transfers
// by kind and by call site. Call sites are compared by function and file, not by line.
[[nodiscard]] std::vector<DifferenceSection> compare_jobs(const analyzer::rows::Report& base,
                                                          const analyzer::rows::Report& next);

// Compares the memory of two steps. Throws Failure if a report has no such step, as find_step()
// does.
[[nodiscard]] std::vector<DifferenceSection> compare_steps(const analyzer::rows::Report& base,
                                                           std::uint64_t base_step,
                                                           const analyzer::rows::Report& next,
                                                           std::uint64_t next_step);

// Reasons why two reports are hard to compare, one sentence each: another program, GPU or version.
[[nodiscard]] std::vector<std::string> changes_of_environment(const analyzer::rows::Report& base,
                                                              const analyzer::rows::Report& next);

// Rows that grew by more than `limit` allows: the job's peaks in the section "card_peaks", and all
// rows of "peak", "leaks", "transfers" and "step". Lost bytes may not grow at all.
[[nodiscard]] std::vector<DifferenceRow> regressions_of(
    const std::vector<DifferenceSection>& sections, const RegressionLimit& limit);

// The difference in one sentence: "The job peaks at 2.0 GiB, 1.0 GiB more than BASE; ..."
[[nodiscard]] std::string difference_in_short(const analyzer::rows::Report& base,
                                              const analyzer::rows::Report& next);
// The difference of two steps in a sentence.
[[nodiscard]] std::string difference_in_short(const analyzer::rows::Report& base,
                                              std::uint64_t base_step,
                                              const analyzer::rows::Report& next,
                                              std::uint64_t next_step);

// The fields of a finding that a difference shows.
struct NamedFinding {
  std::string rule;
  std::string fingerprint;
  std::string title;

  GPUMEMTRACE_FIELDS(rule, fingerprint, title)
};

// Reasons why the reports of the two inputs may be incomplete, a sentence each.
struct MissingEvents {
  std::vector<std::string> base;
  std::vector<std::string> next;

  static void fields(auto& self, auto& v) {
    v("base", self.base);
    v("new", self.next);
  }
};

// The errors and warnings of one report that the other has not, each fault once.
[[nodiscard]] std::vector<NamedFinding> findings_only_in(const analyzer::rows::Report& one,
                                                         const analyzer::rows::Report& other);

// All that `diff` says.
struct Difference {
  std::string in_short;
  std::vector<NamedFinding> new_findings;     // findings that only NEW has
  std::vector<NamedFinding> mended_findings;  // findings that only BASE has
  std::vector<DifferenceSection> sections;
  std::vector<DifferenceRow> regressions;
  bool has_limit = false;
  MissingEvents missing;
  std::vector<std::string> changes;  // reasons why the environments differ
  bool allows_incomplete = false;

  [[nodiscard]] bool is_incomplete() const {
    return !allows_incomplete && !(missing.base.empty() && missing.next.empty());
  }

  // The part that --json prints.
  static void fields(auto& self, auto& v) {
    v("format", std::string("gpumemtrace-diff"));
    v("version", std::uint64_t{1});
    GPUMEMTRACE_KEYS(v, sections, in_short, new_findings, mended_findings);
    v("regressions", self.has_limit ? std::optional(self.regressions) : std::nullopt);
    v("missing", self.missing);
    v("environment_changes", self.changes);
  }
};

[[nodiscard]] StyledText difference_text(const Difference& difference);
[[nodiscard]] std::string difference_json(const Difference& difference);

}  // namespace gpumemtrace::tools
