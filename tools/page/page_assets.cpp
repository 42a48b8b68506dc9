// SPDX-License-Identifier: Apache-2.0
#include "tools/page/page_assets.hpp"

// GPUMEMTRACE_PAGE_ASSETS is the folder of the embedded files; the build declares that this source
// file depends on them.
#define GPUMEMTRACE_EMBED(name, file)                                              \
  __asm__(                                                                         \
      ".section .rodata\n"                                                         \
      ".global gpumemtrace_page_" #name                                            \
      "\n"                                                                         \
      "gpumemtrace_page_" #name                                                    \
      ":\n"                                                                        \
      ".incbin \"" GPUMEMTRACE_PAGE_ASSETS "/" file                                \
      "\"\n"                                                                       \
      ".global gpumemtrace_page_" #name                                            \
      "_end\n"                                                                     \
      "gpumemtrace_page_" #name                                                    \
      "_end:\n"                                                                    \
      ".byte 0\n"                                                                  \
      ".previous\n");                                                              \
  extern "C" {                                                                     \
  [[gnu::visibility("hidden")]] extern const char gpumemtrace_page_##name[];       \
  [[gnu::visibility("hidden")]] extern const char gpumemtrace_page_##name##_end[]; \
  }

GPUMEMTRACE_EMBED(policy, "policy.txt")
GPUMEMTRACE_EMBED(theme, "theme.js")
GPUMEMTRACE_EMBED(style, "report.css")
GPUMEMTRACE_EMBED(script, "report.js")

namespace gpumemtrace::tools {
namespace {

std::string_view between(const char* begin, const char* end) {
  return {begin, static_cast<std::size_t>(end - begin)};
}

}  // namespace

PageAssets page_assets() {
  return {between(gpumemtrace_page_policy, gpumemtrace_page_policy_end),
          between(gpumemtrace_page_theme, gpumemtrace_page_theme_end),
          between(gpumemtrace_page_style, gpumemtrace_page_style_end),
          between(gpumemtrace_page_script, gpumemtrace_page_script_end)};
}

}  // namespace gpumemtrace::tools
