// SPDX-License-Identifier: Apache-2.0
// Bytes compressed by zlib. Throws std::runtime_error if there is no memory for it.
#pragma once

#include <string>
#include <string_view>

namespace gpumemtrace::tools {

// Compresses to raw deflate data without a header, for DecompressionStream("deflate-raw") of
// browsers.
[[nodiscard]] std::string deflated(std::string_view data);
// Compresses to the content of a gzip file. The same data always gives the same bytes, because the
// header has neither name nor time.
[[nodiscard]] std::string gzipped(std::string_view data);

}  // namespace gpumemtrace::tools
