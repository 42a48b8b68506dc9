// SPDX-License-Identifier: Apache-2.0
// Reads single values out of the report's JSON, in which null means not known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "analyzer/base/json.hpp"
#include "analyzer/rows/report.hpp"

namespace gpumemtrace::tools {

using analyzer::Json;

// Empty if the value is null or the optional key is missing.
[[nodiscard]] std::optional<std::uint64_t> number_in(const Json& row, const char* key);
[[nodiscard]] std::optional<std::string> text_in(const Json& row, const char* key);

// The value, or a word for an unknown one.
[[nodiscard]] std::uint64_t number_or_zero(const Json& row, const char* key);
[[nodiscard]] std::string text_or(const Json& row, const char* key, std::string_view otherwise);

template <class Value>
[[nodiscard]] Json json_or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// Names of a traced program need not be UTF-8; other bytes become U+FFFD.
[[nodiscard]] std::string valid_utf8(const std::string& text);

// "train.py" of `python3 -u train.py`, "torch.distributed.run" of `python3 -m ...`, "bench" of
// `/home/me/bench --fast`.
[[nodiscard]] std::string program_name(const analyzer::rows::Process& process);

// "rank 2" if the process has a rank, "process 4711" elsewhere; "rank 2 on node-a" if the job
// ran on several hosts.
[[nodiscard]] std::string process_name(const analyzer::rows::Report& report,
                                       const std::string& process_id);

}  // namespace gpumemtrace::tools
