// SPDX-License-Identifier: Apache-2.0
#include "tools/page/report_page.hpp"

#include "tools/base/text.hpp"
#include "tools/page/page_assets.hpp"
#include "tools/page/page_data.hpp"
#include "tools/report_view/printable_report.hpp"
#include "tools/report_view/report_row.hpp"
#include "tools/summary/summary_text.hpp"

namespace gpumemtrace::tools {
namespace {

using analyzer::rows::Report;

constexpr std::size_t kMostPlainBytes = 1 << 15;

// Escapes text for use between tags and in a quoted attribute.
std::string escaped_html(std::string_view text) {
  return replaced(text, {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}});
}

std::string page_title(const Report& report) {
  std::string command;
  if (!report.processes.empty()) {
    for (const std::string& word : report.processes.front().command) {
      command += (command.empty() ? "" : " ") + word.substr(word.rfind('/') + 1);
    }
  }
  return command.empty() ? "GPU memory" : "GPU memory of " + command;
}

// The findings as an HTML list with their fixes, which the text summary has no room for.
std::string plain_findings(const Report& report) {
  std::string html;
  for (const analyzer::rows::Finding& finding : report.findings) {
    if (html.size() > kMostPlainBytes) break;
    html += format_text("<li><b>{}</b> {}</li>\n", escaped_html(finding.title),
                        escaped_html(finding.fix));
  }
  return html.empty() ? html : "<h2>Findings</h2>\n<ol>\n" + html + "</ol>\n";
}

}  // namespace

std::string report_page(const Report& report) {
  const PageAssets assets = page_assets();
  const std::string title = valid_utf8(escaped_html(page_title(report)));
  std::string page = format_text(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"generator\" content=\"gpumemtrace {}\">\n<title>{}</title>\n",
      assets.policy, GPUMEMTRACE_VERSION, title);
  page.append("<script>").append(assets.theme).append("</script>\n");
  page.append("<style>").append(assets.style).append("</style>\n</head>\n<body>\n");
  // The text for readers without script, previews and other programs.
  page += format_text("<main id=\"plain\">\n<h1>{}</h1>\n<pre>{}</pre>\n{}</main>\n", title,
                      valid_utf8(escaped_html(summary_text(printable(report)).letters())),
                      valid_utf8(plain_findings(report)));
  // The JSON is escaped, so that it cannot close its script element.
  page += "<script type=\"application/json\" id=\"head\">" +
          replaced(page_head(report), {{'<', "\\u003c"}}) + "</script>\n";
  page.append("<script>").append(assets.script).append("</script>\n");
  // Chunks follow the code, so that the first view is drawn before the browser has loaded them.
  for (const PageChunk& chunk : page_chunks(report)) {
    page += format_text("<script type=\"application/x-data\" data-name=\"{}\">", chunk.name);
    page += chunk.text;
    page += "</script>\n";
  }
  page += "</body>\n</html>\n";
  return page;
}

}  // namespace gpumemtrace::tools
