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
  std::optional<double> at_most;          // the most that `measured` may be, if limited
  std::optional<double> at_least;         // the least that `measured` may be, if limited
  std::string beside;                     // numbers of other tools, for comparison
  std::map<std::string, double> context;  // absolute numbers; their names end with units
};

// Prints the rows on standard output as one JSON array.
void print_rows(const std::vector<Row>& rows);

// Prints one line of progress on standard error.
void say(const std::string& what);

}  // namespace gpumemtrace::bench
