// SPDX-License-Identifier: Apache-2.0
// Findings that have one cause, such as a leak and the growth of it. Each is judged by itself, so
// that a limit on growth holds whatever is shown of the leak; users see them once.
#pragma once

#include <vector>

#include "tools/check/verdict.hpp"

namespace gpumemtrace::tools {

// The other findings with the same cause that no baseline and no suppression hides.
[[nodiscard]] std::vector<const JudgedFinding*> others_of_cause(const Verdict& verdict,
                                                                const JudgedFinding& finding);

// True if the finding is shown by itself. If several have one cause, it is the one that fails the
// policy; if that does not decide, the one that the others point to.
[[nodiscard]] bool stands_for_cause(const Verdict& verdict, const JudgedFinding& finding);

}  // namespace gpumemtrace::tools
