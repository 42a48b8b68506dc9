// SPDX-License-Identifier: Apache-2.0
// Runs the recorder's protocols in every order of their steps.
//   ring_exploration                   all scenarios; exit code 0 if every promise holds
//   ring_exploration --mutant NAME     with this fault in the code; exit code 0 if it is found
//   ring_exploration --litmus          the explorer's own test
//   ring_exploration SCENARIO...       these scenarios
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/exploration/mutant.hpp"
#include "tests/exploration/run_all.hpp"

namespace gpumemtrace::exploration {
namespace {

std::uint64_t chosen_mutant = 0;  // hash of the chosen mutant's name; 0 = none

}  // namespace

bool is_mutant(Mutant mutant) noexcept { return mutant.hash == chosen_mutant; }

}  // namespace gpumemtrace::exploration

int main(int argc, char** argv) {
  using namespace gpumemtrace::exploration;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments == std::vector<std::string>{"--litmus"}) return litmus_tests_hold() ? 0 : 1;
  const bool makes_mistake = arguments.size() == 2 && arguments[0] == "--mutant";
  if (makes_mistake) chosen_mutant = hash_of(arguments[1].c_str());
  bool good = true;
  for (const Proof& proof : proofs()) {
    bool is_wanted = arguments.empty() || makes_mistake;
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
    if (makes_mistake && !good) return 0;
  }
  if (makes_mistake) std::printf("no scenario notices the mutation\n");
  return good && !makes_mistake ? 0 : 1;
}
