// SPDX-License-Identifier: Apache-2.0
// JSON values have a file of their own, because the build with ThreadSanitizer has tests that need
// JSON, but no reports.
#include <nlohmann/json.hpp>

template class nlohmann::basic_json<nlohmann::ordered_map>;
