// SPDX-License-Identifier: Apache-2.0
// The built files of the page (tools/page/scripts/build.mjs), as they lie in the program.
#pragma once

#include <string_view>

namespace gpumemtrace::tools {

struct PageAssets {
  std::string_view policy;  // the content security policy: it allows the scripts and the style
  std::string_view theme;   // the script that runs before anything is drawn
  std::string_view style;
  std::string_view script;
};

[[nodiscard]] PageAssets page_assets();

}  // namespace gpumemtrace::tools
