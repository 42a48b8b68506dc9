// SPDX-License-Identifier: Apache-2.0
// Data as text that stands in a page: smaller than it is, and of letters that need no escape.
#pragma once

#include <string>
#include <string_view>

namespace gpumemtrace::tools {

// Deflated (RFC 1951, as DecompressionStream("deflate-raw") reads it) and then in base64. The same
// bytes for the same data.
[[nodiscard]] std::string encoded_chunk(std::string_view data);

}  // namespace gpumemtrace::tools
