// SPDX-License-Identifier: Apache-2.0
// The results of a bench program, as rows of the table that bench/run prints.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpumemtrace::bench {

struct Row {
  std::string what;
  std::string unit;
  double measured = 0;
  std::optional<double> at_most;          // the figure to reach, if there is one
  std::optional<double> at_least;         // as above
  std::string beside;                     // others' numbers for the like
  std::map<std::string, double> context;  // absolute numbers, named with their unit
};

// Prints the rows on standard output as one JSON array.
void print_rows(const std::vector<Row>& rows);

// One line on standard error for the waiting user.
void say(const std::string& what);

}  // namespace gpumemtrace::bench
