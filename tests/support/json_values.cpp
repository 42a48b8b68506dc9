// SPDX-License-Identifier: Apache-2.0
// A file of its own: the build with the thread sanitizer has tests that need JSON, but no reports.
#include <nlohmann/json.hpp>

template class nlohmann::basic_json<nlohmann::ordered_map>;
