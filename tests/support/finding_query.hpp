// SPDX-License-Identifier: Apache-2.0
// Helpers by which tests ask what one finding of a report says.
#pragma once

#include <string>

#include "tests/catch.hpp"
#include "tests/support/program_trace.hpp"

namespace gpumemtrace::tests {

// A call from `offset` bytes into the program's own library.
constexpr Call call_at(std::uint64_t offset, std::uint16_t result = 0, std::uint16_t flags = 0) {
  return {.result = result, .flags = flags, .caller = kProgram + offset};
}

inline std::string text_of(const Json& finding) {
  return finding.at("title").get<std::string>() + '\n' + finding.at("detail").get<std::string>() +
         '\n' + finding.at("fix").get<std::string>();
}

inline bool has(const Json& finding, const std::string& part) {
  return text_of(finding).find(part) != std::string::npos;
}

// The code offset of a call site in a finding's evidence; 0 if the site is not known.
inline std::uint64_t offset_of(const Json& place) {
  return place.is_null() ? 0 : place.at("site").at("offset").get<std::uint64_t>();
}

// The rule's finding, which must be the only one.
inline Json finding_of(TraceBuilder& trace, const char* rule) {
  const Json found = findings_of(trace, rule);
  REQUIRE(found.size() == 1);
  return found[0];
}

}  // namespace gpumemtrace::tests
