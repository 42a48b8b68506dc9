// SPDX-License-Identifier: Apache-2.0
// The evidence of some findings as struct members, for commands that print more of it than a
// finding's sentences have. A member has no value if the finding is of another rule, or of an older
// report.
#pragma once

#include <concepts>

#include "analyzer/rows/finding.hpp"

namespace gpumemtrace::analyzer::rows {

struct GrowthEvidence {
  std::optional<double> bytes_per_step;
  std::optional<bool> by_repetition;
  OptionalNumber begin_ns;
  OptionalNumber forecast_ns;

  GPUMEMTRACE_FIELDS(bytes_per_step, by_repetition, begin_ns, forecast_ns)
};

struct FailureEvidence {
  OptionalText verdict;
  std::optional<OomBreakdown> ledger;

  GPUMEMTRACE_FIELDS(verdict, ledger)
};

// The number of allocations or handles that a finding is about, and the line that made them.
struct SiteEvidence {
  OptionalNumber count;
  OptionalLocation opened_at;
  OptionalLocation held_at;

  GPUMEMTRACE_FIELDS(count, opened_at, held_at)
};

// A rank that differs from its group: by what it holds, or by when it ended.
struct RankEvidence {
  OptionalNumber peak_bytes;
  OptionalNumber median_of_others_bytes;
  OptionalLocation held_at;
  OptionalText module;
  OptionalNumber end_ns;
  OptionalNumber median_end_ns;

  GPUMEMTRACE_FIELDS(peak_bytes, median_of_others_bytes, held_at, module, end_ns, median_end_ns)
};

class EvidenceReader {
 public:
  explicit EvidenceReader(const Evidence& evidence) : evidence_(evidence) {}

  template <class T>
  void operator()(const char* key, std::optional<T>& member) const {
    if (const T* const value = evidence_.find<T>(key)) member = *value;
    if constexpr (std::same_as<T, double>) {
      // A report in JSON may have the number without a fraction, which is read as an integer.
      const std::uint64_t* const whole = evidence_.find<std::uint64_t>(key);
      if (whole != nullptr) member = static_cast<double>(*whole);
    }
  }

 private:
  const Evidence& evidence_;
};

template <class T>
[[nodiscard]] T evidence_of(const Finding& finding) {
  T evidence;
  const EvidenceReader reader(finding.evidence);
  T::fields(evidence, reader);
  return evidence;
}

}  // namespace gpumemtrace::analyzer::rows
