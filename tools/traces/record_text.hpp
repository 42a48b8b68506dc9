// SPDX-License-Identifier: Apache-2.0
// A record of a trace as one line of text.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "analyzer/base/clock.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::tools {

// The meaning of numbers in records, from the dictionary records of the same trace.
struct RecordDictionary {
  std::map<std::uint16_t, std::string> api_names;
  analyzer::Clock clock;  // time 0 is the trace's first record
};

// A record as a line: "0.001204500 s  allocation api=cuMemAlloc_v2 result=0 ... bytes=4096"
[[nodiscard]] std::string record_text(const trace::RecordHeader& record,
                                      const RecordDictionary& dictionary);

}  // namespace gpumemtrace::tools
