// SPDX-License-Identifier: Apache-2.0
// Bytes compressed by zlib. Throws std::runtime_error if there is no memory for it.
#pragma once

#include <string>
#include <string_view>

namespace gpumemtrace::tools {

// Without a header, as a browser's DecompressionStream("deflate-raw") reads it.
[[nodiscard]] std::string deflated(std::string_view data);
// As a file of gzip. The same data gives the same bytes: it holds no name and no time.
[[nodiscard]] std::string gzipped(std::string_view data);

}  // namespace gpumemtrace::tools
