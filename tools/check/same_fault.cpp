// SPDX-License-Identifier: Apache-2.0
#include "tools/check/same_fault.hpp"

#include <algorithm>

namespace gpumemtrace::tools {
namespace {

using analyzer::rows::Finding;

bool points_to(const Finding& finding, const Finding& cause) {
  if (finding.same_cause != cause.fingerprint || finding.process != cause.process) return false;
  return !finding.origin.site || (finding.device == cause.device && finding.level == cause.level &&
                                  finding.origin.site == cause.origin.site);
}

}  // namespace

std::vector<const JudgedFinding*> others_of_cause(const Verdict& verdict,
                                                  const JudgedFinding& finding) {
  std::vector<const JudgedFinding*> others;
  for (const JudgedFinding& other : verdict.findings) {
    if (!other.is_open()) continue;
    if (points_to(*other.row, *finding.row) || points_to(*finding.row, *other.row)) {
      others.push_back(&other);
    }
  }
  return others;
}

bool stands_for_cause(const Verdict& verdict, const JudgedFinding& finding) {
  const std::vector<const JudgedFinding*> others = others_of_cause(verdict, finding);
  return std::ranges::none_of(others, [&](const JudgedFinding* other) {
    if (other->status != finding.status) return other->status == FindingStatus::kFails;
    return finding.row->same_cause.has_value();
  });
}

}  // namespace gpumemtrace::tools
