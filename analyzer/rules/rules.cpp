#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {

Json report_findings(const RuleInput& input) {
  Findings findings;
  for (const auto find : {find_out_of_memory, find_leaks, find_growth, find_device_faults,
                          find_transfer_faults, find_fragmentation, find_churn}) {
    find(input, findings);
  }
  return findings_json(findings);
}

}  // namespace gpumemtrace::analyzer
