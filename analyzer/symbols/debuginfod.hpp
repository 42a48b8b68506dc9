// SPDX-License-Identifier: Apache-2.0
// Asks the servers in DEBUGINFOD_URLS for debug information, through the system's libdebuginfod.
#pragma once

#include <filesystem>
#include <string>

namespace gpumemtrace::analyzer {

// The path of the downloaded file; empty if the library is missing, no server is named or none
// has the file. Uses the network.
[[nodiscard]] std::filesystem::path download_debug_info(const std::string& build_id);

}  // namespace gpumemtrace::analyzer
