// SPDX-License-Identifier: Apache-2.0
// Runs the recorder's protocols in every order of their steps.
//   exploration               all scenarios; 0 if every promise holds
//   exploration --mutant      the code was made wrong: 0 if a scenario says so
//   exploration --litmus      the explorer's own test
//   exploration NAME...       these scenarios
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tests/exploration/run_all.hpp"

int main(int argc, char** argv) {
  using namespace gpumemtrace::exploration;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments == std::vector<std::string>{"--litmus"}) return litmus_tests_hold() ? 0 : 1;
  const bool is_mutant = arguments == std::vector<std::string>{"--mutant"};
  bool good = true;
  for (const Proof& proof : proofs()) {
    bool is_wanted = arguments.empty() || is_mutant;
    for (const std::string& name : arguments) is_wanted |= name == proof.name;
    if (!is_wanted) continue;
    const auto begin = std::chrono::steady_clock::now();
    const Outcome outcome = proof.run();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    std::printf("%-28s %9llu orders, %11llu steps, %5.1f s%s%s\n", proof.name,
                static_cast<unsigned long long>(outcome.executions),
                static_cast<unsigned long long>(outcome.steps), seconds.count(),
                outcome.violation.empty() ? "" : "\n  broken: ", outcome.violation.c_str());
    std::fflush(stdout);
    good &= outcome.violation.empty();
    if (is_mutant && !good) return 0;
  }
  if (is_mutant) std::printf("no scenario notices the mutation\n");
  return good && !is_mutant ? 0 : 1;
}
